"""Compare the mean figures of merit of two conditions (multi-reader multi-case analysis, MRMC).

The method is that of Obuchowski and Rockette (1995, Communications in Statistics B 24:285) with the degrees of freedom of
Hillis (2007, Statistics in Medicine 26:596).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, stdtr, stdtrit

from ratings.stats import mrmc
from ratings.stats.estimates import NORMAL, student_quantile

MIN_CASES = 3  # least cases of each class in each condition; with two, coverage was 89 to 92%, with one 85%
MIN_RATERS = 3
# For an area near 1, the expected number of items ranked in the wrong order is the size of the smaller class times
# (1 - area). Below this number, the coverage of Student's t was 80 to 92%.
MIN_ORDER_ERRORS = 2.5
MAX_QUANTILE = 8.0  # in normal deviates: p is 1e-15 here, and Student's t with few degrees of freedom is still finite
NO_RATERS = "no rater has both unperturbed and planted items in {which}"
UNPAIRED = "no rater has read both, so the raters of the two are compared as independent groups"
FEW_COMMON = "fewer than three raters have read both, so the raters of the two are compared as independent groups"
ONE_RATER = "one rater has read both: the interval is for this rater and new items"
ONE_ALONE = "only one rater has read both, and no interval for that rater is reliable"
TWO_RATERS = "only two raters have read both: no interval for new raters is reliable"
FEW_OF_A_CLASS = "fewer than three unperturbed or planted items in one of the two: no interval is reliable"
NO_VARIANCE = "there is no variance, so there is no interval"


class TwoConditionComponents(NamedTuple):
    """Variance components of two conditions; NaN where undefined.

    `ms_interaction`: mean square of the interaction of condition and rater. `var_error`: mean variance of one figure. Mean
    covariances: `cov1` of one rater's two figures, `cov2` of two raters in one condition, `cov3` of two raters in two.
    """

    ms_interaction: float
    var_error: float
    cov1: float
    cov2: float
    cov3: float


class FTest(NamedTuple):
    """An F test on 1 and `df` degrees of freedom; `se`, p-value and 95% interval (None if there is none) of the difference."""

    se: float
    f: float
    df: float
    p: float | None = None
    low: float | None = None
    high: float | None = None

    def without_interval(self) -> "FTest":
        """Return the test without its p-value and interval."""
        return self._replace(p=None, low=None, high=None)


class TwoConditions(NamedTuple):
    """The means of two conditions and the test of their difference (first minus second).

    `raters` are compared; `dropped` were left out because they read only one condition. `parts` is None if the raters are
    compared as independent groups. `reason`: why there is no interval, or what limits its interpretation.
    """

    first: float
    second: float
    raters: int
    dropped: int
    test: FTest
    parts: TwoConditionComponents | None
    reason: str = ""


class ConditionMean(NamedTuple):
    """A condition's mean figure of merit, its standard error and degrees of freedom, and cases by class."""

    value: float
    se: float
    df: float
    sizes: tuple[int, int]

    @property
    def is_near_one(self) -> bool:
        """Return whether an area is so near 0 or 1, with so few cases, that Student's t is not reliable."""
        return mrmc.is_extreme(self.value) and min(self.sizes) * min(self.value, 1 - self.value) < MIN_ORDER_ERRORS

    def compute_limits(self, quantile: float) -> tuple[float, float]:
        """Return an area's confidence limits at this normal quantile; near 0 or 1 of the logit, or Newcombe's."""
        if mrmc.is_extreme(self.value) and (self.value in mrmc.AREA_RANGE or not self.se > 0):
            return mrmc.compute_score_interval(self.value, *self.sizes, quantile)
        # The quantile of Student's t that has the same tail probability as this normal quantile.
        half_width = (quantile if math.isinf(self.df) else -float(stdtrit(self.df, float(ndtr(-quantile))))) * self.se
        if not mrmc.is_extreme(self.value):
            return max(0.0, self.value - half_width), min(1.0, self.value + half_width)
        half_width /= self.value * (1 - self.value)
        return float(expit(logit(self.value) - half_width)), float(expit(logit(self.value) + half_width))


def compare_conditions(
    first: Sequence[mrmc.RaterColumn], second: Sequence[mrmc.RaterColumn], within: tuple[float, float] = mrmc.AREA_RANGE
) -> TwoConditions | str:
    """Return the difference of two conditions for new raters and new items, or the reason why there is none.

    `first` and `second` have one column per rater (see mrmc.build_rater_columns), with the same case numbers in both. If
    three or more raters are in both conditions, only they are used, and the others are counted as dropped. If no rater is
    in both, or only one or two are but each condition has at least three, all raters are used, as independent groups.
    Otherwise the one or two raters in both conditions are used. `within`: range of the figure of merit.
    """
    for columns, which in ((first, "the first"), (second, "the second")):
        if not columns:
            return NO_RATERS.format(which=which)
    by_rater = [{column.rater: column for column in columns} for columns in (first, second)]
    shared_raters = [name for name in by_rater[0] if name in by_rater[1]]
    dropped = len(by_rater[0].keys() | by_rater[1].keys()) - len(shared_raters)
    if not shared_raters or (len(shared_raters) < MIN_RATERS <= min(len(first), len(second))):
        comparison = _compare_independent(first, second, within, FEW_COMMON if shared_raters else UNPAIRED)
    else:
        paired_columns = [[columns_of[name] for name in shared_raters] for columns_of in by_rater]
        comparison = _compare_paired(paired_columns[0], paired_columns[1], within, dropped)
    if min(min(mrmc.count_cases(columns)) for columns in (first, second)) < MIN_CASES:
        return comparison._replace(test=comparison.test.without_interval(), reason=FEW_OF_A_CLASS)
    return comparison


def _summarise_condition(columns: Sequence[mrmc.RaterColumn]) -> ConditionMean:
    """Return the mean of one condition with its standard error and degrees of freedom."""
    condition = mrmc.analyse_condition(columns)
    sizes = mrmc.count_cases(columns)
    # The variance of a single rater's area comes from the cases alone, so the normal distribution is used (df infinite).
    if condition.raters == 1:
        return ConditionMean(condition.mean, condition.fixed_se, math.inf, sizes)
    df = min(condition.df, condition.raters - 1) if mrmc.is_extreme(condition.mean) else condition.df
    return ConditionMean(condition.mean, condition.se, df, sizes)


def _compare_paired(
    first: Sequence[mrmc.RaterColumn], second: Sequence[mrmc.RaterColumn], within: tuple[float, float], dropped: int
) -> TwoConditions:
    """Return the comparison by raters who read both conditions; the columns have them in the same order."""
    rater_count = len(first)
    values = np.array([[column.value for column in columns] for columns in (first, second)])
    matrix = mrmc.compute_covariances([*first, *second])
    within_conditions = (matrix[:rater_count, :rater_count], matrix[rater_count:, rater_count:])
    across = matrix[:rater_count, rater_count:]
    var_error, cov1 = float(np.diag(matrix).mean()), float(np.diag(across).mean())
    means = float(values[0].mean()), float(values[1].mean())
    difference = means[0] - means[1]
    summaries = _summarise_condition(first), _summarise_condition(second)
    if rater_count == 1:
        # With one rater, this is DeLong's variance of a difference of two correlated areas; there is no variance between
        # raters to add.
        variance = 2 * (var_error - cov1)
        se = math.sqrt(variance) if variance > 0 else math.nan
        test = FTest(se, math.nan, math.inf, *infer_area_difference(summaries, se, math.inf, within))
        parts = TwoConditionComponents(math.nan, var_error, cov1, math.nan, math.nan)
        return TwoConditions(*means, 1, dropped, test, parts, ONE_ALONE if test.low is None else ONE_RATER)
    off_diagonal = ~np.eye(rater_count, dtype=bool)
    cov2 = float(np.mean([part[off_diagonal].mean() for part in within_conditions]))
    cov3 = float(across[off_diagonal].mean())
    parts = TwoConditionComponents(float(np.var(values[0] - values[1], ddof=1)) / 2, var_error, cov1, cov2, cov3)
    test = compute_f_test(difference, rater_count, parts)
    if rater_count == 2:
        return TwoConditions(*means, rater_count, dropped, test.without_interval(), parts, TWO_RATERS)
    p, low, high = infer_area_difference(summaries, test.se, test.df, within)
    test = test._replace(p=p, low=low, high=high)
    return TwoConditions(*means, rater_count, dropped, test, parts, "" if test.se > 0 else NO_VARIANCE)


def compute_f_test(difference: float, raters: int, parts: TwoConditionComponents) -> FTest:
    """Return Hillis' test: D = MS(TR) + J max(Cov2 - Cov3, 0), df = D^2 / [MS(TR)^2/(J-1)], SE^2 = 2D/J."""
    denominator = parts.ms_interaction + raters * max(parts.cov2 - parts.cov3, 0.0)
    se = math.sqrt(2 * denominator / raters)
    df = math.inf if parts.ms_interaction == 0 else denominator**2 / (parts.ms_interaction**2 / (raters - 1))
    f = raters * difference**2 / 2 / denominator if denominator > 0 else math.nan
    return FTest(se, f, df, *infer_difference(difference, se, df))


def _compare_independent(
    first: Sequence[mrmc.RaterColumn], second: Sequence[mrmc.RaterColumn], within: tuple[float, float], reason: str
) -> TwoConditions:
    """Return the comparison of independent groups of raters, with Satterthwaite's degrees of freedom."""
    conditions = [mrmc.analyse_condition(columns) for columns in (first, second)]
    means = (conditions[0].mean, conditions[1].mean)
    rater_count = len({column.rater for columns in (first, second) for column in columns})
    if min(condition.raters for condition in conditions) < MIN_RATERS:
        reason += "; fewer than three raters in one of the two: no interval for new raters is reliable"
        return TwoConditions(*means, rater_count, 0, FTest(math.nan, math.nan, math.nan), None, reason)
    variance = sum(condition.se**2 for condition in conditions)
    df_denominator = sum(condition.se**4 / condition.df for condition in conditions)
    df, se = variance**2 / df_denominator if df_denominator > 0 else math.inf, math.sqrt(variance)
    summaries = _summarise_condition(first), _summarise_condition(second)
    test = FTest(se, math.nan, df, *infer_area_difference(summaries, se, df, within))
    return TwoConditions(*means, rater_count, 0, test, None, reason if se > 0 else f"{reason}; {NO_VARIANCE}")


def infer_difference(difference: float, se: float, df: float) -> tuple[float | None, float | None, float | None]:
    """Return p and the 95% interval of a difference, by Student's t or, if `df` is infinite, the normal distribution."""
    if not se > 0:
        return None, None, None
    half_width, distance = student_quantile(df) * se, -abs(difference) / se
    p = float(2 * (ndtr(distance) if math.isinf(df) else stdtr(df, distance)))
    return p, difference - half_width, difference + half_width


def infer_area_difference(
    means: tuple[ConditionMean, ConditionMean], se: float, df: float, within: tuple[float, float]
) -> tuple[float | None, float | None, float | None]:
    """Return p and the ends of the 95% interval of the difference of two means. `within`: range of the figure of merit.

    Student's t is used, unless an area is near 0 or 1 with few cases: then the limits of the two areas are combined (Zou
    and Donner 2008, Statistics in Medicine 27:1693), and p is 1 minus the level of the interval that just reaches 0.
    """
    first, second = means
    difference = first.value - second.value
    if within != mrmc.AREA_RANGE or not (first.is_near_one or second.is_near_one):
        p, low, high = infer_difference(difference, se, df)
        if low is None or high is None or within != mrmc.AREA_RANGE:
            return p, low, high
        return p, max(-1.0, low), min(1.0, high)
    if not se > 0:
        return None, None, None
    # Only a negative correlation is used, which widens the interval. With a positive correlation, the interval can become
    # narrower as its level rises, and then p could not be derived from it.
    product = first.se * second.se
    correlation = min(0.0, (first.se**2 + second.se**2 - se**2) / (2 * product)) if product > 0 else 0.0
    correlation = max(-1.0, correlation)

    def compute_reach(quantile: float, upwards: bool) -> float:
        (first_low, first_high), (second_low, second_high) = (mean.compute_limits(quantile) for mean in means)
        a, b = (first_high, second_low) if upwards else (first_low, second_high)
        a, b = abs(a - first.value), abs(b - second.value)
        return math.sqrt(a**2 + b**2 - 2 * correlation * a * b)

    low = max(-1.0, difference - compute_reach(NORMAL, False))
    high = min(1.0, difference + compute_reach(NORMAL, True))
    if difference == 0:
        return 1.0, low, high

    def compute_excess(quantile: float) -> float:
        return compute_reach(quantile, difference < 0) - abs(difference)

    # The interval does not reach 0 even at MAX_QUANTILE, so there is no root for brentq to find.
    if compute_excess(MAX_QUANTILE) <= 0:
        return float(2 * ndtr(-MAX_QUANTILE)), low, high
    return float(2 * ndtr(-brentq(compute_excess, 0.0, MAX_QUANTILE, xtol=1e-12))), low, high
