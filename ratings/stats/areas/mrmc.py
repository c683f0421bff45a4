"""Estimate the mean of raters' areas for new raters and new items: Obuchowski and Rockette (1995) with the degrees of freedom of
Hillis.

Obuchowski and Rockette, Communications in Statistics B 24:285; Hillis (2007), Statistics in Medicine 26:596. Every
rater has a figure of merit (an area, d') and the influence of each item on it. Products of the influences of the items that two
raters share give the covariances, so readings may be missing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, logit

from ratings.stats.areas import delong
from ratings.stats.estimates import Estimate, estimate
from ratings.stats.resampling import around
from ratings.stats.table import WITH_ERROR, WITHOUT_ERROR, Floats, Ints, Ratings, explain_missing

MEAN = "mrmc_mean_auc"
THESE_RATERS = {"target": "these raters"}
ONE_RATER = "one rater: the interval is for this rater and new items"
TWO_RATERS = "only two raters: no interval for new raters is reliable; see the one for these raters"
AREAS, ANYWHERE = (0.0, 1.0), (-math.inf, math.inf)  # range of an area, and of d'
ALL_ALIKE = "all raters have the same value and no variance, so there is no interval"


class Column(NamedTuple):
    """One rater in one condition: a figure of merit and the influence of each item on it.

    positive, negative: deviations of the placements from `value`, shapes (m,) and (n,), of the cases whose indices are
    beside them. The variance of the value is var(positive)/m + var(negative)/n.
    """

    rater: str
    value: float
    positive_case: Ints
    positive: Floats
    negative_case: Ints
    negative: Floats


class OneCondition(NamedTuple):
    """J raters: mean, mean square between them, mean covariance and mean variance; standard errors and degrees of
    freedom.

    `se` and `df` are for new raters and new items, `fixed_se` for these raters and new items. NaN where undefined.
    """

    mean: float
    raters: int
    msr: float
    cov2: float
    var_error: float
    se: float
    df: float
    fixed_se: float


def columns(table: Ratings, scores: Floats) -> tuple[list[Column], int]:
    """Return a column per rater with scores of both references (1 is positive), and how many raters lack one and are dropped.

    The cases are the table's items; ratings with a NaN score are left out.
    """
    # Stable, so that the items of a rater stay in order and sums do not depend on the sort.
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
        placements = delong.placements(scores[positives], scores[negatives])
        influences = (placements.positive - placements.area, placements.negative - placements.area)
        name = table.raters[table.rater[rater_rows[0]]]
        rater_columns.append(
            Column(name, placements.area, table.item[positives], influences[0], table.item[negatives], influences[1])
        )
    return rater_columns, dropped


def covariances(found: Sequence[Column]) -> Floats:
    """Return the covariances of the columns' values, shape (k, k), from the cases they share; NaN variances where a class has one
    case.

    DeLong's: of each class, s shared cases and their products P, P/(s-1) * s/(m_a m_b).
    """
    total = np.zeros((len(found), len(found)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for cases, influences in (
            ([column.positive_case for column in found], [column.positive for column in found]),
            ([column.negative_case for column in found], [column.negative for column in found]),
        ):
            products, shared = _crossed(cases, influences)
            sizes = np.diag(shared)
            # A single shared case has no s/(s-1) correction, so its product counts as it is.
            class_part = products * np.where(shared > 1, shared / (shared - 1), 1) / np.outer(sizes, sizes)
            class_part = np.where(shared == 0, 0, class_part)
            class_part[np.diag_indices_from(class_part)] = np.where(sizes > 1, np.diag(class_part), np.nan)
            total += class_part
    return total


def _crossed(cases: Sequence[Ints], moved: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return for each two columns the sum of products over shared cases and the number of shared cases."""
    column = np.repeat(np.arange(len(cases)), [len(column_cases) for column_cases in cases])
    row = np.unique(np.concatenate(cases), return_inverse=True)[1]
    # Sparse: in most designs a rater reads a small part of the items.
    values = sparse.csr_array((np.concatenate(moved), (row, column)))
    ones = sparse.csr_array((np.ones(len(row)), (row, column)))
    return (values.T @ values).toarray(), (ones.T @ ones).toarray()


def one_condition(found: Sequence[Column]) -> OneCondition:
    """Return the raters' mean and its standard errors, from their values and covariances.

    One rater has no `se`; `fixed_se` is then that rater's.
    """
    values = np.array([column.value for column in found])
    raters, covariance = len(found), covariances(found)
    var_error = float(np.diag(covariance).mean())
    if raters == 1:
        return OneCondition(
            float(values[0]), 1, math.nan, math.nan, var_error, math.nan, math.nan, math.sqrt(var_error)
        )
    return of_parts(float(values.mean()), raters, float(np.var(values, ddof=1)), _off_diagonal(covariance), var_error)


def of_parts(mean: float, raters: int, msr: float, cov2: float, var_error: float) -> OneCondition:
    """Return SE^2 = [MSR + J max(Cov2, 0)]/J, df = [MSR + J max(Cov2, 0)]^2 / [MSR^2/(J-1)] (Hillis 2007); for these raters
    only, SE^2 = [VarE + (J-1) max(Cov2, 0)]/J.
    """
    # A negative estimate of the covariance is chance; Hillis' method sets it to 0.
    error = msr + raters * max(cov2, 0.0)
    df = math.inf if msr == 0 else error**2 / (msr**2 / (raters - 1))
    fixed_variance = (var_error + (raters - 1) * max(cov2, 0.0)) / raters
    return OneCondition(mean, raters, msr, cov2, var_error, math.sqrt(error / raters), df, math.sqrt(fixed_variance))


def _off_diagonal(matrix: Floats) -> float:
    return float(matrix[~np.eye(len(matrix), dtype=bool)].mean())


def mean_auc(table: Ratings, source: str | None = None) -> list[Estimate]:
    """Return the mean over raters of the area of the signed rating, the items of this error source (None: of all) against the
    unperturbed ones.

    Two rows: for new raters and new items, and (args target) for these raters and new items. Tables that are not
    binary have none.
    """
    if not table.binary:
        return []
    ratings = table.where(table.reference >= 0) if source is None else table.against_unperturbed(source)
    return list(mean_rows(MEAN, ratings, ratings.signed, {} if source is None else {"source": source}))


def mean_rows(stat: str, own: Ratings, scores: Floats, args: Mapping[str, str]) -> Iterator[Estimate]:
    """Yield the two rows of the mean over raters of the area of these scores, reference 1 against reference 0."""
    rater_columns, dropped = columns(own, scores)
    scored = own.where(np.isfinite(scores) & (own.reference >= 0))
    n = {
        **scored.n,
        "raters_used": len(rater_columns),
        "raters_dropped": dropped,
        "positives": int((scored.reference == 1).sum()),
        "negatives": int((scored.reference == 0).sum()),
    }
    yield from mean_of(stat, rater_columns, n, args, within=AREAS, nothing=nothing(own, scores))


def nothing(own: Ratings, scores: Floats) -> str:
    """Return why no rater of this table has an area."""
    has_reference = own.reference >= 0
    if not has_reference.any():
        return explain_missing(own.reference_name, -1)
    is_scored = has_reference & np.isfinite(scores)
    if not is_scored.any():
        return "no rating with a known reference has a confidence"
    for reference in (0, 1):
        if not (is_scored & (own.reference == reference)).any():
            return explain_missing(own.reference_name, reference)
    return explain_no_rater(own.reference_name)


def explain_no_rater(reference_name: str) -> str:
    """Return why there is no mean over raters although both classes have ratings."""
    return f"no rater has rated both {WITHOUT_ERROR[reference_name]} and {WITH_ERROR[reference_name]} items"


def mean_of(
    stat: str,
    found: Sequence[Column],
    n: Mapping[str, int],
    args: Mapping[str, str],
    *,
    within: tuple[float, float],
    nothing: str,
) -> Iterator[Estimate]:
    """Yield the mean of the columns' values: a row for new raters and new items, and one for these raters and new items."""
    fixed_args = {**args, **THESE_RATERS}
    if not found:
        yield estimate(stat, None, n, args=args, reason=nothing)
        yield estimate(stat, None, n, args=fixed_args, reason=nothing)
        return
    condition = one_condition(found)
    dropped = n.get("raters_dropped", 0)
    left_out = (
        f"{dropped} {'rater' if dropped == 1 else 'raters'} without both unperturbed and planted items left out"
        if dropped
        else ""
    )
    is_extreme = within == AREAS and delong.is_extreme(condition.mean)
    fixed_interval = _fixed(found, condition, within) if condition.fixed_se > 0 else None
    fixed_reason = (
        ALL_ALIKE if condition.fixed_se == 0 else "" if fixed_interval else "a rater has one item of a class only"
    )
    if condition.raters == 1:
        method_of_one = "newcombe_score" if is_extreme else "delong"
        yield estimate(
            stat,
            condition.mean,
            n,
            args=args,
            interval=fixed_interval,
            method=method_of_one,
            reason=_said(ONE_RATER, fixed_reason, left_out),
        )
    else:
        new_reason = TWO_RATERS if condition.raters == 2 else "" if condition.se > 0 else ALL_ALIKE
        interval = None if new_reason else new_raters(condition, within)
        method = "or_hillis_logit" if is_extreme else "or_hillis"
        yield estimate(
            stat, condition.mean, n, args=args, interval=interval, method=method, reason=_said(new_reason, left_out)
        )
    method = "or_fixed_logit" if is_extreme and condition.raters > 1 else "or_fixed"
    yield estimate(
        stat,
        condition.mean,
        n,
        args=fixed_args,
        interval=fixed_interval,
        method=method,
        reason=_said(fixed_reason, left_out),
    )


def new_raters(one: OneCondition, within: tuple[float, float] = AREAS) -> tuple[float, float]:
    """Return Hillis' interval for new raters and new items.

    Of an area near 1 that of its logit, with at most one degree of freedom less than raters.
    """
    # Near 1 the mean area is skewed: t intervals covered 80 to 90 % there.
    if within == AREAS and delong.is_extreme(one.mean):
        return _of_logit(one.mean, one.se, min(one.df, one.raters - 1))
    return around(one.mean, one.se**2, df=one.df, within=within)


def _fixed(found: Sequence[Column], one: OneCondition, within: tuple[float, float]) -> tuple[float, float]:
    """Return the normal interval for these raters.

    Of an area near 1 that of its logit, with one degree of freedom less than the rarer class has items.
    """
    if within != AREAS or not delong.is_extreme(one.mean):
        return around(one.mean, one.fixed_se**2, within=within)
    cases_by_class = [[column.positive_case for column in found], [column.negative_case for column in found]]
    sizes = [len(np.unique(np.concatenate(cases))) for cases in cases_by_class]
    if one.raters == 1:
        return delong.score_interval(one.mean, sizes[0], sizes[1])
    return _of_logit(one.mean, one.fixed_se, min(sizes) - 1)


def _of_logit(area: float, se: float, df: float) -> tuple[float, float]:
    # The standard error of the logit by the delta method: se / (A (1 - A)).
    low, high = around(float(logit(area)), (se / (area * (1 - area))) ** 2, df=df, within=ANYWHERE)
    return float(expit(low)), float(expit(high))


def _said(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))
