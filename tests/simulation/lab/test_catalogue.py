"""Action files: reading, checks, and the exact location of every error."""

import copy
import json
from pathlib import Path

import pytest

from simulation.lab.catalogue import build_catalogue, check_action_type, load_catalogue
from simulation.lab.errors import CatalogueError

REPOSITORY = Path(__file__).parents[3]
DILUTE = {
    "name": "Dilute",
    "kind": "transformation",
    "description": "Adds solvent.",
    "inputs": "a sample and a solvent",
    "outputs": "the diluted sample and what is left of the solvent",
    "materials": {"min": 2, "max": 10},
    "duration": {"default": "5 min"},
    "fidelity": "quantities computed",
    "handler": "dilute",
    "parameters": [
        {
            "name": "volume", "type": "range_with_units", "description": "solvent added", "required": True,
            "dimension": "volume", "minimum": "1 µL", "maximum": "10 mL",
        },
    ],
}  # fmt: skip


def with_field(*path, to):
    data = copy.deepcopy(DILUTE)
    container = data
    for key in path[:-1]:
        container = container[key]
    container[path[-1]] = to
    return data


def test_valid_action_entry_has_no_problems():
    assert check_action_type(DILUTE) == []


@pytest.mark.parametrize(
    ("data", "field", "allowed"),
    [
        (with_field("kind", to="magic"), "kind", "transformation, measurement, synthesis, control"),
        (with_field("fidelity", to="perfect"), "fidelity", "quantities computed"),
        (with_field("colour", to="red"), "colour", "allowed: costs_step"),
        (with_field("name", to=""), "name", "text"),
        (with_field("materials", to={"min": 3, "max": 1}), "materials", "0 <= n <= m <= 384"),
        (with_field("costs_step", to="no"), "costs_step", "true or false"),
        (with_field("duration", "default", to="soon"), "duration.default", "10 s"),
        (with_field("duration", to={"default": "1 min", "parameter": "time"}), "duration.parameter", "none is a duration"),
        (with_field("duration", to={"default": "1 min", "parameter": "volume"}), "duration.parameter", "none is a duration"),
        (with_field("duration", to={"default": "1 min", "sum": [["volume"]]}), "duration.sum", "allowed: one of"),
        (with_field("parameters", 0, "type", to="number"), "parameters[0].type", "select, multiselect, range"),
        (with_field("parameters", 0, "unit", to="mL"), "parameters[0].unit", "allowed: default"),
        (with_field("parameters", 0, "dimension", to="size"), "parameters[0].dimension", "volume, mass"),
        (with_field("parameters", 0, "minimum", to="1 mg"), "parameters[0].minimum", "units allowed: nL"),
        (with_field("parameters", 0, "minimum", to="1 L"), "parameters[0].minimum", "above maximum"),
        (with_field("parameters", 0, "default", to="1 L"), "parameters[0].default", "1 µL to 10 mL"),
        (with_field("parameters", 0, to={"name": "m", "type": "select", "description": "d", "options": "ab"}),
         "parameters[0].options", "list of at least one text"),
        (with_field("parameters", 0, to={"name": "m", "type": "object", "description": "d"}), "parameters[0].keys", "list"),
        (with_field("parameters", 0, to={"name": "m", "type": "text", "description": "d", "pattern": "("}),
         "parameters[0].pattern", "regular expression"),
        (with_field("parameters", 0, to={"name": "m", "type": "text", "description": "d", "max_length": "9"}),
         "parameters[0].max_length", "whole number from 1"),
        (with_field("parameters", 0, "required", to="yes"), "parameters[0].required", "true or false"),
        (with_field("duration", to={"default": "-1 min"}), "duration.default", "zero or more"),
        (with_field("duration", to={"default": "1 min", "per_material": 2}), "duration.per_material", "true or false"),
    ],
)  # fmt: skip
def test_wrong_field_is_reported_with_the_allowed_values(data, field, allowed):
    problems = check_action_type(data)
    assert any(problem.startswith(field) and allowed in problem for problem in problems), problems


def test_duplicate_parameter_is_reported():
    assert any(
        "'volume' occurs twice" in p for p in check_action_type(with_field("parameters", to=DILUTE["parameters"] * 2))
    )


def test_problems_of_all_action_files_are_reported_together_by_file(tmp_path):
    (tmp_path / "Dilute.json").write_text(json.dumps(with_field("kind", to="magic")))
    (tmp_path / "Mix.json").write_text(json.dumps(DILUTE))
    (tmp_path / "Broken.json").write_text("{")
    with pytest.raises(CatalogueError) as error:
        load_catalogue(tmp_path)
    text = str(error.value)
    assert "Dilute.json:1: kind: is 'magic'" in text
    assert "Mix.json:1: name: must be the file's name, 'Mix'" in text
    assert "Broken.json:1: not JSON" in text


def test_shipped_catalogue_is_valid_and_has_at_least_25_actions():
    catalogue, raw = load_catalogue(REPOSITORY / "fixtures/actions")
    assert len(catalogue) == len(raw) >= 25
    assert {known.name for known in catalogue.types.values() if known.min_materials == 0} >= {
        "SubmitMaterialsObservationsForReview",
        "Quit",
    }


JUNK = (None, 5, -1, True, 1.5, "", [], {}, [["x"]], [{}], {"a": []})
TEXT = {"name": "m", "type": "text", "description": "d", "pattern": "a+", "max_length": 9, "default": "aa"}
SELECT = {"name": "s", "type": "select", "description": "d", "options": ["one", "two"], "default": "one"}
FULL = {**DILUTE, "parameters": [*DILUTE["parameters"], TEXT, SELECT]}


def iter_paths(data, path=()):
    yield path
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        yield from iter_paths(value, (*path, key))


@pytest.mark.parametrize("path", [path for path in iter_paths(FULL) if path], ids=repr)
def test_action_entry_with_junk_in_one_field_is_reported_or_can_be_loaded(path):
    for junk in JUNK:
        data = copy.deepcopy(FULL)
        container = data
        for key in path[:-1]:
            container = container[key]
        container[path[-1]] = junk
        if not check_action_type(data):
            assert build_catalogue([data]).find_type("Dilute") is not None
