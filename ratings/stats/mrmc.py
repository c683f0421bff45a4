"""Estimate the mean of the raters' areas with an interval for new raters and new items (multi-reader multi-case analysis, MRMC).

The method is that of Obuchowski and Rockette (1995, Communications in Statistics B 24:285) with the degrees of freedom of
Hillis (2007, Statistics in Medicine 26:596). Every rater has a figure of merit (an area or d') and the influence of each
item on it. The covariance of two raters is computed from the influences of the items that both rated, so not every
rater needs to have rated every item.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import rankdata

from ratings.stats.estimates import NORMAL, Estimate, build_estimate
from ratings.stats.ratings_table import WITH_ERROR, WITHOUT_ERROR, Bools, Floats, Ints, Ratings, explain_missing
from ratings.stats.resampling import compute_symmetric_interval


class Placements(NamedTuple):
    """Each positive's share of negatives below it, (m,), and each negative's of positives above it; ties count half."""

    positive: Floats
    negative: Floats

    @property
    def area(self) -> float:
        return float(np.mean(self.positive))

    @property
    def area_variance(self) -> float:
        """Return the variance of the area, S10/m + S01/n; NaN if a class has only one score."""
        if min(len(self.positive), len(self.negative)) < 2:
            return math.nan
        return float(sum(np.var(placed, ddof=1) / len(placed) for placed in self))


class AreaEstimate(NamedTuple):
    """An area with its interval. `value` is None if a class is empty. If `interval` is None, `reason` states why."""

    value: float | None
    interval: tuple[float, float] | None
    positives: int
    negatives: int
    reason: str = ""
    method: str = "delong"


def compute_placements(positive: Floats, negative: Floats) -> Placements:
    """Return the placements from midranks, in O((m+n) log(m+n)). Raises ValueError if a class is empty."""
    m, n = len(positive), len(negative)
    if not m or not n:
        raise ValueError("an area needs scores of both classes")
    ranks = rankdata(np.concatenate([positive, negative]))
    # The rank among all scores minus the rank within its class is the number of scores of the other class below it.
    below = (ranks[:m] - rankdata(positive)) / n
    above = 1 - (ranks[m:] - rankdata(negative)) / m
    return Placements(below, above)


NEAR_ONE = 0.9  # above it, or below 0.1, the distribution of an estimated area is too skewed for a normal interval


def is_extreme(value: float) -> bool:
    """Return whether an area is so near 0 or 1 that a normal interval is not reliable (bench/results/coverage.md)."""
    return not 1 - NEAR_ONE <= value <= NEAR_ONE


def estimate_area(scores: Floats, positive: Bools) -> AreaEstimate:
    """Return the area P(positive > negative) + P(tie)/2 with its normal interval, Newcombe's near 0 or 1.

    Scores are treated as independent, which holds for the scores of one rater.
    """
    # An area below one half is not reversed: if it were, ratings at random would seem to show skill.
    m, n = int(positive.sum()), int((~positive).sum())
    if not m or not n:
        return AreaEstimate(None, None, m, n, "one of the two classes is empty")
    placements = compute_placements(scores[positive], scores[~positive])
    area, variance = placements.area, placements.area_variance
    if reason := explain_no_interval(area, variance):
        return AreaEstimate(area, None, m, n, reason)
    if is_extreme(area):
        return AreaEstimate(area, compute_score_interval(area, m, n), m, n, method="newcombe_score")
    return AreaEstimate(area, compute_symmetric_interval(area, variance, within=(0, 1)), m, n)


def compute_score_interval(
    value: float, positives: int, negatives: int, quantile: float = NORMAL
) -> tuple[float, float]:
    """Return Newcombe's score interval of an area: all true areas from which `value` is at most `quantile` standard errors away.

    The standard error is Hanley and McNeil's at the true area, with both class sizes in its numerator replaced by their
    mean (Newcombe 2006, Statistics in Medicine 25:559, method 5).
    """
    size = (positives + negatives) / 2 - 1

    def excess_distance(true: float) -> float:
        unequal = 1 + size * (1 - true) / (2 - true) + size * true / (1 + true)
        return (value - true) ** 2 - quantile**2 * true * (1 - true) * unequal / (positives * negatives)

    low = 0.0 if value == 0 else float(brentq(excess_distance, 0.0, value))
    high = 1.0 if value == 1 else float(brentq(excess_distance, value, 1.0))
    return low, high


def explain_no_interval(value: float, variance: float) -> str:
    """Return why an area with this variance has no interval; "" if it has one."""
    if value in (0.0, 1.0):
        return "the two classes are separated without exception, so the variance of 0 shows nothing"
    if math.isnan(variance):
        return "a class has one rating only"
    return "all ratings tie or the variance is 0, so there is no interval" if variance <= 0 else ""


MEAN_AUC = "mrmc_mean_auc"
THESE_RATERS = {"target": "these raters"}
ONE_RATER = "one rater: the interval is for this rater and new items"
TWO_RATERS = "only two raters: no interval for new raters is reliable; see the one for these raters"
AREA_RANGE, UNBOUNDED = (0.0, 1.0), (-math.inf, math.inf)  # the range of an area, and the range of d'
ALL_ALIKE = "all raters have the same value and no variance, so there is no interval"


class RaterColumn(NamedTuple):
    """One rater in one condition: a figure of merit (`value`) and each case's influence on it, (m,) and (n,).

    For an area, influences are deviations of placements. The variance of `value` is var(positive)/m + var(negative)/n.
    """

    rater: str
    value: float
    positive_case: Ints
    positive: Floats
    negative_case: Ints
    negative: Floats


class OneCondition(NamedTuple):
    """The analysis of J raters in one condition.

    `mean`: mean of their figures of merit. `msr`: mean square between raters. `cov2`: mean covariance of two raters.
    `var_error`: mean variance of one rater's figure. `se`, `df`: standard error of the mean, and its degrees of freedom, for
    new raters and new items. `fixed_se`: standard error for these raters and new items. Undefined numbers are NaN.
    """

    mean: float
    raters: int
    msr: float
    cov2: float
    var_error: float
    se: float
    df: float
    fixed_se: float


def build_rater_columns(table: Ratings, scores: Floats) -> tuple[list[RaterColumn], int]:
    """Return the column of each rater with scores in both classes, and the number of the others.

    Items with reference 1 are positive, those with 0 negative; NaN scores are left out.
    """
    # A stable sort keeps the items of a rater in order, so that sums do not depend on the sorting algorithm.
    order = np.argsort(table.rater, kind="stable")
    is_usable = np.isfinite(scores)
    rater_columns, dropped = [], 0
    for rows in np.split(order, np.flatnonzero(np.diff(table.rater[order])) + 1) if len(table) else ():
        positives, negatives = (rows[is_usable[rows] & (table.reference[rows] == reference)] for reference in (1, 0))
        if not len(positives) or not len(negatives):
            dropped += 1
            continue
        placements = compute_placements(scores[positives], scores[negatives])
        area = placements.area
        columns = table.item[positives], placements.positive - area, table.item[negatives], placements.negative - area
        rater_columns.append(RaterColumn(table.raters[table.rater[rows[0]]], area, *columns))
    return rater_columns, dropped


def count_cases(columns: Sequence[RaterColumn]) -> tuple[int, int]:
    """Return the numbers of different positive (unperturbed) and negative (planted) cases in these columns."""
    positive = np.concatenate([column.positive_case for column in columns])
    return len(np.unique(positive)), len(np.unique(np.concatenate([column.negative_case for column in columns])))


def compute_covariances(columns: Sequence[RaterColumn]) -> Floats:
    """Return DeLong's covariances of the values of k columns, shape (k, k), from the cases that the columns share.

    For two columns with s shared cases in a class, that class adds P/(s-1) * s/(m_a m_b), where P is the sum of the
    products of their influences, and m_a and m_b are their numbers of cases. A variance is NaN if a class has only one case.
    """
    total = np.zeros((len(columns), len(columns)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for cases, influences in (
            ([column.positive_case for column in columns], [column.positive for column in columns]),
            ([column.negative_case for column in columns], [column.negative for column in columns]),
        ):
            products, shared = _multiply_shared(cases, influences)
            sizes = np.diag(shared)
            # The correction s/(s-1) is undefined for a single shared case, so its product is used without it.
            class_part = products * np.where(shared > 1, shared / (shared - 1), 1) / np.outer(sizes, sizes)
            class_part = np.where(shared == 0, 0, class_part)
            class_part[np.diag_indices_from(class_part)] = np.where(sizes > 1, np.diag(class_part), np.nan)
            total += class_part
    return total


def _multiply_shared(cases: Sequence[Ints], influences: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return for each two columns the sum of products over their shared cases, and the number of these cases."""
    column = np.repeat(np.arange(len(cases)), [len(column_cases) for column_cases in cases])
    row = np.unique(np.concatenate(cases), return_inverse=True)[1]
    # Sparse matrices, because in most designs a rater reads only a small part of the items.
    values = sparse.csr_array((np.concatenate(influences), (row, column)))
    ones = sparse.csr_array((np.ones(len(row)), (row, column)))
    return (values.T @ values).toarray(), (ones.T @ ones).toarray()


def analyse_condition(columns: Sequence[RaterColumn]) -> OneCondition:
    """Return the mean of the columns' values and its standard errors; one rater has only `fixed_se`."""
    values = np.array([column.value for column in columns])
    raters, covariance = len(columns), compute_covariances(columns)
    var_error = float(np.diag(covariance).mean())
    if raters == 1:
        nan = math.nan
        return OneCondition(float(values[0]), 1, nan, nan, var_error, nan, nan, math.sqrt(var_error))
    cov2 = float(covariance[~np.eye(raters, dtype=bool)].mean())
    return analyse_components(float(values.mean()), raters, float(np.var(values, ddof=1)), cov2, var_error)


def analyse_components(mean: float, raters: int, msr: float, cov2: float, var_error: float) -> OneCondition:
    """Return the analysis of a condition with these variance components.

    New raters: SE^2 = [MSR + J max(Cov2, 0)]/J, df = [MSR + J max(Cov2, 0)]^2 / [MSR^2/(J-1)] (Hillis 2007).
    These raters: SE^2 = [VarE + (J-1) max(Cov2, 0)]/J.
    """
    # A negative estimate of the covariance arises by chance; Hillis' method sets it to 0.
    error = msr + raters * max(cov2, 0.0)
    df = math.inf if msr == 0 else error**2 / (msr**2 / (raters - 1))
    fixed_variance = (var_error + (raters - 1) * max(cov2, 0.0)) / raters
    return OneCondition(mean, raters, msr, cov2, var_error, math.sqrt(error / raters), df, math.sqrt(fixed_variance))


def estimate_mean_auc(table: Ratings, source: str | None = None, *, show_unstable: bool = False) -> list[Estimate]:
    """Return the mean area of the signed rating, errors of `source` (None: all), for new and for these raters."""
    if not table.is_binary:
        return []
    ratings, args = table.select_comparison(source)
    rows = estimate_mean_area(MEAN_AUC, ratings, ratings.signed_ratings, args, show_unstable=show_unstable)
    return list(rows)


def estimate_mean_area(
    stat: str, ratings: Ratings, scores: Floats, args: Mapping[str, str], *, show_unstable: bool = False
) -> Iterator[Estimate]:
    """Yield the mean over raters of the area of these scores, for new raters, then for these raters."""
    rater_columns, dropped = build_rater_columns(ratings, scores)
    scored = ratings.select_ratings(np.isfinite(scores) & (ratings.reference >= 0))
    positives, negatives = (int((scored.reference == reference).sum()) for reference in (1, 0))
    n = {**scored.sample_sizes, "raters_used": len(rater_columns), "raters_dropped": dropped}
    n |= {"positives": positives, "negatives": negatives}
    undefined = explain_no_area(ratings, scores)
    yield from build_mean_rows(
        stat, rater_columns, n, args, within=AREA_RANGE, undefined_reason=undefined, show_unstable=show_unstable
    )


def explain_no_area(ratings: Ratings, scores: Floats) -> str:
    """Return why no rater of this table has an area."""
    has_reference = ratings.reference >= 0
    if not has_reference.any():
        return explain_missing(ratings.reference_name, -1)
    is_scored = has_reference & np.isfinite(scores)
    if not is_scored.any():
        return "no rating with a known reference has a confidence"
    for reference in (0, 1):
        if not (is_scored & (ratings.reference == reference)).any():
            return explain_missing(ratings.reference_name, reference)
    return explain_no_rater(ratings.reference_name)


def explain_no_rater(reference_name: str) -> str:
    """Return why there is no mean over raters although both classes have ratings."""
    return f"no rater has rated both {WITHOUT_ERROR[reference_name]} and {WITH_ERROR[reference_name]} items"


def build_mean_rows(
    stat: str,
    columns: Sequence[RaterColumn],
    n: Mapping[str, int],
    args: Mapping[str, str],
    *,
    within: tuple[float, float],
    undefined_reason: str,
    show_unstable: bool = False,
) -> Iterator[Estimate]:
    """Yield the mean of the columns' values for new raters and new items, then for these raters and new items.

    `show_unstable` also gives the interval for new raters of two raters.
    """
    fixed_args = {**args, **THESE_RATERS}
    if not columns:
        yield build_estimate(stat, None, n, args, reason=undefined_reason)
        yield build_estimate(stat, None, n, fixed_args, reason=undefined_reason)
        return
    condition, left_out = analyse_condition(columns), ""
    if dropped := n.get("raters_dropped", 0):
        left_out = f"{dropped} rater{'s' * (dropped != 1)} without both unperturbed and planted items left out"
    fixed = _compute_fixed_interval(columns, condition, within) if condition.fixed_se > 0 else None
    fixed_reason = ALL_ALIKE if condition.fixed_se == 0 else "" if fixed else "a rater has one item of a class only"
    use_logit = within == AREA_RANGE and is_extreme(condition.mean)
    is_withheld = condition.raters == 2 and condition.se > 0
    if condition.raters == 1:
        interval, reason = fixed, _join_reasons(ONE_RATER, fixed_reason)
        method, fixed_method = "newcombe_score" if use_logit else "delong", "or_fixed"
    else:
        reason = TWO_RATERS if condition.raters == 2 else "" if condition.se > 0 else ALL_ALIKE
        is_given = not reason or (is_withheld and show_unstable)
        interval = compute_new_raters_interval(condition, within) if is_given else None
        method, fixed_method = ("or_hillis_logit", "or_fixed_logit") if use_logit else ("or_hillis", "or_fixed")
    row = build_estimate(stat, condition.mean, n, args, interval, method, _join_reasons(reason, left_out))
    yield row._replace(withheld=is_withheld)
    fixed_reason = _join_reasons(fixed_reason, left_out)
    yield build_estimate(stat, condition.mean, n, fixed_args, fixed, fixed_method, fixed_reason)


def compute_new_raters_interval(
    condition: OneCondition, within: tuple[float, float] = AREA_RANGE
) -> tuple[float, float]:
    """Return Hillis' interval for new raters; near 0 or 1, of the logit with at most J - 1 degrees of freedom."""
    # The distribution of a mean area near 1 is skewed: there, the coverage of t intervals was 80 to 90%.
    if within == AREA_RANGE and is_extreme(condition.mean):
        return _compute_logit_interval(condition.mean, condition.se, min(condition.df, condition.raters - 1))
    return compute_symmetric_interval(condition.mean, condition.se**2, df=condition.df, within=within)


def _compute_fixed_interval(
    columns: Sequence[RaterColumn], condition: OneCondition, within: tuple[float, float]
) -> tuple[float, float]:
    """Return the interval for these raters: normal; for an area near 0 or 1, of the logit by t or Newcombe's."""
    if within != AREA_RANGE or not is_extreme(condition.mean):
        return compute_symmetric_interval(condition.mean, condition.fixed_se**2, within=within)
    sizes = count_cases(columns)
    if condition.raters == 1:
        return compute_score_interval(condition.mean, *sizes)
    return _compute_logit_interval(condition.mean, condition.fixed_se, min(sizes) - 1)


def _compute_logit_interval(area: float, se: float, df: float) -> tuple[float, float]:
    # By the delta method, the standard error of the logit is se / (A (1 - A)).
    low, high = compute_symmetric_interval(float(logit(area)), (se / (area * (1 - area))) ** 2, df=df, within=UNBOUNDED)
    return float(expit(low)), float(expit(high))


def _join_reasons(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))
