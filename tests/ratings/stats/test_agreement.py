import json

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from ratings.stats import Estimate
from ratings.stats.coefficients import estimate_coefficients
from ratings.stats.pairwise import describe_skew, estimate_pair_means, estimate_pairs, estimate_prevalence
from ratings.stats.rater_pairs import compute_leave_one_out_means, tabulate_pairs
from ratings.stats.ratings_table import RatingRecord, build_ratings_table
from tests.support.rating_tables import build_table, draw_table, find_estimate


def kappa_of(*cells: tuple[int, int, int]) -> Estimate:
    """Return Cohen's kappa of two raters; each triple is (first rater's verdict, second rater's verdict, number of items)."""
    lines = ["".join(str(cell[at]) * cell[2] for cell in cells) for at in (0, 1)]
    return find_estimate(estimate_pairs(build_table(*lines)), "cohen_kappa", raters=["r1", "r2"])


def test_kappa_of_two_raters_who_agree_on_four_of_six_items_is_one_third() -> None:
    # po = 4/6; each says yes 3 of 6: pe = 1/4 + 1/4 = 1/2; kappa = (2/3 - 1/2) / (1/2) = 1/3
    agreement, kappa = estimate_pairs(build_table("111000", "110001"))
    assert kappa.value == pytest.approx(1 / 3)
    assert agreement.value == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("a", "b", "c", "d", "kappa"),
    [
        # 30 items, both yes a, first only b, second only c, both no d. Agreement is 93.3 % in all but the first two.
        (27, 0, 0, 3, 1.0),
        # po = 29/30; yes shares 28/30 and 27/30: pe = (28*27 + 2*3) / 900 = 762/900; (870-762)/(900-762) = 108/138
        (27, 1, 0, 2, 108 / 138),
        # po = 28/30; both 27/30: pe = (729+9)/900 = 738/900; (840-738)/(900-738) = 102/162
        (26, 1, 1, 2, 102 / 162),
        # both 28/30: pe = (784+4)/900; (840-788)/(900-788) = 52/112
        (27, 1, 1, 1, 52 / 112),
        # both 29/30: pe = (841+1)/900; (840-842)/(900-842) = -2/58
        (28, 1, 1, 0, -2 / 58),
    ],
)
def test_kappa_changes_greatly_with_single_items_if_nearly_all_verdicts_are_yes(
    a: int, b: int, c: int, d: int, kappa: float
) -> None:
    assert kappa_of((1, 1, a), (1, 0, b), (0, 1, c), (0, 0, d)).value == pytest.approx(kappa)


def test_kappa_is_undefined_and_agreement_is_1_if_both_raters_are_constant() -> None:
    agreement, kappa = estimate_pairs(build_table("11111", "11111"))
    assert (agreement.value, kappa.value, kappa.n["items"]) == (1.0, None, 5)
    assert "0/0" in kappa.reason


def test_kappa_is_0_for_one_constant_rater() -> None:
    # po = 1/2; the first always yes, the second half: pe = 1 * 1/2 = po, so kappa = 0
    assert kappa_of((1, 1, 1), (1, 0, 1)).value == 0


def test_kappa_is_0_for_constant_raters_with_opposite_verdicts() -> None:
    # po = 0 and pe = 1*0 + 0*1 = 0
    assert kappa_of((1, 0, 4)).value == 0


def test_kappa_of_a_textbook_table_of_two_readers_equals_the_published_one() -> None:
    # Wikipedia, "Cohen's kappa", simple example (read 2026): 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: 0.4.
    # po = 35/50 = 0.7; pe = 0.5*0.6 + 0.5*0.4 = 0.5; (0.7-0.5)/0.5 = 0.4
    assert kappa_of((1, 1, 20), (1, 0, 5), (0, 1, 10), (0, 0, 15)).value == pytest.approx(0.4)


def test_pair_mean_excludes_and_counts_pairs_with_few_items_or_undefined_kappa() -> None:
    # r3 with r1: 1110 -> po 3/4, r3 constant: kappa 0; with r2: po 2/4, kappa 0.
    # r4 has two items in common with r1 and r2, none with r3.
    rows = estimate_pair_means(build_table("111000", "110001", "1111..", "....11"), 4, resamples=0)
    kappa = find_estimate(rows, "avg_pairwise_kappa", min_overlap=4)
    # r1-r2: items 0, 1, 3, 4 agree: po = 4/6, both half yes, pe = 1/2: 1/3. The others 0. Mean (1/3 + 0 + 0)/3 = 1/9.
    assert kappa.value == pytest.approx(1 / 9)
    # Agreement (4/6 + 3/4 + 2/4) / 3 = 23/36
    assert find_estimate(rows, "avg_pairwise_agreement", min_overlap=4).value == pytest.approx(23 / 36)
    assert kappa.n == {
        "items": 6, "raters": 4, "ratings": 18, "pairs_used": 3, "pairs_undefined": 0, "pairs_below_overlap": 3,
    }  # fmt: skip


def test_mean_agreement_includes_pairs_with_undefined_kappa() -> None:
    rows = estimate_pair_means(build_table("1111", "1111", "1100"), 4, resamples=0)
    kappa = find_estimate(rows, "avg_pairwise_kappa", min_overlap=4)
    # r1-r2 0/0 with agreement 1; with r3: one constant rater, kappa 0, agreement 1/2. (1 + 1/2 + 1/2)/3 = 2/3
    assert kappa.value == 0
    assert find_estimate(rows, "avg_pairwise_agreement", min_overlap=4).value == pytest.approx(2 / 3)
    assert (kappa.n["pairs_used"], kappa.n["pairs_undefined"]) == (2, 1)


def test_pair_mean_is_undefined_with_a_reason_if_every_kappa_is_0_divided_by_0() -> None:
    found = find_estimate(
        estimate_pair_means(build_table("1" * 20, "1" * 20), resamples=0), "avg_pairwise_kappa", min_overlap=20
    )
    assert found.value is None
    assert "0/0 in every pair" in found.reason


def test_pair_mean_over_19_shared_items_is_marked_as_few_items_and_over_20_has_an_interval() -> None:
    # 18 of 19 alike; shares of yes 10/19 and 9/19: pe = 180/361, kappa = (342 - 180) / (361 - 180).
    rows = estimate_pair_means(build_table("10" * 9 + "1", "10" * 9 + "0"), resamples=200)
    agreement, kappa = (
        find_estimate(rows, stat, min_overlap=20) for stat in ("avg_pairwise_agreement", "avg_pairwise_kappa")
    )
    assert (agreement.value, kappa.value) == (pytest.approx(18 / 19), pytest.approx(162 / 181))
    for row in rows:
        assert row.low is None and row.value is not None
        assert row.reason == "few items: no pair shares 20 items, the most is 19; no interval is reliable"
        assert (row.n["pairs_used"], row.n["pairs_below_overlap"]) == (1, 1)
    rows = estimate_pair_means(build_table("10" * 10, "10" * 9 + "01"), resamples=200)
    assert find_estimate(rows, "avg_pairwise_agreement", min_overlap=20).low is not None
    assert not any(row.reason.startswith("few items") for row in rows)


def test_pair_mean_excludes_pairs_with_few_items_if_another_pair_has_enough() -> None:
    # The first two share 20 items and disagree on two; the third shares two with each.
    rows = estimate_pair_means(build_table("10" * 10, "10" * 9 + "01", "01" + "." * 18), resamples=0)
    agreement = find_estimate(rows, "avg_pairwise_agreement", min_overlap=20)
    assert agreement.value == pytest.approx(18 / 20)
    assert (agreement.n["pairs_used"], agreement.n["pairs_below_overlap"]) == (1, 2)


def test_build_table_rejects_two_ratings_of_one_item_by_one_rater() -> None:
    with pytest.raises(ValueError, match="rater a rated item x more than once"):
        build_ratings_table([RatingRecord("x", "a", 1), RatingRecord("x", "a", 0)])


def test_every_pair_of_raters_has_a_row_with_an_interval_or_a_reason() -> None:
    rows = estimate_pairs(build_table("1100" * 10, "1000" * 10, "11.." * 10))
    assert [row.args["raters"] for row in rows[::2]] == [["r1", "r2"], ["r1", "r3"], ["r2", "r3"]]
    first = find_estimate(rows, "cohen_kappa", raters=["r1", "r2"])
    # 40 items, 30 agree; yes 20 and 10: pe = (200 + 600)/1600 = 1/2; kappa = 1/2
    assert first.value == pytest.approx(1 / 2)
    assert first.n == {"items": 40, "raters": 2, "ratings": 80}
    assert first.method == "normal"
    undefined = find_estimate(rows, "cohen_kappa", raters=["r1", "r3"])
    assert (undefined.value, undefined.reason) == (None, "0/0: both gave one and the same answer throughout")
    # r3 always says yes, r2 on half of the 20 items: kappa 0, agreement 1/2
    constant = find_estimate(rows, "cohen_kappa", raters=["r2", "r3"])
    assert (constant.value, constant.low) == (0, None)
    assert "rarer verdict on 0.0 items" in constant.reason


def test_perfect_agreement_and_total_disagreement_are_exact_and_have_no_interval() -> None:
    same, opposite = (
        find_estimate(estimate_pairs(build_table("10" * 20, marks)), "cohen_kappa", raters=["r1", "r2"])
        for marks in ("10" * 20, "01" * 20)
    )
    assert (same.value, same.low, opposite.value, opposite.low) == (1, None, -1, None)
    assert {same.reason, opposite.reason} == {"the sample does not vary, so there is no interval"}


def test_pairs_below_the_minimum_overlap_have_values_without_an_interval() -> None:
    rows = estimate_pairs(build_table("1010101010", "1010101001"), min_overlap=11)
    assert [row.low for row in rows] == [None, None]
    assert {row.reason for row in rows} == {"few items: 10 items in common, fewer than 11"}
    assert rows[0].value == pytest.approx(0.8)
    nothing = estimate_pairs(build_table("11....", "....11"))
    assert {(row.value, row.reason) for row in nothing} == {(None, "no item was rated by both")}


def test_more_than_20000_disjoint_pairs_are_counted_instead_of_listed() -> None:
    # 202 raters in twos, each two with an item of their own: 202 * 201 / 2 = 20,301 pairs, 101 of them with an item.
    own = build_ratings_table([RatingRecord(f"i{at}", f"{at}{side}", 1) for at in range(101) for side in "ab"])
    rows = estimate_pairs(own)
    assert len(rows) == 2 * 101 + 2
    apart = find_estimate(rows, "cohen_kappa", pairs="without an item in common")
    assert (apart.value, apart.n) == (None, {"items": 0, "pairs": 20_200})
    assert apart.reason == "no item was rated by both; more than 20,000 such pairs are counted, not listed"
    average_of_all = find_estimate(estimate_pair_means(own, 1, resamples=0), "avg_pairwise_agreement", min_overlap=1)
    assert (average_of_all.n["pairs_used"], average_of_all.n["pairs_below_overlap"]) == (101, 20_200)
    # Of 200 raters 19,900 - 100 pairs are apart: few enough to be listed.
    assert len(estimate_pairs(own.select_ratings(own.item > 0))) == 2 * 19_900


def test_tabulating_pairs_needs_memory_only_for_pairs_that_share_an_item() -> None:
    # 4,000 raters are 7,998,000 pairs; a table of raters by pairs would have 32 thousand million entries.
    own = build_ratings_table([RatingRecord(f"i{at}", f"{at}{side}", at % 2) for at in range(2_000) for side in "ab"])
    found = tabulate_pairs(own)
    assert (len(found), found.disjoint_pairs) == (2_000, 7_996_000)
    assert compute_leave_one_out_means(found, found.percent_agreement).tolist() == [1.0] * 4_000


def test_leave_one_out_means_equal_those_computed_shown_to_admin() -> None:
    found = tabulate_pairs(build_table("1111", "1100", "1110", "...."[:3] + "1"))
    # r1-r2 2/4, r1-r3 3/4, r1-r4 1/1, r2-r3 3/4, r2-r4 0/1, r3-r4 0/1.
    assert found.percent_agreement.tolist() == [0.5, 0.75, 1, 0.75, 0, 0]
    assert compute_leave_one_out_means(found, found.percent_agreement) == pytest.approx(
        [0.75 / 3, 1.75 / 3, 1.5 / 3, 2 / 3]
    )
    alone = found.select_pairs(np.array([True, False, False, False, False, False]))
    assert np.isnan(compute_leave_one_out_means(alone, alone.percent_agreement)).tolist() == [True, True]


def test_raters_without_a_common_item_are_counted_in_pairs_below_the_overlap() -> None:
    rows = estimate_pair_means(build_table("11....", "..11..", "....11"), 1, resamples=0)
    kappa = find_estimate(rows, "avg_pairwise_kappa", min_overlap=1)
    assert (kappa.value, kappa.n["pairs_below_overlap"]) == (None, 3)
    assert kappa.reason == "no pair of raters has an item in common"


@pytest.mark.parametrize("cells", [((40, 9), (6, 45)), ((80, 10), (5, 25)), ((30, 2, 5), (4, 30, 1), (7, 8, 13))])
def test_interval_of_a_pair_uses_the_large_sample_variance(cells: tuple[tuple[int, ...], ...]) -> None:
    # Computed with statsmodels 0.15.0, cohens_kappa (Fleiss, Cohen and Everitt 1969)
    both = [(a, b) for a, row in enumerate(cells) for b, n in enumerate(row) for _ in range(n)]
    lines = ["".join(str(two[at]) for two in both) for at in (0, 1)]
    found = find_estimate(
        estimate_pairs(build_table(*lines, categories=range(len(cells)))), "cohen_kappa", raters=["r1", "r2"]
    )
    oracle = cohens_kappa(np.array(cells))
    assert found.value == pytest.approx(oracle.kappa)
    assert (found.low, found.high) == (pytest.approx(oracle.kappa_low), pytest.approx(oracle.kappa_upp))


def test_kappa_of_every_pair_equals_that_of_scikit_learn() -> None:
    # Computed with scikit-learn 1.9.1, on the items both rated
    ratings = draw_table(120, 5, 3, (0.8, 0.3), 1)
    grid = ratings.build_grid()
    for row in estimate_pairs(ratings):
        if row.stat == "cohen_kappa":
            first, second = (grid[:, ratings.raters.index(name)] for name in row.args["raters"])
            shared = np.isfinite(first) & np.isfinite(second)
            assert row.value == pytest.approx(cohen_kappa_score(first[shared], second[shared], labels=[0, 1]))


def test_coefficients_of_five_dentists_equal_those_of_other_programs() -> None:
    # Espeland and Handelman 1989, Biometrics 45:587-599, pattern counts of R's rater::caries; computed with R irr 0.84.1,
    # R irrCAC 1.4, statsmodels 0.15.0 and krippendorff 0.9.0
    counts = [
        1880, 789, 43, 75, 23, 63, 8, 22, 188, 191, 17, 67, 15, 85, 8, 56,
        12, 26, 6, 14, 1, 20, 2, 17, 2, 20, 6, 27, 3, 72, 1, 100,
    ]  # fmt: skip
    patterns = [f"{at:05b}" for at, n in enumerate(counts) for _ in range(n)]
    dentists = build_table(*("".join(marks) for marks in zip(*patterns, strict=True)))
    rows = estimate_pair_means(dentists, 1, resamples=0)
    assert find_estimate(rows, "avg_pairwise_kappa", min_overlap=1).value == pytest.approx(0.316808717014456)
    assert find_estimate(rows, "avg_pairwise_agreement", min_overlap=1).value == pytest.approx(0.7714952060119201)
    assert find_estimate(estimate_pairs(dentists), "cohen_kappa", raters=["r1", "r3"]).value == pytest.approx(
        0.469225043021278
    )
    rows = estimate_coefficients(dentists, resamples=0)
    assert find_estimate(rows, "fleiss_kappa").value == pytest.approx(0.277022129848141)
    assert find_estimate(rows, "krippendorff_alpha", level="nominal", of="verdict").value == pytest.approx(
        0.27705959954858916
    )
    assert find_estimate(rows, "gwet_ac1").value == pytest.approx(0.6659, abs=5e-5)


def test_pair_mean_is_computed_over_all_sources_and_within_each() -> None:
    rows = estimate_pair_means(build_table("11001010", "11000101", sources="aaaabbbb"), 2, resamples=0)
    # All: 4 of 8 agree, yes 4 and 4: kappa 0. In a they agree throughout: 1. In b never, yes 2 and 2 of 4: -1.
    assert find_estimate(rows, "avg_pairwise_kappa", min_overlap=2).value == 0
    assert find_estimate(rows, "avg_pairwise_kappa", min_overlap=2, source="a").value == 1
    assert find_estimate(rows, "avg_pairwise_kappa", min_overlap=2, source="b").value == -1
    assert {row.reason for row in rows if row.stat == "avg_pairwise_kappa"} == {
        "a pair shares only 8 items; below 10 no interval is reliable",
        "a pair shares only 4 items; below 10 no interval is reliable",
    }


def test_weighted_pair_mean_weights_pairs_by_shared_items() -> None:
    rows = estimate_pair_means(build_table("111000", "110001", "1100.."), 4, resamples=0)
    # r1-r2 1/3 on six items; r1-r3 on 1110/1100: po 3/4, pe (6+2)/16, 1/2 on four; r2-r3 equal, 1 on four.
    assert find_estimate(rows, "avg_pairwise_kappa", min_overlap=4).value == pytest.approx((1 / 3 + 1 / 2 + 1) / 3)
    assert find_estimate(rows, "avg_pairwise_kappa_weighted", min_overlap=4).value == pytest.approx((2 + 2 + 4) / 14)
    # The most they could have: r1-r2 and r2-r3 have equal shares, 1; r1-r3: 3 of 4 is the most, (3/4 - 1/2)/(1/2) = 1/2
    assert find_estimate(rows, "kappa_max", min_overlap=4).value == pytest.approx((1 + 1 / 2 + 1) / 3)


def test_intervals_name_their_target_and_are_wider_for_new_raters() -> None:
    rows = estimate_pair_means(draw_table(200, 6, 4, (0.9, 0.2), 2), resamples=400)
    for stat, *methods in (
        ("avg_pairwise_kappa", "item_bootstrap_corrected", "item_bootstrap_rater_jackknife"),
        ("avg_pairwise_agreement", "item_bootstrap", "item_bootstrap_rater_jackknife_t"),
    ):
        these = find_estimate(rows, stat, min_overlap=20)
        new = find_estimate(rows, stat, min_overlap=20, target="new raters")
        assert [these.method, new.method] == methods
        assert these.value == new.value
        assert these.half_width is not None
        assert new.half_width is not None
        assert new.half_width > these.half_width > 0.01


def test_item_bootstrap_has_the_large_sample_standard_error() -> None:
    # One pair: the item bootstrap's half width is that of Fleiss, Cohen and Everitt, within a few percent at n = 400
    both = build_table("1" * 180 + "0" * 220, "1" * 150 + "0" * 30 + "1" * 40 + "0" * 180)
    boot = find_estimate(estimate_pair_means(both, resamples=4000), "avg_pairwise_kappa", min_overlap=20)
    large = find_estimate(estimate_pairs(both), "cohen_kappa", raters=["r1", "r2"])
    assert boot.half_width == pytest.approx(large.half_width, rel=0.06)


def test_two_raters_have_no_interval_for_new_raters() -> None:
    rows = estimate_pair_means(draw_table(100, 2, 2, (0.6,), 3), resamples=50)
    new = find_estimate(rows, "avg_pairwise_kappa", min_overlap=20, target="new raters")
    assert new.low is None
    assert "three raters" in new.reason


def test_kappa_has_no_interval_within_a_source_rated_nearly_always_yes_but_agreement_has_one() -> None:
    rows = estimate_pair_means(draw_table(120, 4, 4, (0.95, 0.5), 4), resamples=100)
    # About 60 items of s0, 5 % no: 60 * .05^2 = .15 items on which two would meet in a no by chance
    kappa = find_estimate(rows, "avg_pairwise_kappa", min_overlap=20, source="s0")
    assert (
        kappa.low,
        find_estimate(rows, "avg_pairwise_kappa", min_overlap=20, source="s0", target="new raters").low,
    ) == (
        None,
        None,
    )
    assert "rarer verdict" in kappa.reason
    assert find_estimate(rows, "avg_pairwise_agreement", min_overlap=20, source="s0").low is not None
    assert find_estimate(rows, "avg_pairwise_kappa", min_overlap=20, source="s1").low is not None


def test_kappa_interval_for_new_raters_needs_fewer_rare_verdicts_than_the_one_for_these_raters() -> None:
    # Three raters who say no to 12 of 60: 60 * .2 * .2 = 2.4 items on which two would by chance, below 5 but not below 1
    others = "0" * 10 + "1" * 48 + "00", "1100" + "0" * 8 + "1" * 46 + "00"
    rows = estimate_pair_means(build_table("0" * 12 + "1" * 48, *others), resamples=200)
    these, new = (
        find_estimate(rows, "avg_pairwise_kappa", min_overlap=20, **more) for more in ({}, {"target": "new raters"})
    )
    assert (these.low, these.high) == (None, None)
    assert "on 2.4 items; below 5 no interval is reliable" in these.reason
    assert new.low is not None and new.reason == ""


def test_pair_mean_without_resampling_has_a_value_and_a_reason_for_the_missing_interval() -> None:
    rows = estimate_pair_means(draw_table(100, 4, 3, (0.6,), 5), resamples=0)
    kappa = find_estimate(rows, "avg_pairwise_kappa", min_overlap=20)
    assert (kappa.low, kappa.reason) == (None, "the interval needs resampling")


def test_pair_mean_is_reproducible_by_seed_and_independent_of_row_order() -> None:
    ratings = draw_table(80, 5, 3, (0.7, 0.2), 6)
    again = build_ratings_table(ratings.to_records()[::-1])
    texts = [
        json.dumps([row.to_dict() for row in estimate_pair_means(one, 5, seed=3, resamples=60)])
        for one in (ratings, again)
    ]
    assert texts[0] == texts[1]
    assert estimate_pair_means(ratings, 5, seed=4, resamples=60) != estimate_pair_means(
        ratings, 5, seed=3, resamples=60
    )


def test_pair_means_are_the_same_with_the_fast_and_the_memory_saving_way_of_counting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ratings = draw_table(60, 6, 4, (0.7, 0.3), 7)
    before = estimate_pair_means(ratings, 10, resamples=40)
    for name, number in (("MAX_LISTED_PAIRS", 0), ("MAX_CELLS", 100)):
        monkeypatch.setattr(f"ratings.stats.rater_pairs.{name}", number)
        for mine, other in zip(estimate_pair_means(ratings, 10, resamples=40), before, strict=True):
            assert (mine.value, mine.reason) == (other.value, other.reason)
            assert mine.low == (None if other.low is None else pytest.approx(other.low, abs=1e-12))
    assert any(row.low is not None for row in before)


def test_kappa_of_three_categories_equals_the_one_computed_shown_to_admin() -> None:
    lines = ("0120120120", "0120120211", "0122120120")
    rows = estimate_pairs(build_table(*lines, categories=(0, 1, 2, 3)), min_overlap=1)
    first = find_estimate(rows, "cohen_kappa", raters=["r1", "r2"])
    # Agree on 7 of 10; r1 has 4, 3, 3 and r2 has 3, 4, 3 of the three: pe = (12 + 12 + 9)/100; (.7 - .33)/.67
    assert first.value == pytest.approx(0.37 / 0.67)


def test_prevalence_is_the_share_of_yes_or_of_each_category() -> None:
    rows = estimate_prevalence(build_table("110.", "11..", sources="aabb"))
    assert [(row.args, row.value) for row in rows] == [({}, 4 / 5), ({"source": "a"}, 1), ({"source": "b"}, 0)]
    rows = estimate_prevalence(build_table("0121", categories=(0, 1, 2)))
    assert [(row.args, row.value) for row in rows] == [
        ({"category": 0}, 1 / 4),
        ({"category": 1}, 1 / 2),
        ({"category": 2}, 1 / 4),
    ]


def test_skew_note_warns_where_nearly_all_verdicts_are_alike() -> None:
    said = describe_skew(build_table("1111111110" * 2, "1111111111" * 2), {1: "plausible"})
    # 38 of 40: 95 % plausible; by chance .95^2 + .05^2 = .905
    assert "In all sources together 95% of the verdicts are “plausible”" in said
    assert "at least 90% of the items" in said or "at least 91% of the items" in said
    assert "AC1" in said


def test_skew_note_warns_where_sources_differ_in_their_shares() -> None:
    said = describe_skew(build_table("11100000", "11010001", sources="aaaabbbb"))
    # a: 6 of 8 yes, b: 1 of 8; the commonest verdict over both is no: 25 % and 87.5 %
    assert "lies between 25% and 88% by source" in said
    assert "In b 88%" in said
    assert "In a" not in said


def test_skew_note_is_empty_for_balanced_verdicts() -> None:
    assert describe_skew(build_table("1100", "1010")) == ""
    assert describe_skew(build_ratings_table([])) == ""


def test_agreement_of_no_or_one_rater_is_undefined_with_a_reason() -> None:
    for ratings in (build_ratings_table([]), build_table("1010")):
        rows = estimate_pair_means(ratings, resamples=10)
        assert {row.value for row in rows} == {None}
        assert {row.reason for row in rows} == {"there are fewer than two raters with ratings"}
        assert estimate_pairs(ratings) == []
