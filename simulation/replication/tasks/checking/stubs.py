"""Trivial bodies. A task is faulty if a function passes with one."""

from collections.abc import Sequence

from simulation.replication.tasks.source_text import find_functions
from simulation.replication.values import Task

FIXED = {"None": "return None\n", "0.0": "return 0.0\n", "1.0": "return 1.0\n"}


def list_stubs(task: Task, function_id: str) -> dict[str, str]:
    """Return the stub bodies of a function by name: None, 0.0, 1.0, its first argument, zeros like it. Raises KeyError."""
    function = task.get_function(function_id)
    node = find_functions(task.code[function.path])[function.name]
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    if "." in function.name and names[:1] in (["self"], ["cls"]):
        names = names[1:]
    if not names:
        return dict(FIXED)
    zeros = f"import numpy\nreturn numpy.zeros_like({names[0]}, dtype=float)\n"
    return {**FIXED, "first argument": f"return {names[0]}\n", "zeros like it": zeros}


def fill_stubs(function_ids: Sequence[str], name: str = "0.0") -> dict[str, str]:
    """Return one of the fixed stubs for each of these functions."""
    return dict.fromkeys(function_ids, FIXED[name])
