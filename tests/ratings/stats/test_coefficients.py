import krippendorff
import numpy as np
import pytest

from ratings.stats.coefficients import (
    build_gwet_ac2,
    compute_agreement_weights,
    compute_coefficient,
    estimate_coefficients,
)
from ratings.stats.ratings_table import RatingRecord, build_ratings_table
from tests.support.rating_tables import build_table, draw_table, find_estimate


def test_coefficients_with_a_missing_rating_equal_those_computed_shown_to_admin() -> None:
    rows = estimate_coefficients(build_table("110.", "1001", "1101"), resamples=0)
    # Counts (no, yes): 03, 12, 30, 02. pa = (1 + 1/3 + 1 + 1)/4 = 5/6.
    # pi_yes = (1 + 2/3 + 0 + 1)/4 = 2/3. Fleiss: pe = 5/9, (15/18 - 10/18)/(8/18) = 5/8.
    assert find_estimate(rows, "fleiss_kappa").value == pytest.approx(5 / 8)
    # AC1: pe = 2 * 2/3 * 1/3 = 4/9: (15/18 - 8/18)/(10/18) = 7/10. BP: (5/6 - 1/2)/(1/2) = 2/3.
    assert find_estimate(rows, "gwet_ac1").value == pytest.approx(7 / 10)
    assert find_estimate(rows, "brennan_prediger").value == pytest.approx(2 / 3)
    # Alpha: 11 values, 4 no, 7 yes; disagreeing coincidences 2 * (1 * 2)/2 = 2 of the second item:
    # 1 - 10 * 2/(121 - 16 - 49) = 1 - 20/56
    assert find_estimate(rows, "krippendorff_alpha", level="nominal", of="verdict").value == pytest.approx(1 - 20 / 56)
    assert find_estimate(rows, "fleiss_kappa").n == {"items": 4, "raters": 3, "ratings": 11, "items_with_two": 4}


def test_an_item_with_one_rating_counts_for_shares_but_not_for_agreement() -> None:
    rows = estimate_coefficients(build_table("1101", "100."), resamples=0)
    # pa = 2/3 of three items; pi_yes = (1 + 1/2 + 0 + 1)/4 = 5/8; AC1: pe = 30/64; (2/3 - 15/32)/(17/32) = 19/51
    assert find_estimate(rows, "gwet_ac1").value == pytest.approx(19 / 51)
    # Alpha drops it: 6 values, 3 yes: 1 - 5 * 2/(36 - 18)
    assert find_estimate(rows, "krippendorff_alpha", level="nominal", of="verdict").value == pytest.approx(1 - 10 / 18)


def test_scotts_pi_is_fleiss_kappa_of_two_raters() -> None:
    # 4 of 6 agree, 3 of each side: pi = 1/2, (4/6 - 1/2)/(1/2) = 1/3
    assert find_estimate(
        estimate_coefficients(build_table("111000", "110001"), resamples=0), "fleiss_kappa"
    ).value == pytest.approx(1 / 3)


def test_coefficients_of_constant_verdicts_are_undefined_or_1() -> None:
    rows = estimate_coefficients(build_table("1" * 10, "1" * 10), resamples=50)
    for stat, args in (("fleiss_kappa", {}), ("krippendorff_alpha", {"level": "nominal", "of": "verdict"})):
        assert find_estimate(rows, stat, **args).value is None
        assert "0/0" in find_estimate(rows, stat, **args).reason
    for stat in ("gwet_ac1", "brennan_prediger"):
        assert (find_estimate(rows, stat).value, find_estimate(rows, stat).low) == (1, None)
        assert "same value" in find_estimate(rows, stat).reason


def test_coefficients_of_total_disagreement_equal_those_computed_shown_to_admin() -> None:
    rows = estimate_coefficients(build_table("1010", "0101"), resamples=0)
    # pa = 0, pi = 1/2: all of -1; alpha of 8 values, 4 each: 1 - 7 * 8/(64 - 32) = -3/4
    assert [find_estimate(rows, stat).value for stat in ("fleiss_kappa", "gwet_ac1", "brennan_prediger")] == [
        -1,
        -1,
        -1,
    ]
    assert find_estimate(rows, "krippendorff_alpha", level="nominal", of="verdict").value == pytest.approx(-3 / 4)


def test_coefficients_of_single_ratings_are_undefined_with_a_reason() -> None:
    rows = estimate_coefficients(build_table("1", "0"), resamples=50)
    assert find_estimate(rows, "gwet_ac1").value == -1
    assert find_estimate(rows, "gwet_ac1").low is None
    alone = estimate_coefficients(build_table("11..", "..10"), resamples=50)
    assert {row.value for row in alone} == {None}
    assert {row.reason for row in alone} == {"no item has two ratings"}
    assert {row.reason for row in estimate_coefficients(build_ratings_table([]))} == {"there are no ratings"}


def test_coefficients_use_declared_categories_whether_or_not_they_occur() -> None:
    lines = ("0011", "0010")
    two, five = (estimate_coefficients(build_table(*lines, categories=range(q)), resamples=0) for q in (2, 5))
    # pa = 3/4. BP: (3/4 - 1/2)/(1/2) = 1/2, (3/4 - 1/5)/(4/5) = 11/16. pi = 5/8, 3/8: AC1 pe 30/64 and a quarter of it.
    assert (find_estimate(two, "brennan_prediger").value, find_estimate(five, "brennan_prediger").value) == (
        1 / 2,
        pytest.approx(11 / 16),
    )
    assert find_estimate(two, "gwet_ac1").value == pytest.approx((48 - 30) / (64 - 30))
    assert find_estimate(five, "gwet_ac1").value == pytest.approx((48 - 7.5) / (64 - 7.5))
    assert find_estimate(two, "fleiss_kappa").value == find_estimate(five, "fleiss_kappa").value
    alone = estimate_coefficients(build_table("00", "00", categories=(0,)))
    assert {row.reason for row in alone} == {"only one category is declared"}


@pytest.mark.parametrize("seed", range(4))
def test_alpha_equals_that_of_the_krippendorff_library(seed: int) -> None:
    # Computed with krippendorff 0.9.0
    ratings = draw_table(40, 5, 2 + seed % 3, (0.8, 0.4), seed, confidences=True)
    rows = estimate_coefficients(ratings, resamples=0)
    for args, values in (
        ({"level": "nominal", "of": "verdict"}, ratings.verdict),
        ({"level": "ordinal", "of": "confidence"}, ratings.confidence),
        ({"level": "ordinal", "of": "signed"}, ratings.signed_ratings),
    ):
        oracle = krippendorff.alpha(ratings.build_grid(values).T, level_of_measurement=args["level"])
        assert find_estimate(rows, "krippendorff_alpha", **args).value == pytest.approx(oracle, abs=1e-12)


OBSERVERS = """112.2 1101. 2333. .00.0 000.0 000.0 102.1 1.20. 222.2 2111. .100. 0000. 1222. 33223 111.1"""


def test_coefficients_of_five_observers_equal_those_of_gwets_program() -> None:
    # R irrCAC's cac.raw5obser; computed with R irrCAC 1.4 and irrCAC 0.4.4 (Python), alpha with R irr 0.84.1
    items = OBSERVERS.split()
    rows = estimate_coefficients(
        build_table(*("".join(marks) for marks in zip(*items, strict=True)), categories=range(4)), resamples=0
    )
    assert find_estimate(rows, "gwet_ac1").value == pytest.approx(0.4966220548726144)
    assert find_estimate(rows, "fleiss_kappa").value == pytest.approx(0.45762168677216974)
    assert find_estimate(rows, "brennan_prediger").value == pytest.approx(0.48740740740740734)
    assert find_estimate(rows, "krippendorff_alpha", level="nominal", of="verdict").value == pytest.approx(
        0.48053024026512
    )
    counts = np.array([[marks.count(str(at)) for at in range(4)] for marks in items], dtype=float)
    assert compute_coefficient(build_gwet_ac2("confidence", 4, "linear"), counts) == pytest.approx(0.6896394228858524)
    assert compute_coefficient(build_gwet_ac2("confidence", 4, "quadratic"), counts) == pytest.approx(
        0.8304335726545763
    )


def test_agreement_weights_decrease_from_1_to_0() -> None:
    assert compute_agreement_weights(3, "linear").tolist() == [[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]]
    assert compute_agreement_weights(3, "quadratic").tolist() == [[1, 0.75, 0], [0.75, 1, 0.75], [0, 0.75, 1]]


def test_confidence_has_coefficients_only_where_ratings_have_one() -> None:
    assert {row.args.get("of") for row in estimate_coefficients(build_table("10", "10"), resamples=0)} == {
        None,
        "verdict",
    }
    rows = estimate_coefficients(build_table("10", "10", confidences=("15", "15")), resamples=0)
    assert find_estimate(rows, "krippendorff_alpha", level="ordinal", of="confidence").value == 1
    assert find_estimate(rows, "gwet_ac2", of="confidence", weights="linear").value == 1
    # +1 and +1, -5 and -5
    assert find_estimate(rows, "krippendorff_alpha", level="ordinal", of="signed").value == 1


def test_coefficients_of_confidence_exclude_ratings_without_one() -> None:
    rows = [
        RatingRecord("i", "a", 1, 2),
        RatingRecord("i", "b", 1, 4),
        RatingRecord("j", "a", 1, 3),
        RatingRecord("j", "b", 1),
    ]
    found = find_estimate(
        estimate_coefficients(build_ratings_table(rows), resamples=0),
        "krippendorff_alpha",
        level="ordinal",
        of="confidence",
    )
    assert (found.n["ratings"], found.n["items_with_two"]) == (3, 1)


def test_coefficient_interval_for_new_raters_is_wider_and_both_are_named() -> None:
    rows = estimate_coefficients(draw_table(150, 6, 4, (0.8, 0.3), 1, confidences=True), resamples=300)
    normal, student = "item_bootstrap_rater_jackknife", "item_bootstrap_rater_jackknife_t"
    for stat, args, method in (
        ("fleiss_kappa", {}, normal),
        ("krippendorff_alpha", {"level": "ordinal", "of": "signed"}, normal),
        ("gwet_ac1", {}, student),
    ):
        these, new = find_estimate(rows, stat, **args), find_estimate(rows, stat, **args, target="new raters")
        assert (these.method, new.method) == ("item_bootstrap", method)
        assert these.half_width is not None
        assert new.half_width is not None
        assert new.half_width > these.half_width > 0


def test_leave_one_out_equals_the_coefficient_of_the_other_raters() -> None:
    # The variance for new raters is made of these values; recomputed here from tables without the rater.
    ratings = draw_table(60, 5, 3, (0.7, 0.3), 2, confidences=True)
    rows = estimate_coefficients(ratings, resamples=2000, seed=1)
    for stat, args in (("fleiss_kappa", {}), ("krippendorff_alpha", {"level": "ordinal", "of": "confidence"})):
        left = []
        for rater in range(5):
            others = estimate_coefficients(ratings.select_ratings(ratings.rater != rater), resamples=0)
            left.append(find_estimate(others, stat, **args).value)
        assert None not in left
        of_raters = 4 / 5 * np.sum((np.array(left, dtype=float) - np.mean(np.array(left, dtype=float))) ** 2)
        these, new = find_estimate(rows, stat, **args), find_estimate(rows, stat, **args, target="new raters")
        assert these.half_width is not None
        assert new.half_width is not None
        of_items = (these.half_width / 1.959964) ** 2
        assert (new.half_width / 1.959964) ** 2 == pytest.approx(of_items + of_raters, rel=0.05)


def test_bootstrap_interval_of_agreement_has_the_width_given_by_the_variance_of_a_mean() -> None:
    # BP of two raters is 2 pa - 1, pa a share of n items: variance 4 * pa (1 - pa)/n; pa = 120/160
    rows = estimate_coefficients(build_table("1" * 120 + "0" * 40, "1" * 160), resamples=4000)
    found = find_estimate(rows, "brennan_prediger")
    assert found.value == pytest.approx(0.5)
    assert found.half_width == pytest.approx(1.959964 * (4 * 0.75 * 0.25 / 160) ** 0.5, rel=0.06)


def test_if_one_verdict_dominates_ac1_has_a_student_interval_and_fleiss_kappa_has_none() -> None:
    rows = estimate_coefficients(draw_table(120, 4, 3, (0.93, 0.4), 3, confidences=True), resamples=200)
    ac1 = find_estimate(rows, "gwet_ac1", source="s0", target="new raters")
    assert ac1.method == "item_bootstrap_rater_jackknife_t"
    assert ac1.low is not None
    fleiss = find_estimate(rows, "fleiss_kappa", source="s0")
    assert (fleiss.low, fleiss.value is None) == (None, False)
    assert "rarer verdict" in fleiss.reason
    assert find_estimate(rows, "fleiss_kappa", source="s1").low is not None


def test_fleiss_kappa_has_an_interval_only_for_new_raters_if_the_rarer_verdict_is_scarce() -> None:
    # 100 items, 3 of 20 verdicts no: by chance 100 * .15^2 = 2.25 items with two; between 1 and 5
    lines = ["1" * 85 + "0" * 15, "1" * 80 + "0" * 15 + "1" * 5, "1" * 90 + "0" * 10, "0" * 5 + "1" * 80 + "0" * 15]
    rows = estimate_coefficients(build_table(*lines), resamples=200)
    these, new = find_estimate(rows, "fleiss_kappa"), find_estimate(rows, "fleiss_kappa", target="new raters")
    assert these.low is None
    assert "both give the rarer verdict on 2." in these.reason
    assert new.value == these.value is not None
    assert new.low is not None


def test_bootstrap_of_coefficients_resamples_within_source() -> None:
    # In a all agree on yes, in b all on no: whatever is drawn, half of the items are of each, so nothing varies
    rows = estimate_coefficients(build_table("1111100000", "1111100000", sources="aaaaabbbbb"), resamples=50)
    assert find_estimate(rows, "fleiss_kappa").value == 1
    assert "same value" in find_estimate(rows, "gwet_ac1").reason
    mixed = estimate_coefficients(build_table("1111100000", "1111100001", sources="aaaaabbbbb"), resamples=20_000)
    # The last item is drawn 0 to 5 times of 5, 4 times or more in 0.67 % of resamples, 5 times in 0.03 %. Of 10 items in 2
    # sources the percentiles are taken sqrt(10/8) * 2.3060 = 2.578 deviates out, where 0.50 % lie beyond: agreement 6/10 and
    # 10/10, Brennan-Prediger twice that less 1.
    bp = find_estimate(mixed, "brennan_prediger")
    assert (bp.low, bp.high) == pytest.approx((0.2, 1))


@pytest.mark.parametrize(("items", "given"), [(9, False), (10, True)])
def test_coefficients_have_no_interval_below_ten_items_with_two_ratings(items: int, given: bool) -> None:
    lines = ["1100100110"[:items], "1010110010"[:items], "0110101010"[:items]]
    sure = ["1524315243"[:items], "2514325134"[:items], "1423415342"[:items]]
    rows = estimate_coefficients(build_table(*lines, confidences=sure), resamples=200)
    for stat, args in (
        ("krippendorff_alpha", {"level": "ordinal", "of": "confidence"}),
        ("krippendorff_alpha", {"level": "ordinal", "of": "signed"}),
        ("gwet_ac2", {"of": "confidence", "weights": "quadratic"}),
        ("gwet_ac1", {}),
    ):
        for found in (find_estimate(rows, stat, **args), find_estimate(rows, stat, **args, target="new raters")):
            assert found.value is not None
            assert (found.low is not None) == given
            assert given or found.reason == "only 9 items have two ratings or more; below 10 no interval is reliable"


def test_coefficients_are_reproducible_by_seed_and_independent_of_row_order() -> None:
    ratings = draw_table(60, 5, 3, (0.7, 0.3), 4, confidences=True)
    again = build_ratings_table(ratings.to_records()[::-1])
    assert estimate_coefficients(ratings, seed=3, resamples=50) == estimate_coefficients(again, seed=3, resamples=50)
    assert estimate_coefficients(ratings, seed=3, resamples=50) != estimate_coefficients(ratings, seed=4, resamples=50)


def test_coefficients_are_undefined_for_more_than_200_categories() -> None:
    texts = [RatingRecord(f"{at:03}", rater, f"text {at}") for at in range(201) for rater in "ab"]
    rows = estimate_coefficients(build_ratings_table(texts, categories=[f"text {at}" for at in range(201)]))
    assert {row.reason for row in rows} == {"there are more than 200 categories"}
