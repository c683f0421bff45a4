import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ratings.stats import mrmc


def compute_area_by_pairs(positive: np.ndarray, negative: np.ndarray) -> tuple[float, float]:
    """Compute area and variance by definition, from a comparison of all pairs."""
    psi = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    spread = np.var(psi.mean(axis=1), ddof=1) / len(positive) + np.var(psi.mean(axis=0), ddof=1) / len(negative)
    return float(psi.mean()), float(spread)


def test_placements_of_five_ratings_equal_those_computed_shown_to_admin() -> None:
    # Positives 5, 4, 3; negatives 4, 2. 5 beats both; 4 ties one and beats one; 3 beats one: 1, 3/4, 1/2.
    # The negative 4 is below 5 and ties 4: 1.5/3; the negative 2 is below all: 1. Both means are 0.75.
    found = mrmc.compute_placements(np.array([5.0, 4, 3]), np.array([4.0, 2]))
    assert list(found.positive) == [1, 0.75, 0.5] and list(found.negative) == [0.5, 1]
    # S10 = (1/16 + 0 + 1/16)/2 = 1/16, S01 = 2 * (1/4)^2 / 1 = 1/8: 1/48 + 1/16 = 1/12
    assert found.area == 0.75 and found.area_variance == pytest.approx(1 / 12)


def test_area_of_100000_ratings_equals_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(4)
    truth = rng.random(100_000) < 0.3
    scores = np.round(rng.normal(truth * 0.5), 1)
    found = mrmc.estimate_area(scores, truth)
    assert found.value == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    assert found.interval is not None and found.interval[0] < found.value < found.interval[1]


@pytest.mark.parametrize("seed", range(5))
def test_area_variance_equals_the_one_computed_by_comparing_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    positive, negative = rng.integers(1, 6, 17).astype(float), rng.integers(0, 5, 23).astype(float)
    found = mrmc.compute_placements(positive, negative)
    assert (found.area, found.area_variance) == pytest.approx(compute_area_by_pairs(positive, negative))


def test_area_of_the_ovarian_cancer_data_of_delong_1988_equals_the_one_from_comparing_all_pairs() -> None:
    # Data: DeLong, DeLong & Clarke-Pearson 1988, Biometrics 44:837, as printed in SAS/STAT's manual, PROC LOGISTIC,
    # "Comparing Receiver Operating Characteristic Curves" (albumin, 12 patients without success of 43). The paper's own
    # numbers are of all 49; these are computed: all pairs compared.
    without = [3.0, 2.8, 0.9, 2.5, 3.6, 4.2, 4.0, 3.0, 3.3, 1.7, 2.9, 2.8]
    success = [3.2, 3.9, 3.2, 1.6, 3.8, 3.7, 3.2, 3.8, 4.1, 3.6, 4.3, 2.3, 3.5, 3.8, 4.5, 3.7, 3.1, 4.1, 4.3, 4.3]
    success += [3.2, 2.6, 3.7, 3.3, 4.2, 3.5, 2.1, 4.0, 3.3, 3.7, 3.6]
    found = mrmc.compute_placements(np.array(success), np.array(without))
    # 274 of the 31 * 12 = 372 pairs: 0.73656; standard error 0.0927
    assert found.area == pytest.approx(274 / 372) and found.area_variance**0.5 == pytest.approx(0.09269, abs=5e-6)


def test_area_below_one_half_is_not_reversed() -> None:
    found = mrmc.estimate_area(np.array([1.0, 2, 2, 3, 4]), np.array([True, True, True, False, False]))
    assert found.value == 0


@pytest.mark.parametrize(
    ("scores", "positive", "value", "reason"),
    [
        ([1, 2], [True, True], None, "one of the two classes is empty"),
        ([], [], None, "one of the two classes is empty"),
        ([3, 3, 3, 3], [True, True, False, False], 0.5, "all ratings tie"),
        ([5, 4, 2, 1], [True, True, False, False], 1.0, "separated without exception"),
        ([1, 2, 4, 5], [True, True, False, False], 0.0, "separated without exception"),
        ([3, 2, 4], [True, False, False], 0.5, "a class has one rating only"),
    ],
)
def test_area_without_an_interval_has_a_reason(
    scores: list[float], positive: list[bool], value: float | None, reason: str
) -> None:
    found = mrmc.estimate_area(np.array(scores, dtype=float), np.array(positive, dtype=bool))
    assert (found.value, found.interval) == (value, None) and reason in found.reason


def test_area_interval_is_limited_to_0_and_1() -> None:
    # Positives 5, 5, 3; negatives 4, 3, 1: 7.5 of 9 pairs; positives 1, 1, 1/2 and negatives 2/3, 5/6, 1 make a standard
    # error of sqrt(1/36 + 1/108) = 0.19, and 0.83 + 0.38 is beyond 1.
    scores, positive = np.array([5.0, 5, 3, 4, 3, 1]), np.array([True, True, True, False, False, False])
    found = mrmc.estimate_area(scores, positive)
    assert found.interval is not None and found.interval[1] == 1 and found.method == "delong"


def test_an_area_near_1_has_the_score_interval() -> None:
    # At 0.448456 Hanley and McNeil's variance with size 2 is 0.247343 (1 + 2*0.551544/1.551544 + 2*0.448456/1.448456) / 9
    # = 0.0640393, whose root 0.253060 times 1.95996 is 0.495988 = 8.5/9 - 0.448456.
    scores, positive = np.array([5.0, 5, 3, 3, 1, 1]), np.array([True, True, True, False, False, False])
    found = mrmc.estimate_area(scores, positive)
    assert found.method == "newcombe_score" and found.interval is not None
    assert found.interval[0] == pytest.approx(0.448456, abs=1e-6) and 8.5 / 9 < found.interval[1] < 1
    mirrored = mrmc.estimate_area(-scores, positive).interval
    assert mirrored == pytest.approx((1 - found.interval[1], 1 - found.interval[0]))


def test_placements_need_both_classes() -> None:
    with pytest.raises(ValueError, match="both classes"):
        mrmc.compute_placements(np.array([1.0]), np.array([]))
