"""Mean of raters' areas for new raters and new items: Obuchowski and Rockette (1995) with the degrees of freedom of
Hillis.

Obuchowski and Rockette, Communications in Statistics B 24:285; Hillis (2007), Statistics in Medicine 26:596. Every
rater has a figure of merit (an area, d') and, of each item, how far it moved that figure; sums over the items two
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
TWO_RATERS = "two raters only: no interval for new raters was found to hold; see the one for these raters"
AREAS, ANYWHERE = (0.0, 1.0), (-math.inf, math.inf)  # where an area and where d' can lie
ALL_ALIKE = "all raters have the same value and no variance, so there is no interval"


class Column(NamedTuple):
    """One rater in one condition: a figure of merit and how its items moved it.

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
    """A column per rater with scores of both references (1 is positive), and how many raters lack one and are dropped.

    The cases are the table's items; ratings with a NaN score are left out.
    """
    order = np.argsort(table.rater, kind="stable")
    known, reference = np.isfinite(scores) & (table.reference >= 0), table.reference
    found, dropped = [], 0
    for own in np.split(order, np.flatnonzero(np.diff(table.rater[order])) + 1) if len(table) else ():
        good, bad = own[known[own] & (reference[own] == 1)], own[known[own] & (reference[own] == 0)]
        if not len(good) or not len(bad):
            dropped += 1
            continue
        placed = delong.placements(scores[good], scores[bad])
        moved = (placed.positive - placed.area, placed.negative - placed.area)
        name = table.raters[table.rater[own[0]]]
        found.append(Column(name, placed.area, table.item[good], moved[0], table.item[bad], moved[1]))
    return found, dropped


def covariances(found: Sequence[Column]) -> Floats:
    """Covariances of the columns' values, shape (k, k), from the cases they share; NaN variances where a class has one
    case.

    DeLong's: of each class, s shared cases and their products P, P/(s-1) * s/(m_a m_b); a single shared case counts as
    its product.
    """
    total = np.zeros((len(found), len(found)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for cases, moved in (
            ([one.positive_case for one in found], [one.positive for one in found]),
            ([one.negative_case for one in found], [one.negative for one in found]),
        ):
            products, shared = _crossed(cases, moved)
            sizes = np.diag(shared)
            part = products * np.where(shared > 1, shared / (shared - 1), 1) / np.outer(sizes, sizes)
            part = np.where(shared == 0, 0, part)
            part[np.diag_indices_from(part)] = np.where(sizes > 1, np.diag(part), np.nan)
            total += part
    return total


def _crossed(cases: Sequence[Ints], moved: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Of each two columns the sum of products over shared cases and how many they share."""
    column = np.repeat(np.arange(len(cases)), [len(one) for one in cases])
    row = np.unique(np.concatenate(cases), return_inverse=True)[1]
    values = sparse.csr_array((np.concatenate(moved), (row, column)))
    ones = sparse.csr_array((np.ones(len(row)), (row, column)))
    return (values.T @ values).toarray(), (ones.T @ ones).toarray()


def one_condition(found: Sequence[Column]) -> OneCondition:
    """The raters' mean and its standard errors, from their values and covariances. One rater: no `se`, and `fixed_se` is
    that rater's."""
    values = np.array([one.value for one in found])
    raters, matrix = len(found), covariances(found)
    var_error = float(np.diag(matrix).mean())
    if raters == 1:
        return OneCondition(
            float(values[0]), 1, math.nan, math.nan, var_error, math.nan, math.nan, math.sqrt(var_error)
        )
    return of_parts(float(values.mean()), raters, float(np.var(values, ddof=1)), _off_diagonal(matrix), var_error)


def of_parts(mean: float, raters: int, msr: float, cov2: float, var_error: float) -> OneCondition:
    """SE^2 = [MSR + J max(Cov2, 0)]/J, df = [MSR + J max(Cov2, 0)]^2 / [MSR^2/(J-1)] (Hillis 2007); these raters
    only: SE^2 = [VarE + (J-1) max(Cov2, 0)]/J."""
    error = msr + raters * max(cov2, 0.0)
    df = math.inf if msr == 0 else error**2 / (msr**2 / (raters - 1))
    fixed = (var_error + (raters - 1) * max(cov2, 0.0)) / raters
    return OneCondition(mean, raters, msr, cov2, var_error, math.sqrt(error / raters), df, math.sqrt(fixed))


def _off_diagonal(matrix: Floats) -> float:
    return float(matrix[~np.eye(len(matrix), dtype=bool)].mean())


def mean_auc(table: Ratings, source: str | None = None) -> list[Estimate]:
    """Mean over raters of the area of the signed rating, the items of this error source (None: of all) against the
    right ones.

    Two rows: for new raters and new items, and (args target) for these raters and new items. Tables that are not
    binary have none.
    """
    if not table.binary:
        return []
    own = table.where(table.reference >= 0) if source is None else table.against_unperturbed(source)
    return list(mean_rows(MEAN, own, own.signed, {} if source is None else {"source": source}))


def mean_rows(stat: str, own: Ratings, scores: Floats, args: Mapping[str, str]) -> Iterator[Estimate]:
    """The two rows of the mean over raters of the area of these scores, reference 1 against reference 0."""
    found, dropped = columns(own, scores)
    scored = own.where(np.isfinite(scores) & (own.reference >= 0))
    n = {
        **scored.n,
        "raters_used": len(found),
        "raters_dropped": dropped,
        "positives": int((scored.reference == 1).sum()),
        "negatives": int((scored.reference == 0).sum()),
    }
    yield from mean_of(stat, found, n, args, within=AREAS, nothing=nothing(own, scores))


def nothing(own: Ratings, scores: Floats) -> str:
    """Why no rater of this table has an area."""
    known = own.reference >= 0
    if not known.any():
        return explain_missing(own.reference_name, -1)
    scored = known & np.isfinite(scores)
    if not scored.any():
        return "no rating with a known reference has a confidence"
    for reference in (0, 1):
        if not (scored & (own.reference == reference)).any():
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
    """The mean of the columns' values: a row for new raters and new items, and one for these raters and new items."""
    fixed_args = {**args, **THESE_RATERS}
    if not found:
        yield estimate(stat, None, n, args=args, reason=nothing)
        yield estimate(stat, None, n, args=fixed_args, reason=nothing)
        return
    one = one_condition(found)
    dropped = n.get("raters_dropped", 0)
    left = (
        f"{dropped} {'rater' if dropped == 1 else 'raters'} without both unperturbed and planted items left out"
        if dropped
        else ""
    )
    is_extreme = within == AREAS and delong.is_extreme(one.mean)
    fixed = _fixed(found, one, within) if one.fixed_se > 0 else None
    why = ALL_ALIKE if one.fixed_se == 0 else "" if fixed else "a rater has one item of a class only"
    if one.raters == 1:
        own = "newcombe_score" if is_extreme else "delong"
        yield estimate(stat, one.mean, n, args=args, interval=fixed, method=own, reason=_said(ONE_RATER, why, left))
    else:
        few = TWO_RATERS if one.raters == 2 else "" if one.se > 0 else ALL_ALIKE
        interval = None if few else new_raters(one, within)
        method = "or_hillis_logit" if is_extreme else "or_hillis"
        yield estimate(stat, one.mean, n, args=args, interval=interval, method=method, reason=_said(few, left))
    method = "or_fixed_logit" if is_extreme and one.raters > 1 else "or_fixed"
    yield estimate(stat, one.mean, n, args=fixed_args, interval=fixed, method=method, reason=_said(why, left))


def new_raters(one: OneCondition, within: tuple[float, float] = AREAS) -> tuple[float, float]:
    """Hillis' interval for new raters and new items; of an area near 1 that of its logit, with no more degrees of freedom than raters less one."""
    if within == AREAS and delong.is_extreme(one.mean):
        return _of_logit(one.mean, one.se, min(one.df, one.raters - 1))
    return around(one.mean, one.se**2, df=one.df, within=within)


def _fixed(found: Sequence[Column], one: OneCondition, within: tuple[float, float]) -> tuple[float, float]:
    """The normal interval for these raters; of an area near 1 that of its logit, with one degree of freedom less than the
    rarer class has items."""
    if within != AREAS or not delong.is_extreme(one.mean):
        return around(one.mean, one.fixed_se**2, within=within)
    classes = [[column.positive_case for column in found], [column.negative_case for column in found]]
    sizes = [len(np.unique(np.concatenate(cases))) for cases in classes]
    if one.raters == 1:
        return delong.score_interval(one.mean, sizes[0], sizes[1])
    return _of_logit(one.mean, one.fixed_se, min(sizes) - 1)


def _of_logit(area: float, se: float, df: float) -> tuple[float, float]:
    low, high = around(float(logit(area)), (se / (area * (1 - area))) ** 2, df=df, within=ANYWHERE)
    return float(expit(low)), float(expit(high))


def _said(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))
