"""Drawing items and raters again: weights of a bootstrap, jackknife variances, and the intervals made of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ratings.stats.estimates import LEVEL
from ratings.stats.quantiles import NORMAL, find_normal_quantile, find_student_quantile
from ratings.stats.table import Floats, Ints

UNDEFINED_AT_MOST = 0.05  # of the replicates; beyond it there is no interval
SAME = 1e-12  # replicates this close are equal
CELLS = 2_000_000  # weights held at once


class Resampled(NamedTuple):
    """An interval from replicates; None, with the reason, where there is none. `undefined` replicates were left out."""

    interval: tuple[float, float] | None
    undefined: int = 0
    reason: str = ""


NOT_RESAMPLED = Resampled(None, reason="the interval needs resampling")


def item_weights(strata: Ints, resamples: int, rng: np.random.Generator) -> Ints:
    """How often each item is drawn in each resample, shape (resamples, len(strata)), int64.

    `strata[i]` is the stratum of item i (its source); each stratum is drawn with replacement to its own size, so sizes by
    source stay as they were designed. Items with a negative stratum are in no draw and weigh 0.
    """
    chunks = list(weight_chunks(strata, resamples, rng))
    return np.concatenate(chunks) if chunks else np.zeros((0, len(strata)), dtype=np.int64)


def weight_chunks(strata: Ints, resamples: int, rng: np.random.Generator) -> Iterator[Ints]:
    """The rows of `item_weights`, the same numbers in the same order, a few million at a time: for large tables."""
    own = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata[strata >= 0])]
    rows = max(1, CELLS // max(1, len(strata)))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        weights = np.zeros((size, len(strata)), dtype=np.int64)
        for places in own:
            weights[:, places] = _drawn(len(places), size, rng)
        yield weights


def rater_weights(n: int, resamples: int, rng: np.random.Generator) -> Ints:
    """How often each of n raters is drawn in each resample, shape (resamples, n)."""
    return item_weights(np.zeros(n, dtype=np.int64), resamples, rng)


def pattern_chunks(counts: Ints, resamples: int, rng: np.random.Generator) -> Iterator[Ints]:
    """For items of one stratum that fall into patterns: how many of the drawn items have each, shapes (rows, len(counts)).

    `counts` are the items of each pattern. The same distribution as drawing the items one by one and counting.
    """
    total, rows = int(counts.sum()), max(1, CELLS // max(1, len(counts)))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        if 2 * len(counts) > total:  # so many patterns that counting drawn items is quicker than a multinomial
            ends = np.cumsum(counts)
            yield np.add.reduceat(_drawn(total, size, rng), ends - counts, axis=1)
        else:
            yield rng.multinomial(total, counts / total, size=size).astype(np.int64)


def _drawn(n: int, resamples: int, rng: np.random.Generator) -> Ints:
    drawn = rng.integers(0, n, size=(resamples, n), dtype=np.int32)
    return np.array([np.bincount(row, minlength=n) for row in drawn], dtype=np.int64).reshape(resamples, n)


def widening(items: int, strata: int = 1) -> float:
    """How much too narrow percentiles are when so many items are drawn again within strata: at least 1.

    sqrt(N / (N - S)) for the variance that drawing with replacement loses, times Student's t over the normal quantile
    (the expanded percentile interval, Hesterberg 2015, The American Statistician 69:371). inf without a degree of freedom.
    """
    free = items - strata
    if free < 1:
        return float("inf")
    return float(np.sqrt(items / free) * find_student_quantile((1 + LEVEL) / 2, free) / NORMAL)


def percentile(values: Floats, *, widening: float = 1.0) -> Resampled:
    """The percentile interval of replicates, NaN where undefined, its quantiles that many times as many normal deviates
    from the middle. No interval if more than 5 % are undefined, or if all are equal: then the sample has nothing to tell
    how far off it is."""
    if not len(values):
        return NOT_RESAMPLED
    found = values[np.isfinite(values)]
    undefined = len(values) - len(found)
    if undefined > UNDEFINED_AT_MOST * len(values):
        return Resampled(
            None, undefined, f"undefined in {undefined} of {len(values)} resamples, so there is no interval"
        )
    if np.ptp(found) < SAME:
        return Resampled(None, undefined, "every resample gives the same value, so there is no interval")
    upper = float(ndtr(widening * NORMAL))
    low, high = np.quantile(found, [1 - upper, upper])
    return Resampled((float(low), float(high)), undefined)


def percentile_p(values: Floats, *, widening: float = 1.0) -> float:
    """Two-sided p of no difference by the same rule: 1 less the level of the percentile interval that just reaches 0, so that
    p < .05 where and only where the 95 % one leaves 0 out. Never below what so many replicates can tell."""
    tail = min(_at_most_zero(values), _at_most_zero(-values))
    return min(1.0, 2 * float(ndtr(find_normal_quantile(tail) / widening)))


def _at_most_zero(values: Floats) -> float:
    """The largest share whose quantile, interpolated as `percentile` has it, is at most 0; above 0 in any case."""
    found = np.sort(values)
    below = int(np.searchsorted(found, 0.0, side="right"))
    if below == len(found):
        return 1.0
    place = below - 1 - found[below - 1] / (found[below] - found[below - 1]) if below else 0.0
    return max(float(place) / (len(found) - 1), 1 / (len(found) + 1))


def jackknife_variance(left_out: Sequence[float] | Floats) -> float:
    """(m-1)/m times the squared deviations of the m values with one left out from their mean (Tukey's jackknife).

    NaN where fewer than two were left out, or one of the values is NaN.
    """
    values = np.asarray(left_out, dtype=np.float64)
    if len(values) < 2:
        return float("nan")
    return float((len(values) - 1) / len(values) * np.sum((values - values.mean()) ** 2))


def replicate_variance(values: Floats) -> float:
    """Variance of the defined replicates; NaN where there are fewer than two, or more than 5 % are undefined."""
    found = values[np.isfinite(values)]
    if len(found) < 2 or len(values) - len(found) > UNDEFINED_AT_MOST * len(values):
        return float("nan")
    return float(np.var(found, ddof=1))


def around(
    value: float,
    variance: float,
    *,
    df: float | None = None,
    within: tuple[float, float] = (-1, 1),
) -> tuple[float, float]:
    """value +- quantile * sqrt(variance), normal or Student's t with `df`, cut to where the statistic can lie."""
    quantile = NORMAL if df is None else find_student_quantile((1 + LEVEL) / 2, df)
    half = quantile * float(np.sqrt(variance))
    return max(within[0], value - half), min(within[1], value + half)
