"""Transitions of the offline cast: no false alarm, and most planted errors are found."""

import pytest

from simulation.checker import check
from tests.simulation.checker.corpus import played, specs

SPECS, TYPES = specs()


@pytest.mark.parametrize("spec", SPECS, ids=[spec.slug for spec in SPECS])
@pytest.mark.parametrize("agent", ["protocol", "random"])
def test_offline_transitions_have_no_false_alarm(spec, agent):
    for line in played(spec, TYPES, agent, seed=11):
        assert check(line, TYPES).errors == (), line["id"]


def test_planted_errors_of_amounts_and_states_are_found():
    certain = (
        "matter_from_nothing",
        "frozen_in_the_warm",
        "impossible_place",
        "frozen_reagent_used",
        "wrong_objective",
        "wrong_wavelength",
    )
    spec = next(spec for spec in SPECS if spec.slug == "caffeine-hplc-analysis")
    twins = [line for line in played(spec, TYPES, "protocol", seed=11, twins=True) if line.get("code") in certain]
    is_found = [check(line, TYPES).verdict == "error" for line in twins]
    assert len(twins) > 20
    assert sum(is_found) >= 0.9 * len(is_found)
