"""Compute differences of two shares, with intervals and p-values that are consistent: p < .05 if the interval excludes 0.

Ratings of one item, and ratings by one rater, are not independent. The variance of a difference therefore treats items
and raters as clusters (Cameron, Gelbach and Miller 2011, Journal of Business and Economic Statistics 29:238). The effect of
a rater who rates both sides, or of an item that has a version on each side, cancels in the difference. The intervals are
adjusted Wald intervals, which are also reliable near 0% and 100%: one yes and one no are added to each side (Agresti and
Caffo 2000, The American Statistician 54:280). If every answer has a partner on the other side, one pair of answers that
changes in each direction is added instead (Bonett and Price 2012, Journal of Educational and Behavioral Statistics 37:479).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from ratings.stats.estimates import student_quantile
from ratings.stats.ratings_table import Floats, Ints

INDEPENDENT = "no rater and no item in common, so the two are compared as independent groups and the difference may be one between raters"
ONE_ITEM = "a single item does not show how items differ"
FEW_ITEMS_ON_A_SIDE = "fewer than three items on one side: no interval is reliable"
FEW_RATERS = "fewer than three raters on one side and others on the other: no interval is reliable"
# Least number of raters on each side, unless the same raters are on both. With two raters against six, coverage was 89%;
# with one against one, it was 48 to 81%.
MIN_RATERS = 3
MIN_ITEMS = 3  # least number of items on each side; with two against eighteen, coverage was 92%
# The variance of a difference is at least this share of the variance for independent sides. With few clusters, effects can
# cancel exactly by chance.
MIN_VARIANCE_SHARE = 0.1


class Side(NamedTuple):
    """Answers (0, 1), items and raters of one side, (n,). Versions of a thing, and a rater, have one number in both."""

    answers: Floats
    item: Ints
    rater: Ints

    @property
    def yes_share(self) -> float:
        return float(self.answers.mean())


class ContrastCounts(NamedTuple):
    """Sample sizes of a contrast: versions of one thing are one item; shared ones are on both sides."""

    items: int
    raters: int
    ratings: int
    shared_items: int
    shared_raters: int


class Difference(NamedTuple):
    """The shares of two sides, and their difference (first minus second). If a number is None, `reason` states why.

    `low`, `high`: the 95% interval for new raters and new items; a side with one rater is for that rater. `p` is two-sided,
    and below .05 exactly if the interval excludes 0. `is_paired`: whether every answer has a partner on the other side.
    """

    counts: ContrastCounts
    first: float | None
    second: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    df: float = math.nan
    is_paired: bool = False
    reason: str = ""


class _ClusteredVariance(NamedTuple):
    """The variance of a sum of residuals in sampled clusters, and Satterthwaite's degrees of freedom of it."""

    variance: float
    df: float


class _AdjustedDifference(NamedTuple):
    """The difference after answers were added to the data (the centre of the interval) and its standard error."""

    difference: float
    se: float


def compare_shares(first: Side, second: Side, deff: float = 1.0, is_rater: bool = False) -> Difference:
    """Return the difference of two shares. `deff`: if a side's answers are all alike. `is_rater`: a side is one."""
    counts = count_clusters(first, second)
    sides = (first, second)
    if not len(first.answers) or not len(second.answers):
        first_share, second_share = (side.yes_share if len(side.answers) else None for side in sides)
        empty = "first" if not len(first.answers) else "second"
        return Difference(counts, first_share, second_share, reason=f"no rating of the {empty}")
    shares = (first.yes_share, second.yes_share)
    if (fewest := min(len(np.unique(side.item)) for side in sides)) < MIN_ITEMS:
        return Difference(counts, *shares, reason=ONE_ITEM if fewest == 1 else FEW_ITEMS_ON_A_SIDE)
    sharing = "" if counts.shared_items or counts.shared_raters else INDEPENDENT
    fewest = min(len(np.unique(side.rater)) for side in sides)
    if not is_rater and fewest < MIN_RATERS and counts.shared_raters < counts.raters:
        return Difference(counts, *shares, reason="; ".join(filter(None, (sharing, FEW_RATERS))))
    clustered, changes = _compute_clustered_variance(sides), _find_pairs(sides)
    adjusted = _adjust_sides(sides, clustered, deff) if changes is None else _adjust_pairs(changes, clustered, deff)
    df, difference = _compute_degrees_of_freedom(sides, clustered), shares[0] - shares[1]
    half_width = student_quantile(df) * adjusted.se
    low, high = max(-1.0, adjusted.difference - half_width), min(1.0, adjusted.difference + half_width)
    # p uses the same centre and standard error as the interval, so that the two are consistent.
    p = float(2 * stdtr(df, -abs(adjusted.difference) / adjusted.se))
    # The added answers shift the centre of the interval, but it must still include the observed difference.
    low, high = min(low, difference), max(high, difference)
    return Difference(counts, *shares, low, high, p, df, changes is not None, sharing)


def count_clusters(first: Side, second: Side) -> ContrastCounts:
    """Return the sample sizes of two sides together, and the items and raters on both."""
    return ContrastCounts(
        len(np.union1d(first.item, second.item)),
        len(np.union1d(first.rater, second.rater)),
        len(first.answers) + len(second.answers),
        len(np.intersect1d(first.item, second.item)),
        len(np.intersect1d(first.rater, second.rater)),
    )


def _find_pairs(sides: Sequence[Side]) -> Floats | None:
    """Return the difference of each pair (same item and rater; two single raters: same item); None if one is unpaired."""
    if len(sides[0].answers) != len(sides[1].answers):
        return None
    is_single_rater = all(len(np.unique(side.rater)) == 1 for side in sides)
    keys = [np.stack([side.item, np.zeros_like(side.rater) if is_single_rater else side.rater]) for side in sides]
    orders = [np.lexsort(key) for key in keys]
    first, second = (key[:, order] for key, order in zip(keys, orders, strict=True))
    repeated = (first[:, 1:] == first[:, :-1]).all(axis=0).any()
    # If a rater has two answers to one item, the partner is ambiguous.
    if repeated or not np.array_equal(first, second):
        return None
    changes: Floats = sides[0].answers[orders[0]] - sides[1].answers[orders[1]]
    return changes


def _adjust_pairs(pairs: Floats, clustered: _ClusteredVariance, deff: float) -> _AdjustedDifference:
    """Return Bonett and Price's adjusted difference, its variance times the design effect of the clusters."""
    n, independent_variance = len(pairs), float(np.var(pairs)) / len(pairs)
    effect = max(1.0, clustered.variance / independent_variance if independent_variance > 0 else deff)
    up, down = ((float(np.sum(pairs == change)) + 1) / (n + 2) for change in (1, -1))
    return _AdjustedDifference(up - down, math.sqrt(effect * (up + down - (up - down) ** 2) / (n + 2)))


def _adjust_sides(sides: Sequence[Side], clustered: _ClusteredVariance, deff: float) -> _AdjustedDifference:
    """Return Agresti and Caffo's adjusted difference, with effective sample sizes and the clustered variance."""
    shares, independent_variance, added_variance = [], 0.0, 0.0
    for side in sides:
        n = _count_effective_ratings(side.yes_share, _compute_clustered_variance((side,)).variance, side, deff)
        share, side_variance = (n * side.yes_share + 1) / (n + 2), side.yes_share * (1 - side.yes_share) / n
        shares.append(share)
        independent_variance += side_variance
        # The increase of a side's variance due to the added answers; it must not be negative.
        added_variance += max(0.0, share * (1 - share) / (n + 2) - side_variance)
    variance = max(clustered.variance, MIN_VARIANCE_SHARE * independent_variance) + added_variance
    return _AdjustedDifference(shares[0] - shares[1], math.sqrt(variance))


def _compute_degrees_of_freedom(sides: Sequence[Side], clustered: _ClusteredVariance) -> float:
    if not math.isfinite(clustered.df):
        return _compute_least_df(sides)
    # If no rater is on both sides, the effects of raters do not cancel, and a small number of raters limits the degrees of
    # freedom, as it does for a single rate.
    if not len(np.intersect1d(sides[0].rater, sides[1].rater)):
        rater_sides = [(side,) for side in sides if len(np.unique(side.rater)) > 1]
        return min(clustered.df, sum(map(_compute_least_df, rater_sides))) if rater_sides else clustered.df
    return max(clustered.df, _compute_least_df(sides))


def _count_effective_ratings(share: float, variance: float, side: Side, deff: float) -> float:
    """Return p(1-p)/V, but at most n; n / deff if all answers are alike."""
    n = len(side.answers)
    if share in (0.0, 1.0):
        return n / max(1.0, deff)
    return min(float(n), share * (1 - share) / variance) if variance > 0 else float(n)


def _compute_clustered_variance(sides: Sequence[Side]) -> _ClusteredVariance:
    """Return the variance V = V_item + V_rater - V_both, but at least V_item and V_rater, with its degrees of freedom.

    V_both has the combinations of item and rater as clusters. The degrees of freedom are V^2 / sum of V_k^2/(clusters_k - 1)
    (Satterthwaite 1946, Biometrics Bulletin 2:110), where k runs over six groups of clusters: the items, and the raters,
    that are on the first side only, on the second side only, and on both sides.
    """
    # The sides have opposite signs, so that an effect that a cluster has on both sides cancels.
    signed = zip((1.0, -1.0), sides, strict=False)
    residuals = np.concatenate([sign * (side.answers - side.yes_share) / len(side.answers) for sign, side in signed])
    item = np.unique(np.concatenate([side.item for side in sides]), return_inverse=True)[1]
    rater = np.unique(np.concatenate([side.rater for side in sides]), return_inverse=True)[1]
    # The residuals of a side with one rater sum to 0: the variance then describes that rater, not a sample of raters.
    items, raters = int(item.max()) + 1, _count_varying_raters(sides)
    both = np.unique(item * (int(rater.max()) + 1) + rater, return_inverse=True)[1]
    item_variance = _compute_cluster_variance(residuals, item, items)
    rater_variance = _compute_cluster_variance(residuals, rater, raters)
    both_variance = _compute_cluster_variance(residuals, both, int(both.max()) + 1) if raters > 1 else 0.0
    variance = max(item_variance + rater_variance - both_variance, item_variance, rater_variance)
    side = np.repeat(np.arange(1, len(sides) + 1), [len(one.answers) for one in sides])
    clusters = ((codes, n) for codes, n in ((item, items), (rater, raters)) if n > 1)
    df_denominator = sum(_sum_squares_by_side(residuals, codes, side, n) for codes, n in clusters)
    return _ClusteredVariance(variance, variance**2 / df_denominator if df_denominator > 0 else math.inf)


def _sum_squares_by_side(residuals: Floats, cluster: Ints, side: Ints, clusters: int) -> float:
    """Return the sum of V^2 / (clusters - 1) over the clusters only on the first side, the second, or both."""
    sums = np.bincount(cluster, weights=residuals) ** 2 * clusters / (clusters - 1)
    sides_of_cluster = np.zeros(len(sums), dtype=np.int64)
    np.bitwise_or.at(sides_of_cluster, cluster, side)
    # The groups are separate so that a side with few clusters has few degrees of freedom, however many the other side has.
    groups = (sums[sides_of_cluster == sides] for sides in (1, 2, 3))
    return sum(float(group.sum()) ** 2 / max(1, len(group) - 1) for group in groups if len(group))


def _count_varying_raters(sides: Sequence[Side]) -> int:
    """Return the number of raters on sides with several raters. Only their sums of residuals can differ from 0."""
    rater_sets = [raters for side in sides if len(raters := np.unique(side.rater)) > 1]
    return len(np.unique(np.concatenate(rater_sets))) if rater_sets else 0


def _compute_cluster_variance(residuals: Floats, cluster: Ints, clusters: int) -> float:
    """Return the variance of the sum of residuals of g whole clusters: g/(g-1) sum of squared cluster sums."""
    if clusters < 2:
        return 0.0
    sums = np.bincount(cluster, weights=residuals)
    return float(clusters / (clusters - 1) * np.sum(sums**2))


def _compute_least_df(sides: Sequence[Side]) -> float:
    """Return one less than the number of items or raters, whichever is smaller, but at least 1."""
    items = len(np.unique(np.concatenate([side.item for side in sides])))
    raters = _count_varying_raters(sides)
    return float(max(1, min(items, raters if raters > 1 else items) - 1))


def adjust_by_holm(p: Sequence[float | None]) -> list[float | None]:
    """Return Holm's adjusted p-values in the same order (Holm 1979, Scandinavian Journal of Statistics 6:65); None stays None."""
    ordered = sorted((value, index) for index, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, index) in enumerate(ordered):
        # Adjusted p-values must not decrease along the order of the p-values.
        largest = max(largest, min(1.0, value * (len(ordered) - rank)))
        adjusted[index] = largest
    return adjusted
