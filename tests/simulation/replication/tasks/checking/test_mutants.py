"""Wrong versions of a function and stubs, from its syntax tree."""

import pytest

from simulation.replication.tasks.checking.mutants import list_mutants
from simulation.replication.tasks.checking.stubs import list_stubs
from simulation.replication.tasks.task_files import load_task
from tests.support import small_tasks


@pytest.fixture
def task(tmp_path):
    module = small_tasks.MODULE.replace(
        "return values - offset", "return np.clip(values[1:] - offset, 0, None, axis=0) > 2"
    )
    return load_task(small_tasks.write_small_task(tmp_path, module=module))


def test_mutants_change_one_place_each_and_leave_out_equal_bodies(task):
    mutants = [(mutant.operator, mutant.body.strip()) for mutant in list_mutants(task, "f1")]
    assert mutants[:2] == [
        ("written", "return values + offset"),
        ("written", "return (values - offset) * 1.001"),
    ]
    assert sorted(mutants[2:]) == [
        ("argument order", "return np.clip(0, values[1:] - offset, None, axis=0) > 2"),
        ("axis", "return np.clip(values[1:] - offset, 0, None, axis=1) > 2"),
        ("comparison", "return np.clip(values[1:] - offset, 0, None, axis=0) >= 2"),
        ("constant + 1", "return np.clip(values[1:] - offset, 0, None, axis=0) > 3"),
        ("constant + 1", "return np.clip(values[1:] - offset, 1, None, axis=0) > 2"),
        ("constant + 1", "return np.clip(values[2:] - offset, 0, None, axis=0) > 2"),
        ("constant x 1.1", "return np.clip(values[1.1:] - offset, 0, None, axis=0) > 2"),
        ("constant x 1.1", "return np.clip(values[1:] - offset, 0, None, axis=0) > 2.2"),
        ("constant x 1.1", "return np.clip(values[1:] - offset, 0, None, axis=0.0) > 2"),
        ("constant x 1.1", "return np.clip(values[1:] - offset, 0.0, None, axis=0) > 2"),
        ("operator", "return np.clip(values[1:] + offset, 0, None, axis=0) > 2"),
        ("slice", "return np.clip(values[1 + 1:] - offset, 0, None, axis=0) > 2"),
    ]


def test_mutants_are_limited_to_the_same_ones_every_time(task):
    five = [mutant for mutant in list_mutants(task, "f1", 5) if mutant.operator != "written"]
    assert len(five) == 5 and five == [m for m in list_mutants(task, "f1", 5) if m.operator != "written"]
    assert set(five) < set(list_mutants(task, "f1", 8))


def test_stubs_return_the_first_argument_that_is_not_self(task):
    assert list_stubs(task, "f2") == {
        **{"None": "return None\n", "0.0": "return 0.0\n", "1.0": "return 1.0\n", "first argument": "return values\n"},
        "zeros like it": "import numpy\nreturn numpy.zeros_like(values, dtype=float)\n",
    }
