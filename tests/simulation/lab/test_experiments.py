"""Experiment files: reading, checks, and the exact location of every error."""

import copy
import json
from pathlib import Path

import pytest

from simulation.lab import experiments
from simulation.lab.errors import CatalogueError
from tests.support.data_files import CATALOGUE, load_experiments

REPOSITORY = Path(__file__).parents[3]
TEA = {
    "slug": "tea-ph",
    "name": "Tea pH",
    "group": "Chemistry",
    "goal": "Find the pH of the tea.",
    "max_steps": 50,
    "provenance": "ours",
    "materials": [
        {
            "key": "tea", "name": "Tea", "properties": {"phase": "liquid", "volume": "50 mL"},
            "available_for_use": "available_for_further_use", "material_type": "static",
            "environmental_condition": "room_temp",
            "contents": {
                "caffeine": {"concentration": "0.2 mg/mL", "known": False},
                "sugar": {"concentration": "10 mM", "known": True},
                "yeast": {"concentration": "1e5 cells/mL", "known": True},
                "leaf fines": {"amount": "4 mg", "known": True},
            },
        },
        {
            "key": "tubes", "name": "Tubes", "properties": {"container_capacity": "2 mL"},
            "available_for_use": "unlimited", "material_type": "static", "environmental_condition": "room_temp",
        },
    ],
    "truth": {"pH": "5.1"},
    "protocol": [
        {"action": "Aliquot", "materials": ["tea", "tubes"], "parameters": {"volume": "1 mL"},
         "yields": {"cup": 1}, "role": "sample"},
        {"action": "MeasurepH", "materials": ["cup"], "parameters": {}, "yields": {}, "role": "sample"},
    ],
    "rubric": [
        {"line": "ph", "text": "pH read", "actions": ["MeasurepH"], "of": ["Tea"], "value": "numeric"},
    ],
}  # fmt: skip


def with_field(*path, to):
    data = copy.deepcopy(TEA)
    container = data
    for key in path[:-1]:
        container = container[key]
    container[path[-1]] = to
    return data


def test_valid_experiment_has_no_problems():
    assert experiments.check_experiment(TEA, CATALOGUE) == []


@pytest.mark.parametrize(
    ("data", "field", "allowed"),
    [
        (with_field("slug", to="Tea pH"), "slug", "small letters and digits"),
        (with_field("goal", to=""), "goal", "text, not empty"),
        (with_field("max_steps", to=0), "max_steps", "from 1 to 1000"),
        (with_field("colour", to="red"), "colour", "allowed: alternatives, draws, goal, group"),
        (with_field("materials", to=[]), "materials", "at least one"),
        (with_field("protocol", to="none"), "protocol", "list"),
        (with_field("materials", 0, "key", to="The tea"), "materials[0].key", "small letters"),
        (with_field("materials", 0, "supply", to="much"), "materials[0].supply", "allowed: available_for_use"),
        (with_field("materials", 0, "available_for_use", to="yes"), "materials[0].available_for_use", "unlimited, avail"),
        (with_field("materials", 0, "material_type", to="x"), "materials[0].material_type", "static, dynamic"),
        (with_field("materials", 0, "environmental_condition", to="37C"), "materials[0].environmental_condition", "-80C"),
        (with_field("materials", 0, "environmental_condition", to="cell_culture_conditions"),
         "materials[0].properties.temperature", "that of the incubator"),
        (with_field("manifest", to=[TEA["materials"][1]]), "manifest", "the key 'tubes' occurs twice"),
        (with_field("materials", 0, "properties", "volume", to="50"), "materials[0].properties.volume", "nL, µL, mL, L"),
        (with_field("materials", 0, "properties", "volume", to="-1 mL"), "materials[0].properties.volume", "zero"),
        (with_field("materials", 0, "properties", "depth", to=3), "materials[0].properties.depth", "allowed: text"),
        (with_field("materials", 0, "properties", "tablet mass", to="heavy"), "materials[0].properties.tablet mass", "10 µg"),
        (with_field("materials", 0, "wells", to=[{"well": "A1", "key": "a1", "name": "well", "properties":
            {"volume": "1 mL", "container_capacity": "340 µL"}}]),
         "materials[0].wells[0].properties.volume", "no more than container_capacity"),
        (with_field("materials", 0, "contents", "caffeine", to={"concentration": "2 V", "known": True}),
         "materials[0].contents.caffeine", "mg/mL"),
        (with_field("materials", 0, "contents", "caffeine", to={"amount": "2 mg"}),
         "materials[0].contents.caffeine.known", "true or false"),
        (with_field("materials", 0, "contents", "caffeine", to={"known": True}),
         "materials[0].contents.caffeine", '"concentration" or "amount"'),
        (with_field("materials", 1, "contents", to={"ink": {"concentration": "1 mM", "known": True}}),
         "materials[1].contents.ink", "properties.volume"),
        (with_field("materials", 0, "properties", "caffeine concentration", to="200 µg/mL"),
         "materials[0].properties.caffeine concentration", "omit it"),
        (with_field("materials", 0, "properties", "sugar concentration", to="11 mM"),
         "materials[0].properties.sugar concentration", "'10 mM', as in contents"),
        (with_field("materials", 1, "key", to="tea"), "materials", "'tea' occurs twice"),
        (with_field("materials", 1, "name", to="Tea"), "materials", "'Tea' occurs twice"),
        (with_field("protocol", 0, "action", to="Teleport"), "protocol[0].action", "Aliquot, "),
        (with_field("protocol", 0, "materials", to=["tea", "cups"]), "protocol[0].materials", "allowed: tea, tubes"),
        (with_field("protocol", 0, "materials", to=["cup", "tubes"]), "protocol[0].materials", "'cup' is not on the bench"),
        (with_field("protocol", 0, "materials", to=["tea"]), "protocol[0].materials", "2 to 2"),
        (with_field("protocol", 0, "parameters", to={"volume": "1 mg"}), "protocol[0].parameters", "nL, µL, mL, L"),
        (with_field("protocol", 0, "parameters", to={}), "protocol[0].parameters", "needs volume"),
        (with_field("protocol", 0, "parameters", "source", to="@cups"), "protocol[0].materials", "'cups' is not on"),
        (with_field("protocol", 1, to={"action": "Transfer", "materials": ["tea", "cup"], "parameters": {"source": "tea"}}),
         "protocol[1].parameters.source", "allowed, from the step's materials: @tea, @cup"),
        (with_field("protocol", 0, "yields", to={"tea": 1}), "protocol[0].yields.tea", "a name no material has yet"),
        (with_field("protocol", 0, "yields", to={"cup": "1"}), "protocol[0].yields", "from 0"),
        (with_field("protocol", 0, "role", to="boss"), "protocol[0].role", "control, calibration, sample, preparation"),
        (with_field("protocol", 0, "when", to="now"), "protocol[0].when", "allowed: action"),
        (with_field("rubric", to=[]), "rubric", "at least one"),
        (with_field("rubric", 0, "of", to=["Coffee"]), "rubric[0].of", "allowed: Tea, Tubes"),
        (with_field("rubric", 0, "each", to="Tea"), "rubric[0].each", "a list of texts"),
        (with_field("rubric", 0, "actions", to=[]), "rubric[0].actions", "at least one"),
        (with_field("rubric", 0, "actions", to=["Teleport"]), "rubric[0].actions", "Aliquot, "),
        (with_field("rubric", 0, "at_least", to=0), "rubric[0].at_least", "from 1"),
        (with_field("rubric", 0, "value", to="big"), "rubric[0].value", "text, numeric"),
        (with_field("rubric", 0, "after", to=["ph"]), "rubric[0].after", "allowed: "),
        (with_field("rubric", 0, "spread", to={"ph": 2}), "rubric[0].spread", "allowed: "),
        (with_field("rubric", 0, "parameters", to={"depth": {"equals": "1"}}), "rubric[0].parameters.depth", "probe"),
        (with_field("rubric", 0, "parameters", to={"probe": "micro"}), "rubric[0].parameters.probe", "equals, at_least"),
        (with_field("rubric", 0, "weight", to=2), "rubric[0].weight", "allowed: about"),
    ],
)  # fmt: skip
def test_wrong_field_is_reported_with_its_entry_and_the_allowed_values(data, field, allowed):
    problems = experiments.check_experiment(data, CATALOGUE)
    assert any(problem.startswith(field) and allowed in problem for problem in problems), problems


def test_problems_of_all_experiment_files_are_reported_together_by_file(tmp_path):
    (tmp_path / "tea-ph.json").write_text(json.dumps(with_field("materials", 0, "properties", "volume", to="lots")))
    (tmp_path / "other.json").write_text(json.dumps(TEA))
    (tmp_path / "broken.json").write_text("[")
    with pytest.raises(CatalogueError) as error:
        experiments.load_experiments(tmp_path, CATALOGUE)
    text = str(error.value)
    assert "tea-ph.json:1: materials[0].properties.volume: 'lots' is not a quantity" in text
    assert "other.json:1: slug: must be the file's name, 'other'" in text
    assert "broken.json:1: not JSON" in text


def test_known_concentrations_are_visible_and_unknown_ones_only_in_the_ledger():
    tea = experiments.build_experiment(TEA).initial_materials()[0]
    assert tea.properties["sugar concentration"] == "10 mM"
    assert not [name for name in tea.properties if "caffeine" in name or "fines" in name]
    # 0.2 mg/mL x 50 mL = 10 mg = 10000 µg; 10 mM x 50 mL = 500 µmol = 500000 nmol; 1e5 /mL x 50 mL = 5e6
    amounts = {name: (held["dimension"], float(held["amount"])) for name, held in tea.ledger["components"].items()}
    assert amounts == {
        "caffeine": ("mass", 10_000),
        "sugar": ("amount", 500_000),
        "yeast": ("count", 5_000_000),
        "leaf fines": ("mass", 4_000),
    }
    assert (tea.ledger["key"], tea.ledger["origins"], tea.ledger["volume"]) == ("tea", {"tea": "1"}, "50000")
    json.dumps(tea.ledger)


def test_shipped_experiments_are_valid():
    found = load_experiments()
    assert {spec.slug for spec, _ in found} >= {
        "caffeine-hplc-analysis",
        "lentivirus-moi-optimization",
        "zebrafish-genotyping",
    }
    assert all(spec.protocol and spec.rubric and spec.goal for spec, _ in found)


def test_initial_bench_shows_no_hidden_concentration():
    for spec, data in load_experiments():
        hidden = {
            f"{component} concentration"
            for entry in data["materials"]
            for component, content in entry.get("contents", {}).items()
            if not content["known"]
        }
        for entry, (_, draft) in zip(data["materials"], spec.materials, strict=True):
            unknown = {f"{c} concentration" for c, held in entry.get("contents", {}).items() if not held["known"]}
            assert not unknown & set(draft.properties)
        assert spec.truth or not hidden


JUNK = (None, 5, -1, True, 1.5, "", [], {}, [["x"]], [{}], {"a": []})


def iter_paths(data, path=()):
    yield path
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        yield from iter_paths(value, (*path, key))


@pytest.mark.parametrize("path", [path for path in iter_paths(TEA) if path], ids=repr)
def test_experiment_with_junk_in_one_field_is_reported_or_can_be_loaded(path):
    for junk in JUNK:
        data = with_field(*path, to=junk)
        problems = experiments.check_experiment(data, CATALOGUE)
        assert all(isinstance(problem, str) for problem in problems)
        if not problems:
            assert experiments.build_experiment(data).slug == "tea-ph"
