"""Plan a study before it has ratings: the interval to expect for each headline number, and the power to find a difference.

Nothing is known about the answers yet, so all numbers follow from planning values, which the user can change. Variances are
those of `precision`; the correlation of two raters over all items, which is also kappa for raters with equal margins (Fleiss
and Cohen 1973, Educational and Psychological Measurement 33:613), follows from the shares in each class of items.
"""

import bisect
import math
from typing import NamedTuple

import numpy as np
from scipy.stats import nct

from ratings.stats import resampling
from ratings.stats.estimates import NORMAL, student_quantile
from ratings.stats.planning import precision, sample_size
from ratings.stats.planning.precision import Design, VarianceComponents

# Variance of kappa that one rater contributes. In simulated studies of 600 items with the planning values below it was 0.005
# to 0.008 (tests/ratings/stats/test_study_plan.py compares the intervals).
KAPPA_RATERS = 0.006
POWER = 0.8  # the power that planned differences are usually required to have


class PlanningValues(NamedTuple):
    """Assumed answers. Shares: `plausible` of items without an error rated plausible (in studies of evidence: of records rated
    sufficient), `obvious` and `subtle` of planted errors that are detected.

    `rho_item`: correlation of two raters' verdicts on one item of a class; `rho_rater`: of one rater's verdicts on two items;
    both are shares of p(1 - p). `auc`: of confidence, correct against incorrect verdicts.
    """

    plausible: float = 0.93
    obvious: float = 0.9
    subtle: float = 0.6
    rho_item: float = 0.2
    rho_rater: float = 0.05
    auc: float = 0.75


class StudyShape(NamedTuple):
    """Numbers of items without and with planted errors, of raters, and of ratings of each item (at most one per rater)."""

    unperturbed: int
    obvious: int
    subtle: int
    raters: int
    per_item: int

    @property
    def items(self) -> int:
        return self.unperturbed + self.obvious + self.subtle

    @property
    def ratings(self) -> int:
        return self.items * self.per_item

    def build_design(self, items: int) -> Design:
        return Design(self.raters, items, self.per_item)


class ExpectedNumber(NamedTuple):
    """A headline number: its planning value and the half-width of its 95% interval for new raters and new items.

    `kind` is share or number. If a number or an interval is missing, `reason` states why.
    """

    key: str
    kind: str
    value: float | None
    half_width: float | None
    reason: str = ""


class Power(NamedTuple):
    """The power to find a difference of two shares, and the smallest difference found with the power `POWER`.

    `value` is None if there are too few items or raters (`reason`); `smallest` is None if no difference is found that often.
    """

    value: float | None
    smallest: float | None
    reason: str = ""


def expect_plausibility(shape: StudyShape, values: PlanningValues) -> list[ExpectedNumber]:
    """Return the headline numbers of a study of plausibility: three shares, kappa and the AUC of confidence."""
    no_errors = "no item has {} error"
    return [
        _expect_share(
            "plausible", values.plausible, shape, shape.unperturbed, values, "every item has a planted error"
        ),
        _expect_share("obvious", values.obvious, shape, shape.obvious, values, no_errors.format("an obvious")),
        _expect_share("subtle", values.subtle, shape, shape.subtle, values, no_errors.format("a subtle")),
        expect_kappa(shape, values),
        _expect_auc(shape, values),
    ]


def expect_sufficiency(shape: StudyShape, values: PlanningValues) -> list[ExpectedNumber]:
    """Return the headline numbers of a study of evidence records: the share judged sufficient, and kappa."""
    share = _expect_share("sufficient", values.plausible, shape, shape.unperturbed, values, "there are no items")
    return [share, expect_kappa(shape, values)]


def _expect_share(
    key: str, share: float, shape: StudyShape, items: int, values: PlanningValues, no_items: str
) -> ExpectedNumber:
    if not items:
        return ExpectedNumber(key, "share", None, None, no_items)
    components = VarianceComponents(share, values.rho_item, values.rho_rater, None, None)
    half_width = precision.compute_rate_half_width(components, shape.build_design(items))
    if half_width is None:
        return ExpectedNumber(key, "share", share, None, "an interval needs at least two items")
    if half_width >= precision.HALF_SCALE["rate"]:
        return ExpectedNumber(key, "share", share, None, "the interval would be as wide as the whole scale")
    return ExpectedNumber(key, "share", share, half_width)


def expect_kappa(shape: StudyShape, values: PlanningValues) -> ExpectedNumber:
    """Return the expected mean kappa of pairs of raters over all items."""
    if not shape.items:
        return ExpectedNumber("kappa", "number", None, None, "there are no items")
    if shape.per_item < 2:
        return ExpectedNumber(
            "kappa", "number", None, None, "each item has one rating, so no two raters can agree or disagree"
        )
    share, kappa = compute_kappa(shape, values)
    components = VarianceComponents(share, values.rho_item, values.rho_rater, kappa, KAPPA_RATERS)
    half_width = precision.compute_kappa_half_width(components, shape.build_design(shape.items))
    if half_width is None:
        return ExpectedNumber("kappa", "number", kappa, None, _explain_no_interval(components, shape))
    if half_width >= precision.HALF_SCALE["kappa"]:
        return ExpectedNumber("kappa", "number", kappa, None, "the interval would be as wide as the whole scale")
    return ExpectedNumber("kappa", "number", kappa, half_width)


def _explain_no_interval(components: VarianceComponents, shape: StudyShape) -> str:
    if shape.raters < resampling.MIN_RATERS:
        return f"an interval for new raters needs at least {resampling.MIN_RATERS} raters"
    return precision.explain_no_kappa(components, shape.build_design(shape.items))


def compute_kappa(shape: StudyShape, values: PlanningValues) -> tuple[float, float]:
    """Return the share of verdicts 1 over all items, and the correlation of two raters' verdicts on an item.

    The covariance of two verdicts on one item is the variance of the class shares plus rho_item times the mean variance
    within a class; divided by p(1 - p) it is the correlation.
    """
    counts = np.array([shape.unperturbed, shape.obvious, shape.subtle], dtype=np.float64)
    weights, shares = counts / counts.sum(), np.array([values.plausible, 1 - values.obvious, 1 - values.subtle])
    mean = float(weights @ shares)
    covariance = float(weights @ (shares - mean) ** 2 + values.rho_item * (weights @ (shares * (1 - shares))))
    return mean, covariance / (mean * (1 - mean))


KAPPA_WIDTH, KAPPA_NULL, AUC_WIDTH = (
    0.1,
    0.4,
    0.05,
)  # .4: Landis and Koch 1977, Biometrics 33:159, "moderate" begins above it


class ItemsNeeded(NamedTuple):
    """How many items, with the same classes, ratings per item and raters, are needed; None: more raters are needed, or unknown.

    `kappa`: for a half-width of KAPPA_WIDTH. `kappa_test`: to show with the power `POWER` that kappa exceeds KAPPA_NULL.
    `auc`: for a half-width of AUC_WIDTH of the AUC of confidence.
    """

    kappa: int | None
    kappa_test: int | None
    auc: int | None


def count_items_needed(shape: StudyShape, values: PlanningValues) -> ItemsNeeded:
    """Return the numbers of items that kappa and the AUC of confidence need, for new raters and new items (`sample_size`)."""
    kappa_items = kappa_test = auc_items = None
    expected = expect_kappa(shape, values)
    if expected.value is not None and shape.raters >= resampling.MIN_RATERS:
        share, kappa = compute_kappa(shape, values)
        plan = sample_size.KappaPlan(share, share, shape.per_item, KAPPA_RATERS / shape.raters)
        kappa_items = sample_size.count_items_for_width(plan, kappa, KAPPA_WIDTH)
        if kappa > KAPPA_NULL:
            test = sample_size.PlannedTest(power=POWER)
            kappa_test = sample_size.count_items_for_test(plan, KAPPA_NULL, kappa, test)
    counts = _count_correct(shape, values)
    if counts and all(counts):
        correct, incorrect = counts
        inflation = 1 + (shape.per_item - 1) * values.rho_item
        area = sample_size.AreaPlan(correct / incorrect, variance=sample_size.HANLEY)
        # The positive and negative cases of this area are verdicts: their number for independent verdicts is multiplied by
        # how much ratings of one item repeat each other, and divided by the incorrect verdicts that an item has.
        verdicts = sample_size.count_items_for_width(area, values.auc, AUC_WIDTH / math.sqrt(inflation))
        auc_items = None if verdicts is None else math.ceil(verdicts * shape.items / incorrect)
    return ItemsNeeded(kappa_items, kappa_test, auc_items)


def _count_correct(shape: StudyShape, values: PlanningValues) -> tuple[int, int] | None:
    """Return the expected numbers of correct and incorrect verdicts; None if no item has an error, or every item has one."""
    if not shape.obvious + shape.subtle or not shape.unperturbed:
        return None
    by_class = (
        (shape.unperturbed, values.plausible), (shape.obvious, values.obvious), (shape.subtle, values.subtle)
    )  # fmt: skip
    correct = round(shape.per_item * sum(items * share for items, share in by_class))
    return correct, shape.ratings - correct


def _expect_auc(shape: StudyShape, values: PlanningValues) -> ExpectedNumber:
    counts = _count_correct(shape, values)
    if counts is None:
        reason = "correct and incorrect verdicts are known only with items that have a planted error and items that have none"
        return ExpectedNumber("auc", "number", None, None, reason)
    correct, incorrect = counts
    if not correct or not incorrect:
        return ExpectedNumber("auc", "number", values.auc, None, "all verdicts would be alike")
    variance = precision.compute_auc_variance(values.auc, correct, incorrect, shape.per_item, values.rho_item)
    half_width = NORMAL * math.sqrt(variance)
    if half_width >= precision.HALF_SCALE["auc"]:
        return ExpectedNumber("auc", "number", values.auc, None, "the interval would be as wide as the whole scale")
    return ExpectedNumber("auc", "number", values.auc, half_width)


def compute_power(shape: StudyShape, values: PlanningValues, difference: float) -> Power:
    """Return the power to find that two sources, each with half of the items without an error, differ by `difference`.

    The first source is rated plausible in the share of the planning values, the second less often. The same raters rate both,
    so the differences between raters cancel. The test is that of `ratings.stats.differences`, two-sided at 5%: its power is
    that of a noncentral t distribution.
    """
    items = shape.unperturbed // 2
    if items < 3:
        return Power(None, None, "each of the two sources needs at least three items")
    if shape.raters < resampling.MIN_RATERS:
        return Power(None, None, f"at least {resampling.MIN_RATERS} raters are needed")
    return Power(_compute_power(shape, values, items, difference), _find_smallest_difference(shape, values, items))


def _find_smallest_difference(shape: StudyShape, values: PlanningValues, items: int) -> float | None:
    """Return the smallest difference, in steps of 0.001, that is found with the power `POWER`; None if there is none."""
    steps = range(1, math.floor(1000 * values.plausible) + 1)
    # Power increases with the difference, so that a bisection finds the first step.
    first = bisect.bisect_left(steps, True, key=lambda step: _compute_power(shape, values, items, step / 1000) >= POWER)
    return steps[first] / 1000 if first < len(steps) else None


def _compute_power(shape: StudyShape, values: PlanningValues, items: int, difference: float) -> float:
    n = items * shape.per_item
    effective = n / (1 + (shape.per_item - 1) * values.rho_item)
    # One answer of each kind is added to each side, as in the interval of a difference.
    first, second = (
        (share * effective + 1) / (effective + 2) for share in (values.plausible, values.plausible - difference)
    )
    variances = [share * (1 - share) / (effective + 2) for share in (first, second)]
    # What the differences between raters contribute cancels only as far as it is the same on both sides.
    deviations = [math.sqrt(share * (1 - share)) for share in (first, second)]
    by_raters = values.rho_rater * (deviations[0] - deviations[1]) ** 2 / shape.raters
    variance = sum(variances) + by_raters
    # Satterthwaite's degrees of freedom; the groups of clusters are the items of each side, and the raters of both.
    independent = by_raters + sum(effective / n * part for part in variances)
    squares = sum(part**2 for part in variances) / (items - 1) + independent**2 / (shape.raters - 1)
    df = max(variance**2 / squares, min(2 * items, shape.raters) - 1)
    critical, shift = student_quantile(df), (first - second) / math.sqrt(variance)
    return float(nct.sf(critical, df, shift) + nct.cdf(-critical, df, shift))
