"""The two intervals of an agreement coefficient: for new items with these raters, and for new items with new raters."""

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
SKEWED = 0.85  # one verdict at least so often: kappa says little about how far raters agree
# Fewer items on which two raters would both give the rarer verdict by chance: no interval of kappa for these raters, and
# below the second number none for new raters either, whose interval is wider.
CO_MINORITY, CO_MINORITY_NEW = 5.0, 1.0
FEW_RATERS = 4  # fewer, and the normal quantile is too short
LEAST_RATERS = 3  # fewer, and nothing is said about new ones
HELD = "widened to hold the interval for these raters"
TOO_FEW_RATERS = "an interval for new raters needs three raters or more"
WITHOUT_ONE = "undefined without one of the raters, so there is no interval for new raters"


class Uncertainty(NamedTuple):
    """What the intervals of one value are made of. `refused`, `refused_new`: why there is none whatever these say.

    replicates: shape (resamples,), items drawn again within source. left_out: shape (raters,), one rater left out in
    turn. `student`: Student's t with one degree less than raters instead of the normal quantile, for new raters.
    `corrected`: for these raters a normal interval less the bias that the replicates show, instead of their percentiles;
    pairs that share few items have kappas that are too small, in the sample and once more in its resamples. `fisher`: for
    these raters a normal interval on the scale of Fisher's z, for a coefficient whose percentiles are lopsided. `widening`:
    of the interval for these raters, for few items (resampling.widening). `linear`: nearly a mean of ratings, so that
    with three raters V_rater and V_item each take their own quantile.
    """

    replicates: Floats
    left_out: Floats
    student: bool = False
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
    """Two rows: the value with the interval for these raters, and (args target: new raters) with that for new ones, which holds
    the former: new raters cannot be surer."""
    if found.value is None:
        for extra in ({}, NEW_RATERS):
            yield estimate(found.stat, None, found.n, args={**found.args, **extra}, reason=found.reason)
        return
    drawn = of_these_raters(found.value, by.replicates, corrected=by.corrected, widening=by.widening)
    if by.fisher and drawn.interval:
        drawn = drawn._replace(interval=_by_fisher(found.value, by.widening**2 * replicate_variance(by.replicates)))
    these = Resampled(None, reason=by.refused) if by.refused else drawn
    new = _holding(these, _of_new_raters(found.value, by)) if drawn.interval or by.refused_new else drawn
    methods = CORRECTED if by.corrected else FISHER if by.fisher else THESE, NEW_T if _takes_t(by) else NEW
    made: tuple[tuple[Resampled, str, dict[str, str], str], ...] = (
        (these, methods[0], {}, by.refused),
        (new, methods[1], NEW_RATERS, by.refused_new),
    )
    for one, name, extra, refused in made:
        args = {**found.args, **extra}
        n = {**found.n, "undefined_resamples": drawn.undefined} if drawn.undefined and not refused else found.n
        yield estimate(found.stat, found.value, n, args=args, interval=one.interval, method=name, reason=one.reason)


def _holding(these: Resampled, new: Resampled) -> Resampled:
    """Percentiles can be lopsided, and then reach beyond an interval that lies evenly around the value: the hull of both."""
    if these.interval is None or new.interval is None:
        return new
    hull = min(these.interval[0], new.interval[0]), max(these.interval[1], new.interval[1])
    return new if hull == new.interval else new._replace(interval=hull, reason=HELD)


def of_these_raters(
    value: float, replicates: Floats, *, corrected: bool, widening: float, within: tuple[float, float] = (-1, 1)
) -> Resampled:
    """Percentiles of the replicates, or a normal interval less their bias, for these raters and new items (Uncertainty)."""
    drawn = percentile(replicates, widening=widening)
    if not corrected or drawn.interval is None:
        return drawn
    bias = float(np.nanmean(replicates)) - value
    return drawn._replace(interval=around(value - bias, widening**2 * replicate_variance(replicates), within=within))


def _by_fisher(value: float, variance: float) -> tuple[float, float]:
    """tanh(atanh(value) +- 1.96 * se / (1 - value^2)): Fisher's z (1915, Biometrika 10:507) by the delta method."""
    low, high = around(atanh(value), variance / (1 - value**2) ** 2, within=(-inf, inf))
    return tanh(low), tanh(high)


def _of_new_raters(value: float, by: Uncertainty) -> Resampled:
    """V_item from the bootstrap plus V_rater from the jackknife: a resample of raters would pair one with itself.

    With three raters only V_rater rests on so few: the degrees of freedom are Satterthwaite's, as they are for any number of
    raters where the coefficient is nearly a mean of ratings (its jackknife overstates nothing); for those with three raters
    the half-widths of the two parts are added as squares.
    """
    if by.refused_new:
        return Resampled(None, reason=by.refused_new)
    raters = len(by.left_out)
    if raters < LEAST_RATERS:
        return Resampled(None, reason=TOO_FEW_RATERS)
    of_raters = jackknife_variance(by.left_out)
    of_items = replicate_variance(by.replicates)
    variance = of_items + of_raters
    if np.isnan(variance):
        return Resampled(None, reason=WITHOUT_ONE)
    if by.linear and _are_few(by):
        ratio = find_student_quantile((1 + LEVEL) / 2, raters - 1) / NORMAL
        return Resampled(around(value, of_items + ratio**2 * of_raters))
    pooled = (raters - 1) * (variance / of_raters) ** 2 if _takes_t(by) and of_raters else None
    return Resampled(around(value, variance, df=raters - 1 if by.student else pooled))


def _takes_t(by: Uncertainty) -> bool:
    return by.student or by.linear or _are_few(by)


def _are_few(by: Uncertainty) -> bool:
    return len(by.left_out) < FEW_RATERS


class Scope(NamedTuple):
    """Ratings one coefficient is of: all, or one source's. `args` goes into the result."""

    args: Mapping[str, str]
    own: Ratings

    @property
    def name(self) -> str:
        return self.args.get("source", "all sources together")


def scopes(table: Ratings) -> list[Scope]:
    """All ratings, then those of each source that has any; with one source only the first."""
    present = [table.sources[at] for at in np.unique(table.source)]
    single = len(present) < 2
    return [Scope({}, table), *([] if single else [Scope({"source": name}, table.of_source(name)) for name in present])]


def too_rare(items: float, floor: float) -> str:
    """Why no interval is given where two raters would hardly ever meet in the rarer verdict: none was measured to cover
    there. `items`: on how many they would by chance. "" if there may be one."""
    if items >= floor:
        return ""
    return f"by chance two raters would both give the rarer verdict on {items:.1f} items; below {floor:.0f} no interval holds"


def commonest(table: Ratings) -> tuple[int, float]:
    """The category most ratings give, and their share. ValueError for a table without ratings."""
    counts = np.bincount(table.verdict, minlength=len(table.categories))
    return int(np.argmax(counts)), float(np.max(counts) / len(table))
