"""Wrong versions of a function: by generic operators on its syntax tree, and those that the task's author wrote."""

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from simulation.replication.tasks.source_text import find_functions
from simulation.replication.values import Task

WRITTEN = "written"  # the operator of errors in mutants.json

_SWAPPED_OPERATORS: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
    ast.Pow: ast.Mult(),
}
_SWAPPED_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.GtE: ast.Gt(),
    ast.Gt: ast.GtE(),
    ast.LtE: ast.Lt(),
    ast.Lt: ast.LtE(),
}
_SWAPPED_NAMES = {"mean": "median", "median": "mean", "log": "log10", "log10": "log"}
_SWAPPED_ARGUMENTS = {"ddof": (0, 1), "axis": (0, 1)}


class Mutant(NamedTuple):
    """A wrong body of a function. `number` is its entry in mutants.json, or its number among the generic ones."""

    function: str  # id
    operator: str
    number: int
    body: str


def list_mutants(task: Task, function_id: str, limit: int | None = None) -> list[Mutant]:
    """Return the hand-written errors of a function, and its generic mutants; at most `limit` of these, chosen by a digest of their text.

    Bodies equal to the reference body and repeated ones are left out. Raises KeyError.
    """
    written = [
        Mutant(function_id, WRITTEN, index, error.body)
        for index, error in enumerate(task.errors)
        if error.function == function_id
    ]
    function = task.get_function(function_id)
    node = find_functions(task.code[function.path])[function.name]
    bodies = {_unparse_body(node)}
    generic: list[Mutant] = []
    for operator, body in _iter_mutated(node):
        if body not in bodies:
            bodies.add(body)
            generic.append(Mutant(function_id, operator, len(generic), body))
    if limit is not None:
        generic.sort(key=lambda mutant: hashlib.sha256(f"{task.slug}/{function_id}/{mutant.body}".encode()).hexdigest())
        generic = sorted(generic[:limit], key=lambda mutant: mutant.number)
    return [*written, *generic]


def _unparse_body(node: ast.AST) -> str:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return "\n".join(map(ast.unparse, node.body[1:])) + "\n"


def _iter_mutated(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (operator, body) of every mutant of one edit."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    places = list(ast.walk(ast.Module(node.body[1:], [])))
    for index, place in enumerate(places):
        for operator, edit in _iter_edits(place):
            changed = copy.deepcopy(node)
            edit(list(ast.walk(ast.Module(changed.body[1:], [])))[index])
            yield operator, _unparse_body(changed)


def _iter_edits(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    """Yield the edits that fit a node. Each is applied to a copy of the node."""
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED_OPERATORS:
        yield "operator", _set("op", _SWAPPED_OPERATORS[type(node.op)])
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        yield "constant + 1", _set("value", node.value + 1)
        yield "constant x 1.1", _set("value", node.value * 1.1)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED_COMPARISONS:
        yield "comparison", _set("ops", [_SWAPPED_COMPARISONS[type(node.ops[0])]])
    elif isinstance(node, ast.Attribute) and node.attr in _SWAPPED_NAMES:
        yield "function", _set("attr", _SWAPPED_NAMES[node.attr])
    elif isinstance(node, ast.Call) and len(node.args) >= 2 and not isinstance(node.args[0], ast.Starred):
        yield "argument order", _swap_arguments
    elif isinstance(node, ast.keyword) and node.arg in _SWAPPED_ARGUMENTS and isinstance(node.value, ast.Constant):
        low, high = _SWAPPED_ARGUMENTS[node.arg]
        yield node.arg, _set("value", ast.Constant(low if node.value.value == high else high))
    elif isinstance(node, ast.Slice):
        for name in ("lower", "upper"):
            bound = getattr(node, name)
            if bound is not None:
                yield "slice", _set(name, ast.BinOp(bound, ast.Add(), ast.Constant(1)))


def _set(name: str, value: object) -> Callable[[ast.AST], None]:
    return lambda node: setattr(node, name, value)


def _swap_arguments(node: ast.AST) -> None:
    assert isinstance(node, ast.Call)
    node.args[0], node.args[1] = node.args[1], node.args[0]
