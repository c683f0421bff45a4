"""Task folders: what is read, and that every fault has file, line, field and what is allowed."""

import json
import os
from pathlib import Path

import pytest

from simulation.replication.tasks.task_files import (
    TaskFileError,
    hash_task,
    list_task_folders,
    load_task,
    task_from_json,
    task_to_json,
)
from tests.support import small_tasks

FIXTURES = Path(__file__).parents[4] / "fixtures"


def list_problems(folder, **options):
    with pytest.raises(TaskFileError) as caught:
        load_task(folder, **options)
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]


def test_qpcr_task_has_eight_functions_three_test_cases_and_errors_of_both_types():
    slugs = {path.stem for path in (FIXTURES / "experiments").glob("*.json")}
    task = load_task(FIXTURES / "replication" / "qpcr-titre", slugs)
    assert (len(task.functions), len(task.test_cases)) == (8, 3)
    assert {error.error_type for error in task.errors} == {"obvious", "subtle"}
    assert task.get_function("f4").name == "fit_standard_curve"
    assert list(task.code) == [
        *("code/experiments.py", "code/qpcr/__init__.py", "code/qpcr/curves.py", "code/qpcr/plates.py"),
        *("code/qpcr/standards.py", "code/qpcr/titre.py"),
    ]


def test_task_survives_json_and_its_hash_changes_with_every_part(tmp_path):
    task = load_task(small_tasks.write_small_task(tmp_path))
    assert task_from_json(json.loads(json.dumps(task_to_json(task)))) == task
    other = load_task(small_tasks.write_small_task(tmp_path, generator=small_tasks.GENERATOR + "\n# changed\n"))
    assert hash_task(other) != hash_task(task)
    assert list_task_folders(tmp_path) == [tmp_path / small_tasks.SLUG]


def test_task_file_names_every_wrong_field_with_its_line(tmp_path):
    data = small_tasks.build_task_json()
    data["packages"] = ["torch"]
    data["test_cases"][1]["metrics"][0]["rel"] = 0.001
    data["functions"][1]["id"] = "f1"
    text = json.dumps(data, indent=1)
    problems = list_problems(small_tasks.write_small_task(tmp_path, task=text))
    assert [problem.split(": ", 1)[1] for problem in problems] == [
        "packages[0]: is 'torch'; allowed: numpy, scipy, scikit-learn",
        "functions: the id 'f1' occurs twice",
        "test_cases[1].metrics[0].rel: is 0.001; allowed: a number from 0.002 to 0.5",
    ]
    line = next(number for number, line in enumerate(text.split("\n"), 1) if "0.001" in line)
    assert [problem.split(": ", 1)[0] for problem in problems] == ["task.json:7", "task.json:11", f"task.json:{line}"]
    data = {**small_tasks.build_task_json(), "profiles": {"quick": {"draws": "20"}}}
    problems = list_problems(small_tasks.write_small_task(tmp_path, task=json.dumps(data, indent=1)))
    assert [problem.split(": ", 1)[1] for problem in problems] == [
        "profiles: is ['quick']; allowed: none, or both full and quick"
    ]


def test_task_file_names_functions_and_test_cases_that_the_code_lacks(tmp_path):
    data = small_tasks.build_task_json()
    data["functions"][0]["name"] = "remove"
    data["test_cases"][1]["id"] = "e3"
    data["experiments"] = ["unknown-experiment"]
    folder = small_tasks.write_small_task(tmp_path, task=json.dumps(data, indent=1))
    problems = list_problems(folder, experiments=["known-experiment"])
    assert [problem.split(": ", 1)[1] for problem in problems] == [
        "experiments[0]: is 'unknown-experiment'; allowed: known-experiment",
        "functions[0].name: is 'remove'; allowed: remove_offset, Sums.spread",
        "test_cases[1].id: is 'e3'; allowed: a function of code/experiments.py of this name",
        "the slot '{{e2.spread}}' does not name a metric; allowed: e1.mean, e3.spread",
    ]
    assert problems[3].startswith("paper.md:11: ")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('    """Return the readings without the offset."""\n', "", "remove_offset: has no docstring"),
        ("def remove_offset", "async def remove_offset", "remove_offset: is async"),
        ("    return values - offset", "    pass pass", "code/small/sums.py:9: is not Python"),
    ],
)
def test_task_file_names_code_that_cannot_be_hidden(tmp_path, old, new, problem):
    folder = small_tasks.write_small_task(tmp_path, module=small_tasks.MODULE.replace(old, new))
    assert problem in list_problems(folder)[0]


def test_task_file_refuses_a_generator_in_code_and_files_that_are_no_part_of_a_task(tmp_path):
    folder = small_tasks.write_small_task(tmp_path)
    (folder / "code" / "generate.py").write_text("x = 1\n")
    (folder / "code" / "random.py").write_text("x = 1\n")
    (folder / "code" / "small" / "table.csv").write_text("1\n")
    (folder / "notes.txt").write_text("x\n")
    assert list_problems(folder) == [
        "code/generate.py: the generator must not be in code/, which agents see",
        "code/random.py: random would hide a module of Python or of a package",
        "code/small/table.csv: allowed in code/: Python modules",
        "notes.txt: is not part of a task; allowed: task.json, mutants.json, code, paper.md, generate.py",
    ]


@pytest.mark.parametrize("name", ["task.json", "paper.md", "generate.py", "mutants.json", "code/small/sums.py"])
def test_task_folder_with_links_pipes_or_large_files_is_refused_before_they_are_read(tmp_path, name):
    folder = small_tasks.write_small_task(tmp_path)
    content = (folder / name).read_bytes()
    kinds = (
        lambda path: path.symlink_to("/etc/hostname"),
        os.mkfifo,
        lambda path: path.write_bytes(content + b" " * 2**20),
    )
    for replace_file in kinds:
        (folder / name).unlink()
        replace_file(folder / name)
        assert list_problems(folder) == [f"{name}: allowed: a regular file of at most 1,048,576 bytes, no link"]


def test_planted_error_must_be_the_body_of_a_function_of_the_task(tmp_path):
    errors = small_tasks.build_errors()
    errors[0]["function"], errors[1]["body"] = "f9", "return (\n"
    problems = list_problems(small_tasks.write_small_task(tmp_path, errors=json.dumps(errors, indent=1)))
    assert problems == [
        "mutants.json:3: [0].function: is 'f9'; allowed: f1, f2",
        "mutants.json:11: [1].body: is not the body of a function: '(' was never closed",
    ]
    errors[1]["error_type"] = "hidden"
    problems = list_problems(small_tasks.write_small_task(tmp_path, errors=json.dumps(errors, indent=1)))
    assert problems == ["mutants.json:12: [1].error_type: is 'hidden'; allowed: obvious, subtle"]
