"""Transitions of the offline cast: no false alarm, and most planted errors are found."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.corpus import iter_episode_lines
from tests.support.data_files import CATALOGUE as TYPES
from tests.support.data_files import load_specs

SPECS = list(load_specs().values())


@pytest.mark.parametrize("spec", SPECS, ids=[spec.slug for spec in SPECS])
@pytest.mark.parametrize("agent", ["protocol", "random"])
def test_offline_transitions_have_no_false_alarm(spec, agent):
    for line in iter_episode_lines(spec, TYPES, agent, seed=11):
        assert check_transition(line, TYPES).error_findings == (), line["id"]


def test_planted_errors_of_amounts_and_states_are_found():
    certain = ("matter_from_nothing", "vessel_too_small", "wrong_objective", "wrong_wavelength")
    spec = next(spec for spec in SPECS if spec.slug == "caffeine-hplc-analysis")
    twins = [
        line for line in iter_episode_lines(spec, TYPES, "protocol", seed=11, twins=True) if line.get("code") in certain
    ]
    is_found = [check_transition(line, TYPES).verdict == "error" for line in twins]
    assert len(twins) > 20
    assert sum(is_found) >= 0.9 * len(is_found)
