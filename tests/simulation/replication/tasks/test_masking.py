"""Masks: bodies are hidden and replaced by qualified name, and everything else stays as it is."""

import ast

import pytest

from simulation.replication.tasks.masking import (
    fill_code,
    mask_code,
    read_gold_bodies,
)
from simulation.replication.tasks.source_text import read_body, replace_bodies
from simulation.replication.tasks.task_files import load_task
from simulation.replication.tasks.workspaces import build_workspace
from tests.support import small_tasks

HIDDEN = 'raise NotImplementedError("hidden")'


@pytest.fixture
def task(tmp_path):
    return load_task(small_tasks.write_small_task(tmp_path))


def test_mask_hides_body_and_comments_and_keeps_signature_and_docstring(task):
    masked = mask_code(task, ["f2"])["code/small/sums.py"]
    assert masked.endswith(f'        """Return the standard deviation with n - 1."""\n        {HIDDEN}\n')
    assert "remove_offset" in masked and "A comment that must not stay" not in masked
    assert "return values - offset" in masked
    without = mask_code(task, ["f1", "f2"], "signature")["code/small/sums.py"]
    assert f"def remove_offset(values: np.ndarray, offset: float) -> np.ndarray:\n    {HIDDEN}\n" in without
    assert "n - 1" not in without


def test_mask_filled_with_reference_bodies_is_the_original_code(task):
    bodies = read_gold_bodies(task)
    assert bodies["f1"] == "# Applied to every reading.\nreturn values - offset\n"
    assert fill_code(task, bodies) == task.code


def test_mask_of_an_unknown_function_is_a_key_error(task):
    with pytest.raises(KeyError, match="f9"):
        mask_code(task, ["f9"])
    with pytest.raises(KeyError, match="missing"):
        replace_bodies(small_tasks.MODULE, {"missing": "pass"})


def test_body_with_a_string_over_several_lines_keeps_its_content():
    source = 'def f():\n    """Return a text."""\n    return 1\n\n\ndef g():\n    """G."""\n    return 2\n'
    body = 'text = """first\n  second\nthird"""\nif text:\n\n    return text\n'
    changed = replace_bodies(source, {"f": body})
    namespace: dict = {}
    exec(changed, namespace)
    assert namespace["f"]() == "first\n  second\nthird" and namespace["g"]() == 2
    assert read_body(changed, "f") == body


def test_body_that_is_no_python_is_put_in_place_and_nothing_else_changes():
    source = 'def f():\n    """Return a text."""\n    return 1\n'
    changed = replace_bodies(source, {"f": 'x = """\n\x00 (((\n'})
    assert changed.startswith('def f():\n    """Return a text."""\n    x = """\n')
    with pytest.raises((SyntaxError, ValueError)):
        ast.parse(changed)


def test_workspace_has_masked_code_data_and_brief_and_withholds_results(task):
    files = build_workspace(task, ["f1"], {"readings.json": b"{}"})
    assert sorted(files) == [
        *("TASK.md", "code/experiments.py", "code/small/__init__.py", "code/small/sums.py"),
        *("data/readings.json", "paper.md", "run.py"),
    ]
    assert b"values - offset" not in b"".join(files.values())
    assert b"the mean is [withheld]." in files["paper.md"] and b"{#" not in files["paper.md"]
    brief = files["TASK.md"].decode()
    assert "`def remove_offset(values: np.ndarray, offset: float) -> np.ndarray`" in brief
    assert "Sums.spread" not in brief and "`spread`: a number" in brief


def test_workspace_has_only_the_passages_of_hidden_functions_or_no_paper_at_all(task):
    oracle = build_workspace(task, ["f1"], {}, paper="oracle")["paper.md"].decode()
    assert "## Offset" in oracle and "Spread" not in oracle
    files = build_workspace(task, ["f1"], {}, paper="none")
    assert "paper.md" not in files and "The paper is not available" in files["TASK.md"].decode()
