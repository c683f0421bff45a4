"""The mean area over raters, against the Iowa program's printed numbers.

IOWA: OR-DBM MRMC 2.51 (University of Iowa) on Van Dyke's study, output in dpc10ster/RJafroc,
inst/IowaResults/VanDyke.txt and VanDyke1T.txt; its covariances are by the jackknife.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.special import logit

from ratings.stats import mrmc
from ratings.stats.mrmc import RaterColumn
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table
from ratings.stats.resampling import compute_symmetric_interval
from tests.support.reader_studies import VAN_DYKE, build_reader_study


def build_columns(condition: Mapping[str, str], normal: int) -> list[RaterColumn]:
    table = build_reader_study(condition, normal)
    return mrmc.build_rater_columns(table, table.signed_ratings)[0]


def build_readings(**raters: str) -> Ratings:
    """Raters' signed ratings of six items, three wrong and three right, as "-5-3+2..."; "  " where there is none."""
    rows = []
    for rater, marks in raters.items():
        for place in range(6):
            mark = marks[2 * place : 2 * place + 2].strip()
            if mark:
                source = "error" if place < 3 else "genuine"
                rows.append(
                    RatingRecord(f"i{place}", rater, int(mark[0] == "+"), int(mark[1]), int(place >= 3), source)
                )
    return build_ratings_table(rows)


def compute_jackknife_values(condition: Mapping[str, str], normal: int) -> np.ndarray:
    """The covariances of the readers' areas when cases are left out in turn, as the Iowa program has them:
    (N-1)/N times the products of the deviations from their mean."""
    table = build_reader_study(condition, normal)
    without = [table.select_ratings(table.item != case) for case in range(len(table.items))]
    areas = np.array(
        [[one.value for one in mrmc.build_rater_columns(left, left.signed_ratings)[0]] for left in without]
    )
    return (len(areas) - 1) ** 2 / len(areas) * np.cov(areas.T)


IOWA_SINGLE = [
    # treatment: mean, MS(R), Cov2, Var(Error), StdErr, DF, interval, StdErr and interval with readers fixed
    ("1", 0.89703704, 0.00308263, 0.00048396, 0.00101410, 0.03317360, 12.74, (0.82522360, 0.96885048), 0.02428971),
    ("2", 0.94083736, 0.00130460, 0.00020419, 0.00059047, 0.02156637, 12.71, (0.89413783, 0.98753689), 0.01677632),
]
IOWA_FIXED = {"1": (0.84943008, 0.94464399), "2": (0.90795637, 0.97371835)}


@pytest.mark.parametrize(("treatment", "mean", "msr", "cov2", "error", "se", "df", "interval", "fixed_se"), IOWA_SINGLE)
def test_mean_area_of_one_van_dyke_condition_equals_all_digits_of_the_iowa_program(
    treatment: str,
    mean: float,
    msr: float,
    cov2: float,
    error: float,
    se: float,
    df: float,
    interval: tuple[float, float],
    fixed_se: float,
) -> None:
    values = [one.value for one in build_columns(VAN_DYKE[treatment], 69)]
    matrix = compute_jackknife_values(VAN_DYKE[treatment], 69)
    between = float(np.mean(matrix[~np.eye(5, dtype=bool)]))
    found = mrmc.analyse_components(np.mean(values), 5, np.var(values, ddof=1), between, np.mean(np.diag(matrix)))
    printed = (mean, msr, cov2, error, se, fixed_se)
    computed = (found.mean, found.msr, found.cov2, found.var_error, found.se, found.fixed_se)
    assert computed == pytest.approx(printed, abs=5.1e-9)
    assert found.df == pytest.approx(df, abs=0.005)
    assert compute_symmetric_interval(found.mean, found.se**2, df=found.df) == pytest.approx(interval, abs=5.1e-9)
    assert compute_symmetric_interval(found.mean, found.fixed_se**2) == pytest.approx(IOWA_FIXED[treatment], abs=5.1e-9)


def test_areas_and_variances_of_van_dyke_readers_equal_the_iowa_program() -> None:
    found = build_columns(VAN_DYKE["1"], 69)
    areas = [0.91964573, 0.85877617, 0.90386473, 0.97310789, 0.82979066]
    variances = [0.00090755, 0.00132316, 0.00079859, 0.00030064, 0.00174057]
    assert [one.value for one in found] == pytest.approx(areas, abs=5.1e-9)
    assert np.diag(compute_jackknife_values(VAN_DYKE["1"], 69)) == pytest.approx(variances, abs=5.1e-9)


def test_mean_area_interval_uses_delongs_covariances_and_equals_that_of_mrmcaov() -> None:
    # Computed with R's MRMCaov (covariance DeLong), not published: SE 0.0330764206, df 12.596.
    main, these = mrmc.estimate_mean_auc(build_reader_study(VAN_DYKE["1"], 69), "all")
    assert (main.low, main.high) == pytest.approx((0.8253460774, 0.9687279966), abs=1e-7)
    assert (main.method, main.args, main.reason) == ("or_hillis", {"source": "all"}, "")
    assert (these.method, these.args) == ("or_fixed", {"source": "all", "target": "these raters"})
    assert these.low > main.low and these.value == main.value
    assert main.n["positives"] == 5 * 45 and main.n["raters_used"] == 5


def compute_covariance_by_definition(first: RaterColumn, second: RaterColumn) -> float:
    """The covariance of two areas from the cases both have read, one at a time."""
    total = 0.0
    for a, b, at, bt in (
        (first.positive, second.positive, first.positive_case, second.positive_case),
        (first.negative, second.negative, first.negative_case, second.negative_case),
    ):
        ones, twos = dict(zip(at, a, strict=True)), dict(zip(bt, b, strict=True))
        shared = ones.keys() & twos.keys()
        s = len(shared)
        product = sum(ones[case] * twos[case] for case in shared)
        total += product * (s / (s - 1) if s > 1 else 1) / (len(a) * len(b))
    return float(total)


def test_covariances_with_missing_readings_use_the_shared_cases() -> None:
    rng = np.random.default_rng(3)
    missing = {
        reader: "".join("." if gone else digit for digit, gone in zip(digits, rng.random(114) < 0.4, strict=True))
        for reader, digits in VAN_DYKE["1"].items()
    }
    found = build_columns(missing, 69)
    matrix = mrmc.compute_covariances(found)
    assert matrix == pytest.approx(np.array([[compute_covariance_by_definition(a, b) for b in found] for a in found]))
    assert not np.allclose(matrix, mrmc.compute_covariances(build_columns(VAN_DYKE["1"], 69)), rtol=0.01)


def test_covariance_of_raters_without_a_common_case_is_0() -> None:
    # Readers 1 and 2 read the even and the odd cases.
    halves = {
        str(half): "".join(digit if place % 2 == half else "." for place, digit in enumerate(VAN_DYKE["1"]["1"]))
        for half in (0, 1)
    }
    matrix = mrmc.compute_covariances(build_columns(halves, 69))
    assert matrix[0, 1] == 0 and matrix[0, 0] > 0


def test_mean_area_of_one_rater_has_delongs_interval_and_a_reason() -> None:
    main, these = mrmc.estimate_mean_auc(build_reader_study({"5": VAN_DYKE["1"]["5"]}, 69), "all")
    assert main.method == "delong" and "one rater" in main.reason
    assert (main.low, main.high) == (these.low, these.high)
    near_one, _ = mrmc.estimate_mean_auc(build_reader_study({"1": VAN_DYKE["1"]["1"]}, 69), "all")
    assert near_one.method == "newcombe_score" and near_one.low < near_one.value < near_one.high < 1


def test_mean_area_of_two_raters_has_no_interval_for_new_raters() -> None:
    both = {reader: VAN_DYKE["1"][reader] for reader in "15"}
    main, these = mrmc.estimate_mean_auc(build_reader_study(both, 69), "all")
    assert "only two raters" in main.reason and main.low is None and these.low < these.value < these.high


def test_mean_area_near_1_has_the_interval_of_its_logit() -> None:
    # Van Dyke's second treatment. On the logit scale the half-width is
    # t * SE / (A(1-A)), and t has no more than 5 - 1 degrees of freedom: 2.7764.
    table = build_reader_study(VAN_DYKE["2"], 69)
    main, these = mrmc.estimate_mean_auc(table, "all")
    one = mrmc.analyse_condition(mrmc.build_rater_columns(table, table.signed_ratings)[0])
    assert main.value == pytest.approx(0.9408, abs=1e-4) and one.df > 4
    half = 2.776445 * one.se / (one.mean * (1 - one.mean))
    assert logit(main.high) - logit(main.value) == pytest.approx(half)
    assert logit(main.value) - logit(main.low) == pytest.approx(half)
    assert (main.method, these.method) == (
        "or_hillis_logit",
        "or_fixed_logit",
    ) and main.low < these.low < these.high < 1


def test_mean_area_drops_and_counts_raters_without_both_classes() -> None:
    # A: errors -5 -3 +2, right +4 +5 +1: of nine pairs only (+2, +1) is lost: 8/9. B has no right item. C: 9/9.
    table = build_readings(A="-5-3+2+4+5+1", B="-5-3+2      ", C="-5-3-2+4+5+1")
    main, _ = mrmc.estimate_mean_auc(table, "error")
    assert main.value == pytest.approx((8 / 9 + 1) / 2)
    assert (main.n["raters_used"], main.n["raters_dropped"]) == (2, 1) and "1 rater without" in main.reason


@pytest.mark.parametrize(("marks", "value"), [("-5-4-3+3+4+5", 1.0), ("+3+3+3+3+3+3", 0.5), ("+5+4+3-3-4-5", 0.0)])
def test_mean_area_of_perfect_or_tied_raters_has_no_interval(marks: str, value: float) -> None:
    for one in mrmc.estimate_mean_auc(build_readings(A=marks, B=marks, C=marks), "error"):
        assert (one.value, one.low, one.high) == (value, None, None) and one.reason


def test_mean_area_with_a_single_error_has_no_interval_for_these_raters() -> None:
    # A single error says nothing about A's variance; between the raters there is one all the same.
    table = build_readings(A="-5    +4+5+1", B="-5-3+2+4+5+1", C="+3-3+2-4+5+1")
    main, these = mrmc.estimate_mean_auc(table, "error")
    assert main.low is not None and these.low is None and "one item of a class only" in these.reason


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([RatingRecord("a", "R", 1, 3)], "no item states its perturbation: import a column `perturbation` or `truth`"),
        ([RatingRecord("a", "R", 1, 3, 1)], "no rating is of an item with a planted error"),
        ([RatingRecord("a", "R", 1, 3, 0)], "no rating is of an unperturbed item"),
        (
            [RatingRecord("a", "R", 1, None, 1), RatingRecord("b", "R", 1, None, 0)],
            "no rating with a known reference has a confidence",
        ),
        (
            [RatingRecord("a", "R", 1, 3, 1), RatingRecord("b", "S", 1, 3, 0)],
            "no rater has rated both unperturbed and planted items",
        ),
    ],
)
def test_mean_area_without_one_of_the_classes_is_undefined_with_a_reason(
    rows: Sequence[RatingRecord], reason: str
) -> None:
    for one in mrmc.estimate_mean_auc(build_ratings_table(rows)):
        assert (one.value, one.reason) == (None, reason)


def test_mean_area_is_not_computed_for_verdicts_of_more_than_two_categories() -> None:
    table = build_ratings_table([RatingRecord("a", "R", "blue", 3, 1)], categories=("blue", "red"))
    assert mrmc.estimate_mean_auc(table) == []
