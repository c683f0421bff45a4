"""Resample items and raters, and compute a coefficient's intervals: for these raters, and for new raters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import atanh, inf, tanh
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ratings.stats.estimates import NORMAL, Estimate, build_estimate, normal_quantile, student_quantile
from ratings.stats.ratings_table import Floats, Ints, Ratings

MAX_UNDEFINED_SHARE = 0.05  # greatest share of undefined replicates with which an interval is given
EQUAL_WITHIN = 1e-12  # values that differ by less are equal except for rounding errors
MAX_CELLS = 2_000_000  # most weights in memory at once: 16 MB of int64


class ResampledInterval(NamedTuple):
    """An interval from replicates (`undefined` of them left out), or None with the reason."""

    interval: tuple[float, float] | None
    undefined: int = 0
    reason: str = ""


NOT_RESAMPLED = ResampledInterval(None, reason="the interval needs resampling")


def sample_item_weights(strata: Ints, resamples: int, rng: np.random.Generator) -> Ints:
    """Return how often each item is sampled, (resamples, items); `strata`: each item's source, negative: never."""
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


def split_chunks(chunks: Iterable[Ints], block_size: int) -> Iterator[Ints]:
    """Yield the rows of the chunks in blocks of at most `block_size`, but at least 1."""
    for chunk in chunks:
        for start in range(0, len(chunk), max(1, block_size)):
            yield chunk[start : start + max(1, block_size)]


def sample_rater_weights(n: int, resamples: int, rng: np.random.Generator) -> Ints:
    """Return how often each of n raters is sampled in each resample, shape (resamples, n)."""
    return sample_item_weights(np.zeros(n, dtype=np.int64), resamples, rng)


def iter_pattern_chunks(counts: Ints, resamples: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Yield how many of a stratum's resampled items have each pattern, as if the items were sampled."""
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
    """Return sqrt(N / (N - S)) t/z for N items in S strata: the factor by which percentile intervals are too narrow.

    Hesterberg 2015, The American Statistician 69:371. It is infinite if N - S is less than 1.
    """
    degrees = items - strata
    if degrees < 1:
        return float("inf")
    return float(np.sqrt(items / degrees) * student_quantile(degrees) / NORMAL)


def compute_percentile_interval(values: Floats, *, widening: float = 1.0) -> ResampledInterval:
    """Return the percentile interval, at the normal quantile times `widening`, of replicates (NaN: undefined).

    There is none if more than 5% are undefined, or if all are equal.
    """
    if not len(values):
        return NOT_RESAMPLED
    defined = values[np.isfinite(values)]
    undefined = len(values) - len(defined)
    if undefined > MAX_UNDEFINED_SHARE * len(values):
        reason = f"undefined in {undefined} of {len(values)} resamples, so there is no interval"
        return ResampledInterval(None, undefined, reason)
    # Equal replicates do not show how uncertain the estimate is; an interval of width 0 would suggest certainty.
    if np.ptp(defined) < EQUAL_WITHIN:
        return ResampledInterval(None, undefined, "every resample gives the same value, so there is no interval")
    upper = float(ndtr(widening * NORMAL))
    low, high = np.quantile(defined, [1 - upper, upper])
    return ResampledInterval((float(low), float(high)), undefined)


def compute_percentile_p(values: Floats, *, widening: float = 1.0) -> float:
    """Return the two-sided p-value: 1 minus the level of the percentile interval that just reaches 0; never 0."""
    # The quantiles are those of the interval, so that p < .05 exactly if the 95% interval excludes 0.
    tail = min(_find_tail_share(values), _find_tail_share(-values))
    return min(1.0, 2 * float(ndtr(normal_quantile(tail) / widening)))


def _find_tail_share(values: Floats) -> float:
    """Return the largest share whose (interpolated) quantile is at most 0; at least 1 / (replicates + 1)."""
    ordered = np.sort(values)
    below = int(np.searchsorted(ordered, 0.0, side="right"))
    if below == len(ordered):
        return 1.0
    # np.quantile interpolates linearly between order statistics; this inverts it.
    position = below - 1 - ordered[below - 1] / (ordered[below] - ordered[below - 1]) if below else 0.0
    return max(float(position) / (len(ordered) - 1), 1 / (len(ordered) + 1))


def compute_jackknife_variance(leave_one_out: Sequence[float] | Floats) -> float:
    """Return Tukey's jackknife variance of m leave-one-out values; NaN below two, or if one is NaN."""
    values = np.asarray(leave_one_out, dtype=np.float64)
    if len(values) < 2:
        return float("nan")
    return float((len(values) - 1) / len(values) * np.sum((values - values.mean()) ** 2))


def compute_replicate_variance(values: Floats) -> float:
    """Return the variance of the defined replicates; NaN below two, or if more than 5% are NaN."""
    defined = values[np.isfinite(values)]
    if len(defined) < 2 or len(values) - len(defined) > MAX_UNDEFINED_SHARE * len(values):
        return float("nan")
    return float(np.var(defined, ddof=1))


def compute_symmetric_interval(
    value: float, variance: float, *, df: float | None = None, within: tuple[float, float] = (-1, 1)
) -> tuple[float, float]:
    """Return value +- quantile * sqrt(variance) limited to `within`; the normal quantile if `df` is None."""
    half_width = (NORMAL if df is None else student_quantile(df)) * float(np.sqrt(variance))
    return max(within[0], value - half_width), min(within[1], value + half_width)


ITEM_BOOTSTRAP, ITEM_BOOTSTRAP_CORRECTED = "item_bootstrap", "item_bootstrap_corrected"
NEW_RATERS = {"target": "new raters"}
SKEWED = 0.85  # from this share of the commonest verdict on, kappa can be low although raters agree
# Least co-minority counts (expected numbers of items on which two raters would both give the rarer verdict by chance) for
# an interval of kappa for these raters, and for one for new raters, which is wider and so may be given for lower counts.
CO_MINORITY, CO_MINORITY_NEW = 5.0, 1.0
FEW_RATERS = 4  # with fewer raters, an interval with the normal quantile is too narrow
MIN_RATERS = 3  # with fewer raters, there is no interval for new raters
WIDENED = "widened to include the interval for these raters"
TOO_FEW_RATERS = "an interval for new raters needs at least three raters"
UNDEFINED_WITHOUT_A_RATER = "undefined without one of the raters, so there is no interval for new raters"


class Uncertainty(NamedTuple):
    """The data and settings from which the two intervals of a value are computed.

    `replicates`: the value in each resample of items within sources, shape (resamples,). `leave_one_out`: the value without
    each rater in turn, shape (raters,). For these raters, `bias_corrected` uses a normal interval shifted by the bias of the
    replicates instead of their percentiles, and `fisher` one on the scale of Fisher's z, for coefficients with skewed
    percentiles; `widening` corrects for few items (`compute_widening`). For new raters, `use_student` uses Student's t with
    one degree of freedom less than raters; `linear` means that the coefficient is nearly a mean of ratings, so that with
    three raters V_rater and V_item have separate quantiles. `withheld` and `withheld_new`: why the interval for these and for
    new raters is not given, or ""; with `show_unstable` it is given all the same, and marked as withheld.
    """

    replicates: Floats
    leave_one_out: Floats
    use_student: bool = False
    # The kappas of pairs that share few items are biased downwards, both in the sample and again in its resamples.
    bias_corrected: bool = False
    fisher: bool = False
    linear: bool = False
    widening: float = 1.0
    withheld: str = ""
    withheld_new: str = ""
    show_unstable: bool = False

    @property
    def has_few_raters(self) -> bool:
        return len(self.leave_one_out) < FEW_RATERS

    @property
    def uses_student_t(self) -> bool:
        return self.use_student or self.linear or self.has_few_raters


class PointEstimate(NamedTuple):
    """A coefficient without its intervals. `reason` states why the value is None."""

    stat: str
    args: Mapping[str, Any]
    value: float | None
    n: Mapping[str, int]
    reason: str = ""


def build_interval_rows(point: PointEstimate, basis: Uncertainty) -> Iterator[Estimate]:
    """Yield the value with its interval for these raters, then (args target: new raters) with its interval for new raters.

    The second interval includes the first.
    """
    stat, args, value, n, reason = point
    if value is None:
        yield build_estimate(stat, None, n, args, reason=reason)
        yield build_estimate(stat, None, n, {**args, **NEW_RATERS}, reason=reason)
        return
    resampled = compute_these_raters_interval(
        value,
        basis.replicates,
        bias_corrected=basis.bias_corrected,
        widening=basis.widening,
        within=_find_limits(value),
    )
    method = ITEM_BOOTSTRAP_CORRECTED if basis.bias_corrected else ITEM_BOOTSTRAP
    if basis.fisher and -1 < value < 1:  # atanh is defined between these values alone
        method = "item_bootstrap_fisher"
        if resampled.interval:
            # By the delta method, the standard error of z = atanh(value) is se / (1 - value^2) (Fisher 1915, Biometrika 10:507).
            variance = basis.widening**2 * compute_replicate_variance(basis.replicates) / (1 - value**2) ** 2
            low, high = compute_symmetric_interval(atanh(value), variance, within=(-inf, inf))
            resampled = resampled._replace(interval=(tanh(low), tanh(high)))
    these = resampled
    if basis.withheld and not basis.show_unstable:
        these = ResampledInterval(None, reason=basis.withheld)
    elif basis.withheld and resampled.interval:
        these = resampled._replace(reason=basis.withheld)
    new_raters = resampled
    if resampled.interval or basis.withheld_new:
        new_raters = _compute_new_raters_interval(value, basis)
    # An interval for new raters has more uncertainty, but a skewed percentile interval can extend beyond a symmetric one.
    if these.interval and new_raters.interval:
        hull = min(these.interval[0], new_raters.interval[0]), max(these.interval[1], new_raters.interval[1])
        if hull != new_raters.interval:
            new_raters = new_raters._replace(interval=hull, reason=basis.withheld_new or WIDENED)
    new_method = f"item_bootstrap_rater_jackknife{'_t' * basis.uses_student_t}"
    # With fewer raters there is no interval to withhold.
    withheld_new = basis.withheld_new if len(basis.leave_one_out) >= MIN_RATERS else ""
    rows = (
        (these, method, args, basis.withheld),
        (new_raters, new_method, {**args, **NEW_RATERS}, withheld_new),
    )
    for (interval, _, reason), method_name, row_args, withheld in rows:
        counts = {"undefined_resamples": resampled.undefined} if resampled.undefined and not withheld else {}
        row = build_estimate(stat, value, {**n, **counts}, row_args, interval, method_name, reason)
        yield row._replace(withheld=bool(withheld) and reason == withheld)


def compute_these_raters_interval(
    value: float, replicates: Floats, *, bias_corrected: bool, widening: float, within: tuple[float, float] = (-1, 1)
) -> ResampledInterval:
    """Return the interval for these raters: percentiles, or a normal interval minus the replicates' bias."""
    percentiles = compute_percentile_interval(replicates, widening=widening)
    if not bias_corrected or percentiles.interval is None:
        return percentiles
    # Resampling has the same bias as sampling, so the bias is estimated by the mean of the replicates minus the value.
    bias, variance = float(np.nanmean(replicates)) - value, widening**2 * compute_replicate_variance(replicates)
    return percentiles._replace(interval=compute_symmetric_interval(value - bias, variance, within=within))


def _compute_new_raters_interval(value: float, basis: Uncertainty) -> ResampledInterval:
    """Return value +- quantile * sqrt(V_item + V_rater), with V_item from the bootstrap and V_rater from the jackknife."""
    if basis.withheld_new and not basis.show_unstable:
        return ResampledInterval(None, reason=basis.withheld_new)
    raters = len(basis.leave_one_out)
    if raters < MIN_RATERS:
        return ResampledInterval(None, reason=TOO_FEW_RATERS)
    # The jackknife is used instead of the bootstrap, because a resample of raters can contain a rater twice, and the two
    # copies always agree.
    rater_variance = compute_jackknife_variance(basis.leave_one_out)
    item_variance = compute_replicate_variance(basis.replicates)
    variance, df = item_variance + rater_variance, None
    if np.isnan(variance):
        return ResampledInterval(None, reason=UNDEFINED_WITHOUT_A_RATER)
    # The jackknife does not overestimate V_rater for a linear coefficient, so with one pooled quantile the interval would
    # be too narrow. V_item has the normal quantile and V_rater that of Student's t.
    if basis.linear and basis.has_few_raters:
        ratio = student_quantile(raters - 1) / NORMAL
        variance = item_variance + ratio**2 * rater_variance
    elif basis.use_student:
        df = raters - 1.0
    elif basis.uses_student_t and rater_variance:
        df = (raters - 1) * (variance / rater_variance) ** 2  # Satterthwaite's degrees of freedom
    interval = compute_symmetric_interval(value, variance, df=df, within=_find_limits(value))
    return ResampledInterval(interval, reason=basis.withheld_new)


def _find_limits(value: float) -> tuple[float, float]:
    """Return the limits of an interval. With quadratic weights and few items a coefficient can be less than -1."""
    return (-1 if value >= -1 else -inf), 1


class Scope(NamedTuple):
    """The ratings of a coefficient: all, or those of one source. `args` becomes part of the result."""

    args: Mapping[str, str]
    ratings: Ratings

    @property
    def label(self) -> str:
        return self.args.get("source", "all sources together")


def list_scopes(table: Ratings) -> list[Scope]:
    """Return the scope of all ratings, then the scope of each source if there is more than one source."""
    sources = [table.sources[index] for index in np.unique(table.source)]
    by_source = [Scope({"source": name}, table.select_source(name)) for name in sources if len(sources) > 1]
    return [Scope({}, table), *by_source]


def explain_rare_verdict(items: float, floor: float) -> str:
    """Return why one verdict is too rare for an interval, given the co-minority count; "" if it is not."""
    # In simulated studies, no method reached 95% coverage below the floor (bench/results/coverage.md).
    if items >= floor:
        return ""
    return f"by chance two raters would both give the rarer verdict on {items:.1f} items; below {floor:.0f} no interval is reliable"


def find_commonest_category(table: Ratings) -> tuple[int, float]:
    """Return the index of the category that most ratings have, and its share. Raises ValueError for a table without ratings."""
    counts = np.bincount(table.verdict, minlength=len(table.categories))
    return int(np.argmax(counts)), float(np.max(counts) / len(table))
