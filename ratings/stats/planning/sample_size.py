"""Compute how many items a study needs: to show that a kappa or an area exceeds a value, or to give it a narrow interval.

Kappa: Cantor 1996, Psychological Methods 1:150, for two raters with any margins. It rests on the standard error of Fleiss,
Cohen and Everitt (1969), as the interval of kappa in the results does, so that the planned test is the one that is made. For
more raters with equal margins the variance is that of `precision.compute_kappa_variance`.

Areas: the variance of Obuchowski and McClish (1997, Statistics in Medicine 16:1529) for ratings, or Hanley and McNeil's
(1982, Radiology 143:29). For a mean over several raters, differences between raters and the correlation of their areas enter
as in Obuchowski and Rockette's model (1995, Communications in Statistics B 24:285).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from ratings.stats.estimates import normal_quantile
from ratings.stats.planning.precision import compute_kappa_variance

MAX_ITEMS = 10_000_000  # more than any study; the search ends here
OBUCHOWSKI, HANLEY = "obuchowski", "hanley"


class PlannedTest(NamedTuple):
    """The test for which the sample is planned: its level, its power, and whether it is two-sided."""

    alpha: float = 0.05
    power: float = 0.8
    is_two_sided: bool = True

    @property
    def quantiles(self) -> tuple[float, float]:
        """Return the normal quantiles of the level and of the power."""
        return normal_quantile(1 - self.alpha / (2 if self.is_two_sided else 1)), normal_quantile(self.power)


class KappaPlan(NamedTuple):
    """Assumed answers: the share of verdict 1 of each rater, the number of ratings per item, and raters' contribution.

    `second_share` differs from `share` only for two raters. `rater_variance`: variance of kappa between raters divided by
    their number, for an interval for new raters; 0 plans for these raters.
    """

    share: float
    second_share: float
    per_item: int = 2
    rater_variance: float = 0.0

    def compute_item_variance(self, kappa: float) -> float:
        """Return the large-sample variance of kappa times the number of items.

        Raises ValueError if no table of two raters with these shares has this kappa, or if raters with more ratings per item
        have different shares.
        """
        if self.per_item == 2:
            return _compute_pair_variance(self.share, self.second_share, kappa)
        if self.second_share != self.share:
            raise ValueError("raters can differ in their share only if there are two")
        if kappa < 0:
            raise ValueError("for more than two raters, kappa must be at least 0")
        return compute_kappa_variance(self.share, kappa, 1, self.per_item)


class AreaPlan(NamedTuple):
    """Assumed areas: items without an error for each one with an error, and how raters differ.

    `rater_sd`: standard deviation of the raters' true areas. `correlation`: of the estimated areas of two raters who rate the
    same items. `variance`: OBUCHOWSKI or HANLEY.
    """

    ratio: float = 1.0
    raters: int = 1
    rater_sd: float = 0.0
    correlation: float = 0.0
    variance: str = OBUCHOWSKI

    @property
    def rater_variance(self) -> float:
        """Return what the raters' differences contribute to the variance of the mean area, for any number of items."""
        return self.rater_sd**2 / self.raters

    def compute_item_variance(self, area: float) -> float:
        """Return the variance of the mean area times the number of items with an error, for these raters."""
        if self.variance == HANLEY:
            single = compute_hanley_variance(area, self.ratio)
        else:
            single = compute_obuchowski_variance(area, self.ratio)
        return single * (1 + (self.raters - 1) * self.correlation) / self.raters


def compute_obuchowski_variance(area: float, ratio: float) -> float:
    """Return .0099 exp(-a^2/2) [(5a^2 + 8) + (a^2 + 8)/ratio], a = 1.414 z(area): the variance times the items with an error.

    Obuchowski and McClish 1997, for ratings whose two distributions are normal with equal variances.
    """
    a2: float = (1.414 * normal_quantile(area)) ** 2
    return 0.0099 * math.exp(-a2 / 2) * ((5 * a2 + 8) + (a2 + 8) / ratio)


def compute_hanley_variance(area: float, ratio: float) -> float:
    """Return Hanley and McNeil's variance for large samples, times the number of items with an error."""
    # Of the m items with an error and the n = ratio * m without: [(n-1)(Q1 - A^2) + (m-1)(Q2 - A^2) + A(1-A)] / mn; for
    # large m, times m, this is Q1 - A^2 + (Q2 - A^2)/ratio.
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    return (q1 - area**2) + (q2 - area**2) / ratio


def count_items_for_test(plan: KappaPlan | AreaPlan, null: float, expected: float, test: PlannedTest) -> int | None:
    """Return the smallest n with |expected - null| >= z_alpha SE(null) + z_power SE(expected); None if none is enough.

    n counts items, for an area those with an error. SE^2 = V/n plus what the raters contribute. Raises ValueError for equal
    values.
    """
    if expected == null:
        raise ValueError("the expected value must differ from the value under the null hypothesis")
    alpha_quantile, power_quantile = test.quantiles
    null_variance, expected_variance = map(plan.compute_item_variance, (null, expected))

    def is_enough(n: int) -> bool:
        at_null, at_expected = (
            math.sqrt(variance / n + plan.rater_variance) for variance in (null_variance, expected_variance)
        )
        return alpha_quantile * at_null + power_quantile * at_expected <= abs(expected - null)

    return _find_smallest(is_enough)


def count_items_for_width(
    plan: KappaPlan | AreaPlan, expected: float, half_width: float, alpha: float = 0.05
) -> int | None:
    """Return the smallest number of items (for an area: with an error) for a normal interval of this half-width."""
    variance, quantile = plan.compute_item_variance(expected), normal_quantile(1 - alpha / 2)
    return _find_smallest(lambda n: quantile * math.sqrt(variance / n + plan.rater_variance) <= half_width)


def count_pairs_of_classes(first: float, second: float, test: PlannedTest) -> int:
    """Return the items of each class that each of two independent areas needs to differ (Hanley and McNeil 1982, table III).

    n = [z_alpha sqrt(2 V1) + z_power sqrt(V1 + V2)]^2 / (A1 - A2)^2 with V their large-sample variance for equal classes.
    Raises ValueError for equal areas.
    """
    if first == second:
        raise ValueError("the two areas must differ")
    variances = [compute_hanley_variance(area, 1) for area in (first, second)]
    alpha_quantile, power_quantile = test.quantiles
    distance = alpha_quantile * math.sqrt(2 * variances[0]) + power_quantile * math.sqrt(sum(variances))
    return math.ceil((distance / (first - second)) ** 2)


def _find_smallest(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest n of at least 2 that is enough, by bisection; None if not even MAX_ITEMS are."""
    if not is_enough(MAX_ITEMS):
        return None
    low, high = 1, MAX_ITEMS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _compute_pair_variance(share: float, second_share: float, kappa: float) -> float:
    """Return Fleiss, Cohen and Everitt's variance for one item: Cantor's Q, from both shares and kappa."""
    shares = [(1 - share, share), (1 - second_share, second_share)]
    chance = sum(a * b for a, b in zip(*shares, strict=True))
    agreement = chance + kappa * (1 - chance)
    # The four cells follow from the two shares and the agreement.
    both = (agreement - 1 + share + second_share) / 2
    cells = {(1, 1): both, (0, 0): agreement - both, (1, 0): share - both, (0, 1): second_share - both}
    if min(cells.values()) < -1e-12:
        raise ValueError(f"raters with the shares {share:g} and {second_share:g} cannot have a kappa of {kappa:g}")
    total = 0.0
    for (first, second), probability in cells.items():
        margins = shares[1][first] + shares[0][second]
        total += probability * ((first == second) - margins * (1 - kappa)) ** 2
    variance: float = (total - (kappa - chance * (1 - kappa)) ** 2) / (1 - chance) ** 2
    return variance
