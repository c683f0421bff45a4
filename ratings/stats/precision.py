"""Planning: how narrow the interval of a rate, a kappa or an AUC would be with so many raters and items.

Variance components come from the ratings so far. A half-width is what a study of that shape gives on average, by the same
kind of interval as the results have (new raters, new items); where these have none there is none here, for their reason.
Before any truth may be looked at the AUC's are those of planning values.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.stats import betabinom, norm, t

from ratings.stats.areas import delong, mrmc
from ratings.stats.areas.mrmc import OneCondition
from ratings.stats.intervals import CO_MINORITY_NEW, LEAST_RATERS, TOO_FEW_RATERS, WITHOUT_ONE, too_rare
from ratings.stats.pairing import left_out, pairs_of
from ratings.stats.proportions import wilson
from ratings.stats.resampling import jackknife_variance
from ratings.stats.table import Floats, Ints, Ratings

Z = float(norm.ppf(0.975))
MORE_RATERS = (2, 4)
MORE_ITEMS = (1.5, 2.0)


class Design(NamedTuple):
    """A study's shape: `per_item` ratings of each item, everyone rating alike many."""

    raters: int
    items: int
    per_item: float

    @property
    def ratings(self) -> float:
        return self.items * self.per_item

    def with_raters(self, more: int) -> "Design":
        """So many raters more, each rating as many items as the present ones."""
        raters = self.raters + more
        return Design(raters, self.items, min(raters, self.per_item * raters / self.raters))

    def with_items(self, times: float) -> "Design":
        """So many times the items, each rated as often as now."""
        return self._replace(items=round(self.items * times))


class Components(NamedTuple):
    """Where the variance of a verdict comes from: shares of p(1 - p). kappa_raters: variance of kappa one rater brings.

    rho_item: correlation of two raters' verdicts on one item; rho_rater: of one rater's verdicts on two items. `kappa` is
    the mean pairwise one; None where it is undefined. kappa_raters None where it is unknown, and then `why`.
    """

    share: float
    rho_item: float
    rho_rater: float
    kappa: float | None
    kappa_raters: float | None
    why: str = ""


class AucComponents(NamedTuple):
    """Of the mean AUC over so many raters, as measured with `items` items: variance between raters, mean covariance of two,
    and mean variance of one."""

    value: float
    between: float
    cov2: float
    error: float
    items: int
    raters: int


class Step(NamedTuple):
    """What a study of this shape would give. `now`: the present shape. half_width None where `said` tells why."""

    what: str  # rate, kappa or auc
    source: str
    raters: int
    items: int
    half_width: float | None
    now: bool
    said: str


HalfWidth = Callable[[Design], float | None]
Why = Callable[[Design], str]  # there is no half-width


def design_of(table: Ratings) -> Design:
    """The shape a table has on average. ValueError without ratings."""
    if not len(table):
        raise ValueError("there are no ratings yet")
    n = table.n
    return Design(n["raters"], n["items"], n["ratings"] / n["items"])


def components(table: Ratings) -> Components:
    """Moment estimates: mean products of residuals over pairs of ratings of one item, and of one rater. Never below 0.

    ValueError where the table is not binary or has no ratings.
    """
    if not table.binary or not len(table):
        raise ValueError("variance components need ratings of 1 and 0")
    share = float(table.verdict.mean())
    residuals: Floats = table.verdict - np.float64(share)
    spread = share * (1 - share)
    by_item, by_rater = (_correlation(residuals, codes, spread) for codes in (table.item, table.rater))
    by_item = min(by_item, 1 - by_rater)
    found = pairs_of(table)
    values = found.kappa[np.isfinite(found.kappa)]
    kappa = float(values.mean()) if len(values) else None
    if table.n["raters"] < LEAST_RATERS:
        return Components(share, by_item, by_rater, kappa, None, TOO_FEW_RATERS)
    without = left_out(found, found.kappa)
    if not np.all(np.isfinite(without)):
        return Components(share, by_item, by_rater, kappa, None, WITHOUT_ONE)
    return Components(share, by_item, by_rater, kappa, len(without) * jackknife_variance(without))


def auc_components(table: Ratings, source: str) -> AucComponents | None:
    """Of the signed rating, this error source against the unperturbed items (Obuchowski and Rockette's); None below two raters."""
    own = table.against_unperturbed(source)
    found, _ = mrmc.columns(own, own.signed)
    if len(found) < 2:
        return None
    one = mrmc.one_condition(found)
    if not all(map(math.isfinite, (one.msr, one.cov2, one.var_error))):
        return None
    cov2 = max(one.cov2, 0.0)
    between = max(one.msr - one.var_error + cov2, 0.0)
    return AucComponents(one.mean, between, cov2, max(one.var_error, cov2), own.n["items"], one.raters)


def rate_variance(share: float, rho_item: float, rho_rater: float, per_item: Ints, per_rater: Ints) -> float:
    """Variance of a share of N ratings: p(1-p)/N^2 [N + rho_item sum m(m-1) + rho_rater sum n(n-1)].

    per_item, per_rater: how many ratings each item and each rater has.
    """
    n = per_item.sum()
    inflated = n + rho_item * np.sum(per_item * (per_item - 1.0)) + rho_rater * np.sum(per_rater * (per_rater - 1.0))
    return float(share * (1 - share) * inflated / n**2)


def kappa_variance(share: float, kappa: float, items: int, per_item: float) -> float:
    """Large-sample variance of kappa over `items` items with so many ratings each, these raters, equal shares.

    The delta method on kappa = 1 - A/pq, A the mean of y(m-y)/(m(m-1)) over items with y of m verdicts 1, y beta-binomial with
    correlation kappa. For two raters that is the variance of Fleiss, Cohen and Everitt (1969) with equal margins.
    """
    if per_item < 2:
        return _kappa_variance(share, kappa, 2) / max(items * (per_item - 1), 1e-9)
    low = math.floor(per_item)
    part = per_item - low
    at_low = _kappa_variance(share, kappa, low)
    at_high = _kappa_variance(share, kappa, low + 1) if part else at_low
    return ((1 - part) * at_low + part * at_high) / items


def auc_variance(auc: float, positives: int, negatives: int, per_item: float = 1, rho: float = 0) -> float:
    """Hanley and McNeil's (1982) variance of an AUC, for so many ratings of each item correlated by rho.

    For planning before there is anything to measure: `positives` and `negatives` are ratings.
    """
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    own = auc * (1 - auc) + (positives - 1) * (one - auc**2) + (negatives - 1) * (two - auc**2)
    return own / (positives * negatives) * (1 + (per_item - 1) * rho)


def rate_half_width(found: Components, design: Design) -> float | None:
    """Half of the Wilson interval with the effective n and Student's t that rates are given with; None below two clusters."""
    clusters = min(design.items, design.raters) if design.raters > 1 else design.items
    if clusters < 2 or not 0 < found.share < 1:
        return None
    per_item = np.full(design.items, design.per_item)
    per_rater = np.full(design.raters, design.ratings / design.raters)
    variance = rate_variance(found.share, found.rho_item, found.rho_rater, per_item, per_rater)
    effective = min(design.ratings, found.share * (1 - found.share) / variance)
    low, high = wilson(found.share, effective, float(t.ppf(0.975, clusters - 1)))
    return (high - low) / 2


def kappa_half_width(found: Components, design: Design) -> float | None:
    """Items' variance and that between raters together, normal quantile; None where `no_kappa` says why."""
    if no_kappa(found, design) or found.kappa is None or found.kappa_raters is None:
        return None
    variance = kappa_variance(found.share, found.kappa, design.items, design.per_item)
    return Z * math.sqrt(variance + found.kappa_raters / design.raters)


def no_kappa(found: Components, design: Design) -> str:
    """Why results of this shape have no kappa, or no interval of one for new raters; "" if they have."""
    if found.kappa is None or not 0 < found.share < 1 or design.per_item <= 1:
        return _NO_KAPPA
    if found.why or design.raters < LEAST_RATERS:
        return found.why or TOO_FEW_RATERS
    return too_rare(design.items * min(found.share, 1 - found.share) ** 2, CO_MINORITY_NEW)


def auc_half_width(found: AucComponents | None, design: Design) -> float | None:
    """Obuchowski and Rockette's standard error with Hillis' degrees of freedom, new raters and new items; of an area near
    1 half of the logit's interval. None where `no_auc` says why."""
    if found is None or no_auc(found, design):
        return None
    one = _one_condition(found, design)
    low, high = mrmc.new_raters(one, mrmc.AREAS if delong.is_extreme(one.mean) else mrmc.ANYWHERE)
    return (high - low) / 2


def no_auc(found: AucComponents | None, design: Design) -> str:
    """Why results of this shape have no mean AUC, or no interval of it for new raters; "" if they have."""
    if found is None:
        return _NO_AUC
    if min(found.raters, design.raters) < LEAST_RATERS:
        return mrmc.TWO_RATERS
    return "" if _one_condition(found, design).se > 0 else mrmc.ALL_ALIKE


def _one_condition(found: AucComponents, design: Design) -> OneCondition:
    """What a study of this shape is expected to measure."""
    raters, scale = design.raters, found.items / design.items
    error, cov2 = scale * found.error, scale * found.cov2
    return mrmc.of_parts(found.value, raters, found.between + error - cov2, cov2, error)


def next_steps(table: Ratings) -> list[Step]:
    """The present precision and what more raters or items would give: rates and kappa of each source, AUC of each error source.

    With one source, or none known, of all ratings together. Nothing that needs a reference where none is known.
    """
    if not table.binary or not len(table):
        return []
    names = [table.sources[at] for at in np.unique(table.source)]
    steps: list[Step] = []
    for name in names:
        own = table.of_source(name)
        found = components(own)
        steps += _steps("rate", name, own, partial(rate_half_width, found), partial(_no_rate, found))
    for name in dict.fromkeys(["" if len(names) > 1 else names[0], *names]):
        own = table.of_source(name) if name else table
        found = components(own)
        steps += _steps("kappa", name, own, partial(kappa_half_width, found), partial(no_kappa, found))
    if not np.any(table.reference == 1):
        return steps
    for name in table.error_sources:
        own = table.against_unperturbed(name)
        parts = auc_components(table, name)
        steps += _steps("auc", name, own, partial(auc_half_width, parts), partial(no_auc, parts))
    return steps


_NO_KAPPA = "kappa is undefined so far: two raters need items in common and verdicts that differ"
_NO_AUC = "three raters who rated two unperturbed and two planted items with their confidence are needed first"


def _no_rate(found: Components, design: Design) -> str:
    return "all verdicts are alike so far" if found.share in (0.0, 1.0) else "two raters and two items are needed first"


_PLANNED_AUC = 0.75


def planned_auc_steps(design: Design, *, negative_share: float = 0.25, rho: float = 0.2) -> list[Step]:
    """The AUC's precision from planning values (Hanley and McNeil): what can be said while no truth may be looked at."""

    def half_width(shape: Design) -> float | None:
        negatives = round(shape.ratings * negative_share)
        positives = round(shape.ratings) - negatives
        if not positives or not negatives:
            return None
        return Z * math.sqrt(auc_variance(_PLANNED_AUC, positives, negatives, shape.per_item, rho))

    return list(_of_designs("auc", "", _designs(design), half_width, lambda shape: "there are no ratings yet"))


def _steps(what: str, source: str, own: Ratings, half_width: HalfWidth, nothing: Why) -> Iterator[Step]:
    return _of_designs(what, source, _designs(design_of(own)), half_width, nothing)


def _designs(now: Design) -> list[tuple[str, Design]]:
    raters = [(_more(more, "rater"), now.with_raters(more)) for more in MORE_RATERS]
    items = [(f"{_TIMES[times]} the items", now.with_items(times)) for times in MORE_ITEMS]
    return [("", now), *raters, *items]


# Half of what a share, a kappa or an AUC can range over: an interval as wide as that excludes nothing.
WHOLE_SCALE = {"rate": 0.5, "kappa": 1.0, "auc": 0.5}
_TIMES = {1.5: "half again", 2.0: "twice"}
_NUMBERS = {2: "two", 4: "four"}


def _more(more: int, noun: str) -> str:
    return f"{_NUMBERS.get(more, more)} more {noun}s"


def _of_designs(
    what: str, source: str, designs: Sequence[tuple[str, Design]], half_width: HalfWidth, nothing: Why
) -> Iterator[Step]:
    now, present = half_width(designs[0][1]), designs[0][1]
    for name, design in designs if now is not None else designs[:1]:
        found = half_width(design)
        if found is not None and found >= WHOLE_SCALE[what]:
            said = f"{name or 'now'}: no sharper than the whole scale, which tells nothing"
            yield Step(what, source, design.raters, design.items, None, not name, said)
            continue
        said = (
            nothing(design) if found is None else _said(name, found, now or 0.0, present.raters == 1, WHOLE_SCALE[what])
        )
        yield Step(what, source, design.raters, design.items, found, not name, said)


def _said(name: str, found: float, now: float, one_rater: bool, whole: float) -> str:
    """One rater's interval is about that rater, those of more are about any raters: the two are not set side by side."""
    if not name:
        return f"now ±{found:.2f}{' for this rater alone' if one_rater else ''}"
    return f"{name}: ±{found:.2f} for new raters" if one_rater or now >= whole else f"{name}: {now:.2f} to {found:.2f}"


def _correlation(residuals: Floats, codes: Ints, spread: float) -> float:
    """Mean product of the residuals of two ratings of one cluster, as a share of the variance; at least 0, at most 1."""
    sums, squares = (np.bincount(codes, weights=values) for values in (residuals, residuals**2))
    counts = np.bincount(codes).astype(np.float64)
    pairs = float(np.sum(counts * (counts - 1)))
    if not pairs or not spread:
        return 0.0
    return float(min(1.0, max(0.0, np.sum(sums**2 - squares) / pairs / spread)))


def _kappa_variance(share: float, kappa: float, per_item: int) -> float:
    """Of one item."""
    yes = np.arange(per_item + 1)
    rho = min(max(kappa, 1e-6), 1 - 1e-6)
    chance = betabinom.pmf(yes, per_item, share * (1 / rho - 1), (1 - share) * (1 / rho - 1))
    spread = share * (1 - share)
    differing = yes * (per_item - yes) / (per_item * (per_item - 1))
    mean = float(chance @ differing)
    moved = -(differing - mean) / spread + mean * (1 - 2 * share) * (yes / per_item - share) / spread**2
    return float(chance @ moved**2)
