"""Plan a study: half-widths that the intervals of a rate, a kappa or an AUC would have with more raters and items.

Variance components are estimated from the ratings so far. A half-width is the average to expect in a study of the given
shape, for the kind of interval that the results have (for new raters and new items). If results of that shape have no
interval, the half-width is missing for the same reason. While the truth is sealed, the half-widths of the AUC are computed
from planning values.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import betabinom

from ratings.stats import mrmc, resampling
from ratings.stats.estimates import NORMAL, student_quantile
from ratings.stats.mrmc import OneCondition
from ratings.stats.proportions import compute_wilson_interval
from ratings.stats.rater_pairs import compute_leave_one_out_means, tabulate_pairs
from ratings.stats.ratings_table import Floats, Ints, Ratings

ADDED_RATERS = {2: "two", 4: "four"}
ITEM_FACTORS = {1.5: "half again", 2.0: "twice"}


class Design(NamedTuple):
    """The shape of a study. `per_item`: number of ratings of each item; all raters rate the same number of items."""

    raters: int
    items: int
    per_item: float

    @property
    def rating_count(self) -> float:
        return self.items * self.per_item

    def add_raters(self, more: int) -> "Design":
        """Return the design with `more` additional raters, each of whom rates as many items as each present rater."""
        raters = self.raters + more
        return Design(raters, self.items, min(raters, self.per_item * raters / self.raters))

    def scale_items(self, times: float) -> "Design":
        """Return the design with the number of items multiplied by `times`, and each item rated as often as now."""
        return self._replace(items=round(self.items * times))


class VarianceComponents(NamedTuple):
    """The variance components of verdicts, of which a share p is 1.

    `rho_item`, `rho_rater`: correlations of two raters' verdicts on one item and of one rater's verdicts on two items, shares
    of p(1 - p). `kappa`: mean of pairs. `kappa_raters`: variance of kappa that one rater contributes; None with a `reason`.
    """

    share: float
    rho_item: float
    rho_rater: float
    kappa: float | None
    kappa_raters: float | None
    reason: str = ""


class AucComponents(NamedTuple):
    """The components of a mean AUC: variance between raters, covariance of two raters, variance of one rater's AUC."""

    value: float
    between: float
    cov2: float
    error: float
    items: int
    raters: int


class PrecisionStep(NamedTuple):
    """The precision to expect of a study of this shape; if `half_width` is None, `description` states why."""

    quantity: str  # rate, kappa or auc
    source: str
    raters: int
    items: int
    half_width: float | None
    is_present: bool
    description: str


HalfWidth = Callable[[Design], float | None]
ExplainMissing = Callable[[Design], str]  # returns the reason why there is no half-width


def measure_design(table: Ratings) -> Design:
    """Return the shape of a table's ratings. Raises ValueError if there are none."""
    if not len(table):
        raise ValueError("there are no ratings yet")
    n = table.sample_sizes
    return Design(n["raters"], n["items"], n["ratings"] / n["items"])


def estimate_components(table: Ratings) -> VarianceComponents:
    """Return moment estimates: mean products of residuals over pairs of ratings of one item and by one rater.

    Raises ValueError if the table is not binary or has no ratings.
    """
    if not table.is_binary or not len(table):
        raise ValueError("variance components need ratings of 1 and 0")
    share = float(table.verdict.mean())
    residuals: Floats = table.verdict - np.float64(share)
    variance = share * (1 - share)
    by_item, by_rater = (_compute_correlation(residuals, codes, variance) for codes in (table.item, table.rater))
    # Both correlations are shares of the same variance, so their sum cannot exceed 1.
    by_item = min(by_item, 1 - by_rater)
    rater_pairs = tabulate_pairs(table)
    kappas = rater_pairs.cohen_kappa[np.isfinite(rater_pairs.cohen_kappa)]
    kappa = float(kappas.mean()) if len(kappas) else None
    if table.sample_sizes["raters"] < resampling.MIN_RATERS:
        return VarianceComponents(share, by_item, by_rater, kappa, None, resampling.TOO_FEW_RATERS)
    leave_one_out = compute_leave_one_out_means(rater_pairs, rater_pairs.cohen_kappa)
    if not np.all(np.isfinite(leave_one_out)):
        return VarianceComponents(share, by_item, by_rater, kappa, None, resampling.UNDEFINED_WITHOUT_A_RATER)
    rater_variance = len(leave_one_out) * resampling.compute_jackknife_variance(leave_one_out)
    return VarianceComponents(share, by_item, by_rater, kappa, rater_variance)


def estimate_auc_components(table: Ratings, source: str) -> AucComponents | None:
    """Return Obuchowski and Rockette's components of an error source's AUC; None below two raters' AUCs."""
    ratings = table.select_against_unperturbed(source)
    rater_columns, _ = mrmc.build_rater_columns(ratings, ratings.signed_ratings)
    if len(rater_columns) < 2:
        return None
    condition = mrmc.analyse_condition(rater_columns)
    if not all(map(math.isfinite, (condition.msr, condition.cov2, condition.var_error))):
        return None
    # A moment estimate of a variance can be negative by chance, but a variance cannot.
    cov2 = max(condition.cov2, 0.0)
    between = max(condition.msr - condition.var_error + cov2, 0.0)
    error, items = max(condition.var_error, cov2), ratings.sample_sizes["items"]
    return AucComponents(condition.mean, between, cov2, error, items, condition.raters)


def compute_rate_variance(share: float, rho_item: float, rho_rater: float, per_item: Ints, per_rater: Ints) -> float:
    """Return p(1-p)/N^2 [N + rho_item sum m(m-1) + rho_rater sum n(n-1)] for m per item, n per rater."""
    n = per_item.sum()
    inflated = n + rho_item * np.sum(per_item * (per_item - 1.0)) + rho_rater * np.sum(per_rater * (per_rater - 1.0))
    return float(share * (1 - share) * inflated / n**2)


def compute_kappa_variance(share: float, kappa: float, items: int, per_item: float) -> float:
    """Return the large-sample variance of kappa for these raters, over `items` items with `per_item` ratings each.

    All raters have the same share p of verdict 1, with q = 1 - p. The delta method is applied to kappa = 1 - A/pq, where A is
    the mean over items of y(m-y)/(m(m-1)) and y is the number of verdicts 1 among the m ratings of an item, beta-binomial with
    correlation kappa. For two raters, this is the variance of Fleiss, Cohen and Everitt (1969) with equal margins.
    """
    # Below two ratings per item, some items have one rating and contribute nothing to kappa; the others have two.
    if per_item < 2:
        return _compute_item_kappa_variance(share, kappa, 2) / max(items * (per_item - 1), 1e-9)
    # If the number of ratings per item is not whole, some items have one rating more than the others.
    low = math.floor(per_item)
    fraction = per_item - low
    at_low = _compute_item_kappa_variance(share, kappa, low)
    at_high = _compute_item_kappa_variance(share, kappa, low + 1) if fraction else at_low
    return ((1 - fraction) * at_low + fraction * at_high) / items


def compute_auc_variance(auc: float, positives: int, negatives: int, per_item: float = 1, rho: float = 0) -> float:
    """Return Hanley and McNeil's (1982) variance for numbers of ratings, times 1 + (per_item - 1) rho."""
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (positives - 1) * (q1 - auc**2) + (negatives - 1) * (q2 - auc**2)
    return variance / (positives * negatives) * (1 + (per_item - 1) * rho)


def compute_rate_half_width(components: VarianceComponents, design: Design) -> float | None:
    """Return the half-width of a rate's clustered Wilson interval; None below two clusters or for 0 or 1."""
    clusters = min(design.items, design.raters) if design.raters > 1 else design.items
    if clusters < 2 or not 0 < components.share < 1:
        return None
    per_item = np.full(design.items, design.per_item)
    per_rater = np.full(design.raters, design.rating_count / design.raters)
    variance = compute_rate_variance(components.share, components.rho_item, components.rho_rater, per_item, per_rater)
    effective_ratings = min(design.rating_count, components.share * (1 - components.share) / variance)
    low, high = compute_wilson_interval(components.share, effective_ratings, student_quantile(clusters - 1))
    return (high - low) / 2


def compute_kappa_half_width(components: VarianceComponents, design: Design) -> float | None:
    """Return the half-width of kappa's interval (normal quantile); None if it has none (`explain_no_kappa`)."""
    if explain_no_kappa(components, design) or components.kappa is None or components.kappa_raters is None:
        return None
    variance = compute_kappa_variance(components.share, components.kappa, design.items, design.per_item)
    return NORMAL * math.sqrt(variance + components.kappa_raters / design.raters)


def explain_no_kappa(components: VarianceComponents, design: Design) -> str:
    """Return why such a study has no kappa, or no interval of it for new raters; "" if it has both."""
    if components.kappa is None or not 0 < components.share < 1 or design.per_item <= 1:
        return _NO_KAPPA
    if components.reason or design.raters < resampling.MIN_RATERS:
        return components.reason or resampling.TOO_FEW_RATERS
    co_minority = design.items * min(components.share, 1 - components.share) ** 2
    return resampling.explain_rare_verdict(co_minority, resampling.CO_MINORITY_NEW)


def compute_auc_half_width(components: AucComponents | None, design: Design) -> float | None:
    """Return the half-width of the mean AUC's interval for new raters; None if it has none (`explain_no_auc`)."""
    if components is None or explain_no_auc(components, design):
        return None
    condition = _project_condition(components, design)
    within = mrmc.AREA_RANGE if mrmc.is_extreme(condition.mean) else mrmc.UNBOUNDED
    low, high = mrmc.compute_new_raters_interval(condition, within)
    return (high - low) / 2


def explain_no_auc(components: AucComponents | None, design: Design) -> str:
    """Return why such a study has no mean AUC, or no interval of it for new raters; "" if it has both."""
    if components is None:
        return _NO_AUC
    if min(components.raters, design.raters) < resampling.MIN_RATERS:
        return mrmc.TWO_RATERS
    return "" if _project_condition(components, design).se > 0 else mrmc.ALL_ALIKE


def _project_condition(components: AucComponents, design: Design) -> OneCondition:
    """Return the multi-reader analysis to expect of a study with this design."""
    raters, scale = design.raters, components.items / design.items
    # Variances and covariances of areas are inversely proportional to the number of items; the variance between raters is not.
    error, cov2 = scale * components.error, scale * components.cov2
    return mrmc.analyse_components(components.value, raters, components.between + error - cov2, cov2, error)


def list_next_steps(table: Ratings) -> list[PrecisionStep]:
    """Return the precision now and with more raters or items, of rates, kappa and the AUC of each error source."""
    if not table.is_binary or not len(table):
        return []
    sources = [table.sources[index] for index in np.unique(table.source)]
    steps: list[PrecisionStep] = []

    def add_steps(quantity: str, name: str, ratings: Ratings, components: Any, compute: Any, explain: Any) -> None:
        designs = _list_designs(measure_design(ratings))
        steps.extend(_iter_steps(quantity, name, designs, partial(compute, components), partial(explain, components)))

    by_source = {name: table.select_source(name) for name in sources}

    def explain_no_rate(components: VarianceComponents, design: Design) -> str:
        is_constant = components.share in (0.0, 1.0)
        return "all verdicts are alike so far" if is_constant else "two raters and two items are needed first"

    for name, ratings in by_source.items():
        add_steps("rate", name, ratings, estimate_components(ratings), compute_rate_half_width, explain_no_rate)
    for name, ratings in {**({"": table} if len(sources) > 1 else {}), **by_source}.items():
        add_steps("kappa", name, ratings, estimate_components(ratings), compute_kappa_half_width, explain_no_kappa)
    for name in table.error_sources if np.any(table.reference == 1) else ():
        ratings, components = table.select_against_unperturbed(name), estimate_auc_components(table, name)
        add_steps("auc", name, ratings, components, compute_auc_half_width, explain_no_auc)
    return steps


_NO_KAPPA = "kappa is undefined so far: two raters need items in common and verdicts that differ"
_NO_AUC = "three raters who rated two unperturbed and two planted items with their confidence are needed first"


_PLANNED_AUC = 0.75  # planning value of the AUC, used while the study is sealed and no AUC may be computed


def list_planned_auc_steps(design: Design, *, negative_share: float = 0.25, rho: float = 0.2) -> list[PrecisionStep]:
    """Return the AUC's precision from planning values, for sealed studies. `rho`: of two ratings of one item."""

    def compute_planned_half_width(shape: Design) -> float | None:
        negatives = round(shape.rating_count * negative_share)
        positives = round(shape.rating_count) - negatives
        if not positives or not negatives:
            return None
        return NORMAL * math.sqrt(compute_auc_variance(_PLANNED_AUC, positives, negatives, shape.per_item, rho))

    designs = _list_designs(design)
    return list(_iter_steps("auc", "", designs, compute_planned_half_width, lambda shape: "there are no ratings yet"))


def _list_designs(now: Design) -> list[tuple[str, Design]]:
    raters = [(f"{number} more raters", now.add_raters(more)) for more, number in ADDED_RATERS.items()]
    return [("", now), *raters, *((f"{name} the items", now.scale_items(by)) for by, name in ITEM_FACTORS.items())]


# Half of the range of a share, a kappa or an AUC. An interval with this half-width excludes nothing.
HALF_SCALE = {"rate": 0.5, "kappa": 1.0, "auc": 0.5}


def _iter_steps(
    quantity: str,
    source: str,
    designs: Sequence[tuple[str, Design]],
    half_width: HalfWidth,
    explain_missing: ExplainMissing,
) -> Iterator[PrecisionStep]:
    present, one_rater = half_width(designs[0][1]), designs[0][1].raters == 1
    for name, design in designs if present is not None else designs[:1]:
        expected = half_width(design)
        if expected is None:
            description = explain_missing(design)
        elif expected >= HALF_SCALE[quantity]:
            expected, description = None, f"{name or 'now'}: as wide as the whole scale, so it shows nothing"
        elif not name:
            description = f"now ±{expected:.2f}{' for this rater alone' if one_rater else ''}"
        # An interval from one rater is for that rater, one from several raters is for new raters: they are not compared.
        elif one_rater or present is None or present >= HALF_SCALE[quantity]:
            description = f"{name}: ±{expected:.2f} for new raters"
        else:
            description = f"{name}: {present:.2f} to {expected:.2f}"
        yield PrecisionStep(quantity, source, design.raters, design.items, expected, not name, description)


def _compute_correlation(residuals: Floats, codes: Ints, variance: float) -> float:
    """Return the mean product of residuals of two ratings in one cluster as a share of the variance, 0 to 1."""
    sums, squares = (np.bincount(codes, weights=values) for values in (residuals, residuals**2))
    counts = np.bincount(codes).astype(np.float64)
    pairs = float(np.sum(counts * (counts - 1)))
    if not pairs or not variance:
        return 0.0
    # The square of a sum minus the sum of squares is the sum of the products of all ordered pairs.
    return float(min(1.0, max(0.0, np.sum(sums**2 - squares) / pairs / variance)))


def _compute_item_kappa_variance(share: float, kappa: float, per_item: int) -> float:
    """Return the variance of one item's contribution to kappa (see `compute_kappa_variance`)."""
    yes_count = np.arange(per_item + 1)
    # The beta-binomial distribution needs a correlation strictly between 0 and 1.
    rho = min(max(kappa, 1e-6), 1 - 1e-6)
    probability = betabinom.pmf(yes_count, per_item, share * (1 / rho - 1), (1 - share) * (1 / rho - 1))
    variance = share * (1 - share)
    disagreement = yes_count * (per_item - yes_count) / (per_item * (per_item - 1))
    mean = float(probability @ disagreement)
    slope = mean * (1 - 2 * share) * (yes_count / per_item - share)
    influence = -(disagreement - mean) / variance + slope / variance**2
    return float(probability @ influence**2)
