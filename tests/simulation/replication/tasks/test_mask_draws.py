"""Drawn masks: how many there are, that draws repeat and extend, and what the call graph decides."""

from dataclasses import replace
from itertools import pairwise
from math import comb
from pathlib import Path

import pytest

from simulation.replication.tasks.call_graph import Place, find_neighbours, find_related, find_static_calls
from simulation.replication.tasks.mask_draws import MaskDrawError, count_masks, draw_masks
from simulation.replication.tasks.task_files import load_task
from simulation.replication.values import TaskFunction
from tests.support import small_tasks

FIXTURES = Path(__file__).parents[4] / "fixtures"
# f1 calls f2 directly and f3 through a function that no mask hides; f4 is called beside f1; f5 is a method; f6 is alone.
CHAIN = '''"""Chain."""

from pkg import other
from pkg.other import f3 as third


def f1(x):
    """."""
    return f2(x) + helper(x)


def f2(x):
    """."""
    return x


def helper(x):
    """."""
    return third(x)


def both(x):
    """."""
    return f1(x) + other.f4(x)


class Thing:
    """."""

    def f5(self, x):
        """."""
        return self.inner(x)

    def inner(self, x):
        """."""
        return other.f6(x)
'''
OTHER = "".join(f'def {name}(x):\n    """."""\n    return x\n\n\n' for name in ("f3", "f4", "f6"))


@pytest.fixture(scope="module")
def qpcr():
    return load_task(FIXTURES / "replication" / "qpcr-titre")


@pytest.fixture
def chain(tmp_path):
    task = load_task(small_tasks.write_small_task(tmp_path))
    places = {name: ("code/pkg/chain.py", name) for name in ("f1", "f2")}
    places |= {name: ("code/pkg/other.py", name) for name in ("f3", "f4", "f6")}
    places["f5"] = ("code/pkg/chain.py", "Thing.f5")
    functions = tuple(TaskFunction(name, *places[name]) for name in sorted(places))
    return replace(task, code={"code/pkg/chain.py": CHAIN, "code/pkg/other.py": OTHER}, functions=functions)


def test_mask_counts_are_binomial_and_a_draw_of_seven_has_51_masks(qpcr):
    assert [count_masks(qpcr, n) for n in range(9)] == [comb(8, n) for n in range(9)]
    draws = [draw for n in range(9) for draw in draw_masks(qpcr, n, 7)]
    assert len(draws) == len({draw.key for draw in draws}) == 51
    assert (draws[0].key, draws[0].functions) == ("u0-001", ())
    assert (draws[-1].key, len(draws[-1].functions)) == ("u8-001", 8)


@pytest.mark.parametrize("mode", ["uniform", "nested", "connected", "scattered"])
def test_mask_draws_repeat_and_more_masks_never_change_earlier_ones(qpcr, mode):
    seven = draw_masks(qpcr, 3, 7, mode, seed=5)
    assert draw_masks(qpcr, 3, 7, mode, seed=5) == seven
    assert draw_masks(qpcr, 3, 3, mode, seed=5) == seven[:3]
    assert len({draw.functions for draw in seven}) == 7
    assert draw_masks(qpcr, 3, 7, mode, seed=6) != seven


def test_nested_masks_of_rising_n_contain_each_other(qpcr):
    for index in range(8):
        masks = [set(draw_masks(qpcr, n, 8, "nested")[index].functions) for n in range(1, 8)]
        assert all(smaller < larger for smaller, larger in pairwise(masks))


def test_mask_of_too_many_functions_or_of_an_unknown_mode_is_refused(qpcr):
    with pytest.raises(MaskDrawError, match="n: is 9; allowed for qpcr-titre: 0 to 8"):
        draw_masks(qpcr, 9, 1)
    with pytest.raises(MaskDrawError, match="uniform, nested, connected, scattered"):
        draw_masks(qpcr, 1, 1, "random")


def test_static_calls_follow_imports_modules_and_methods(chain):
    graph = find_static_calls(chain)
    assert graph[Place("code/pkg/chain.py", "both")] == {
        Place("code/pkg/chain.py", "f1"),
        Place("code/pkg/other.py", "f4"),
    }
    assert graph[Place("code/pkg/chain.py", "helper")] == {Place("code/pkg/other.py", "f3")}
    assert graph[Place("code/pkg/chain.py", "Thing.f5")] == {Place("code/pkg/chain.py", "Thing.inner")}


def test_neighbours_and_call_paths_decide_which_masks_are_connected_and_scattered(chain):
    assert find_neighbours(chain) == {
        **{"f1": {"f2", "f3", "f4"}, "f2": {"f1", "f3"}, "f3": {"f1", "f2"}},
        **{"f4": {"f1"}, "f5": {"f6"}, "f6": {"f5"}},
    }
    assert find_related(chain) == {
        **{"f1": {"f2", "f3"}, "f2": {"f1"}, "f3": {"f1"}, "f4": set()},
        **{"f5": {"f6"}, "f6": {"f5"}},
    }
    connected = {draw.functions for draw in draw_masks(chain, 2, 99, "connected")}
    assert connected == {("f1", "f2"), ("f1", "f3"), ("f1", "f4"), ("f2", "f3"), ("f5", "f6")}
    scattered = {draw.functions for draw in draw_masks(chain, 2, 99, "scattered")}
    assert len(scattered) == comb(6, 2) - 3 and ("f1", "f2") not in scattered and ("f2", "f3") in scattered
