"""Line numbers of the values in JSON data files."""

import json
from pathlib import Path

import pytest

from simulation.lab import catalogue, experiments
from simulation.lab.errors import CatalogueError
from wetbench_site.validation import find_line, locate_problems, map_lines

FIXTURES = Path(__file__).parents[3] / "fixtures"
TEXT = """{
  "name": "HPLC",
  "parameters": [
    {"name": "a", "minimum": "1 mL"},
    {
      "name": "b",
      "options": ["x",
                  "y"],
      "minimum":
        "2 mL"
    }
  ],
  "odd.name: with [marks]": {"a\\"b": {}, "deep": [[], [1, {"z": null}]]}
}
"""


def test_json_value_is_located_at_the_line_of_its_key_or_of_itself():
    assert map_lines(TEXT) == {
        "": 1,
        "name": 2,
        "parameters": 3,
        "parameters[0]": 4,
        "parameters[0].name": 4,
        "parameters[0].minimum": 4,
        "parameters[1]": 5,
        "parameters[1].name": 6,
        "parameters[1].options": 7,
        "parameters[1].options[0]": 7,
        "parameters[1].options[1]": 8,
        "parameters[1].minimum": 9,
        "odd.name: with [marks]": 13,
        'odd.name: with [marks].a"b': 13,
        "odd.name: with [marks].deep": 13,
        "odd.name: with [marks].deep[0]": 13,
        "odd.name: with [marks].deep[1]": 13,
        "odd.name: with [marks].deep[1][0]": 13,
        "odd.name: with [marks].deep[1][1]": 13,
        "odd.name: with [marks].deep[1][1].z": 13,
    }


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        ("parameters[1].minimum: is above maximum", 9),
        ("parameters[1].options: a select needs options", 7),
        ("parameters[1].maximum: both bounds are needed", 5),  # missing: the line of the object that lacks it
        ("parameters[0].: must be an object", 4),
        ("parameters: 'a' occurs twice", 3),
        ("odd.name: with [marks].deep: is wrong: parameters[0].name: no", 13),
        ("kind: must be text and not empty", 1),
        ("the file must hold one JSON object", 1),
    ],
)
def test_problem_is_located_at_its_path_or_the_nearest_enclosing_value(problem, line):
    assert find_line(problem, map_lines(TEXT)) == line


def test_problems_are_reported_with_file_and_line(tmp_path, monkeypatch):
    path = tmp_path / "actions" / "HPLC.json"
    path.parent.mkdir()
    path.write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    assert locate_problems(path, ["parameters[1].minimum: is above maximum"]) == [
        "actions/HPLC.json:9: parameters[1].minimum: is above maximum"
    ]
    assert locate_problems(tmp_path / "none.json", []) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n "a": 1,\n "b": }\n', r"X\.json:3: not JSON: Expecting value, column 7"),
        ('{\n "a": [\n  {"b": 1,\n   "b": 2}]}', r"X\.json:4: not JSON: the field 'b' occurs twice"),
        ('{"a": NaN}', r"X\.json: not JSON: NaN is not a number"),
    ],
)
def test_invalid_json_is_reported_with_its_line(tmp_path, text, said):
    (tmp_path / "X.json").write_text(text)
    with pytest.raises(CatalogueError, match=said):
        catalogue.load_catalogue(tmp_path)


def test_file_in_another_encoding_is_reported_with_its_line(tmp_path):
    (tmp_path / "X.json").write_bytes('{\n "a": "5 µL"}'.encode("latin-1"))
    with pytest.raises(CatalogueError, match=r"X\.json:2: not JSON: 'utf-8' codec can't decode"):
        catalogue.load_catalogue(tmp_path)


def test_wrong_action_and_experiment_files_are_refused_with_file_line_and_reason(tmp_path):
    for kind in ("actions", "experiments"):
        (tmp_path / kind).mkdir()
    wait = (FIXTURES / "actions/Wait.json").read_text()
    line = 1 + wait[: wait.index('"kind"')].count("\n")
    (tmp_path / "actions/Wait.json").write_text(wait.replace('"kind": "control"', '"kind": "magic"'))
    with pytest.raises(CatalogueError, match=rf"actions/Wait\.json:{line}: kind: is 'magic'; allowed: "):
        catalogue.load_catalogue(tmp_path / "actions")
    fish = (FIXTURES / "experiments/zebrafish-genotyping.json").read_text()
    line = 1 + fish[: fish.index('"max_steps"')].count("\n")
    (tmp_path / "experiments/other.json").write_text(fish.replace('"max_steps": 50', '"max_steps": 5.5'))
    with pytest.raises(CatalogueError) as error:
        experiments.load_experiments(tmp_path / "experiments", catalogue.load_catalogue(FIXTURES / "actions")[0])
    assert f"experiments/other.json:{line}: max_steps: is 5.5" in str(error.value)
    assert "other.json:2: slug: must be the file's name, 'other'" in str(error.value)


@pytest.mark.parametrize("text", ["5", '"a"', "[]", "{}", "null", " [ ] ", '[1,\n[2,\n"3"]]'])
def test_every_json_text_has_a_line_for_its_root(text):
    assert map_lines(text)[""] == 1


def _iter_paths(data, path=""):
    yield path
    for name, value in data.items() if isinstance(data, dict) else ():
        yield from _iter_paths(value, f"{path}.{name}".removeprefix("."))
    for index, value in enumerate(data) if isinstance(data, list) else ():
        yield from _iter_paths(value, f"{path}[{index}]")


def test_every_value_of_the_shipped_files_has_a_line_that_contains_its_name():
    for path in sorted(FIXTURES.glob("*/*.json")):
        text = path.read_text()
        known, written = map_lines(text), text.splitlines()
        assert list(known) == list(dict.fromkeys(_iter_paths(json.loads(text)))), path
        for key_path, line in known.items():
            name = key_path.rpartition(".")[2]
            if key_path and not key_path.endswith("]") and name.isidentifier():
                assert f'"{name}":' in written[line - 1], (path, key_path)


def test_deeply_nested_json_is_read():
    deep = 900
    assert max(map_lines("[\n" * deep + "]" * deep).values()) == deep
