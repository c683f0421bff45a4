import pytest

from ratings.stats.auc import auc_confidence_correct


def test_auc_counts_pairs_with_ties_as_half() -> None:
    # correct 5, 4, 3; incorrect 4, 2. Pairs won: 5>4, 5>2, 4=4 half, 4>2, 3<4, 3>2: 4.5 of 6
    ratings = [(5, True), (4, True), (3, True), (4, False), (2, False)]
    assert auc_confidence_correct(ratings) == (pytest.approx(4.5 / 6), 3, 2, "")


def test_auc_below_one_half_is_not_turned_round() -> None:
    assert auc_confidence_correct([(1, True), (5, False)]).value == 0


def test_equal_confidence_throughout_is_one_half() -> None:
    assert auc_confidence_correct([(3, True), (3, True), (3, False)]).value == 0.5


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([(3, True)], "no rating is incorrect"),
        ([(3, False)], "no rating is correct"),
        ([], "no rating has a known truth"),
    ],
)
def test_auc_needs_both_classes_and_says_which_is_missing(ratings: list[tuple[int, bool]], reason: str) -> None:
    found = auc_confidence_correct(ratings)
    assert (found.value, found.reason) == (None, reason)


def test_auc_of_the_rating_data_of_hanley_and_mcneil() -> None:
    # Hanley & McNeil 1982, Radiology 143:29-36, table I: ratings 1-5 of 58 normal and 51 abnormal images; W = 0.893.
    normal, abnormal = (33, 6, 6, 11, 2), (3, 2, 2, 11, 33)
    ratings = [(score, False) for score, n in enumerate(normal, 1) for _ in range(n)]
    ratings += [(score, True) for score, n in enumerate(abnormal, 1) for _ in range(n)]
    found = auc_confidence_correct(ratings)
    assert (found.n_correct, found.n_incorrect) == (51, 58)
    assert found.value == pytest.approx(0.893, abs=5e-4)
