"""Resample items and raters: bootstrap weights, jackknife variances, and the intervals computed from them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ratings.stats.estimates import LEVEL
from ratings.stats.quantiles import NORMAL, normal_quantile, student_quantile
from ratings.stats.ratings_table import Floats, Ints

MAX_UNDEFINED_SHARE = 0.05  # greatest share of undefined replicates with which an interval is given
EQUAL_WITHIN = 1e-12  # values that differ by less are equal except for rounding errors
MAX_CELLS = 2_000_000  # most weights in memory at once: 16 MB of int64


class ResampledInterval(NamedTuple):
    """An interval computed from replicates. If it is None, `reason` states why.

    `undefined`: number of replicates left out because their value is undefined.
    """

    interval: tuple[float, float] | None
    undefined: int = 0
    reason: str = ""


NOT_RESAMPLED = ResampledInterval(None, reason="the interval needs resampling")


def sample_item_weights(strata: Ints, resamples: int, rng: np.random.Generator) -> Ints:
    """Return how often each item is sampled in each resample, shape (resamples, len(strata)), int64.

    `strata[i]` is the stratum of item i (its source). From each stratum, as many items are sampled with replacement as it
    has. Items with a negative stratum are never sampled, so their count is 0.
    """
    chunks = list(iter_weight_chunks(strata, resamples, rng))
    return np.concatenate(chunks) if chunks else np.zeros((0, len(strata)), dtype=np.int64)


def iter_weight_chunks(strata: Ints, resamples: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Yield the rows that `sample_item_weights` returns, in the same order, in blocks."""
    # The number of items per source is fixed by the design, so it must not vary between resamples.
    strata_items = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata[strata >= 0])]
    # Blocks limit the memory, because 2,000 resamples of a million items would take 16 GB.
    block_size = max(1, MAX_CELLS // max(1, len(strata)))
    for start in range(0, resamples, block_size):
        block = min(block_size, resamples - start)
        weights = np.zeros((block, len(strata)), dtype=np.int64)
        for items in strata_items:
            weights[:, items] = _sample_counts(len(items), block, rng)
        yield weights


def sample_rater_weights(n: int, resamples: int, rng: np.random.Generator) -> Ints:
    """Return how often each of n raters is sampled in each resample, shape (resamples, n)."""
    return sample_item_weights(np.zeros(n, dtype=np.int64), resamples, rng)


def iter_pattern_chunks(counts: Ints, resamples: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Yield how many of the resampled items of one stratum have each pattern, in blocks of shape (resamples, len(counts)).

    `counts`: number of items of each pattern. The result has the same distribution as sampling the items one by one and
    counting their patterns.
    """
    total, block_size = int(counts.sum()), max(1, MAX_CELLS // max(1, len(counts)))
    for start in range(0, resamples, block_size):
        block = min(block_size, resamples - start)
        if 2 * len(counts) > total:  # with many patterns, counting sampled items is faster than a multinomial
            ends = np.cumsum(counts)
            yield np.add.reduceat(_sample_counts(total, block, rng), ends - counts, axis=1)
        else:
            yield rng.multinomial(total, counts / total, size=block).astype(np.int64)


def _sample_counts(n: int, resamples: int, rng: np.random.Generator) -> Ints:
    # int32 halves the memory of the sampled indices.
    sampled = rng.integers(0, n, size=(resamples, n), dtype=np.int32)
    return np.array([np.bincount(row, minlength=n) for row in sampled], dtype=np.int64).reshape(resamples, n)


def compute_widening(items: int, strata: int = 1) -> float:
    """Return the factor, at least 1, by which a percentile interval is too narrow if N items are resampled within S strata.

    It is sqrt(N / (N - S)), because sampling with replacement underestimates the variance, times the quantile of Student's t
    divided by the normal quantile (the expanded percentile interval of Hesterberg 2015, The American Statistician 69:371).
    It is infinite if N - S is less than 1.
    """
    degrees = items - strata
    if degrees < 1:
        return float("inf")
    return float(np.sqrt(items / degrees) * student_quantile((1 + LEVEL) / 2, degrees) / NORMAL)


def compute_percentile_interval(values: Floats, *, widening: float = 1.0) -> ResampledInterval:
    """Return the percentile interval of the replicates `values`, which are NaN where undefined.

    Its tail probabilities are those of the normal quantile of a 95% interval times `widening`. There is no interval if more
    than 5% of the replicates are undefined, or if all are equal.
    """
    if not len(values):
        return NOT_RESAMPLED
    defined = values[np.isfinite(values)]
    undefined = len(values) - len(defined)
    if undefined > MAX_UNDEFINED_SHARE * len(values):
        return ResampledInterval(
            None, undefined, f"undefined in {undefined} of {len(values)} resamples, so there is no interval"
        )
    # Equal replicates do not show how uncertain the estimate is; an interval of width 0 would suggest certainty.
    if np.ptp(defined) < EQUAL_WITHIN:
        return ResampledInterval(None, undefined, "every resample gives the same value, so there is no interval")
    upper = float(ndtr(widening * NORMAL))
    low, high = np.quantile(defined, [1 - upper, upper])
    return ResampledInterval((float(low), float(high)), undefined)


def compute_percentile_p(values: Floats, *, widening: float = 1.0) -> float:
    """Return the two-sided p-value of no difference: 1 minus the level of the percentile interval that just reaches 0.

    The smallest possible p-value depends on the number of replicates; it is never 0.
    """
    # The quantiles are those of the interval, so that p < .05 exactly if the 95% interval excludes 0.
    tail = min(_find_tail_share(values), _find_tail_share(-values))
    return min(1.0, 2 * float(ndtr(normal_quantile(tail) / widening)))


def _find_tail_share(values: Floats) -> float:
    """Return the largest share whose quantile is at most 0, or 1 / (number of replicates + 1) if that is larger.

    Quantiles are interpolated as in `compute_percentile_interval`.
    """
    ordered = np.sort(values)
    below = int(np.searchsorted(ordered, 0.0, side="right"))
    if below == len(ordered):
        return 1.0
    # np.quantile interpolates linearly between order statistics; this inverts it.
    position = below - 1 - ordered[below - 1] / (ordered[below] - ordered[below - 1]) if below else 0.0
    return max(float(position) / (len(ordered) - 1), 1 / (len(ordered) + 1))


def compute_jackknife_variance(leave_one_out: Sequence[float] | Floats) -> float:
    """Return Tukey's jackknife variance: (m-1)/m times the sum of squared deviations of m leave-one-out values from their mean.

    It is NaN for fewer than two values, or if one of them is NaN.
    """
    values = np.asarray(leave_one_out, dtype=np.float64)
    if len(values) < 2:
        return float("nan")
    return float((len(values) - 1) / len(values) * np.sum((values - values.mean()) ** 2))


def compute_replicate_variance(values: Floats) -> float:
    """Return the variance of the replicates that are not NaN; NaN if there are fewer than two, or more than 5% are
    NaN.
    """
    defined = values[np.isfinite(values)]
    if len(defined) < 2 or len(values) - len(defined) > MAX_UNDEFINED_SHARE * len(values):
        return float("nan")
    return float(np.var(defined, ddof=1))


def compute_symmetric_interval(
    value: float,
    variance: float,
    *,
    df: float | None = None,
    within: tuple[float, float] = (-1, 1),
) -> tuple[float, float]:
    """Return value +- quantile * sqrt(variance), limited to the range `within` of the statistic.

    The quantile is that of Student's t with `df` degrees of freedom, or the normal quantile if `df` is None.
    """
    quantile = NORMAL if df is None else student_quantile((1 + LEVEL) / 2, df)
    half_width = quantile * float(np.sqrt(variance))
    return max(within[0], value - half_width), min(within[1], value + half_width)
