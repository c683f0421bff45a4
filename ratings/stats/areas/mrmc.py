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
from scipy.special import expit, logit

from ratings.stats.areas import delong
from ratings.stats.estimates import Estimate, build_estimate
from ratings.stats.ratings_table import WITH_ERROR, WITHOUT_ERROR, Floats, Ints, Ratings, explain_missing
from ratings.stats.resampling import compute_symmetric_interval

MEAN_AUC = "mrmc_mean_auc"
THESE_RATERS = {"target": "these raters"}
ONE_RATER = "one rater: the interval is for this rater and new items"
TWO_RATERS = "only two raters: no interval for new raters is reliable; see the one for these raters"
AREA_RANGE, UNBOUNDED = (0.0, 1.0), (-math.inf, math.inf)  # the range of an area, and the range of d'
ALL_ALIKE = "all raters have the same value and no variance, so there is no interval"


class RaterColumn(NamedTuple):
    """One rater in one condition: a figure of merit (`value`) and the influence of each item on it.

    `positive` and `negative` are the influences of the cases whose indices are in `positive_case` and `negative_case`,
    shapes (m,) and (n,); for an area, they are the deviations of the placements from `value`. The variance of `value` is
    var(positive)/m + var(negative)/n.
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
    """Return a column for each rater who has scores in both classes, and the number of raters dropped because they have not.

    Items with reference 1 are positive, those with reference 0 negative. Ratings with a NaN score are left out. The cases
    of the columns are the items of the table.
    """
    # A stable sort keeps the items of a rater in order, so that sums do not depend on the sorting algorithm.
    order = np.argsort(table.rater, kind="stable")
    is_usable, reference = np.isfinite(scores) & (table.reference >= 0), table.reference
    rater_columns, dropped = [], 0
    for rater_rows in np.split(order, np.flatnonzero(np.diff(table.rater[order])) + 1) if len(table) else ():
        positives, negatives = (
            rater_rows[is_usable[rater_rows] & (reference[rater_rows] == 1)],
            rater_rows[is_usable[rater_rows] & (reference[rater_rows] == 0)],
        )
        if not len(positives) or not len(negatives):
            dropped += 1
            continue
        placements = delong.compute_placements(scores[positives], scores[negatives])
        influences = (placements.positive - placements.area, placements.negative - placements.area)
        name = table.raters[table.rater[rater_rows[0]]]
        rater_columns.append(
            RaterColumn(
                name, placements.area, table.item[positives], influences[0], table.item[negatives], influences[1]
            )
        )
    return rater_columns, dropped


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
    """Return two matrices: for each two columns, the sum of products over their shared cases, and the number of
    these cases.
    """
    column = np.repeat(np.arange(len(cases)), [len(column_cases) for column_cases in cases])
    row = np.unique(np.concatenate(cases), return_inverse=True)[1]
    # Sparse matrices, because in most designs a rater reads only a small part of the items.
    values = sparse.csr_array((np.concatenate(influences), (row, column)))
    ones = sparse.csr_array((np.ones(len(row)), (row, column)))
    return (values.T @ values).toarray(), (ones.T @ ones).toarray()


def analyse_condition(columns: Sequence[RaterColumn]) -> OneCondition:
    """Return the mean of the columns' values and its standard errors.

    With a single rater, `se` is NaN and `fixed_se` is the standard error of that rater's value.
    """
    values = np.array([column.value for column in columns])
    raters, covariance = len(columns), compute_covariances(columns)
    var_error = float(np.diag(covariance).mean())
    if raters == 1:
        return OneCondition(
            float(values[0]), 1, math.nan, math.nan, var_error, math.nan, math.nan, math.sqrt(var_error)
        )
    return analyse_components(
        float(values.mean()), raters, float(np.var(values, ddof=1)), _average_off_diagonal(covariance), var_error
    )


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


def _average_off_diagonal(matrix: Floats) -> float:
    return float(matrix[~np.eye(len(matrix), dtype=bool)].mean())


def estimate_mean_auc(table: Ratings, source: str | None = None) -> list[Estimate]:
    """Return the mean over raters of the area of the signed rating: unperturbed items against the errors of `source`.

    If `source` is None, the errors of all sources are used. The first row is for new raters and new items, the second
    (args target) for these raters and new items. The list is empty if the table is not binary.
    """
    if not table.is_binary:
        return []
    ratings = table.select_ratings(table.reference >= 0) if source is None else table.select_against_unperturbed(source)
    return list(
        estimate_mean_area(MEAN_AUC, ratings, ratings.signed_ratings, {} if source is None else {"source": source})
    )


def estimate_mean_area(stat: str, ratings: Ratings, scores: Floats, args: Mapping[str, str]) -> Iterator[Estimate]:
    """Yield the mean over raters of the area of these scores, items with reference 1 against those with reference 0.

    The first row is for new raters, the second for these raters.
    """
    rater_columns, dropped = build_rater_columns(ratings, scores)
    scored = ratings.select_ratings(np.isfinite(scores) & (ratings.reference >= 0))
    n = {
        **scored.sample_sizes,
        "raters_used": len(rater_columns),
        "raters_dropped": dropped,
        "positives": int((scored.reference == 1).sum()),
        "negatives": int((scored.reference == 0).sum()),
    }
    yield from build_mean_rows(
        stat, rater_columns, n, args, within=AREA_RANGE, undefined_reason=explain_no_area(ratings, scores)
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
) -> Iterator[Estimate]:
    """Yield the mean of the columns' values: one row for new raters and new items, then one for these raters and new
    items.
    """
    fixed_args = {**args, **THESE_RATERS}
    if not columns:
        yield build_estimate(stat, None, n, args=args, reason=undefined_reason)
        yield build_estimate(stat, None, n, args=fixed_args, reason=undefined_reason)
        return
    condition = analyse_condition(columns)
    dropped = n.get("raters_dropped", 0)
    left_out = (
        f"{dropped} {'rater' if dropped == 1 else 'raters'} without both unperturbed and planted items left out"
        if dropped
        else ""
    )
    is_extreme = within == AREA_RANGE and delong.is_extreme(condition.mean)
    fixed_interval = _compute_fixed_interval(columns, condition, within) if condition.fixed_se > 0 else None
    fixed_reason = (
        ALL_ALIKE if condition.fixed_se == 0 else "" if fixed_interval else "a rater has one item of a class only"
    )
    if condition.raters == 1:
        method_of_one = "newcombe_score" if is_extreme else "delong"
        yield build_estimate(
            stat,
            condition.mean,
            n,
            args=args,
            interval=fixed_interval,
            method=method_of_one,
            reason=_join_reasons(ONE_RATER, fixed_reason, left_out),
        )
    else:
        new_reason = TWO_RATERS if condition.raters == 2 else "" if condition.se > 0 else ALL_ALIKE
        interval = None if new_reason else compute_new_raters_interval(condition, within)
        method = "or_hillis_logit" if is_extreme else "or_hillis"
        yield build_estimate(
            stat,
            condition.mean,
            n,
            args=args,
            interval=interval,
            method=method,
            reason=_join_reasons(new_reason, left_out),
        )
    method = "or_fixed_logit" if is_extreme and condition.raters > 1 else "or_fixed"
    yield build_estimate(
        stat,
        condition.mean,
        n,
        args=fixed_args,
        interval=fixed_interval,
        method=method,
        reason=_join_reasons(fixed_reason, left_out),
    )


def compute_new_raters_interval(
    condition: OneCondition, within: tuple[float, float] = AREA_RANGE
) -> tuple[float, float]:
    """Return Hillis' interval for new raters and new items.

    For an area near 0 or 1, it is computed for the logit and transformed back, with at most J - 1 degrees of freedom for
    J raters.
    """
    # The distribution of a mean area near 1 is skewed: there, the coverage of t intervals was 80 to 90%.
    if within == AREA_RANGE and delong.is_extreme(condition.mean):
        return _compute_logit_interval(condition.mean, condition.se, min(condition.df, condition.raters - 1))
    return compute_symmetric_interval(condition.mean, condition.se**2, df=condition.df, within=within)


def _compute_fixed_interval(
    columns: Sequence[RaterColumn], condition: OneCondition, within: tuple[float, float]
) -> tuple[float, float]:
    """Return the normal interval for these raters and new items.

    For an area near 0 or 1, it is computed for the logit by Student's t, with one degree of freedom less than the smaller
    class has items, and transformed back; a single rater's area then has Newcombe's score interval instead.
    """
    if within != AREA_RANGE or not delong.is_extreme(condition.mean):
        return compute_symmetric_interval(condition.mean, condition.fixed_se**2, within=within)
    cases_by_class = [[column.positive_case for column in columns], [column.negative_case for column in columns]]
    sizes = [len(np.unique(np.concatenate(cases))) for cases in cases_by_class]
    if condition.raters == 1:
        return delong.compute_score_interval(condition.mean, sizes[0], sizes[1])
    return _compute_logit_interval(condition.mean, condition.fixed_se, min(sizes) - 1)


def _compute_logit_interval(area: float, se: float, df: float) -> tuple[float, float]:
    # By the delta method, the standard error of the logit is se / (A (1 - A)).
    low, high = compute_symmetric_interval(float(logit(area)), (se / (area * (1 - area))) ** 2, df=df, within=UNBOUNDED)
    return float(expit(low)), float(expit(high))


def _join_reasons(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))
