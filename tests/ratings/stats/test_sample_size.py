"""Sample sizes against published tables and programs, and by hand."""

import math

import pytest
from scipy.stats import norm

from ratings.stats.planning.precision import compute_auc_variance, compute_kappa_variance
from ratings.stats.planning.sample_size import (
    HANLEY,
    AreaPlan,
    KappaPlan,
    PlannedTest,
    compute_hanley_variance,
    compute_obuchowski_variance,
    count_items_for_test,
    count_items_for_width,
    count_pairs_of_classes,
)

ONE_SIDED = PlannedTest(is_two_sided=False)


def test_items_for_kappa_equal_the_published_example_of_cantors_method() -> None:
    # R package irr (0.84.1), N.cohen.kappa(0.5, 0.5, k1 = 0.7, k0 = 0.85): 96 items, one-sided 5%, 80% power.
    assert count_items_for_test(KappaPlan(0.5, 0.5), 0.85, 0.7, ONE_SIDED) == 96


def test_items_for_kappa_of_raters_with_equal_halves_follow_by_hand() -> None:
    # With shares of 1/2 the variance for one item is 1 - kappa^2: .84 at .4 and .64 at .6.
    # (1.6449 sqrt(.84) + .8416 sqrt(.64))^2 / .2^2 = (1.50754 + .67330)^2 / .04 = 118.9
    plan = KappaPlan(0.5, 0.5)
    assert plan.compute_item_variance(0.4) == pytest.approx(0.84)
    assert plan.compute_item_variance(0.6) == pytest.approx(0.64)
    assert count_items_for_test(plan, 0.4, 0.6, ONE_SIDED) == 119
    # Half-width .1: 1.96^2 * .64 / .01 = 245.9
    assert count_items_for_width(plan, 0.6, 0.1) == 246


def test_items_for_kappa_of_no_agreement_depend_on_no_share() -> None:
    # Under independence the variance for one item with equal shares is 1: p_e/(1 - p_e) - ... = 1 (Fleiss et al. 1969).
    for share in (0.1, 0.3, 0.5):
        assert KappaPlan(share, share).compute_item_variance(0.0) == pytest.approx(1)


@pytest.mark.parametrize("kappa", [0.2, 0.5, 0.8])
def test_variance_of_two_raters_equals_that_of_the_planner(kappa: float) -> None:
    assert KappaPlan(0.3, 0.3).compute_item_variance(kappa) == pytest.approx(compute_kappa_variance(0.3, kappa, 1, 2))


def test_raters_with_different_shares_have_the_variance_of_their_table() -> None:
    # 50 items: both yes 20, both no 15, 5 and 10 differ, so shares .5 (rows) and .6 (columns), kappa .4 (SE .1265 by
    # Fleiss, Cohen and Everitt from the four cells).
    cells = {(1, 1): 20 / 50, (1, 0): 5 / 50, (0, 1): 10 / 50, (0, 0): 15 / 50}
    rows, columns, kappa = (0.5, 0.5), (0.4, 0.6), 0.4
    spread = sum(p * ((a == b) - (columns[a] + rows[b]) * (1 - kappa)) ** 2 for (a, b), p in cells.items())
    expected = (spread - (kappa - 0.5 * (1 - kappa)) ** 2) / 0.5**2
    assert KappaPlan(0.5, 0.6).compute_item_variance(kappa) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"cannot have a kappa of 0\.9"):
        KappaPlan(0.2, 0.6).compute_item_variance(0.9)


def test_more_raters_per_item_need_fewer_items_and_equal_shares() -> None:
    two, four = (count_items_for_test(KappaPlan(0.3, 0.3, raters), 0.4, 0.6, PlannedTest()) for raters in (2, 4))
    assert four < two
    with pytest.raises(ValueError, match="only if there are two"):
        KappaPlan(0.3, 0.4, 3).compute_item_variance(0.5)


def test_no_number_of_items_is_enough_if_raters_differ_too_much() -> None:
    # 1.96 * sqrt(.006/3) = .0877 remains with any number of items.
    plan = KappaPlan(0.3, 0.3, 3, rater_variance=0.006 / 3)
    assert count_items_for_width(plan, 0.5, 0.08) is None
    assert count_items_for_width(plan, 0.5, 0.1) > count_items_for_width(plan._replace(rater_variance=0), 0.5, 0.1)


@pytest.mark.parametrize(("power", "published"), [(0.8, 652), (0.9, 897), (0.95, 1131)])
def test_items_to_compare_two_areas_equal_hanley_and_mcneils_table(power: float, published: int) -> None:
    # Hanley and McNeil 1982, Radiology 143:29, table III, areas .70 and .75, one-sided 5%; quantiles with two decimals there.
    assert abs(count_pairs_of_classes(0.70, 0.75, PlannedTest(0.05, power, False)) - published) <= 2


def test_hanley_variance_for_large_samples_is_the_limit_of_that_of_the_planner() -> None:
    m = 10**7
    assert compute_auc_variance(0.8, 2 * m, m) * m == pytest.approx(compute_hanley_variance(0.8, 2), rel=1e-6)


@pytest.mark.parametrize(("area", "power"), [(0.7313686, 0.9904833), (0.73, 0.9897453)])
def test_power_of_one_area_equals_the_published_one_of_another_program(area: float, power: float) -> None:
    # R package pROC, tests of power.roc.test: 41 cases, 72 controls, two-sided 5%, null area .5 (Obuchowski and McClish).
    null, expected = (compute_obuchowski_variance(one, 72 / 41) for one in (0.5, area))
    distance = (area - 0.5) * math.sqrt(41) - norm.ppf(0.975) * math.sqrt(null)
    assert norm.cdf(distance / math.sqrt(expected)) == pytest.approx(power, abs=1e-6)
    # 41 cases are therefore enough for a slightly lower power, and 40 are not for a slightly higher one.
    plan = AreaPlan(ratio=72 / 41)
    assert count_items_for_test(plan, 0.5, area, PlannedTest(power=power - 1e-4)) <= 41
    assert count_items_for_test(plan, 0.5, area, PlannedTest(power=power + 1e-4)) > 41


def test_obuchowski_variance_at_one_half_follows_by_hand() -> None:
    # a = 0: .0099 * (8 + 8/r): with one item without an error for each with one, .1584
    assert compute_obuchowski_variance(0.5, 1) == pytest.approx(0.1584)


def test_several_raters_divide_the_items_unless_their_areas_are_correlated() -> None:
    one = AreaPlan(variance=HANLEY).compute_item_variance(0.8)
    assert AreaPlan(raters=4, variance=HANLEY).compute_item_variance(0.8) == pytest.approx(one / 4)
    assert AreaPlan(raters=4, correlation=1, variance=HANLEY).compute_item_variance(0.8) == pytest.approx(one)
    # (1 + 3/2)/4 = .625
    half = AreaPlan(raters=4, correlation=0.5, rater_sd=0.04, variance=HANLEY)
    assert half.compute_item_variance(0.8) == pytest.approx(0.625 * one)
    assert half.rater_variance == pytest.approx(0.0004)
    # 1.96 * .02 = .0392: a half-width of .03 cannot be reached with four such raters.
    assert count_items_for_width(half, 0.8, 0.03) is None


def test_equal_values_cannot_be_distinguished_by_any_sample() -> None:
    for call in (
        lambda: count_items_for_test(AreaPlan(), 0.7, 0.7, PlannedTest()),
        lambda: count_pairs_of_classes(0.7, 0.7, PlannedTest()),
    ):
        with pytest.raises(ValueError, match="must differ"):
            call()
