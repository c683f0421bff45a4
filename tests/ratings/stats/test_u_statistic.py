"""The U-statistic of one condition: its variance and components against iMRMC's, and by hand."""

from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ratings.stats import mrmc, u_statistic
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table
from ratings.stats.u_statistic import KernelMoments, estimate_u_statistic
from tests.support import imrmc_reader
from tests.support.rating_tables import find_estimate
from tests.support.reader_studies import VAN_DYKE, build_reader_study

# An example of FDA's iMRMC, and what that program gives for it: Rpackage/iMRMC/tests/testthat/input.imrmc and
# drafts/test_doIMRMC.Rdata of DIDSR/iMRMC, commit ad589e57, in the public domain (CC0). Moments and components are in its
# order: M1 to M8; components of non-diseased and diseased cases, of both, of readers, and of their interactions.
EXAMPLE = Path(__file__).with_name("imrmc_example.imrmc")
PROGRAM = {
    "testA": (
        0.00631393024, 0.00589247921,
        [0.704375, 0.574327, 0.570686, 0.512386, 0.551687, 0.520838, 0.518393, 0.48983],
        [0.0285624, 0.0310079, 0.00228694, 0.022556, 0.0297372, 0.0309327, 0.0694615],
    ),
    "testB": (
        0.00237205276, 0.00264991282,
        [0.7585, 0.624615, 0.638173, 0.575701, 0.641563, 0.597679, 0.610878, 0.57295],
        [0.037928, 0.0247293, 0.005955, 0.00275033, 0.0245445, 0.0241856, 0.0654571],
    ),
}  # fmt: skip
IN_PROGRAM_ORDER = (
    "planted cases", "unperturbed cases", "unperturbed by planted cases", "raters", "raters by planted cases",
    "raters by unperturbed cases", "raters by unperturbed by planted cases",
)  # fmt: skip


def read_moments(modality: str) -> u_statistic._Moments:
    study = imrmc_reader.parse_reader_study(EXAMPLE.read_text())
    scores = {(one.reader, one.case): one.score for one in study.readings if one.modality == modality}
    readers = sorted({reader for reader, _ in scores})
    grids = [
        np.array(
            [[scores[reader, case] for case in sorted(study.truth) if study.truth[case] == truth] for reader in readers]
        )
        for truth in (1, 0)
    ]
    return u_statistic._Moments(*grids)


@pytest.mark.parametrize("modality", ["testA", "testB"])
def test_u_statistic_of_one_condition_equals_the_output_of_imrmc(modality: str) -> None:
    variance, with_replacement, moments, components = PROGRAM[modality]
    own = read_moments(modality)
    assert own.estimate_covariance(own) == pytest.approx(variance, rel=2e-9)
    assert own.estimate_covariance(own, unbiased=False) == pytest.approx(with_replacement, rel=2e-9)
    found = own.compute_moments(own)
    # Ours are of two raters, then of one: nothing, negative, positive or both shared.
    assert found.values[::-1] == pytest.approx(moments, abs=6e-7)
    by_name = {part.name: part for part in found.compute_components()}
    assert [by_name[name].variance for name in IN_PROGRAM_ORDER] == pytest.approx(components, rel=5e-5)
    # 40 cases of each class and 5 readers: 1/40, 1/40, 1/1600, 1/5, 1/200, 1/200, 1/8000
    coefficients = [1 / 40, 1 / 40, 1 / 1600, 1 / 5, 1 / 200, 1 / 200, 1 / 8000]
    assert [by_name[name].coefficient for name in IN_PROGRAM_ORDER] == pytest.approx(coefficients)


def test_variance_of_a_difference_of_two_u_statistics_equals_the_output_of_imrmc() -> None:
    first, second = read_moments("testA"), read_moments("testB")
    variances = first.estimate_covariance(first) + second.estimate_covariance(second)
    assert variances - 2 * first.estimate_covariance(second) == pytest.approx(0.00498950905, rel=2e-9)


def test_variance_components_of_known_effects_are_recovered_from_the_moments() -> None:
    # Kernels that share a set of the rater, the negative and the positive have the variances of all effects within the set
    # in common: with 1 for the negative, 2 for the positive, 4 for the rater and 8 for all three, and a mean of 3,
    # nothing is 9, the negative 10, both cases 12, the rater 13, all three 9 + 1 + 2 + 4 + 8 = 24.
    values = np.array([9.0, 10, 11, 12, 13, 14, 15, 24])
    parts = {part.name: part.variance for part in KernelMoments(values, np.full(8, 1 / 8)).compute_components()}
    assert parts == {
        "raters": 4, "unperturbed cases": 2, "planted cases": 1, "unperturbed by planted cases": 0,
        "raters by unperturbed cases": 0, "raters by planted cases": 0, "raters by unperturbed by planted cases": 8,
    }  # fmt: skip


def test_u_statistic_of_van_dykes_study_is_close_to_the_published_analysis() -> None:
    # OR-DBM MRMC 2.51 on condition 1: mean area .89703704, standard error .0331736 (jackknife covariances).
    rows = estimate_u_statistic(build_reader_study(VAN_DYKE["1"], 69), "all")
    area = find_estimate(rows, "mrmc_u_auc", source="all")
    assert area.value == pytest.approx(0.89703704, abs=5e-9)
    parts = [row for row in rows if row.stat == "mrmc_u_component"]
    # 5 readers, 45 cases with a dissection (reference 1) and 69 without.
    sizes = {"raters": 5, "unperturbed cases": 45, "planted cases": 69}
    variance = 0.0
    for row in parts:
        name = row.args["component"]
        variance += row.value / np.prod(
            [size for part, size in sizes.items() if part.split()[0] in name.replace(" cases", "")]
        )
    assert np.sqrt(variance) == pytest.approx(0.0331736, rel=0.01)
    mean = mrmc.estimate_mean_auc(build_reader_study(VAN_DYKE["1"], 69), "all")[0]
    assert (area.low, area.high) == (pytest.approx(mean.low, abs=2e-3), pytest.approx(mean.high, abs=2e-3))
    assert (area.method, area.reason, len(parts)) == ("u_statistic", "", 7)


def build_readings(readings: Iterable[tuple[str, int, int, int]]) -> Ratings:
    """Build ratings from (rater, reference, case, signed confidence)."""
    return build_ratings_table(
        RatingRecord(
            f"{'pn'[1 - reference]}{case:02}",
            rater,
            int(score > 0),
            abs(score),
            reference,
            "genuine" if reference else "error",
        )
        for rater, reference, case, score in readings
    )


def simulate_readings(raters: int, cases: int, share: float) -> Ratings:
    rng = np.random.default_rng(4)
    levels = [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]
    return build_readings(
        (f"R{rater}", reference, case, levels[int(np.clip(rng.normal(4 + reference, 2), 0, 9))])
        for rater, reference, case in product(range(raters), (0, 1), range(cases))
        if rng.random() < share
    )


def test_u_statistic_weights_raters_by_their_pairs_of_cases() -> None:
    # R0 reads one of each and is right; R1 reads two of each (4 pairs) and has all in the wrong order: (1 + 0)/(1 + 4)
    rows = estimate_u_statistic(build_readings([
        ("R0", 1, 0, 5), ("R0", 0, 0, -5),
        ("R1", 1, 0, -5), ("R1", 1, 1, -5), ("R1", 0, 0, 5), ("R1", 0, 1, 5),
    ]))  # fmt: skip
    area = find_estimate(rows, "mrmc_u_auc")
    assert (area.value, area.low) == (pytest.approx(1 / 5), None)
    assert area.n["raters_used"] == 2


def test_u_statistic_with_missing_readings_has_the_larger_variance_and_needs_twenty_cases() -> None:
    # One of the 15 items of a class was read by nobody.
    few, enough = (estimate_u_statistic(simulate_readings(5, cases, 0.7))[0] for cases in (15, 25))
    assert few.withheld and few.low is None and "a class has only 14 items" in few.reason
    assert enough.low < enough.value < enough.high and enough.reason == u_statistic.INCOMPLETE
    shown = estimate_u_statistic(simulate_readings(5, 15, 0.7), show_unstable=True)[0]
    assert shown.is_unstable and shown.low < shown.value < shown.high


def test_u_statistic_of_two_raters_has_components_and_no_interval() -> None:
    rows = estimate_u_statistic(simulate_readings(2, 25, 1.0))
    assert (rows[0].low, rows[0].reason, rows[0].withheld) == (None, mrmc.TWO_RATERS, True)
    assert len(rows) == 8 and all("contributes" in row.reason for row in rows[1:])


def test_u_statistic_without_a_class_or_of_categories_is_undefined() -> None:
    only_errors = build_readings([("R0", 0, 0, 3), ("R1", 0, 1, -2)])
    (row,) = estimate_u_statistic(only_errors)
    assert (row.value, row.reason) == (None, "no rating is of an unperturbed item")
    assert estimate_u_statistic(build_ratings_table([RatingRecord("i", "r", 2)], (0, 1, 2))) == []


def test_u_statistic_of_too_many_cases_is_not_computed(monkeypatch) -> None:
    monkeypatch.setattr(u_statistic, "MAX_CELLS", 100)
    (row,) = estimate_u_statistic(simulate_readings(3, 25, 1.0))
    assert (row.value, row.reason) == (None, u_statistic.TOO_LARGE)
