"""bench/coverage.py: its true values equal the application's estimates in very large studies."""

import numpy as np
import pytest

from bench import coverage, coverage_attempts, coverage_quantities, reader_worlds
from bench.coverage import IntervalTally, ResultKey, StudyBlock
from bench.coverage_attempts import BenchmarkDesign
from bench.coverage_quantities import NEW, THESE, THIS, MeasuredInterval
from bench.reader_worlds import StudyDesign

pytestmark = pytest.mark.slow

GROUPS = ("rates", "agreement", "coefficients", "areas", "detection", "models")


def list_intervals_of(design: StudyDesign, group: str, targets: tuple[str, ...]) -> list[MeasuredInterval]:
    study = reader_worlds.simulate_study(design, np.random.default_rng(3))
    found = coverage_quantities.GROUPS[group](study, 0)
    return [one for one in found if one.target in targets and one.value is not None]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("shares", [(), (0.8, 0.5, 0.3, 0.4)])
def test_true_values_for_these_raters_equal_estimates_from_very_many_items(group, shares) -> None:
    # 12,000 items: the standard error of a kappa within a source is near 0.015
    many = list_intervals_of(StudyDesign(4, (3_600, 3_600, 1_800, 3_000), shares), group, (THESE, THIS))
    assert len(many) > 0
    for one in many:
        wide = 0.12 if one.quantity.startswith(("dprime", "criterion")) else 0.04
        assert one.value == pytest.approx(one.truth, abs=wide), one.quantity


@pytest.mark.parametrize("group", GROUPS[:5])
def test_true_values_for_new_raters_equal_estimates_from_very_many_raters(group) -> None:
    # 90 raters of standard deviation 0.35 in z move a mean by 0.04 in z
    many = list_intervals_of(StudyDesign(90, (300, 300, 150, 250)), group, (NEW,))
    assert len(many) > 1
    for one in many:
        wide = 0.25 if one.quantity.startswith(("dprime", "criterion")) else 0.05
        wide *= 4 if one.quantity.startswith("mean confidence") else 1  # from 1 to 5
        assert one.value == pytest.approx(one.truth, abs=wide), one.quantity


def test_true_values_of_retest_equal_estimates_from_very_many_repeats(monkeypatch) -> None:
    monkeypatch.setattr(reader_worlds, "REPEATED_ITEMS", 4_000)
    many = list_intervals_of(StudyDesign(4, (1_200, 1_200, 600, 1_000)), "retest", (THESE, THIS))
    assert {one.quantity for one in many} == {"retest_agreement of one rater", "retest_kappa"}
    for one in many:
        assert one.value == pytest.approx(one.truth, abs=0.03), one.quantity


def test_true_pass_at_k_equals_the_estimate_from_very_many_tasks() -> None:
    # Beta(0.8, 0.8): pass@1 = 1/2; pass@2 = 1 - (0.8 * 1.8)/(1.6 * 2.6) = 0.6538
    tasks = coverage_attempts.simulate_benchmark(BenchmarkDesign(20_000, 2), np.random.default_rng(1)).agents["first"]
    assert np.mean([task.successes > 0 for task in tasks]) == pytest.approx(0.6538, abs=0.015)
    few = coverage_attempts.SimulatedBenchmark(
        BenchmarkDesign(20, 2), dict.fromkeys(coverage_attempts.AGENTS, tasks[:20])
    )
    found = {one.quantity: one.truth for one in coverage_attempts.compute_pass_intervals(few, 0)}
    assert found["pass@1"] == pytest.approx(0.5) and found["pass@2"] == pytest.approx(0.6538, abs=1e-4)


def test_coverage_of_a_block_of_studies_is_reproducible() -> None:
    first, again = (
        coverage.measure_block(StudyBlock("R3 full", 0, 2), groups=["rates"], resamples=20, seed=5) for _ in range(2)
    )
    assert first == again and {tally.studies for tally in first.values()} == {2}
    own = first[ResultKey("rate, subtle error", "new raters", "", "R3 full")]
    assert own.methods == {"wilson_cluster"} and 0 < own.width / own.reported < 1


def test_coverage_report_counts_low_coverage_but_not_a_lack_of_intervals_as_failure() -> None:
    def said(given: int, held: int) -> str:
        return IntervalTally(1000, given, held, 1.0).rating_word

    assert [said(1000, 919), said(1000, 920), said(1000, 990), said(1000, 991)] == [
        "FAIL", "adequate", "adequate", "conservative"]  # fmt: skip
    assert (said(49, 10), said(0, 0)) == ("few given", "withheld")
    bad, naive = ResultKey("a", "b", "", "R2"), ResultKey("a", "b", "naive way", "R2")
    found = {cell: IntervalTally(1000, 1000, 800, 1.0) for cell in (bad, naive)}
    assert coverage.find_failures(found) == [bad]
