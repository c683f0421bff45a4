"""Compute the two intervals of an agreement coefficient: for new items with these raters, and for new items with new raters."""

from collections.abc import Iterator, Mapping
from math import atanh, inf, tanh
from typing import Any, NamedTuple

import numpy as np

from ratings.stats.estimates import LEVEL, Estimate, estimate
from ratings.stats.quantiles import NORMAL, find_student_quantile
from ratings.stats.resampling import Resampled, around, jackknife_variance, percentile, replicate_variance
from ratings.stats.table import Floats, Ratings

THESE, CORRECTED, FISHER = "item_bootstrap", "item_bootstrap_corrected", "item_bootstrap_fisher"
NEW, NEW_T = "item_bootstrap_rater_jackknife", "item_bootstrap_rater_jackknife_t"
NEW_RATERS = {"target": "new raters"}
SKEWED = 0.85  # share of the commonest verdict from which kappa no longer reflects how far raters agree
# Co-minority count: items on which two raters would both give the rarer verdict by chance. Below the first number there is no
# interval of kappa for these raters; below the second there is none for new raters either, whose interval is wider.
CO_MINORITY, CO_MINORITY_NEW = 5.0, 1.0
FEW_RATERS = 4  # below it the normal quantile is too short
LEAST_RATERS = 3  # below it there is no interval for new raters
HELD = "widened to include the interval for these raters"
TOO_FEW_RATERS = "an interval for new raters needs at least three raters"
WITHOUT_ONE = "undefined without one of the raters, so there is no interval for new raters"


class Uncertainty(NamedTuple):
    """What the two intervals of a value are computed from.

    replicates: shape (resamples,), items resampled within source. leave_one_out: shape (raters,), the value without each rater in turn.
    `use_student`: for new raters, Student's t with one degree of freedom less than raters, instead of the normal quantile.
    `bias_corrected`: for these raters, a normal interval minus the bias of the replicates, instead of their percentiles.
    `fisher`: for these raters, a normal interval on the scale of Fisher's z, for a coefficient with skewed percentiles.
    `widening`: factor for the interval for these raters, for few items (resampling.compute_widening). `linear`: the coefficient is
    nearly a mean of ratings, so that with three raters V_rater and V_item each take their own quantile. `withheld`, `withheld_new`:
    why an interval is not given, whatever the other fields are; "" if it may be given.
    """

    replicates: Floats
    left_out: Floats
    student: bool = False
    # Pairs that share few items have kappas that are too small, in the sample and once more in its resamples.
    corrected: bool = False
    fisher: bool = False
    linear: bool = False
    widening: float = 1.0
    refused: str = ""
    refused_new: str = ""


class Found(NamedTuple):
    """A coefficient before its intervals. `reason` says why the value is None."""

    stat: str
    args: Mapping[str, Any]
    value: float | None
    n: Mapping[str, int]
    reason: str = ""


def with_intervals(found: Found, by: Uncertainty) -> Iterator[Estimate]:
    """Yield two rows of a value: with the interval for these raters, and (args target: new raters) with that for new raters.

    The second interval includes the first.
    """
    if found.value is None:
        for extra in ({}, NEW_RATERS):
            yield estimate(found.stat, None, found.n, args={**found.args, **extra}, reason=found.reason)
        return
    resampled = of_these_raters(found.value, by.replicates, corrected=by.corrected, widening=by.widening)
    if by.fisher and resampled.interval:
        resampled = resampled._replace(
            interval=_by_fisher(found.value, by.widening**2 * replicate_variance(by.replicates))
        )
    these = Resampled(None, reason=by.refused) if by.refused else resampled
    # An interval that also covers new raters cannot be narrower than one for these raters.
    new_raters = _holding(these, _of_new_raters(found.value, by)) if resampled.interval or by.refused_new else resampled
    methods = CORRECTED if by.corrected else FISHER if by.fisher else THESE, NEW_T if _takes_t(by) else NEW
    rows: tuple[tuple[Resampled, str, dict[str, str], str], ...] = (
        (these, methods[0], {}, by.refused),
        (new_raters, methods[1], NEW_RATERS, by.refused_new),
    )
    for interval_row, method, extra, refused in rows:
        args = {**found.args, **extra}
        n = {**found.n, "undefined_resamples": resampled.undefined} if resampled.undefined and not refused else found.n
        yield estimate(
            found.stat,
            found.value,
            n,
            args=args,
            interval=interval_row.interval,
            method=method,
            reason=interval_row.reason,
        )


def _holding(these: Resampled, new: Resampled) -> Resampled:
    """Return the smallest interval that includes both, with the reason if the second was widened."""
    if these.interval is None or new.interval is None:
        return new
    # Percentiles can be skewed and then exceed an interval that is symmetric around the value.
    hull = min(these.interval[0], new.interval[0]), max(these.interval[1], new.interval[1])
    return new if hull == new.interval else new._replace(interval=hull, reason=HELD)


def of_these_raters(
    value: float, replicates: Floats, *, corrected: bool, widening: float, within: tuple[float, float] = (-1, 1)
) -> Resampled:
    """Return percentiles of the replicates, or a normal interval minus their bias, for these raters and new items (see Uncertainty)."""
    percentiles = percentile(replicates, widening=widening)
    if not corrected or percentiles.interval is None:
        return percentiles
    # The replicates repeat the bias of the sample, so their mean shows how large it is.
    bias = float(np.nanmean(replicates)) - value
    return percentiles._replace(
        interval=around(value - bias, widening**2 * replicate_variance(replicates), within=within)
    )


def _by_fisher(value: float, variance: float) -> tuple[float, float]:
    """Return tanh(atanh(value) +- 1.96 * se / (1 - value^2)): Fisher's z (1915, Biometrika 10:507) by the delta method."""
    low, high = around(atanh(value), variance / (1 - value**2) ** 2, within=(-inf, inf))
    return tanh(low), tanh(high)


def _of_new_raters(value: float, by: Uncertainty) -> Resampled:
    """Return value +- quantile * sqrt(V_item + V_rater), V_item from the bootstrap and V_rater from the jackknife.

    With three raters V_rater has two degrees of freedom. Then, and for coefficients that are nearly means of ratings with any
    number of raters, the degrees of freedom are Satterthwaite's; a linear coefficient of three raters instead adds the squared
    half-widths of its two parts.
    """
    if by.refused_new:
        return Resampled(None, reason=by.refused_new)
    rater_count = len(by.left_out)
    if rater_count < LEAST_RATERS:
        return Resampled(None, reason=TOO_FEW_RATERS)
    # Jackknife and not bootstrap: a resample of raters would pair a rater with a copy of the same rater, who
    # always agree.
    rater_variance = jackknife_variance(by.left_out)
    item_variance = replicate_variance(by.replicates)
    variance = item_variance + rater_variance
    if np.isnan(variance):
        return Resampled(None, reason=WITHOUT_ONE)
    # The jackknife of a linear coefficient does not overstate V_rater, so one pooled quantile would be too short
    # for it.
    if by.linear and _are_few(by):
        ratio = find_student_quantile((1 + LEVEL) / 2, rater_count - 1) / NORMAL
        return Resampled(around(value, item_variance + ratio**2 * rater_variance))
    pooled_df = (rater_count - 1) * (variance / rater_variance) ** 2 if _takes_t(by) and rater_variance else None
    return Resampled(around(value, variance, df=rater_count - 1 if by.student else pooled_df))


def _takes_t(by: Uncertainty) -> bool:
    return by.student or by.linear or _are_few(by)


def _are_few(by: Uncertainty) -> bool:
    return len(by.left_out) < FEW_RATERS


class Scope(NamedTuple):
    """The ratings that one coefficient is computed from: all, or those of one source. `args` becomes part of the result."""

    args: Mapping[str, str]
    own: Ratings

    @property
    def name(self) -> str:
        return self.args.get("source", "all sources together")


def scopes(table: Ratings) -> list[Scope]:
    """Return all ratings, then those of each source; only the first if there is one source."""
    sources = [table.sources[index] for index in np.unique(table.source)]
    is_single = len(sources) < 2
    return [
        Scope({}, table),
        *([] if is_single else [Scope({"source": name}, table.of_source(name)) for name in sources]),
    ]


def too_rare(items: float, floor: float) -> str:
    """Return why no interval is given where the rarer verdict is rare, or "" if one may be given.

    `items`: on how many items two raters would both give the rarer verdict by chance.
    """
    # In simulated studies no method reached its coverage below the floor (bench/results/coverage.md).
    if items >= floor:
        return ""
    return f"by chance two raters would both give the rarer verdict on {items:.1f} items; below {floor:.0f} no interval is reliable"


def commonest(table: Ratings) -> tuple[int, float]:
    """Return the index of the category that most ratings have, and its share. Raises ValueError for a table without ratings."""
    counts = np.bincount(table.verdict, minlength=len(table.categories))
    return int(np.argmax(counts)), float(np.max(counts) / len(table))
