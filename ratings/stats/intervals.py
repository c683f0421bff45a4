"""Compute the two intervals of an agreement coefficient: for new items with these raters, and for new items with new raters."""

from collections.abc import Iterator, Mapping
from math import atanh, inf, tanh
from typing import Any, NamedTuple

import numpy as np

from ratings.stats.estimates import LEVEL, Estimate, build_estimate
from ratings.stats.quantiles import NORMAL, student_quantile
from ratings.stats.ratings_table import Floats, Ratings
from ratings.stats.resampling import (
    ResampledInterval,
    compute_jackknife_variance,
    compute_percentile_interval,
    compute_replicate_variance,
    compute_symmetric_interval,
)

ITEM_BOOTSTRAP, ITEM_BOOTSTRAP_CORRECTED, ITEM_BOOTSTRAP_FISHER = (
    "item_bootstrap",
    "item_bootstrap_corrected",
    "item_bootstrap_fisher",
)
RATER_JACKKNIFE, RATER_JACKKNIFE_T = "item_bootstrap_rater_jackknife", "item_bootstrap_rater_jackknife_t"
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
    each rater in turn, shape (raters,).

    Settings of the interval for these raters: `bias_corrected` uses a normal interval shifted by the bias of the replicates
    instead of their percentiles; `fisher` uses a normal interval on the scale of Fisher's z, for coefficients with skewed
    percentiles; `widening` is the factor that corrects for few items (resampling.compute_widening).

    Settings of the interval for new raters: `use_student` uses Student's t with one degree of freedom less than raters
    instead of the normal quantile; `linear` means that the coefficient is nearly a mean of ratings, so that with three
    raters V_rater and V_item have separate quantiles.

    `withheld` and `withheld_new` state why the interval for these and for new raters is not given, regardless of the other
    fields; "" if it may be given.
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


class PointEstimate(NamedTuple):
    """A coefficient without its intervals. `reason` states why the value is None."""

    stat: str
    args: Mapping[str, Any]
    value: float | None
    n: Mapping[str, int]
    reason: str = ""


def build_interval_rows(point: PointEstimate, uncertainty: Uncertainty) -> Iterator[Estimate]:
    """Yield the value with its interval for these raters, then (args target: new raters) with its interval for new raters.

    The second interval includes the first.
    """
    if point.value is None:
        for extra in ({}, NEW_RATERS):
            yield build_estimate(point.stat, None, point.n, args={**point.args, **extra}, reason=point.reason)
        return
    resampled = compute_these_raters_interval(
        point.value, uncertainty.replicates, bias_corrected=uncertainty.bias_corrected, widening=uncertainty.widening
    )
    if uncertainty.fisher and resampled.interval:
        resampled = resampled._replace(
            interval=_compute_fisher_interval(
                point.value, uncertainty.widening**2 * compute_replicate_variance(uncertainty.replicates)
            )
        )
    these = ResampledInterval(None, reason=uncertainty.withheld) if uncertainty.withheld else resampled
    # An interval for new raters has more uncertainty, so it must not be narrower than the interval for these raters.
    new_raters = (
        _widen_to_include(these, _compute_new_raters_interval(point.value, uncertainty))
        if resampled.interval or uncertainty.withheld_new
        else resampled
    )
    methods = (
        ITEM_BOOTSTRAP_CORRECTED
        if uncertainty.bias_corrected
        else ITEM_BOOTSTRAP_FISHER
        if uncertainty.fisher
        else ITEM_BOOTSTRAP,
        RATER_JACKKNIFE_T if _uses_student_t(uncertainty) else RATER_JACKKNIFE,
    )
    rows: tuple[tuple[ResampledInterval, str, dict[str, str], str], ...] = (
        (these, methods[0], {}, uncertainty.withheld),
        (new_raters, methods[1], NEW_RATERS, uncertainty.withheld_new),
    )
    for interval_row, method, extra, refused in rows:
        args = {**point.args, **extra}
        n = {**point.n, "undefined_resamples": resampled.undefined} if resampled.undefined and not refused else point.n
        yield build_estimate(
            point.stat,
            point.value,
            n,
            args=args,
            interval=interval_row.interval,
            method=method,
            reason=interval_row.reason,
        )


def _widen_to_include(these_raters: ResampledInterval, new_raters: ResampledInterval) -> ResampledInterval:
    """Return the interval for new raters, widened to include the interval for these raters; WIDENED is then its
    reason.
    """
    if these_raters.interval is None or new_raters.interval is None:
        return new_raters
    # A skewed percentile interval can extend beyond an interval that is symmetric around the value.
    hull = min(these_raters.interval[0], new_raters.interval[0]), max(these_raters.interval[1], new_raters.interval[1])
    return new_raters if hull == new_raters.interval else new_raters._replace(interval=hull, reason=WIDENED)


def compute_these_raters_interval(
    value: float, replicates: Floats, *, bias_corrected: bool, widening: float, within: tuple[float, float] = (-1, 1)
) -> ResampledInterval:
    """Return the interval for these raters and new items: percentiles of the replicates, or a normal interval minus
    their bias.
    """
    percentiles = compute_percentile_interval(replicates, widening=widening)
    if not bias_corrected or percentiles.interval is None:
        return percentiles
    # Resampling has the same bias as sampling, so the bias is estimated by the mean of the replicates minus the value.
    bias = float(np.nanmean(replicates)) - value
    return percentiles._replace(
        interval=compute_symmetric_interval(
            value - bias, widening**2 * compute_replicate_variance(replicates), within=within
        )
    )


def _compute_fisher_interval(value: float, variance: float) -> tuple[float, float]:
    """Return the normal interval on the scale of Fisher's z, tanh(atanh(value) +- 1.96 * se / (1 - value^2)).

    The standard error of z is from the delta method (Fisher 1915, Biometrika 10:507).
    """
    low, high = compute_symmetric_interval(atanh(value), variance / (1 - value**2) ** 2, within=(-inf, inf))
    return tanh(low), tanh(high)


def _compute_new_raters_interval(value: float, uncertainty: Uncertainty) -> ResampledInterval:
    """Return value +- quantile * sqrt(V_item + V_rater), with V_item from the bootstrap and V_rater from the jackknife.

    The quantile is normal, with these exceptions. With `use_student`, it is Student's t with one degree of freedom less than
    raters. With three raters, or for a linear coefficient with any number of raters, it is Student's t with Satterthwaite's
    degrees of freedom. For a linear coefficient with three raters, the half-width is instead the root of the sum of the
    squared half-widths of both parts: V_item with the normal quantile, V_rater with Student's t.
    """
    if uncertainty.withheld_new:
        return ResampledInterval(None, reason=uncertainty.withheld_new)
    rater_count = len(uncertainty.leave_one_out)
    if rater_count < MIN_RATERS:
        return ResampledInterval(None, reason=TOO_FEW_RATERS)
    # The jackknife is used instead of the bootstrap, because a resample of raters can contain a rater twice, and the two
    # copies always agree.
    rater_variance = compute_jackknife_variance(uncertainty.leave_one_out)
    item_variance = compute_replicate_variance(uncertainty.replicates)
    variance = item_variance + rater_variance
    if np.isnan(variance):
        return ResampledInterval(None, reason=UNDEFINED_WITHOUT_A_RATER)
    # The jackknife does not overestimate V_rater for a linear coefficient, so with one pooled quantile the interval would
    # be too narrow.
    if uncertainty.linear and _has_few_raters(uncertainty):
        ratio = student_quantile((1 + LEVEL) / 2, rater_count - 1) / NORMAL
        return ResampledInterval(compute_symmetric_interval(value, item_variance + ratio**2 * rater_variance))
    pooled_df = (
        (rater_count - 1) * (variance / rater_variance) ** 2
        if _uses_student_t(uncertainty) and rater_variance
        else None
    )
    return ResampledInterval(
        compute_symmetric_interval(value, variance, df=rater_count - 1 if uncertainty.use_student else pooled_df)
    )


def _uses_student_t(uncertainty: Uncertainty) -> bool:
    return uncertainty.use_student or uncertainty.linear or _has_few_raters(uncertainty)


def _has_few_raters(uncertainty: Uncertainty) -> bool:
    return len(uncertainty.leave_one_out) < FEW_RATERS


class Scope(NamedTuple):
    """The ratings from which a coefficient is computed: all, or those of one source.

    `args` becomes part of the result.
    """

    args: Mapping[str, str]
    ratings: Ratings

    @property
    def label(self) -> str:
        return self.args.get("source", "all sources together")


def list_scopes(table: Ratings) -> list[Scope]:
    """Return the scope of all ratings, then the scope of each source if there is more than one source."""
    sources = [table.sources[index] for index in np.unique(table.source)]
    is_single = len(sources) < 2
    return [
        Scope({}, table),
        *([] if is_single else [Scope({"source": name}, table.select_source(name)) for name in sources]),
    ]


def explain_rare_verdict(items: float, floor: float) -> str:
    """Return why no interval is given because one verdict is too rare; "" if an interval may be given.

    `items`: the expected number of items on which two raters would both give the rarer verdict by chance.
    """
    # In simulated studies, no method reached 95% coverage below the floor (bench/results/coverage.md).
    if items >= floor:
        return ""
    return f"by chance two raters would both give the rarer verdict on {items:.1f} items; below {floor:.0f} no interval is reliable"


def find_commonest_category(table: Ratings) -> tuple[int, float]:
    """Return the index of the category that most ratings have, and its share. Raises ValueError for a table without ratings."""
    counts = np.bincount(table.verdict, minlength=len(table.categories))
    return int(np.argmax(counts)), float(np.max(counts) / len(table))
