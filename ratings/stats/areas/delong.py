"""Compute the area under a ROC curve and its variance from placements (DeLong, DeLong and Clarke-Pearson 1988, Biometrics
44:837).
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm, rankdata

from ratings.stats.estimates import LEVEL
from ratings.stats.ratings_table import Bools, Floats
from ratings.stats.resampling import compute_symmetric_interval


class Placements(NamedTuple):
    """The placement of each score among the scores of the other class; a tie counts one half.

    positive: for each positive, the share of negatives below it, shape (m,). negative: for each negative, the share of
    positives above it, shape (n,). The mean of either column is the area.
    """

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
        return float(
            np.var(self.positive, ddof=1) / len(self.positive) + np.var(self.negative, ddof=1) / len(self.negative)
        )


class AreaEstimate(NamedTuple):
    """An area with its interval. `value` is None if a class is empty. If `interval` is None, `reason` states why."""

    value: float | None
    interval: tuple[float, float] | None
    positives: int
    negatives: int
    reason: str = ""
    method: str = "delong"


def compute_placements(positive: Floats, negative: Floats) -> Placements:
    """Return the placements of m positive and n negative scores, computed from midranks in O((m+n) log(m+n)).

    Raises ValueError if a class is empty.
    """
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
    """Return the area P(a positive scores more than a negative) + P(they tie)/2 with its 95% interval.

    It is the normal interval limited to the range from 0 to 1, or Newcombe's score interval if the area is near 0 or 1.
    Both treat the scores as independent, which holds for the scores of one rater.
    """
    # An area below one half is not reversed: if it were, ratings at random would seem to show skill.
    m, n = int(positive.sum()), int((~positive).sum())
    if not m or not n:
        return AreaEstimate(None, None, m, n, "one of the two classes is empty")
    placed_scores = compute_placements(scores[positive], scores[~positive])
    if reason := explain_no_interval(placed_scores.area, placed_scores.area_variance):
        return AreaEstimate(placed_scores.area, None, m, n, reason)
    if is_extreme(placed_scores.area):
        return AreaEstimate(
            placed_scores.area, compute_score_interval(placed_scores.area, m, n), m, n, method="newcombe_score"
        )
    return AreaEstimate(
        placed_scores.area,
        compute_symmetric_interval(placed_scores.area, placed_scores.area_variance, within=(0, 1)),
        m,
        n,
    )


def compute_score_interval(
    value: float, positives: int, negatives: int, quantile: float = float(norm.ppf((1 + LEVEL) / 2))
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
    if variance <= 0:
        return "all ratings tie or the variance is 0, so there is no interval"
    return ""
