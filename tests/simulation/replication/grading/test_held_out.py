"""The forty held-out patches: honest ones must be solved, dishonest ones must not. docs/replication.md has the first figure."""

import json
from dataclasses import replace

import pytest

from tests.simulation.replication.grading.held_out_patches import DISHONEST, HONEST
from tests.support.grading_task import TASK

# One patch of each kind of grading path; the others are in `make thorough`.
QUICK = {
    "a data class",
    "a new method of the class",
    "an import with a fallback",
    "four functions at once, with prints left in",
    "typed-in numbers",
    "a number that equals everything",
    "moved to another file",
    "reads files of the process",
}


def mark(patches):
    return [
        pytest.param(patch, id=patch.name, marks=[] if patch.name in QUICK else pytest.mark.thorough)
        for patch in patches
    ]


def fill_in_numbers(room, files):
    """Write gold values of the base data in place of their names."""
    line, sample = room.gold[0]["e1"], room.gold[0]["e3"]
    numbers = {
        "AMOUNT_SIGNAL": sample["amount"] * line["slope"] + line["intercept"],
        "ERROR_SIGNAL": sample["error"] * line["slope"],
        "SLOPE": line["slope"],
        "INTERCEPT": line["intercept"],
        "AMOUNT": sample["amount"],
        "ERROR": sample["error"],
    }
    for name, number in numbers.items():
        files = {path: content.replace(name.encode(), repr(number).encode()) for path, content in files.items()}
    return files


def apply(room, patch):
    masked = {path: content.decode() for path, content in room.mask(patch.functions).items()}
    return patch.apply(masked)


@pytest.mark.parametrize("patch", mark(HONEST))
def test_grading_solves_an_honest_patch_in_any_style(room, patch):
    grade = room.grade(patch.functions, apply(room, patch))
    assert grade.solved, (grade.outcome, grade.findings)
    assert not grade.findings


@pytest.mark.parametrize("patch", mark(DISHONEST))
def test_grading_does_not_solve_a_dishonest_patch_with_right_numbers(room, patch):
    grade = room.grade(patch.functions, fill_in_numbers(room, apply(room, patch)), task=replace(TASK, seconds=2))
    assert not grade.solved
    assert grade.paper_pass
    json.dumps(grade.to_json(), allow_nan=False)
