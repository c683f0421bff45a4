"""Differences of two shares with an interval and a p-value that agree with each other.

Ratings of one item, and ratings by one rater, are not independent. The variance of a difference therefore takes items
and raters as clusters (Cameron, Gelbach and Miller 2011, Journal of Business and Economic Statistics 29:238). What both
sides share, raters who judge both or items with a version on each side, cancels out of it. The limits are put together
from Wilson's limits of each share (Newcombe 1998, Statistics in Medicine 17:873; with correlation Zou and Donner 2008,
Statistics in Medicine 27:1693), so that they hold near 0 % and 100 % too.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t

from ratings.stats.estimates import LEVEL
from ratings.stats.proportions import wilson
from ratings.stats.table import Floats, Ints

INDEPENDENT = "no rater and no item in common, so the two are compared as independent groups"
ONE_ITEM = "a single item says nothing about other items"
LARGEST_QUANTILE = 1e3  # beyond it p is below what a double can tell from 0 in every use here


class Side(NamedTuple):
    """The answers of one side of a difference, each 0 or 1, with the item and the rater of each; shapes (n,).

    Items that are versions of one thing have the same number, on both sides. Raters have the same number on both sides.
    """

    answers: Floats
    item: Ints
    rater: Ints

    @property
    def share(self) -> float:
        return float(self.answers.mean())


class Counts(NamedTuple):
    """What a contrast rests on; items that are versions of one thing count once, shared ones are on both sides."""

    items: int
    raters: int
    ratings: int
    shared_items: int
    shared_raters: int


class Difference(NamedTuple):
    """Share of the first side less that of the second; None, with the reason, where there is none.

    `low`, `high`: the 95 % interval for new raters and new items (on a side that is one rater: for that rater). `p` is
    two-sided and below .05 where and only where the interval leaves 0 out. `df`: degrees of freedom of Student's t.
    """

    counts: Counts
    first: float | None
    second: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    df: float = math.nan
    reason: str = ""


class _Clustered(NamedTuple):
    """Variance of a weighted sum of residuals and Satterthwaite's degrees of freedom of that variance."""

    variance: float
    df: float


def compare_shares(first: Side, second: Side, deff: float = 1.0) -> Difference:
    """Return the difference of the two shares with its interval and p-value.

    `deff`: the design effect that divides n of a side whose answers are all alike, where the data show none.
    """
    counts = count_clusters(first, second)
    if not len(first.answers) or not len(second.answers):
        empty = "first" if not len(first.answers) else "second"
        values = [side.share if len(side.answers) else None for side in (first, second)]
        return Difference(counts, values[0], values[1], reason=f"no rating of the {empty}")
    shares = (first.share, second.share)
    if min(len(np.unique(side.item)) for side in (first, second)) < 2:
        return Difference(counts, *shares, reason=ONE_ITEM)
    both = _variance_of((first, second))
    limits = _Limits(shares, [_variance_of((side,)) for side in (first, second)], both, (first, second), deff)
    low, high = limits.at(float(t.ppf((1 + LEVEL) / 2, limits.df)))
    reason = "" if counts.shared_items or counts.shared_raters else INDEPENDENT
    return Difference(counts, *shares, low, high, limits.p, limits.df, reason)


def count_clusters(first: Side, second: Side) -> Counts:
    """Return how many items and raters there are on either side and on both."""
    return Counts(
        len(np.union1d(first.item, second.item)),
        len(np.union1d(first.rater, second.rater)),
        len(first.answers) + len(second.answers),
        len(np.intersect1d(first.item, second.item)),
        len(np.intersect1d(first.rater, second.rater)),
    )


class _Limits:
    """Both limits of a difference as a function of the quantile."""

    def __init__(
        self,
        shares: tuple[float, float],
        own: Sequence[_Clustered],
        both: _Clustered,
        sides: tuple[Side, Side],
        deff: float,
    ) -> None:
        self.shares = shares
        self.n = [
            _effective(share, one.variance, side, deff) for share, one, side in zip(shares, own, sides, strict=True)
        ]
        # The variances behind the effective numbers, which are never above the numbers of ratings.
        spread = [max(one.variance, share * (1 - share) / n) for one, share, n in zip(own, shares, self.n, strict=True)]
        product = math.sqrt(spread[0] * spread[1])
        covariance = (own[0].variance + own[1].variance - both.variance) / 2
        self.correlation = min(1.0, max(-1.0, covariance / product)) if product > 0 else 0.0
        least = _fewest_clusters(sides)
        # Where no rater is on both sides nothing of the raters cancels, and few raters weigh as much as in a rate.
        cancels = len(np.intersect1d(sides[0].rater, sides[1].rater)) > 0
        self.df = max(both.df, least) if cancels and math.isfinite(both.df) else least

    def at(self, quantile: float) -> tuple[float, float]:
        (a, b), difference = self.shares, self.shares[0] - self.shares[1]
        (low_a, high_a), (low_b, high_b) = (
            wilson(share, n, quantile) for share, n in zip(self.shares, self.n, strict=True)
        )
        return (
            max(-1.0, difference - self._width(a - low_a, high_b - b)),
            min(1.0, difference + self._width(high_a - a, b - low_b)),
        )

    def _width(self, first: float, second: float) -> float:
        return math.sqrt(max(0.0, first**2 + second**2 - 2 * self.correlation * first * second))

    @property
    def p(self) -> float:
        """The two-sided p-value: 1 less the level of the interval that just reaches 0."""
        difference = self.shares[0] - self.shares[1]
        if difference == 0:
            return 1.0
        end = 0 if difference > 0 else 1

        def excess(quantile: float) -> float:
            return float(self.at(quantile)[end])

        # At quantile 0 the interval is the difference itself; it grows with the quantile.
        if (excess(LARGEST_QUANTILE) > 0) == (difference > 0):
            return float(2 * t.sf(LARGEST_QUANTILE, self.df))
        return float(2 * t.sf(brentq(excess, 0.0, LARGEST_QUANTILE, xtol=1e-12), self.df))


def _effective(share: float, variance: float, side: Side, deff: float) -> float:
    """Return the effective number of ratings: p(1-p)/V, no more than there are; n / deff where all answers are alike."""
    n = len(side.answers)
    if share in (0.0, 1.0):
        return n / max(1.0, deff)
    return min(float(n), share * (1 - share) / variance) if variance > 0 else float(n)


def _variance_of(sides: Sequence[Side]) -> _Clustered:
    """Return V = V_item + V_rater - V_both, but no less than either, with Satterthwaite's degrees of freedom.

    The degrees of freedom are those of a sum of independent variances, V^2 / (V_item^2/(items-1) + V_rater^2/(raters-1))
    (Satterthwaite 1946, Biometrics Bulletin 2:110). A rater's own sum of residuals on a side that has no other rater is 0, so
    a side of one rater is about that rater.
    """
    signs = (1.0, -1.0)
    residuals = np.concatenate(
        [sign * (side.answers - side.share) / len(side.answers) for sign, side in zip(signs, sides, strict=False)]
    )
    item = np.unique(np.concatenate([side.item for side in sides]), return_inverse=True)[1]
    rater = np.unique(np.concatenate([side.rater for side in sides]), return_inverse=True)[1]
    items, raters = int(item.max()) + 1, _count_varying(sides)
    of_items = _of_clusters(residuals, item, items)
    of_raters = _of_clusters(residuals, rater, raters)
    each = np.unique(item * (int(rater.max()) + 1) + rater, return_inverse=True)[1]
    of_each = _of_clusters(residuals, each, int(each.max()) + 1) if raters > 1 else 0.0
    variance = max(of_items + of_raters - of_each, of_items, of_raters)
    below = sum(part**2 / (n - 1) for part, n in ((of_items, items), (of_raters, raters)) if n > 1)
    return _Clustered(variance, variance**2 / below if below > 0 else math.inf)


def _count_varying(sides: Sequence[Side]) -> int:
    """Return how many raters there are on sides that have several: those whose sums of residuals can differ from 0."""
    several = [raters for side in sides if len(raters := np.unique(side.rater)) > 1]
    return len(np.unique(np.concatenate(several))) if several else 0


def _of_clusters(residuals: Floats, cluster: Ints, clusters: int) -> float:
    """Return the variance of the sum of the residuals when whole clusters are drawn, g/(g-1) times the sum of squares."""
    if clusters < 2:
        return 0.0
    sums = np.bincount(cluster, weights=residuals)
    return float(clusters / (clusters - 1) * np.sum(sums**2))


def _fewest_clusters(sides: Sequence[Side]) -> float:
    """Return one less than the fewest clusters of either kind: the least degrees of freedom, and those where nothing varies."""
    items = len(np.unique(np.concatenate([side.item for side in sides])))
    raters = _count_varying(sides)
    return float(max(1, min(items, raters if raters > 1 else items) - 1))


def adjust_by_holm(p: Sequence[float | None]) -> list[float | None]:
    """Return Holm's adjusted p-values in the same order (Holm 1979, Scandinavian Journal of Statistics 6:65); None stays."""
    known = sorted((value, at) for at, value in enumerate(p) if value is not None)
    found: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, at) in enumerate(known):
        largest = max(largest, min(1.0, value * (len(known) - rank)))
        found[at] = largest
    return found
