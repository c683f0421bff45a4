"""Detectors without science: what each one sees in one step, and what it finds on experiments it has not seen."""

import math

import numpy as np
import pytest
from django.conf import settings

from simulation.twin_audit import detection, detectors, learned_detector
from simulation.twin_audit.pairs import create_pairs, read_pairs, write_pairs


@pytest.fixture(scope="module")
def fresh_pairs():
    """Return five pairs of each type of error from every experiment."""
    return list(create_pairs(settings.FIXTURES_DIR, 90, seed=4))


def test_odd_one_out_of_replicates_is_scored_in_spreads_of_the_others(transfer):
    # The others are all 1 mL, so their spread is the rounding of 0.5 %: |1.2 - 1| / 0.005 = 40.
    assert detectors.score_odd_one_out(transfer(wells=("1 mL", "1 mL", "1.2 mL"))) == pytest.approx(40, rel=1e-3)
    assert detectors.score_odd_one_out(transfer(wells=("1 mL", "1 mL", "1 mL"))) == 0


def test_odd_one_out_of_texts_needs_all_others_to_be_equal(transfer):
    step = transfer(wells=("1 mL", "1 mL", "1 mL"))
    step.materials[2]["properties"]["phase"] = "frozen"
    assert detectors.score_odd_one_out(step) == 100


def test_volumes_that_do_not_add_up_are_a_share_of_what_was_moved(transfer):
    # 10 mL became 8 mL and two wells of 1 mL: nothing is missing. With 9 mL left, 1 mL of 1 + 1 + 1 = 3 mL came from nothing.
    assert detectors.score_sums(transfer()) == 0
    assert detectors.score_sums(transfer(source_after="9 mL")) == pytest.approx(1 / 3)


def test_note_is_compared_with_the_nearest_volume_of_the_step(transfer):
    assert detectors.score_repetitions(transfer()) == 0
    # 1.3 mL is nearest to the 1 mL of the wells and of the action.
    assert detectors.score_repetitions(transfer(note="2 × 1.300 mL")) == pytest.approx(0.3)


def test_percentage_is_compared_with_the_counts_beside_it(transfer):
    # 24 of 200 are 12 %; 18 % is half as much again.
    step = transfer(note="18 % (24 of 200 events)")
    assert detectors.score_repetitions(step) == pytest.approx(0.5)


def test_setting_in_a_heading_is_compared_with_the_action(transfer):
    step = transfer()
    step.action["parameters"]["wavelength"] = "260 nm"
    for stated, expected in (("260 nm", 0), ("280 nm", 1)):
        step.observations[0]["description"] = f"Reading of Buffer, wavelength {stated}: absorbance"
        assert detectors.score_repetitions(step) == expected


def test_state_change_that_no_correct_step_has_is_the_most_surprising(transfer):
    score = detectors.fit_state_changes([transfer()] * 30)
    # Seen in all 30 steps: log(50 / 30.5). Never seen, among 30 that stayed liquid: log(50 / 0.5) = log(100).
    assert score(transfer()) == pytest.approx(math.log(50 / 30.5))
    frozen = transfer()
    frozen.materials[0]["properties"]["phase"] = "frozen"
    assert score(frozen) == pytest.approx(math.log(100))


def test_score_is_compared_with_correct_steps_of_the_same_action(transfer):
    # A gain of a third is usual in "Grow" and never seen in "Aliquot".
    usual = [transfer(source_after="9 mL", action="Grow") for _ in range(20)] + [transfer() for _ in range(20)]
    score = detectors.compare_within_actions(detectors.score_sums)(usual)
    assert score(transfer(source_after="9 mL")) > score(transfer(source_after="9 mL", action="Grow"))


def test_share_at_a_false_alarm_rate_counts_ties_in_proportion():
    # Threshold 0 has 100 of 100 correct steps at it, so 5 % of a tie counts: half of the twins at 0 give 0.5 * 0.05.
    correct, twins = np.zeros(100), np.array([0.0, 1.0])
    assert detection.find_share_at(correct, twins, 0.05) == pytest.approx(0.5 + 0.5 * 0.05)
    # 95 % of 0 ... 99 is 95 (position 94.05, rounded up); 96 to 99 are above it, and a fifth of the 95 itself makes 5 %.
    assert detection.find_share_at(np.arange(100.0), np.array([95.0, 96.0]), 0.05) == pytest.approx(0.5 + 0.5)


def test_pairs_are_the_same_for_the_same_seed_and_survive_a_file(tmp_path):
    pairs = list(create_pairs(settings.FIXTURES_DIR, 2, 1, only=["minicell-uptake", "ferrocene-potential"]))
    assert pairs == list(create_pairs(settings.FIXTURES_DIR, 2, 1, only=["minicell-uptake", "ferrocene-potential"]))
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    assert [str(pair) for pair in read_pairs(tmp_path / "pairs.jsonl")] == [str(pair) for pair in pairs]


def test_steps_of_pairs_contain_nothing_that_raters_do_not_see(fresh_pairs):
    for pair in fresh_pairs:
        for step in (pair.original, pair.twin):
            assert all("ledger" not in material for material in (*step.inputs, *step.materials))
            assert step.action.keys() == {"name", "materials", "parameters"}


@pytest.mark.slow
def test_every_detector_finds_at_least_chance_and_the_learned_one_uses_the_others(fresh_pairs):
    results = detection.measure_detectors(fresh_pairs)
    assert [result.name for result in results] == [*(each.name for each in detectors.DETECTORS), learned_detector.NAME]
    for result in results:
        for found in result.found:
            # The interval reaches at least 5 %, what calling steps at random would find.
            assert found.twins >= 90 and found.high >= detection.FALSE_ALARMS
    strongest = max(found.share for result in results[:-1] for found in result.found)
    assert max(found.share for found in results[-1].found) > strongest / 2
