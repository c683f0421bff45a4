"""A data file with any one value spoiled is refused by name, or means something; it never crashes the reader."""

import copy
import random
import re
from pathlib import Path

import pytest

from simulation.lab import catalogue, experiments
from simulation.lab.errors import CatalogueError

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[3] / "fixtures"
CATALOGUE, ACTIONS = catalogue.read_directory(FIXTURES / "actions")
EXPERIMENTS = [data for _, data in experiments.read_directory(FIXTURES / "experiments", CATALOGUE)]
SPOILED = (
    None, True, 0, -1, 1.5, 10**400, float("nan"), "", "x", "9**9**9 m", "5 mL", "-5 mL", "1e999", "５ mL", [], ["x"],
    [None], [[]], {}, {"x": 1}, [{}],
)  # fmt: skip
# Whatever the file says here, these make it wrong.
NEVER = (None, float("nan"), [[]], [{}], {"x": 1})
ALWAYS_WRONG = {
    "kind", "fidelity", "duration", "name", "description", "inputs", "outputs", "handler", "slug", "group", "goal",
    "max_steps", "key", "properties", "available_for_use", "material_type", "environmental_condition", "line", "text",
    "action", "actions",
}  # fmt: skip


def places(data, path=()):
    """The path to every value inside."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


def some_places(data, seed):
    """Three of the outermost fields and five places deeper down, others in every file: together some eight hundred."""
    paths = list(places(data))
    deep = [path for path in paths if len(path) > 1]
    rng, outer = random.Random(seed), [path for path in paths if len(path) == 1]
    return rng.sample(outer, 3) + rng.sample(deep, min(5, len(deep)))


def spoiled(data, path, value):
    changed = copy.deepcopy(data)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


@pytest.mark.parametrize("data", ACTIONS, ids=lambda data: data["name"])
def test_an_action_file_with_one_value_spoiled_is_refused_or_can_be_built(data):
    for path in some_places(data, data["name"]):
        for value in SPOILED:
            problems = catalogue.check(spoiled(data, path, value))
            assert problems or catalogue.build([spoiled(data, path, value)])
            if value in NEVER and path[-1] in ALWAYS_WRONG and len(path) == 1:
                assert any(problem.startswith(str(path[0])) for problem in problems), (path, value)


@pytest.mark.parametrize("data", EXPERIMENTS, ids=lambda data: data["slug"])
def test_an_experiment_file_with_one_value_spoiled_is_refused_or_can_be_built(data):
    without_truth = {key: part for key, part in data.items() if key != "truth"}  # that is the offline cast's to check
    for path in some_places(without_truth, data["slug"]):
        for value in SPOILED:
            changed = spoiled(data, path, value)
            problems = experiments.check(changed, CATALOGUE)
            assert problems or experiments.build(changed)
            if value in NEVER and path[-1] in ALWAYS_WRONG and path[0] in ("materials", "rubric") and len(path) == 3:
                assert any(problem.startswith(f"{path[0]}[{path[1]}].{path[2]}") for problem in problems), (path, value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"name": NaN}', "NaN is not a number"),
        ('{"name": "a", "name": "b"}', "'name' occurs twice"),
        ('{"name": "\\u0000"}', "NUL"),
        ('{"name": "\\ud800"}', "surrogates not allowed"),
        ('{"name": ' + "1" * 5000 + "}", "integer string conversion"),
        ("[" * 100_000, "recursion"),
        ('{"name": ', "not JSON"),
    ],
)
@pytest.mark.parametrize("read", [catalogue.read_directory, lambda path: experiments.read_directory(path, CATALOGUE)])
def test_a_file_no_database_could_hold_is_refused_by_name(tmp_path, text, told, read):
    (tmp_path / "Odd.json").write_text(text)
    with pytest.raises(CatalogueError, match=rf"(?s)Odd\.json:(1:)? not JSON: .*{told}|Odd\.json:1: {told}"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("materials", 0, "properties", "volume"), "500 mL", r"materials\[0\].properties.volume: is '500 mL'"),
        (
            ("rubric", 0, "parameters", "detection_wavelength", "at_least"),
            "blue",
            r"rubric\[0\].parameters.detection_wave",
        ),
        (("protocol", 1, "yields"), {"x": 10**29}, r"protocol\[1\].yields: must map labels to positions .* to 999"),
    ],
)
def test_what_could_never_be_or_never_be_met_is_refused(path, value, told):
    caffeine = next(data for data in EXPERIMENTS if data["slug"] == "caffeine-hplc-analysis")
    assert any(re.match(told, one) for one in experiments.check(spoiled(caffeine, path, value), CATALOGUE))


def test_a_condition_without_words_is_refused():
    zebrafish = next(data for data in EXPERIMENTS if data["slug"] == "zebrafish-genotyping")
    path = ("rubric", 0, "parameters", "question", "mentions")
    assert experiments.check(spoiled(zebrafish, path, []), CATALOGUE)


def test_a_bound_that_is_no_finite_number_is_refused():
    transfer = next(data for data in ACTIONS if data["name"] == "Thermocycler")
    index = next(i for i, parameter in enumerate(transfer["parameters"]) if parameter["type"] == "range")
    for value in (float("nan"), float("inf"), "1e999", True):
        problems = catalogue.check(spoiled(transfer, ("parameters", index, "maximum"), value))
        assert any(problem.startswith(f"parameters[{index}].maximum") for problem in problems), value
