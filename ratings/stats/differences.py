"""Compute differences of two shares, each with an interval and a p-value that agree with each other.

Ratings of one item, and ratings by one rater, are not independent. The variance of a difference therefore has items
and raters as clusters (Cameron, Gelbach and Miller 2011, Journal of Business and Economic Statistics 29:238). What both
sides share, raters who judge both or items with a version on each side, cancels. The intervals are adjusted
Wald intervals, which are reliable near 0% and 100% too: each side gets one more yes and one more no (Agresti and Caffo 2000, The
American Statistician 54:280); where every answer has its partner on the other side, each direction of change is added once
(Bonett and Price 2012, Journal of Educational and Behavioral Statistics 37:479).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from ratings.stats.estimates import LEVEL
from ratings.stats.quantiles import student_quantile
from ratings.stats.ratings_table import Floats, Ints

INDEPENDENT = "no rater and no item in common, so the two are compared as independent groups and the difference may be one between raters"
ONE_ITEM = "a single item does not show how items differ"
FEW_ITEMS_ON_A_SIDE = "fewer than three items on one side: no interval is reliable"
FEW_RATERS = "fewer than three raters on one side and others on the other: no interval is reliable"
# On each side, unless the same raters are on both: with two against six, coverage was 89%, with one against one 48 to 81%.
MIN_RATERS = 3
MIN_ITEMS = 3  # on each side; with two against eighteen, coverage was 92%
# Of the variance of independent sides. A smaller remainder is chance: few clusters can cancel exactly.
MIN_VARIANCE_SHARE = 0.1


class Side(NamedTuple):
    """The answers of one side of a difference, each 0 or 1, with the item and the rater of each; shapes (n,).

    Items that are versions of one thing have the same number, on both sides. Raters have the same number on both sides.
    """

    answers: Floats
    item: Ints
    rater: Ints

    @property
    def yes_share(self) -> float:
        return float(self.answers.mean())


class ContrastCounts(NamedTuple):
    """Sample sizes of a contrast; items that are versions of one thing count once, shared ones are on both sides."""

    items: int
    raters: int
    ratings: int
    shared_items: int
    shared_raters: int


class Difference(NamedTuple):
    """Share of the first side minus that of the second; None, with the reason, where there is none.

    `low`, `high`: the 95% interval for new raters and new items (on a side that is one rater: for that rater). `p` is
    two-sided and below .05 exactly where the interval excludes 0. `df`: degrees of freedom of Student's t.
    `is_paired`: whether every answer has its partner on the other side.
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
    """Variance of a weighted sum of residuals, and Satterthwaite's degrees of freedom of that variance."""

    variance: float
    df: float


class _AdjustedDifference(NamedTuple):
    """A difference with the added answers, the centre of the interval, and its standard error."""

    difference: float
    se: float


def compare_shares(first: Side, second: Side, deff: float = 1.0, is_rater: bool = False) -> Difference:
    """Return the difference of the two shares with its interval and p-value.

    `deff`: the design effect that divides n of a side whose answers are all alike, where the data show none. `is_rater`: a
    side is one rater or one machine, and the difference is for that one.
    """
    counts = count_clusters(first, second)
    sides = (first, second)
    if not len(first.answers) or not len(second.answers):
        empty = "first" if not len(first.answers) else "second"
        values = [side.yes_share if len(side.answers) else None for side in sides]
        return Difference(counts, values[0], values[1], reason=f"no rating of the {empty}")
    shares = (first.yes_share, second.yes_share)
    if (fewest := min(len(np.unique(side.item)) for side in sides)) < MIN_ITEMS:
        return Difference(counts, *shares, reason=ONE_ITEM if fewest == 1 else FEW_ITEMS_ON_A_SIDE)
    raters = [len(np.unique(side.rater)) for side in sides]
    if not is_rater and min(raters) < MIN_RATERS and counts.shared_raters < counts.raters:
        return Difference(counts, *shares, reason="; ".join(filter(None, (_describe_sharing(counts), FEW_RATERS))))
    clustered, changes = _compute_clustered_variance(sides), _find_pairs(sides)
    adjusted = _adjust_sides(sides, clustered, deff) if changes is None else _adjust_pairs(changes, clustered, deff)
    df, difference = _compute_degrees_of_freedom(sides, clustered), shares[0] - shares[1]
    half_width = student_quantile((1 + LEVEL) / 2, df) * adjusted.se
    low, high = max(-1.0, adjusted.difference - half_width), min(1.0, adjusted.difference + half_width)
    # From the same centre and standard error as the interval, so that both agree.
    p = float(2 * stdtr(df, -abs(adjusted.difference) / adjusted.se))
    # The added answers move the centre; the interval must still include the observed difference.
    low, high = min(low, difference), max(high, difference)
    return Difference(counts, *shares, low, high, p, df, changes is not None, _describe_sharing(counts))


def _describe_sharing(counts: "ContrastCounts") -> str:
    return "" if counts.shared_items or counts.shared_raters else INDEPENDENT


def count_clusters(first: Side, second: Side) -> ContrastCounts:
    """Return how many items and raters there are on either side and on both."""
    return ContrastCounts(
        len(np.union1d(first.item, second.item)),
        len(np.union1d(first.rater, second.rater)),
        len(first.answers) + len(second.answers),
        len(np.intersect1d(first.item, second.item)),
        len(np.intersect1d(first.rater, second.rater)),
    )


def _find_pairs(sides: Sequence[Side]) -> Floats | None:
    """Return the difference of each pair of answers, shape (pairs,), or None if an answer has no partner.

    Partners share item and rater, or only the item if each side is one rater, as two machines are.
    """
    if len(sides[0].answers) != len(sides[1].answers):
        return None
    is_single_rater = all(len(np.unique(side.rater)) == 1 for side in sides)
    keys = [np.stack([side.item, np.zeros_like(side.rater) if is_single_rater else side.rater]) for side in sides]
    orders = [np.lexsort(key) for key in keys]
    first, second = (key[:, order] for key, order in zip(keys, orders, strict=True))
    repeated = (first[:, 1:] == first[:, :-1]).all(axis=0).any()
    # Two answers of one rater to one item have no unique partner.
    if repeated or not np.array_equal(first, second):
        return None
    changes: Floats = sides[0].answers[orders[0]] - sides[1].answers[orders[1]]
    return changes


def _adjust_pairs(pairs: Floats, clustered: _ClusteredVariance, deff: float) -> _AdjustedDifference:
    """Return the adjusted difference of Bonett and Price; the clusters multiply its variance by their design effect."""
    n, independent_variance = len(pairs), float(np.var(pairs)) / len(pairs)
    effect = max(1.0, clustered.variance / independent_variance if independent_variance > 0 else deff)
    up, down = ((float(np.sum(pairs == change)) + 1) / (n + 2) for change in (1, -1))
    return _AdjustedDifference(up - down, math.sqrt(effect * (up + down - (up - down) ** 2) / (n + 2)))


def _adjust_sides(sides: Sequence[Side], clustered: _ClusteredVariance, deff: float) -> _AdjustedDifference:
    """Return the adjusted difference of Agresti and Caffo, with effective numbers of ratings and the clustered variance."""
    shares, independent_variance, added_variance = [], 0.0, 0.0
    for side in sides:
        n = _count_effective_ratings(side.yes_share, _compute_clustered_variance((side,)).variance, side, deff)
        share, side_variance = (n * side.yes_share + 1) / (n + 2), side.yes_share * (1 - side.yes_share) / n
        shares.append(share)
        independent_variance += side_variance
        # What the added answers contribute to the variance of a side; never less than nothing.
        added_variance += max(0.0, share * (1 - share) / (n + 2) - side_variance)
    return _AdjustedDifference(
        shares[0] - shares[1],
        math.sqrt(max(clustered.variance, MIN_VARIANCE_SHARE * independent_variance) + added_variance),
    )


def _compute_degrees_of_freedom(sides: Sequence[Side], clustered: _ClusteredVariance) -> float:
    fewest = _compute_least_df(sides)
    if not math.isfinite(clustered.df):
        return fewest
    # If no rater is on both sides, the raters do not cancel, and few of them limit the degrees of freedom as in a rate.
    if not len(np.intersect1d(sides[0].rater, sides[1].rater)):
        rater_sides = [(side,) for side in sides if len(np.unique(side.rater)) > 1]
        return min(clustered.df, sum(map(_compute_least_df, rater_sides))) if rater_sides else clustered.df
    return max(clustered.df, fewest)


def _count_effective_ratings(share: float, variance: float, side: Side, deff: float) -> float:
    """Return the effective number of ratings: p(1-p)/V, at most all of them; n / deff where all answers are alike."""
    n = len(side.answers)
    if share in (0.0, 1.0):
        return n / max(1.0, deff)
    return min(float(n), share * (1 - share) / variance) if variance > 0 else float(n)


def _compute_clustered_variance(sides: Sequence[Side]) -> _ClusteredVariance:
    """Return V = V_item + V_rater - V_both, but no less than either, with Satterthwaite's degrees of freedom.

    The degrees of freedom are those of a sum of independent variances, V^2 / sum of V_k^2/(clusters_k - 1)
    (Satterthwaite 1946, Biometrics Bulletin 2:110), k: items and raters of one side, of the other and of both.
    """
    signs = (1.0, -1.0)
    # Opposite signs: a cluster on both sides contributes its difference, so what both sides share cancels.
    residuals = np.concatenate(
        [sign * (side.answers - side.yes_share) / len(side.answers) for sign, side in zip(signs, sides, strict=False)]
    )
    item = np.unique(np.concatenate([side.item for side in sides]), return_inverse=True)[1]
    rater = np.unique(np.concatenate([side.rater for side in sides]), return_inverse=True)[1]
    # The residuals of a side with one rater sum to 0, so that side is about that rater.
    items, raters = int(item.max()) + 1, _count_varying_raters(sides)
    item_variance = _compute_cluster_variance(residuals, item, items)
    rater_variance = _compute_cluster_variance(residuals, rater, raters)
    item_rater = np.unique(item * (int(rater.max()) + 1) + rater, return_inverse=True)[1]
    item_rater_variance = (
        _compute_cluster_variance(residuals, item_rater, int(item_rater.max()) + 1) if raters > 1 else 0.0
    )
    variance = max(item_variance + rater_variance - item_rater_variance, item_variance, rater_variance)
    side = np.repeat(np.arange(1, len(sides) + 1), [len(one.answers) for one in sides])
    df_denominator = sum(
        _sum_squares_by_side(residuals, cluster, side, n) for cluster, n in ((item, items), (rater, raters)) if n > 1
    )
    return _ClusteredVariance(variance, variance**2 / df_denominator if df_denominator > 0 else math.inf)


def _sum_squares_by_side(residuals: Floats, cluster: Ints, side: Ints, clusters: int) -> float:
    """Return the sum of variance^2 / (clusters - 1) over the clusters of the first side, of the second and of both."""
    sums = np.bincount(cluster, weights=residuals) ** 2 * clusters / (clusters - 1)
    sides_of_cluster = np.zeros(len(sums), dtype=np.int64)
    np.bitwise_or.at(sides_of_cluster, cluster, side)
    # Split by side, so that a side with few clusters has few degrees of freedom however many the other has.
    parts = [
        (float(sums[sides_of_cluster == sides].sum()), int((sides_of_cluster == sides).sum())) for sides in (1, 2, 3)
    ]
    return sum(variance**2 / max(1, n - 1) for variance, n in parts if n)


def _count_varying_raters(sides: Sequence[Side]) -> int:
    """Return how many raters are on sides with several raters: those whose sums of residuals can differ from 0."""
    rater_sets = [raters for side in sides if len(raters := np.unique(side.rater)) > 1]
    return len(np.unique(np.concatenate(rater_sets))) if rater_sets else 0


def _compute_cluster_variance(residuals: Floats, cluster: Ints, clusters: int) -> float:
    """Return the variance of the sum of the residuals when whole clusters are sampled, g/(g-1) times the sum of squares."""
    if clusters < 2:
        return 0.0
    sums = np.bincount(cluster, weights=residuals)
    return float(clusters / (clusters - 1) * np.sum(sums**2))


def _compute_least_df(sides: Sequence[Side]) -> float:
    """Return one less than the smaller number of clusters: the least degrees of freedom, also used where nothing varies."""
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
