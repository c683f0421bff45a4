import numpy as np
import pytest

from ratings.stats import detection
from ratings.stats.detection import Outcomes
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table
from tests.support.rating_tables import find_estimate


def build_called_ratings(**raters: tuple[int, int, int, int]) -> Ratings:
    """Build ratings from (hits, misses, false alarms, correct rejections) of each rater. All rate the same items and call the first ones wrong."""
    rows = []
    for rater, (hits, misses, alarms, rejections) in raters.items():
        rows += [RatingRecord(f"e{at:03}", rater, int(at >= hits), 3, 0, "subtle") for at in range(hits + misses)]
        rows += [
            RatingRecord(f"g{at:03}", rater, int(at >= alarms), 3, 1, "genuine") for at in range(alarms + rejections)
        ]
    return build_ratings_table(rows)


@pytest.mark.parametrize(
    ("hit_rate", "false_alarm_rate", "d_prime"),
    # Schneider, "Short notes on theory of signal detection", table of three subjects (slideplayer.com/amp/6070164)
    [(0.7, 0.1, 1.806), (0.5, 0.4, 0.253), (0.85, 0.05, 2.681)],
)
def test_d_prime_of_three_subjects_equals_the_published_values(
    hit_rate: float, false_alarm_rate: float, d_prime: float
) -> None:
    assert detection.compute_d_prime(hit_rate, false_alarm_rate) == pytest.approx(d_prime, abs=5.1e-4)


def test_log_linear_rates_d_prime_and_criterion_equal_the_published_ones() -> None:
    # Bonett, R package statpsych, page "signal" (dgbonett.github.io/statpsych): 82 of 100 and 46 of 100 give HR
    # 0.8168317,
    # FAR 0.460396, d-prime 1.002793 and Bias (threshold less d'/2, our c) -0.4019603.
    found = detection.estimate_detection(build_called_ratings(R=(82, 18, 46, 54)))
    counts = Outcomes(82, 18, 46, 54)
    assert (counts.hit_rate, counts.false_alarm_rate) == pytest.approx((0.8168317, 0.460396), abs=5.1e-8)
    assert find_estimate(found, "dprime").value == pytest.approx(1.002793, abs=5.1e-7)
    assert find_estimate(found, "criterion_c").value == pytest.approx(-0.4019603, abs=5.1e-8)


def test_perfect_raters_have_a_finite_d_prime() -> None:
    # H = 10.5/11, F = 0.5/11: z = 1.6906 and -1.6906; d' = 3.381, c = 0
    found = detection.estimate_detection(build_called_ratings(R=(10, 0, 0, 10)))
    assert find_estimate(found, "dprime", rater="R").value == pytest.approx(2 * 1.69062, abs=1e-4)
    assert find_estimate(found, "criterion_c", rater="R").value == pytest.approx(0, abs=1e-12)


def test_a_rater_who_rates_everything_plausible_has_d_prime_0_and_a_positive_criterion() -> None:
    # H = 0.5/11 = F: d' = 0, c = 1.69 > 0
    found = detection.estimate_detection(build_called_ratings(R=(0, 10, 0, 10)))
    assert find_estimate(found, "dprime", rater="R").value == pytest.approx(0)
    assert find_estimate(found, "criterion_c", rater="R").value == pytest.approx(1.69062, abs=1e-5)


def test_d_prime_interval_of_one_rater_is_that_of_gourevitch_and_galanter() -> None:
    # 20 of 25 hits, 10 of 25 false alarms: H = 20.5/26, F = 10.5/26.
    # z = 0.8004, phi = 0.28960; 0.78846*0.21154/(25*0.28960^2) = 0.079550
    # z = -0.24301, phi = 0.38734; 0.40385*0.59615/(25*0.38734^2) = 0.064190; sum 0.14374, root 0.37913
    found = find_estimate(detection.estimate_detection(build_called_ratings(R=(20, 5, 10, 15))), "dprime", rater="R")
    assert found.half_width == pytest.approx(1.95996 * 0.37913, abs=5e-4) and found.method == "normal"
    bias = find_estimate(
        detection.estimate_detection(build_called_ratings(R=(20, 5, 10, 15))), "criterion_c", rater="R"
    )
    assert bias.half_width == pytest.approx(found.half_width / 2)


def test_sensitivity_and_specificity_are_counted_over_raters_and_for_each() -> None:
    found = detection.estimate_detection(build_called_ratings(A=(8, 2, 1, 19), B=(4, 6, 3, 17)))
    assert find_estimate(found, "sensitivity").value == 12 / 20 and find_estimate(found, "specificity").value == 36 / 40
    assert find_estimate(found, "sensitivity", rater="B").value == 4 / 10
    assert find_estimate(found, "specificity", rater="A").value == 19 / 20
    assert find_estimate(found, "sensitivity", source="subtle").n["k"] == 12
    assert find_estimate(found, "sensitivity").method == "wilson_cluster"
    assert find_estimate(found, "sensitivity", rater="A").method == "wilson_items"


def test_d_prime_mean_over_raters_differs_from_the_pooled_value() -> None:
    rates = {"A": (9, 1, 1, 9), "B": (2, 8, 0, 10), "C": (7, 3, 5, 5)}
    found = detection.estimate_detection(build_called_ratings(**rates))
    own = [find_estimate(found, "dprime", rater=rater).value for rater in rates]
    mean = find_estimate(found, "dprime", mean_over="raters")
    assert mean.value == pytest.approx(np.mean(own)) and mean.method == "or_hillis" and mean.low < mean.high
    pooled = find_estimate(found, "dprime")
    assert pooled.value != pytest.approx(mean.value) and pooled.low is None and pooled.reason


def test_d_prime_mean_of_identical_raters_has_the_variance_of_its_items() -> None:
    # 6 of 10 and 2 of 10 called by both, so MSR = 0 and SE^2 = Cov2, df infinite.
    # H = 6.5/11, z = 0.22988, phi = 0.38854; F = 2.5/11, z = -0.74786, phi = 0.30161.
    # Cov2 = 0.24*10/9/10/0.38854^2 + 0.16*10/9/10/0.30161^2 = 0.176643 + 0.195431 = 0.372074, root 0.60998
    mean = find_estimate(
        detection.estimate_detection(build_called_ratings(**dict.fromkeys("ABC", (6, 4, 2, 8)))),
        "dprime",
        mean_over="raters",
    )
    assert mean.half_width == pytest.approx(1.95996 * 0.60998, abs=5e-4)


def test_d_prime_mean_has_no_interval_where_raters_hardly_miss_an_error() -> None:
    # 29 of 30 errors called, 2 of 20 right items, three raters alike. All together: H = 87.5/91, z = 1.7710; F = 6.5/61,
    # z = -1.2448; d' = 3.0158. A rater called so has H = (30 * 0.96154 + 0.5)/31 = 0.94665, z = 1.6132, and F =
    # (20 * 0.10656 + 0.5)/21 = 0.12529, z = -1.1489; d' = 2.7621, 0.25 less.
    few = build_called_ratings(**dict.fromkeys("ABC", (29, 1, 2, 18)))
    mean = find_estimate(detection.estimate_detection(few), "dprime", mean_over="raters")
    assert mean.value is not None and mean.low is None and not mean.method
    assert "moves the mean by about -0.25" in mean.reason
    # With rates on one side of one half both move alike: z(0.2) and z(0.1) by some 0.05 each, d' hardly.
    rare = build_called_ratings(**dict.fromkeys("ABC", (6, 24, 2, 18)))
    assert find_estimate(detection.estimate_detection(rare), "dprime", mean_over="raters").low is not None


def test_d_prime_mean_of_one_rater_equals_that_rater_with_the_same_interval() -> None:
    found = detection.estimate_detection(build_called_ratings(A=(9, 1, 1, 9)))
    alone, mean = find_estimate(found, "dprime", rater="A"), find_estimate(found, "dprime", mean_over="raters")
    assert (mean.value, mean.low, mean.high) == (alone.value, alone.low, alone.high) and "one rater" in mean.reason


def test_d_prime_mean_excludes_raters_without_both_classes() -> None:
    found = detection.estimate_detection(build_called_ratings(A=(9, 1, 1, 9), B=(5, 5, 0, 0), C=(8, 2, 2, 8)))
    assert find_estimate(found, "dprime", rater="B").reason == "no rating is of an unperturbed item"
    assert find_estimate(found, "specificity", rater="B").value is None
    assert find_estimate(found, "sensitivity", rater="B").value == 0.5
    mean = find_estimate(found, "dprime", mean_over="raters")
    assert (mean.n["raters_used"], mean.n["raters_dropped"]) == (2, 1)


def test_detection_has_a_row_for_every_rater_even_without_references() -> None:
    found = detection.estimate_detection(
        build_ratings_table([RatingRecord("a", "R", 1, 3), RatingRecord("a", "S", 1, 3)])
    )
    for rater in "RS":
        row = find_estimate(found, "dprime", rater=rater)
        assert (row.value, row.reason) == (
            None,
            "no item states its perturbation: import a column `perturbation` or `truth`",
        )
    found = detection.estimate_detection(
        build_ratings_table([RatingRecord("a", "R", 1, 3, 1, "good"), RatingRecord("b", "S", 1, 3, 0, "bad")])
    )
    assert (
        find_estimate(found, "criterion_c", rater="R", source="bad").reason
        == "no rating is of an item with a planted error"
    )


def test_interval_of_constant_verdicts_uses_the_design_effect_of_the_other_sources() -> None:
    # Every hit, while of the right items half the raters call all: those go together by rater.
    found = detection.estimate_detection(
        build_called_ratings(A=(10, 0, 10, 0), B=(10, 0, 0, 10), C=(10, 0, 10, 0), D=(10, 0, 0, 10))
    )
    sensitivity = find_estimate(found, "sensitivity")
    assert sensitivity.value == 1 and "design effect of the sources" in sensitivity.reason
    alone = find_estimate(detection.estimate_detection(build_called_ratings(A=(10, 0, 5, 5))), "sensitivity")
    assert "as independent" in alone.reason and sensitivity.low < alone.low


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "no item states its perturbation: import a column `perturbation` or `truth`"),
        ([RatingRecord("a", "R", 1, 3)], "no item states its perturbation: import a column `perturbation` or `truth`"),
        ([RatingRecord("a", "R", 1, 3, 1)], "no rating is of an item with a planted error"),
        ([RatingRecord("a", "R", 1, 3, 0)], "no rating is of an unperturbed item"),
    ],
)
def test_d_prime_without_planted_or_without_unperturbed_items_is_undefined_with_a_reason(
    rows: list[RatingRecord], reason: str
) -> None:
    found = detection.estimate_detection(build_ratings_table(rows))
    for stat in ("dprime", "criterion_c"):
        assert (find_estimate(found, stat).value, find_estimate(found, stat).reason) == (None, reason)
        assert find_estimate(found, stat, mean_over="raters").reason == reason


def test_detection_summary_lists_areas_then_detection_then_mean_areas() -> None:
    table = build_called_ratings(A=(8, 2, 1, 19), B=(4, 6, 3, 17), C=(5, 5, 2, 18))
    stats = list(dict.fromkeys(row.stat for row in detection.summarise_detection(table, 0, 0)))
    areas = ["auc_confidence_correct", "auc_unsigned_truth", "auc_signed", "type2_auc"]
    reader_studies = ["mrmc_mean_auc", "mrmc_u_auc", "mrmc_u_component"]
    assert stats == [*areas, "sensitivity", "specificity", "dprime", "criterion_c", *reader_studies]
    keys = [(row.stat, tuple(sorted(row.args.items()))) for row in detection.summarise_detection(table, 0, 0)]
    assert len(set(keys)) == len(keys)


def test_detection_is_not_computed_for_verdicts_of_more_than_two_categories() -> None:
    assert (
        detection.summarise_detection(
            build_ratings_table([RatingRecord("a", "R", "blue", 3, 1)], categories=("blue", "red")), 0, 0
        )
        == []
    )
