"""Essential steps of reference protocols, and the masks that are drawn from them."""

import json

import pytest
from django.core.management import CommandError, call_command

from simulation.lab import experiments
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.hidden_steps.masks import Drawing
from simulation.offline.hidden_steps import essential_steps
from simulation.offline.hidden_steps.essential_steps import draw_masks, find_essential_steps
from tests.support.data_files import CATALOGUE, load_specs
from tests.support.laboratory_factory import build_material

LIQUIDS = ("tea", "water", "milk", "juice")


def build_small_spec(needed: int = 3) -> ExperimentSpec:
    """Four liquids that are measured; the rubric needs the first ones, and the tea may be measured or looked at."""
    steps = [{"action": "MeasureVolume", "materials": [key], "parameters": {}, "yields": {}} for key in LIQUIDS]
    lines = [
        {"line": key, "text": key, "actions": ["MeasureVolume"], "of": [key], "value": "numeric"}
        for key in LIQUIDS[:needed]
    ]
    either = [
        {**lines[0], "line": "as volume", "one_of": "tea"},
        {**lines[0], "line": "by eye", "actions": ["VisualInspection"], "one_of": "tea"},
    ]
    data = {
        "slug": "liquids", "name": "Liquids", "group": "Chemistry", "goal": "Find the volumes.", "max_steps": 50,
        "provenance": "ours", "materials": [build_material(key) for key in LIQUIDS], "protocol": steps,
        "rubric": [*either, *lines[1:]],
    }  # fmt: skip
    assert experiments.check_experiment(data, CATALOGUE) == []
    return experiments.build_experiment(data)


def test_essential_steps_are_those_without_which_the_record_is_insufficient() -> None:
    found = find_essential_steps(build_small_spec(), CATALOGUE)
    assert (found.slug, found.steps, found.essential) == ("liquids", 4, (1, 2, 3))
    assert found.fault == "liquids: 3 essential steps, needed: 5"


def test_masks_hide_essential_steps_and_name_the_lines_that_only_they_meet() -> None:
    spec = build_small_spec()
    masks = draw_masks(spec, CATALOGUE, (1, 2, 3), Drawing(per_n=2, help="prefix"), [0, 1, 3])
    assert [(mask.n, mask.draw, mask.help) for mask in masks] == [
        (0, 1, "prefix"), (1, 1, "prefix"), (1, 2, "prefix"), (3, 1, "prefix"),
    ]  # fmt: skip
    # The line "by eye" is missed by the whole protocol too, so that no hidden step had counted for it.
    names = {1: "as volume", 2: "water", 3: "milk"}
    assert [set(mask.lines) for mask in masks] == [{names[step] for step in mask.hidden} for mask in masks]


def test_mask_without_which_the_record_is_sufficient_is_passed_over() -> None:
    # Step 4 is not essential; somebody names it all the same.
    masks = draw_masks(build_small_spec(), CATALOGUE, (1, 4), Drawing(per_n=2), [1])
    assert [mask.hidden for mask in masks] == [(1,)]


def test_protocol_that_is_not_sufficient_itself_has_no_essential_steps() -> None:
    spec = experiments.build_experiment({**build_small_spec().source, "protocol": []})
    with pytest.raises(LabError, match="liquids has no reference protocol"):
        find_essential_steps(spec, CATALOGUE)


def test_lab_report_counts_essential_steps_and_ends_with_1_if_they_are_too_few(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["lab_report", "--masks", "--json", "--experiment", "gcamp7-viral-packaging"]
    call_command(*arguments)
    [counted] = json.loads(capsys.readouterr().out)
    steps = [
        step for step in load_specs()["gcamp7-viral-packaging"].protocol if not step["action"].startswith("Submit")
    ]
    assert counted["steps"] == len(steps) == 12 and len(counted["essential"]) == 11 and counted["fault"] == ""
    monkeypatch.setattr(essential_steps, "FEWEST_ESSENTIAL", 12)
    with pytest.raises(CommandError, match="gcamp7-viral-packaging: 11 essential steps, needed: 12"):
        call_command(*arguments)
