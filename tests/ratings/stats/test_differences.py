"""Differences of two shares: by hand where that can be done, and their coverage in simulated worlds."""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import false_discovery_control, t

from ratings.stats.differences import (
    FEW_ITEMS_ON_A_SIDE,
    FEW_RATERS,
    INDEPENDENT,
    ONE_ITEM,
    Side,
    adjust_by_holm,
    compare_shares,
)


def build_side(answers, items, raters) -> Side:
    return Side(np.array(answers, dtype=float), np.array(items), np.array(raters))


def build_independent_side(answers, first_item) -> Side:
    """Return a side with one rating per item, each by a different rater."""
    places = np.arange(len(answers)) + first_item
    return build_side(answers, places, places)


def test_difference_of_independent_ratings_has_the_interval_of_agresti_and_caffo() -> None:
    # 56/70 less 48/80 with one more yes and no each: 57/72 - 49/82 = 0.1941, its variance 57*15/72^3 + 49*33/82^3 = 0.005223,
    # so 0.0525 to 0.3358. Ours has Student's t and variances with g/(g-1), which differ little with 150 raters.
    first, second = (
        build_independent_side([1] * k + [0] * (n - k), start) for k, n, start in ((56, 70, 0), (48, 80, 1000))
    )
    found = compare_shares(first, second)
    assert found.first == 0.8 and found.second == pytest.approx(0.6)
    assert (found.low, found.high) == (pytest.approx(0.0525, abs=5e-3), pytest.approx(0.3358, abs=5e-3))
    assert found.counts == (150, 150, 150, 0, 0) and found.reason == INDEPENDENT


def test_difference_has_a_narrower_interval_if_both_sides_share_items_and_raters() -> None:
    # Ten items that each rater rates in both versions; the second is called once less, by rater 0 on item 0.
    items, raters = np.repeat(np.arange(10), 4), np.tile(np.arange(4), 10)
    answers = (items < 7).astype(float)
    fewer = answers.copy()
    fewer[0] = 0
    paired = compare_shares(Side(answers, items, raters), Side(fewer, items, raters))
    apart = compare_shares(Side(answers, items, raters), Side(fewer, items + 100, raters + 100))
    assert paired.first - paired.second == pytest.approx(1 / 40)
    assert paired.high - paired.low < 0.6 * (apart.high - apart.low)
    assert (paired.counts.shared_items, paired.counts.shared_raters, paired.reason) == (10, 4, "")


@pytest.mark.parametrize(("items", "raters", "paired"), [((15, 15), 3, False), ((3, 18), 6, False), ((4, 4), 3, True)])
def test_p_value_of_a_difference_is_below_5_percent_exactly_if_the_interval_excludes_0(items, raters, paired) -> None:
    rng = np.random.default_rng(4)
    seen = set()
    for _ in range(400):
        sides = []
        for at, (count, share) in enumerate(zip(items, rng.uniform(0.02, 0.98, 2), strict=True)):
            item, rater = np.repeat(np.arange(count), raters), np.tile(np.arange(raters), count)
            answers = (rng.random(len(item)) < share).astype(float)
            sides.append(Side(answers, item if paired else item + 100 * at, rater))
        found = compare_shares(*sides)
        assert 0 < found.p <= 1 and found.low <= found.first - found.second <= found.high
        excludes = found.low > 0 or found.high < 0
        assert (found.p < 0.05) == excludes
        seen.add(excludes)
    assert seen == {True, False}


def test_p_value_of_few_items_against_many_is_not_extreme_if_rates_are_equal() -> None:
    # Both shares are 0.6; p below 0.0001 may occur in one study of 10,000.
    rng = np.random.default_rng(7)
    found = []
    for _ in range(300):
        sides = []
        for at, count in enumerate((3, 18)):
            item, rater = np.repeat(np.arange(count), 6), np.tile(np.arange(6), count)
            sides.append(Side((rng.random(len(item)) < 0.6).astype(float), item + 100 * at, rater))
        found.append(compare_shares(*sides).p)
    assert min(found) > 1e-4 and np.mean(np.array(found) < 0.05) <= 0.08


def test_difference_of_two_constant_sides_has_a_wider_interval_with_a_larger_design_effect() -> None:
    first, second = build_independent_side([1] * 40, 0), build_independent_side([0] * 40, 100)
    found = compare_shares(first, second)
    # 41/42 - 1/42 with variance 2 * 41 / 42^3; 80 raters and items: 79 degrees of freedom.
    half = t.ppf(0.975, 79) * math.sqrt(2 * 41 / 42**3)
    assert (found.low, found.high) == (pytest.approx(40 / 42 - half), 1.0)
    assert compare_shares(first, second, deff=4.0).low < found.low


def test_difference_of_paired_answers_has_the_interval_of_bonett_and_price() -> None:
    # Two raters' 20 answers, 4 of which change from no to yes: (4 + 1)/22 - (0 + 1)/22 = 4/22. Items as clusters multiply
    # the variance by 20/19.
    items = np.arange(20)
    after, before = (items < 14).astype(float), (items < 10).astype(float)
    found = compare_shares(Side(after, items, np.zeros(20, int)), Side(before, items, np.ones(20, int)), is_rater=True)
    half = t.ppf(0.975, 19) * math.sqrt(20 / 19 * (6 / 22 - (4 / 22) ** 2) / 22)
    assert found.is_paired and (found.low, found.high) == (pytest.approx(4 / 22 - half), pytest.approx(4 / 22 + half))


@pytest.mark.parametrize("yes", [5, 9, 10])
def test_difference_of_unchanged_pairs_is_0_with_a_narrow_interval(yes) -> None:
    items, raters = np.repeat(np.arange(10), 4), np.tile(np.arange(4), 10)
    answers = (items < yes).astype(float)
    found = compare_shares(Side(answers, items, raters), Side(answers, items, raters))
    assert (found.p, found.first) == (1.0, found.second)
    assert -0.2 < found.low < 0 < found.high < 0.2


def test_difference_has_no_interval_below_three_items_or_raters_on_a_side() -> None:
    items, raters = np.repeat(np.arange(9), 3), np.tile(np.arange(3), 9)
    many = Side((items < 6).astype(float), items, raters)
    two = build_side([1, 0, 1, 1], [20, 20, 21, 21], [0, 1, 0, 1])
    assert (compare_shares(many, two).low, compare_shares(many, two).reason) == (None, FEW_ITEMS_ON_A_SIDE)
    others = Side(many.answers[:18], items[:18], np.tile([7, 8], 9))
    assert (compare_shares(many, others).p, compare_shares(many, others).reason) == (None, FEW_RATERS)
    strangers = compare_shares(many, Side(others.answers, items[:18] + 50, others.rater))
    assert strangers.reason == f"{INDEPENDENT}; {FEW_RATERS}"
    alone = compare_shares(
        Side(many.answers, items, np.zeros(27, int)), Side(others.answers, items[:18], np.zeros(18, int))
    )
    assert alone.low is not None  # the same rater on both sides: about that rater


def test_difference_without_ratings_names_the_empty_side() -> None:
    one = build_side([1, 0, 1], [0, 0, 0], [0, 1, 2])
    many = build_side([1, 0, 1], [1, 2, 3], [0, 1, 2])
    found = compare_shares(one, many)
    assert (found.low, found.p, found.reason) == (None, None, ONE_ITEM)
    empty = compare_shares(many, build_side([], np.zeros(0, int), np.zeros(0, int)))
    assert (empty.first, empty.second, empty.reason) == (pytest.approx(2 / 3), None, "no rating of the second")


def test_difference_of_one_rater_from_the_others_has_an_interval_for_that_rater_only() -> None:
    # The rater's answers have no cluster of raters to vary: with the others alike, the width is that of the items alone.
    items = np.arange(40)
    mine = (items < 20).astype(float)
    others = Side(np.tile((items < 30).astype(float), 30), np.tile(items, 30), np.repeat(np.arange(1, 31), 40))
    found = compare_shares(Side(mine, items, np.zeros(40, int)), others, is_rater=True)
    assert found.first - found.second == -0.25
    # Items 20 to 29 differ by 1, the others not at all: the standard error of the mean difference over items.
    se = math.sqrt(np.var((items < 20).astype(float) - (items < 30), ddof=1) / 40)
    assert (found.high - found.low) / 2 == pytest.approx(2.05 * se, rel=0.15)


@pytest.mark.parametrize("paired", [True, False])
def test_difference_intervals_cover_the_true_value_in_simulated_studies(paired) -> None:
    # 6 raters whose thresholds vary by 0.35, 30 items a side whose difficulty varies by 0.7; 0.9 less 0.7.
    rng = np.random.default_rng(11)
    spread = math.sqrt(1 + 0.35**2 + 0.7**2)
    held, worlds = 0, 400
    items, raters = np.repeat(np.arange(30), 6), np.tile(np.arange(6), 30)
    for _ in range(worlds):
        threshold, difficulty = rng.normal(0, 0.35, 6), rng.normal(0, 0.7, (2, 30))
        sides = []
        for at, share in enumerate((0.9, 0.7)):
            centre = ndtri(share) * spread + difficulty[0 if paired else at][items] + threshold[raters]
            sides.append(
                Side((rng.normal(size=180) < centre).astype(float), items + (0 if paired else at * 100), raters)
            )
        found = compare_shares(*sides)
        held += found.low <= 0.2 <= found.high
    assert 0.92 <= held / worlds <= 0.99


def test_holm_correction_multiplies_the_smallest_p_value_by_their_number_and_never_decreases() -> None:
    # Holm: 0.01 * 4, 0.02 * 3, then 0.03 * 2, 0.04 * 1, neither below the one before.
    assert adjust_by_holm([0.04, 0.01, None, 0.03, 0.02]) == pytest.approx([0.06, 0.04, None, 0.06, 0.06])
    assert adjust_by_holm([0.6, 0.7]) == [1.0, 1.0] and adjust_by_holm([]) == []
    p = [0.001, 0.2, 0.03]
    adjusted = adjust_by_holm(p)
    assert all(ours >= other for ours, other in zip(adjusted, false_discovery_control(p), strict=True))
