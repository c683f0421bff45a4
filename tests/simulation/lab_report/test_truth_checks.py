"""Reference protocols with drawn truths: VALID for every seed, and a seed that is not is reported with what was drawn."""

import copy
import io
import json

import pytest
from django.core.management import CommandError, call_command

from simulation.lab import experiments
from simulation.lab_report.truth_checks import check_truths, list_fault_lines
from simulation.offline import gym
from tests.support.data_files import CATALOGUE as ACTIONS
from tests.support.data_files import load_specs

LONG = pytest.param(200, marks=[pytest.mark.thorough, pytest.mark.slow])


@pytest.mark.parametrize("number", [3, LONG])
@pytest.mark.parametrize("slug", gym.list_slugs())
def test_reference_protocol_is_valid_whatever_truth_is_drawn(slug: str, number: int) -> None:
    spec = load_specs()[slug]
    check = check_truths(spec, ACTIONS, "train", number)
    assert check.faults == () and check.valid == number


def test_truth_for_which_the_protocol_fails_is_reported_with_its_seed_and_values() -> None:
    data = copy.deepcopy(load_specs()["caffeine-hplc-analysis"].source)
    # A coffee of 3 mg/mL, diluted tenfold, is above the highest standard of 100 µg/mL and above the linear range.
    data["draws"]["coffee"] |= {"log_uniform": ["3 mg/mL", "4 mg/mL"], "reference": "3 mg/mL"}
    check = check_truths(experiments.build_experiment(data), ACTIONS, "train", 5)
    assert (check.draws, check.seeds, check.distinct, check.valid, len(check.faults)) == (3, 5, 5, 0, 5)
    assert check.faults[2].startswith("seed 2: missed: ") and '"coffee"="3.' in check.faults[2]
    assert list_fault_lines([check])[3] == "caffeine-hplc-analysis: 2 more"


def test_lab_report_with_seeds_prints_a_row_for_each_experiment() -> None:
    out = io.StringIO()
    options = {"seeds": 2, "truths": "validation", "experiment": ["caffeine-hplc-analysis"]}
    call_command("lab_report", stdout=out, **options)
    assert out.getvalue().splitlines()[1].split() == ["caffeine-hplc-analysis", "3", "2", "2", "2"]
    out = io.StringIO()
    call_command("lab_report", stdout=out, json=True, **options)
    assert json.loads(out.getvalue())[0]["valid"] == 2
    with pytest.raises(CommandError, match="There is no experiment 'coffee'"):
        call_command("lab_report", seeds=1, experiment=["coffee"])
