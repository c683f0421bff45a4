"""Estimate shares of yes answers with their intervals: ratings as independent, and with items and raters as clusters."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from ratings.stats.estimates import LEVEL, Estimate, estimate
from ratings.stats.quantiles import NORMAL, find_student_quantile
from ratings.stats.table import Floats, Ints, Ratings

RATE = "plausibility_rate"
MEAN_CONFIDENCE = "mean_confidence"
NO_RATINGS = "there are no ratings"
CLUSTERED, PER_RATER = "wilson_cluster", "wilson_items"


class Rate(NamedTuple):
    """k of n, with the 95 % Wilson interval (no continuity correction). All None, with the reason, where n is 0.

    The interval treats ratings as independent. Ratings of one item or by one rater are not, so it is too narrow
    for statements about new raters or new items.
    """

    value: float | None
    low: float | None
    high: float | None
    k: int
    n: int
    reason: str = ""


class Clustered(NamedTuple):
    """An interval of a share whose answers are clustered; None, with the reason, where there is none.

    `deff` is the design effect, n / effective n. NaN where the answers are all alike.
    """

    interval: tuple[float, float] | None
    method: str
    deff: float
    reason: str = ""


def rate(answers: Sequence[bool]) -> Rate:
    """Return the share of True, with every answer counting equally."""
    k, n = sum(answers), len(answers)
    if n == 0:
        return Rate(None, None, None, 0, 0, NO_RATINGS)
    interval = binomtest(k, n).proportion_ci(confidence_level=LEVEL, method="wilson")
    return Rate(k / n, float(interval.low), float(interval.high), k, n)


def wilson(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's score interval (1927) of a share of n answers; n may be an effective one, the quantile normal or Student's."""
    square = quantile**2 / n
    centre = (share + square / 2) / (1 + square)
    half_width = quantile * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    # At 0 and 1 the bound equals the share; rounding must not move it off.
    return (0.0 if share == 0 else max(0.0, centre - half_width)), (
        1.0 if share == 1 else min(1.0, centre + half_width)
    )


def clustered(answers: Floats, item: Ints, rater: Ints, *, deff: float = 1.0) -> Clustered:
    """Return the interval of mean(answers) for new items and new raters, or for new items alone if all answers are one rater's.

    Variance of the mean by items and by raters, V = V_item + V_rater - V_rating (Cameron, Gelbach and Miller 2011), but
    no less than V_item or V_rater; n_eff = p(1-p)/V, no more than n; then Wilson with n_eff and Student's t with one degree of freedom
    less than the smaller number of clusters. Where all answers are alike V is 0 and n is divided by `deff` instead.
    """
    n, share = len(answers), float(answers.mean())
    one_rater = len(np.unique(rater)) == 1
    method = PER_RATER if one_rater else CLUSTERED
    # One rater's answers have items as their only clusters.
    clusters = min(len(np.unique(item)), n if one_rater else len(np.unique(rater)))
    if clusters < 2:
        return Clustered(None, method, math.nan, "a single item says nothing about other items")
    # Answers that are all alike have no variance and so no design effect of their own.
    is_constant = share in (0.0, 1.0)
    design_effect = (
        math.nan if is_constant else _variance(answers - share, item, rater, one_rater) * n / (share * (1 - share))
    )
    effective = n / max(1.0, deff if is_constant else design_effect)
    return Clustered(
        wilson(share, effective, find_student_quantile((1 + LEVEL) / 2, clusters - 1)), method, design_effect
    )


def _variance(residuals: Floats, item: Ints, rater: Ints, one_rater: bool) -> float:
    item_variance = _of_clusters(residuals, item)
    if one_rater:
        return item_variance
    rater_variance = _of_clusters(residuals, rater)
    rating_variance = _of_clusters(residuals, np.arange(len(residuals)))
    # The difference can be smaller than one of its parts, or negative, by chance.
    return max(item_variance + rater_variance - rating_variance, item_variance, rater_variance)


def _of_clusters(residuals: Floats, cluster: Ints) -> float:
    """Return the variance of the mean when whole clusters are sampled, with the correction g / (g - 1) for g clusters."""
    sums = np.bincount(np.unique(cluster, return_inverse=True)[1], weights=residuals)
    return float(len(sums) / (len(sums) - 1) * np.sum(sums**2) / len(residuals) ** 2)


class _Group(NamedTuple):
    args: Mapping[str, str]
    own: Ratings

    @property
    def answers(self) -> Floats:
        return self.own.verdict.astype(np.float64)


def rates(table: Ratings, by: str | None = "source") -> list[Estimate]:
    """Return the share of verdict 1 for each source, rater or name of a factor with ratings; `by=None`: of all of them together.

    Two rows each: the interval with items and raters as clusters, and (args interval: wilson) the one that treats ratings
    as independent. Groups in which all verdicts are alike use the design effect of the others. Tables that are not
    binary have no rates. Raises KeyError for a factor that the table does not have.
    """
    if not table.binary:
        return []
    groups = list(_groups(table, by))
    intervals = [clustered(group.answers, group.own.item, group.own.rater) for group in groups]
    shared_deff = _shared_deff(
        [(interval.deff, len(group.own)) for interval, group in zip(intervals, groups, strict=True)]
    )
    rows: list[Estimate] = []
    for group, interval in zip(groups, intervals, strict=True):
        if math.isnan(interval.deff) and interval.interval is not None:
            interval = _all_alike(group, shared_deff)
        rows += _rows(group, interval)
    return rows or [estimate(RATE, None, _counts(table), reason=NO_RATINGS)]


def _all_alike(group: _Group, shared: float) -> Clustered:
    interval = clustered(group.answers, group.own.item, group.own.rater, deff=shared)
    reason = (
        f"all verdicts are alike; the interval uses the design effect of the other groups, {shared:.1f}"
        if shared > 1
        else "all verdicts are alike; the interval treats the ratings as independent"
    )
    return interval._replace(reason=reason)


def _shared_deff(found: Sequence[tuple[float, int]]) -> float:
    """Return the mean design effect of the groups that have one, weighted by ratings; at least 1."""
    defined = [(max(1.0, deff), n) for deff, n in found if not math.isnan(deff)]
    return sum(deff * n for deff, n in defined) / sum(n for _, n in defined) if defined else 1.0


def _rows(group: _Group, found: Clustered) -> Iterator[Estimate]:
    n, args = _counts(group.own), dict(group.args)
    share = float(group.answers.mean())
    wilson_interval = wilson(share, len(group.own), NORMAL)
    yield estimate(RATE, share, n, args=args, interval=found.interval, method=found.method, reason=found.reason)
    # The usual interval in publications: shown under its own name for comparison, though too narrow for new
    # raters.
    yield estimate(RATE, share, n, args={**args, "interval": "wilson"}, interval=wilson_interval, method="wilson")


def mean_confidences(table: Ratings, by: str | None = "source") -> list[Estimate]:
    """Return the mean confidence, 1 to 5, of each group; `by=None`: of all together. Ratings without a confidence are left out.

    The variance of the mean has items and raters as clusters, as in `compute_clustered_interval`; Student's t with one degree of
    freedom less than the smaller number of clusters, limited to 1 to 5.
    """
    with_confidence = table.where(np.isfinite(table.confidence))
    rows = [_mean_confidence(group) for group in _groups(with_confidence, by)]
    return rows or [estimate(MEAN_CONFIDENCE, None, with_confidence.n, reason="no rating has a confidence")]


def _mean_confidence(group: _Group) -> Estimate:
    ratings = group.own
    mean, one_rater = float(ratings.confidence.mean()), ratings.n["raters"] == 1
    clusters = ratings.n["items"] if one_rater else min(ratings.n["items"], ratings.n["raters"])
    method = "mean_items" if one_rater else "mean_cluster"
    interval, reason = None, "a single item says nothing about other items"
    if clusters > 1:
        half_width = find_student_quantile((1 + LEVEL) / 2, clusters - 1) * math.sqrt(
            _variance(ratings.confidence - mean, ratings.item, ratings.rater, one_rater)
        )
        interval, reason = (max(1.0, mean - half_width), min(5.0, mean + half_width)), ""
        if half_width == 0:
            interval, reason = None, "all confidences are the same value, so there is no interval"
    return estimate(
        MEAN_CONFIDENCE,
        mean,
        ratings.n,
        args=group.args,
        interval=interval,
        method=method if interval else "",
        reason=reason,
    )


def weighted(table: Ratings, by: str | None = "source") -> list[Estimate]:
    """Return the same shares with every item, and with every rater, counting equally instead of every rating."""
    if not table.binary:
        return []
    reason = "beside the rate by ratings, which has the interval"
    rows = []
    for group in _groups(table, by):
        for kind, cluster in (("item", group.own.item), ("rater", group.own.rater)):
            share = _mean_of_means(group.answers, cluster)
            rows.append(estimate(f"{RATE}_{kind}_weighted", share, _counts(group.own), args=group.args, reason=reason))
    return rows


def _mean_of_means(answers: Floats, cluster: Ints) -> float:
    codes = np.unique(cluster, return_inverse=True)[1]
    return float(np.mean(np.bincount(codes, weights=answers) / np.bincount(codes)))


def _counts(table: Ratings) -> dict[str, int]:
    return {**table.n, "yes": int(np.sum(table.verdict == 1))}


def _groups(table: Ratings, by: str | None) -> Iterator[_Group]:
    if not len(table):
        return
    if by is None:
        yield _Group({}, table)
        return
    codes, names = _column(table, by)
    for code in np.unique(codes):
        yield _Group({by: names[code]}, table.where(codes == code))


def _column(table: Ratings, by: str) -> tuple[Ints, tuple[Any, ...]]:
    if by == "source":
        return table.source, table.sources
    if by == "rater":
        return table.rater, table.raters
    return table.factors[by]
