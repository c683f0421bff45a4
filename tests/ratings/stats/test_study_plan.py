import functools
import math

import numpy as np
import pytest
from scipy.stats import norm

from ratings.stats.differences import Side, compare_shares
from ratings.stats.planning import precision, study_plan
from ratings.stats.planning.precision import Design, VarianceComponents
from ratings.stats.planning.study_plan import PlanningValues, StudyShape
from ratings.stats.rater_pairs import tabulate_pairs
from ratings.stats.ratings_table import RatingRecord, build_ratings_table
from tests.ratings.stats.test_precision import find_latent_correlation

VALUES = PlanningValues(plausible=0.9)
get_latent_correlation = functools.cache(find_latent_correlation)


def draw_verdicts(
    shares: np.ndarray, values: PlanningValues, raters: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return verdicts, (items, raters): a threshold on the sum of an item's, a rater's and a rating's normal deviate."""
    by_share = {share: [get_latent_correlation(share, rho) for rho in (values.rho_item, values.rho_rater)] for share in set(shares)}  # fmt: skip
    item, rater = np.array([by_share[share] for share in shares]).T[:, :, None]
    deviate = np.sqrt(item) * rng.standard_normal((len(shares), 1)) + np.sqrt(rater) * raters
    deviate = deviate + np.sqrt(1 - item - rater) * rng.standard_normal((len(shares), raters.shape[1]))
    return deviate < norm.ppf(shares)[:, None]


def test_planned_kappa_equals_the_one_computed_by_hand() -> None:
    # Half of the items are rated plausible by 0.9, a quarter each by 0.1 and 0.4: p = 0.575.
    # Variance of these shares: 0.5 * 0.325^2 + 0.25 * 0.475^2 + 0.25 * 0.175^2 = 0.116875
    # Within the classes: 0.2 * (0.5 * 0.09 + 0.25 * 0.09 + 0.25 * 0.24) = 0.0255; p(1-p) = 0.244375
    share, kappa = study_plan.compute_kappa(StudyShape(20, 10, 10, 3, 3), VALUES)
    assert share == pytest.approx(0.575)
    assert kappa == pytest.approx((0.116875 + 0.0255) / 0.244375)


def test_planned_kappa_and_its_interval_agree_with_simulated_studies() -> None:
    rng, kappas = np.random.default_rng(1), []
    shares = np.repeat([0.9, 0.1, 0.4], [30, 15, 15])
    for _ in range(150):
        yes = draw_verdicts(shares, VALUES, rng.standard_normal((1, 6)), rng)
        rows = [RatingRecord(str(i), str(j), int(yes[i, j])) for i in range(60) for j in range(6)]
        kappas.append(np.nanmean(tabulate_pairs(build_ratings_table(rows)).cohen_kappa))
    planned = study_plan.expect_kappa(StudyShape(30, 15, 15, 6, 6), VALUES)
    assert planned.value == pytest.approx(np.mean(kappas), abs=0.02)
    assert planned.half_width == pytest.approx(1.96 * np.std(kappas, ddof=1), rel=0.25)


# Power is checked on shapes and differences that were not used to choose the formula.
@pytest.mark.parametrize(
    ("items", "raters", "per_item", "difference"),
    [(40, 8, 3, 0.2), (25, 3, 3, 0.3), (60, 12, 2, 0.15), (15, 6, 6, 0.25)],
)
def test_planned_power_agrees_with_the_test_of_the_results_in_simulated_studies(
    items: int, raters: int, per_item: int, difference: float
) -> None:
    rng, found, studies = np.random.default_rng([items, raters]), 0, 400
    rated = [(i, (i * per_item + turn) % raters) for i in range(items) for turn in range(per_item)]
    item, rater = np.array(rated).T
    for _ in range(studies):
        deviates = rng.standard_normal((1, raters))
        sides = []
        for number, share in enumerate((VALUES.plausible, VALUES.plausible - difference)):
            yes = draw_verdicts(np.full(items, share), VALUES, deviates, rng)
            sides.append(Side(yes[item, rater].astype(np.float64), item + number * items, rater))
        result = compare_shares(*sides)
        found += result.p is not None and result.p < 0.05
    planned = study_plan.compute_power(StudyShape(2 * items, 0, 0, raters, per_item), VALUES, difference).value
    # Three standard errors of a share of 400 near 0.7 are 0.07.
    assert planned == pytest.approx(found / studies, abs=0.07)


def test_planned_smallest_difference_has_the_power_of_80_percent() -> None:
    shape = StudyShape(100, 0, 0, 6, 3)
    smallest = study_plan.compute_power(shape, VALUES, 0.1).smallest
    assert smallest is not None
    assert study_plan.compute_power(shape, VALUES, smallest).value >= 0.8
    assert study_plan.compute_power(shape, VALUES, smallest - 0.001).value < 0.8


def test_planned_shares_have_the_half_width_of_the_results() -> None:
    rows = {row.key: row for row in study_plan.expect_plausibility(StudyShape(40, 0, 10, 5, 3), VALUES)}
    components = VarianceComponents(0.6, 0.2, 0.05, None, None)
    expected = precision.compute_rate_half_width(components, Design(5, 10, 3))
    assert rows["subtle"].half_width == pytest.approx(expected)
    assert (rows["obvious"].value, rows["obvious"].reason) == (None, "no item has an obvious error")


def test_planned_auc_uses_the_numbers_of_correct_and_incorrect_verdicts() -> None:
    # 3 ratings of 20, 10 and 10 items: 3 * (18 + 9 + 6) = 99 correct and 21 incorrect
    rows = {row.key: row for row in study_plan.expect_plausibility(StudyShape(20, 10, 10, 3, 3), VALUES)}
    variance = precision.compute_auc_variance(0.75, 99, 21, 3, 0.2)
    assert rows["auc"].half_width == pytest.approx(1.96 * math.sqrt(variance), rel=1e-4)


@pytest.mark.parametrize(
    ("shape", "value", "reason"),
    [
        (StudyShape(20, 10, 10, 4, 1), None, "each item has one rating"),
        (StudyShape(20, 10, 10, 2, 2), 0.5826, "an interval for new raters needs at least 3 raters"),
        (StudyShape(0, 0, 0, 3, 3), None, "there are no items"),
    ],
)
def test_design_that_cannot_measure_agreement_has_a_reason(shape: StudyShape, value: float | None, reason: str) -> None:
    planned = study_plan.expect_kappa(shape, VALUES)
    assert planned.half_width is None
    assert planned.value == (None if value is None else pytest.approx(value, abs=1e-4))
    assert planned.reason.startswith(reason)


def test_sufficiency_is_planned_without_planted_errors() -> None:
    rows = study_plan.expect_sufficiency(StudyShape(30, 0, 0, 4, 2), PlanningValues(plausible=0.7, rho_item=0.45))
    assert [row.key for row in rows] == ["sufficient", "kappa"]
    # In one class, the correlation of two raters is the planning value itself.
    assert rows[1].value == pytest.approx(0.45)


def test_power_needs_three_items_of_each_source_and_three_raters() -> None:
    assert "three items" in study_plan.compute_power(StudyShape(5, 0, 0, 3, 3), VALUES, 0.2).reason
    assert "3 raters" in study_plan.compute_power(StudyShape(50, 0, 0, 2, 2), VALUES, 0.2).reason


def test_items_needed_give_the_planned_half_widths() -> None:
    shape, values = StudyShape(60, 30, 30, 12, 4), PlanningValues()
    needed = study_plan.count_items_needed(shape, values)

    def expect(key: str, factor: float):
        counts = (round(factor * count) for count in shape[:3])
        rows = study_plan.expect_plausibility(StudyShape(*counts, shape.raters, shape.per_item), values)
        return next(row for row in rows if row.key == key)

    # With so many items of the same mix the half-widths on the page are the targets.
    assert expect("kappa", needed.kappa / shape.items).half_width == pytest.approx(study_plan.KAPPA_WIDTH, abs=0.002)
    assert expect("auc", needed.auc / shape.items).half_width == pytest.approx(study_plan.AUC_WIDTH, abs=0.002)


def test_items_needed_are_unknown_where_more_raters_or_other_items_are_needed() -> None:
    # Three raters: 1.96 sqrt(.006/3) = .088 leaves little for the items; two raters have no interval at all.
    few = study_plan.count_items_needed(StudyShape(60, 30, 30, 3, 3), PlanningValues())
    many = study_plan.count_items_needed(StudyShape(60, 30, 30, 12, 3), PlanningValues())
    assert few.kappa > many.kappa
    assert study_plan.count_items_needed(StudyShape(60, 30, 30, 2, 2), PlanningValues())[:2] == (None, None)
    assert study_plan.count_items_needed(StudyShape(60, 0, 0, 12, 3), PlanningValues()).auc is None
    # Kappa of items of one class is rho_item, .2, so that it does not exceed .4.
    assert study_plan.count_items_needed(StudyShape(60, 0, 0, 12, 3), PlanningValues()).kappa_test is None
