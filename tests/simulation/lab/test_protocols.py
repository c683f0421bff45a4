"""Edits of a protocol: what a variant or an alternative does instead of the reference protocol."""

import pytest

from simulation.lab import experiments
from simulation.lab.protocols import apply_edits
from tests.support.data_files import CATALOGUE as ACTIONS
from tests.support.laboratory_factory import build_material


def measure(key, **more):
    return {"action": "MeasureVolume", "materials": [key], "parameters": {}, "yields": {}, "role": "", **more}


PROTOCOL = [measure("tea"), measure("water"), measure("milk")]


def list_first_materials(**edits):
    return [step["materials"][0] for step in apply_edits(PROTOCOL, {"name": "edited", **edits})]


def test_without_leaves_steps_out():
    assert list_first_materials(without=[1, 3]) == ["water"]


def test_move_does_steps_before_a_step_that_stays():
    assert list_first_materials(move=[{"steps": [3], "before": 1}]) == ["milk", "tea", "water"]
    assert list_first_materials(move=[{"steps": [1], "before": 4}]) == ["water", "milk", "tea"]


def test_insert_adds_steps_before_a_step_or_at_the_end():
    added = [measure("juice"), measure("wine")]
    assert list_first_materials(insert=[{"before": 2, "steps": added}]) == ["tea", "juice", "wine", "water", "milk"]
    assert list_first_materials(insert=[{"before": 4, "steps": added}]) == ["tea", "water", "milk", "juice", "wine"]


def test_step_numbers_are_those_of_the_reference_protocol_whatever_other_edits_do():
    edits = {
        "without": [1],
        "insert": [{"before": 3, "steps": [measure("wine")]}],
        "move": [{"steps": [3], "before": 2}],
    }
    assert list_first_materials(**edits) == ["milk", "water", "wine"]


def test_change_sets_and_removes_parameters_and_replaces_materials_in_them():
    pour = {
        "action": "Transfer",
        "materials": ["tea", "cup", "mug"],
        "parameters": {"source": "@tea", "amount": "5 mL", "technique": "slow"},
        "yields": {"full": 1},
        "role": "sample",
    }
    change = {
        "steps": [1],
        "parameters": {"amount": "7 mL", "technique": None},
        "replace": {"tea": "water"},
        "omit": ["mug"],
        "yields": {"filled": 0},
    }
    (changed,) = apply_edits([pour], {"name": "edited", "missing": "line", "change": [change]})
    assert changed == {
        "action": "Transfer",
        "materials": ["water", "cup"],
        "parameters": {"source": "@water", "amount": "7 mL"},
        "yields": {"filled": 0},
        "role": "sample",
    }
    assert pour["parameters"]["technique"] == "slow"  # the reference protocol itself is unchanged


def check_variant(**edits):
    data = {
        "slug": "tea",
        "name": "Tea",
        "group": "Chemistry",
        "goal": "Find both volumes.",
        "max_steps": 50,
        "provenance": "ours",
        "materials": [build_material("tea"), build_material("water")],
        "protocol": [measure("tea", yields={"cold_tea": 0}), measure("water")],
        "rubric": [{"line": "read", "text": "tea read", "actions": ["MeasureVolume"]}],
        "variants": [{"name": "edited", "reason": "It shows nothing.", "missing": "read", **edits}],
    }
    return experiments.check_experiment(data, ACTIONS)


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        ({}, "variants[0]: changes nothing; allowed: at least one of without, change, insert, move"),
        ({"without": [3]}, "variants[0].without: is [3]; allowed: steps from 1 to 2"),
        ({"without": [1], "reason": ""}, "variants[0].reason: is ''; allowed: text"),
        (
            {"without": [1], "missing": "taste"},
            "variants[0].missing: is 'taste'; allowed: read",
        ),
        (
            {"insert": [{"before": 4, "steps": [measure("tea")]}]},
            "variants[0].insert[0].before: is 4; allowed: steps from 1 to 3",
        ),
        (
            {"without": [1], "move": [{"steps": [1], "before": 3}]},
            "variants[0].move[0].steps: is [1]; allowed: steps that are not moved twice or left out",
        ),
        (
            {"change": [{"steps": [2], "parameters": {"speed": "5"}}]},
            "variants[0]: MeasureVolume: parameters: ",
        ),
        (
            # the label of the first step does not exist before it
            {"insert": [{"before": 1, "steps": [measure("cold_tea")]}]},
            "variants[0]: MeasureVolume: materials: 'cold_tea' is not on the bench yet; allowed: tea, water",
        ),
        (
            {"without": [1], "insert": [{"before": 3, "steps": [measure("cold_tea")]}]},
            "variants[0]: MeasureVolume: materials: 'cold_tea' is not on the bench yet; allowed: tea, water",
        ),
    ],
)
def test_impossible_edit_is_refused_with_its_field(edits, problem):
    (only,) = check_variant(**edits)
    assert only.startswith(problem)
