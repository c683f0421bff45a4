"""Data files with one spoiled value: refused by field or still valid, and the reader never crashes."""

import copy
import random
import re

import pytest

from simulation.lab import catalogue, experiments
from simulation.lab.errors import CatalogueError
from tests.support.data_files import ACTION_ENTRIES as ACTIONS
from tests.support.data_files import CATALOGUE, load_experiments

pytestmark = pytest.mark.slow

EXPERIMENTS = [data for _, data in load_experiments()]
SPOILED = (
    None, True, 0, -1, 1.5, 10**400, float("nan"), "", "x", "9**9**9 m", "5 mL", "-5 mL", "1e999", "５ mL", [], ["x"],
    [None], [[]], {}, {"x": 1}, [{}],
)  # fmt: skip
# Values that are invalid for every field in ALWAYS_WRONG.
NEVER = (None, float("nan"), [[]], [{}], {"x": 1})
ALWAYS_WRONG = {
    "kind", "fidelity", "duration", "name", "description", "inputs", "outputs", "handler", "slug", "group", "goal",
    "max_steps", "key", "properties", "available_for_use", "material_type", "environmental_condition", "line", "text",
    "action", "actions",
}  # fmt: skip


def iter_paths(data, path=()):
    """Yield the path to every value inside."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        yield (*path, key)
        yield from iter_paths(value, (*path, key))


def sample_paths(data, seed):
    """Return three outermost paths and five deeper ones, chosen by the seed: about 800 over all files."""
    paths = list(iter_paths(data))
    deep = [path for path in paths if len(path) > 1]
    rng, outer = random.Random(seed), [path for path in paths if len(path) == 1]
    return rng.sample(outer, 3) + rng.sample(deep, min(5, len(deep)))


def sample_values(path, seed):
    """Return the values that are always invalid, and six others, chosen by the path and the seed."""
    others = [value for value in SPOILED if not any(value is never for never in NEVER)]
    return [*NEVER, *random.Random(f"{seed}{path}").sample(others, 6)]


def replace_value(data, path, value):
    changed = copy.deepcopy(data)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


@pytest.mark.parametrize("data", ACTIONS, ids=lambda data: data["name"])
def test_action_file_with_any_one_invalid_value_is_refused_or_can_be_loaded(data):
    for path in sample_paths(data, data["name"]):
        for value in SPOILED:
            problems = catalogue.check_action_type(replace_value(data, path, value))
            assert problems or catalogue.build_catalogue([replace_value(data, path, value)])
            if value in NEVER and path[-1] in ALWAYS_WRONG and len(path) == 1:
                assert any(problem.startswith(str(path[0])) for problem in problems), (path, value)


@pytest.mark.parametrize("data", EXPERIMENTS, ids=lambda data: data["slug"])
def test_experiment_file_with_any_one_invalid_value_is_refused_or_can_be_loaded(data):
    without_truth = {key: part for key, part in data.items() if key != "truth"}  # checked by the offline cast
    for path in sample_paths(without_truth, data["slug"]):
        for value in sample_values(path, data["slug"]):
            changed = replace_value(data, path, value)
            problems = experiments.check_experiment(changed, CATALOGUE)
            assert problems or experiments.build_experiment(changed)
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
@pytest.mark.parametrize("read", [catalogue.load_catalogue, lambda path: experiments.load_experiments(path, CATALOGUE)])
def test_file_that_no_database_could_store_is_refused_by_file_name(tmp_path, text, told, read):
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
        (("protocol", 1, "yields"), {"x": 10**29}, r"protocol\[1\].yields.x: is 1.*a whole number from 0 to 999"),
    ],
)
def test_impossible_quantities_and_unmeetable_rubric_bounds_are_refused(path, value, told):
    caffeine = next(data for data in EXPERIMENTS if data["slug"] == "caffeine-hplc-analysis")
    assert any(
        re.match(told, one) for one in experiments.check_experiment(replace_value(caffeine, path, value), CATALOGUE)
    )


def test_rubric_condition_with_an_empty_list_of_words_is_refused():
    zebrafish = next(data for data in EXPERIMENTS if data["slug"] == "zebrafish-genotyping")
    path = ("rubric", 0, "parameters", "question", "mentions")
    assert experiments.check_experiment(replace_value(zebrafish, path, []), CATALOGUE)


def test_parameter_bound_that_is_not_a_finite_number_is_refused():
    transfer = next(data for data in ACTIONS if data["name"] == "Thermocycler")
    index = next(i for i, parameter in enumerate(transfer["parameters"]) if parameter["type"] == "range")
    for value in (float("nan"), float("inf"), "1e999", True):
        problems = catalogue.check_action_type(replace_value(transfer, ("parameters", index, "maximum"), value))
        assert any(problem.startswith(f"parameters[{index}].maximum") for problem in problems), value
