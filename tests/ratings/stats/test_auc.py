from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ratings.stats import Estimate
from ratings.stats import areas as auc
from ratings.stats.estimates import build_generator
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table
from ratings.stats.resampling import sample_item_weights, sample_rater_weights
from tests.support.rating_tables import find_estimate


def estimate_confidence_auc(ratings: Sequence[tuple[int, bool]]) -> Estimate:
    """Estimate the area for one rater's pairs (confidence, whether the verdict was right)."""
    rows = [RatingRecord(f"i{at:03}", "R", int(right), confidence, 1) for at, (confidence, right) in enumerate(ratings)]
    return auc.estimate_confidence_correct(build_ratings_table(rows), 0, 0)


def test_auc_counts_pairs_with_ties_as_half() -> None:
    # correct 5, 4, 3; incorrect 4, 2. Pairs won: 5>4, 5>2, 4=4 half, 4>2, 3<4, 3>2: 4.5 of 6
    found = estimate_confidence_auc([(5, True), (4, True), (3, True), (4, False), (2, False)])
    assert found.value == pytest.approx(4.5 / 6)
    assert (found.n["correct"], found.n["incorrect"]) == (3, 2)


def test_auc_below_one_half_is_not_reversed() -> None:
    assert estimate_confidence_auc([(1, True), (5, False)]).value == 0


def test_auc_is_one_half_for_equal_confidence() -> None:
    assert estimate_confidence_auc([(3, True), (3, True), (3, False)]).value == 0.5


def test_auc_of_the_ratings_of_hanley_and_mcneil_equals_the_published_one() -> None:
    # Hanley & McNeil 1982, Radiology 143:29-36, table I: ratings 1-5 of 58 normal and 51 abnormal images; W = 0.893.
    normal, abnormal = (33, 6, 6, 11, 2), (3, 2, 2, 11, 33)
    ratings = [(score, False) for score, n in enumerate(normal, 1) for _ in range(n)]
    ratings += [(score, True) for score, n in enumerate(abnormal, 1) for _ in range(n)]
    found = estimate_confidence_auc(ratings)
    assert (found.n["correct"], found.n["incorrect"]) == (51, 58)
    assert found.value == pytest.approx(0.893, abs=5e-4)


def build_signed_ratings(marks: dict[str, str], truth: str) -> Ratings:
    """Raters' signed ratings of items in order as "+5-3", two spaces where there is none; truth as digits, error
    items e1, e2."""
    rows = []
    for rater, signed in marks.items():
        for place, kind in enumerate(truth):
            mark = signed[2 * place : 2 * place + 2].strip()
            if mark:
                source = "genuine" if kind == "1" else "subtle"
                rows.append(RatingRecord(f"i{place:02}", rater, int(mark[0] == "+"), int(mark[1]), int(kind), source))
    return build_ratings_table(rows)


def simulate_ratings(seed: int, items: int = 40, raters: int = 4, missing: float = 0.2) -> Ratings:
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(items):
        source, truth = (("genuine", 1), ("subtle", 0), ("obvious", 0))[item % 3]
        for rater in range(raters):
            if rng.random() > missing:
                plausible = rng.random() < {"genuine": 0.85, "subtle": 0.7, "obvious": 0.1}[source]
                rows.append(
                    RatingRecord(f"i{item:02}", f"R{rater}", int(plausible), int(rng.integers(1, 6)), truth, source)
                )
    return build_ratings_table(rows)


def test_pooled_auc_is_below_1_although_every_rater_separates_right_from_wrong() -> None:
    # Each rater is surer when right (2 > 1 and 5 > 4), but the scales differ: pooled, correct {2, 2, 5}, incorrect
    # {1, 4, 4}.
    # 2 beats 1 (twice), 5 beats all three: 5 of 9 pairs.
    table = build_signed_ratings({"low": "+2+2-1", "high": "+5-4-4"}, "111")
    found = auc.estimate_areas(table, 0, 0)
    assert find_estimate(found, "auc_confidence_correct").value == pytest.approx(5 / 9)
    assert [find_estimate(found, "type2_auc", rater=rater).value for rater in ("low", "high")] == [1, 1]
    assert find_estimate(found, "type2_auc", mean_over="raters").value == 1


def test_signed_and_unsigned_areas_of_one_table_equal_those_computed_shown_to_admin() -> None:
    # Items 1 and 2 right, 3 and 4 wrong; signed: right +5 -2, wrong -4 +3. +5 beats both, -2 beats -4: 3 of 4.
    # Unsigned: right 5 2, wrong 4 3: 5 beats both: 2 of 4.
    found = auc.estimate_areas(build_signed_ratings({"A": "+5-2-4+3"}, "1100"), 0, 0)
    for args in ({}, {"source": "subtle"}):
        assert find_estimate(found, "auc_signed", **args).value == 0.75
        assert find_estimate(found, "auc_unsigned_truth", **args).value == 0.5
    assert find_estimate(found, "auc_unsigned_truth", source="subtle", mean_over="raters").value == 0.5


def test_auc_of_each_error_source_compares_it_with_all_unperturbed_items() -> None:
    table = simulate_ratings(1)
    found = auc.estimate_areas(table, 0, 0)
    for source in (None, "obvious", "subtle"):
        own = table.select_ratings(table.reference >= 0) if source is None else table.select_against_unperturbed(source)
        expected = roc_auc_score(own.reference, own.signed_ratings)  # scikit-learn's, computed
        assert find_estimate(found, "auc_signed", **({"source": source} if source else {})).value == pytest.approx(
            expected
        )
    assert (
        find_estimate(found, "auc_signed", source="obvious").value
        > find_estimate(found, "auc_signed", source="subtle").value
    )


def test_pooled_auc_of_several_raters_has_no_interval_and_a_reason() -> None:
    found = auc.estimate_areas(simulate_ratings(1), 0, 0)
    for stat in ("auc_signed", "auc_unsigned_truth"):
        for args in ({}, {"source": "subtle"}):
            pooled = find_estimate(found, stat, **args)
            assert pooled.value is not None and (pooled.low, pooled.method) == (None, "")
            assert pooled.reason.endswith("the mean over raters has an interval")
    mean = find_estimate(found, "auc_unsigned_truth", source="subtle", mean_over="raters")
    assert mean.low < mean.value < mean.high
    alone = auc.estimate_signed(simulate_ratings(1, raters=1), "subtle")
    assert alone.method == "delong" and alone.low < alone.value < alone.high and not alone.reason


def test_bootstrap_auc_weights_ratings_by_item_and_rater_draws() -> None:
    # The same draws made by hand: a rating weighs its item's draws times its rater's; scikit-learn weighs likewise.
    table = simulate_ratings(2)
    own = table.select_ratings(np.isfinite(table.confidence))
    found = auc._resample_areas(own, 40, build_generator(7, "x"))
    rng = build_generator(7, "x")
    rater = sample_rater_weights(4, 40, rng)
    item = sample_item_weights(own.item_source, 40, rng)
    for at in range(40):
        weight = item[at][own.item] * rater[at][own.rater]
        expected = roc_auc_score(own.is_correct, own.confidence, sample_weight=weight)
        assert found[at] == pytest.approx(expected)


def test_bootstrap_of_the_mean_auc_resamples_raters() -> None:
    table = simulate_ratings(3)
    found = auc._resample_areas(table, 30, build_generator(7, "x"), mean_over_raters=True)
    rng = build_generator(7, "x")
    rater = sample_rater_weights(4, 30, rng)
    item = sample_item_weights(table.item_source, 30, rng)
    for at in range(30):
        areas, weights = [], []
        for number in range(4):
            own = table.rater == number
            weight = item[at][table.item[own]]
            areas.append(roc_auc_score(table.is_correct[own], table.confidence[own], sample_weight=weight))
            weights.append(rater[at][number])
        assert found[at] == pytest.approx(np.average(areas, weights=weights))


def test_bootstrap_interval_of_auc_contains_the_value_and_is_reproducible() -> None:
    table = simulate_ratings(2)
    first, again = (auc.estimate_confidence_correct(table, 0, 300) for _ in range(2))
    assert first.to_dict() == again.to_dict() and first.method == "two_way_bootstrap"
    assert first.low < first.value < first.high
    assert auc.estimate_confidence_correct(table, 1, 300).low != first.low


def test_areas_are_independent_of_row_order() -> None:
    rows = simulate_ratings(2).to_records()
    forwards, backwards = (auc.estimate_areas(build_ratings_table(given), 0, 100) for given in (rows, rows[::-1]))
    assert [row.to_dict() for row in forwards] == [row.to_dict() for row in backwards]


def test_areas_without_resampling_have_values_and_a_reason() -> None:
    table = simulate_ratings(2)
    found = auc.estimate_areas(table, 0, 0)
    for row in (find_estimate(found, "auc_confidence_correct"), find_estimate(found, "type2_auc", mean_over="raters")):
        assert row.low is None and row.reason == "the interval needs resampling"
    assert find_estimate(found, "auc_confidence_correct").value == auc.estimate_confidence_correct(table, 0, 100).value


@pytest.mark.parametrize("raters", [1, 2])
def test_bootstrap_resamples_only_items_if_there_are_fewer_than_three_raters(raters: int) -> None:
    found = auc.estimate_confidence_correct(simulate_ratings(5, items=60, raters=raters), 0, 200)
    assert found.method == "item_bootstrap" and "fewer than three raters" in found.reason and found.low < found.high


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "no item states its perturbation: import a column `perturbation` or `truth`"),
        ([RatingRecord("a", "R", 1, 3)], "no item states its perturbation: import a column `perturbation` or `truth`"),
        ([RatingRecord("a", "R", 1, None, 1)], "no rating with a known reference has a confidence"),
        ([RatingRecord("a", "R", 1, 3, 1)], "no rating is incorrect"),
        ([RatingRecord("a", "R", 1, 3, 0)], "no rating is correct"),
    ],
)
def test_auc_without_one_of_the_classes_is_undefined_and_names_the_missing_class(
    rows: list[RatingRecord], reason: str
) -> None:
    found = auc.estimate_areas(build_ratings_table(rows), 0, 100)
    assert find_estimate(found, "auc_confidence_correct").reason == reason
    assert find_estimate(found, "type2_auc", mean_over="raters").reason == reason
    assert all(row.value is None and row.low is None and row.reason for row in found)


@pytest.mark.parametrize(("marks", "value"), [("+3+3-3+3", 0.5), ("+5+4-1-2", 1.0), ("+1+2-5-4", 0.0)])
def test_auc_of_ties_or_complete_separation_has_no_interval(marks: str, value: float) -> None:
    found = auc.estimate_confidence_correct(build_signed_ratings({"A": marks, "B": marks, "C": marks}, "1111"), 0, 100)
    assert (found.value, found.low, found.method) == (value, None, "") and found.reason


def test_type2_mean_excludes_and_counts_raters_who_were_never_wrong() -> None:
    found = auc.estimate_type2(build_signed_ratings({"A": "+5+3-4-2", "B": "+5+3+4+2"}, "1111"), 0, 0)
    assert find_estimate(found, "type2_auc", rater="B").reason == "no rating is incorrect"
    mean = find_estimate(found, "type2_auc", mean_over="raters")
    # A: correct 5 3, incorrect 4 2: three of four pairs
    assert mean.value == 0.75 and (mean.n["raters_used"], mean.n["raters_dropped"]) == (1, 1)


def test_areas_exclude_ratings_without_confidence_or_reference() -> None:
    rows = simulate_ratings(2).to_records()
    more = [RatingRecord("x", "R0", 1, None, 1, "genuine"), RatingRecord("y", "R1", 0, 4, None, "unknown")]
    assert [row.value for row in auc.estimate_areas(build_ratings_table(rows), 0, 0)] == [
        row.value for row in auc.estimate_areas(build_ratings_table([*rows, *more]), 0, 0)
    ]


def test_areas_are_not_computed_for_verdicts_of_more_than_two_categories() -> None:
    assert (
        auc.estimate_areas(
            build_ratings_table([RatingRecord("a", "R", "blue", 3, 1)], categories=("blue", "red")), 0, 100
        )
        == []
    )
