"""Bodies of functions that rules write: the reference body, stubs, a crashing body and planted errors."""

import ast
import random
import textwrap

from simulation.replication.tasks.masking import find_functions, read_body
from simulation.replication.values import Task

STUBS = ("return None", "return 0.0", "return 1.0", "return {first}", "return {first} * 0")
CRASHING_BODY = "return result_that_is_not_defined\n"
_SWAPPED: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
}


def read_reference_body(task: Task, function_id: str) -> str:
    """Return the reference body of a function. Raises KeyError."""
    function = task.get_function(function_id)
    return read_body(task.code[function.path], function.name)


def choose_stub(task: Task, function_id: str, rng: random.Random) -> str:
    """Return a body that ignores what the function is for. Some return its first argument, or None if it has none."""
    function = task.get_function(function_id)
    arguments = find_functions(task.code[function.path])[function.name].args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args) if each.arg not in ("self", "cls")]
    return rng.choice(STUBS).format(first=names[0] if names else "None") + "\n"


def choose_error(task: Task, function_id: str, rng: random.Random, error_type: str = "") -> str:
    """Return a wrong body of a function: a hand-written error of the task, of `error_type` if there is one.

    For a function without one, an arithmetic operator of the reference body is swapped, or its first condition is negated.
    Raises ValueError if the reference body has neither.
    """
    errors = [error for error in task.errors if error.function == function_id]
    if errors:
        preferred = [error for error in errors if error.error_type == error_type] or errors
        return rng.choice(preferred).body
    return _change_operator(read_reference_body(task, function_id), rng)


def _change_operator(body: str, rng: random.Random) -> str:
    tree = ast.parse("def changed():\n" + textwrap.indent(body, "    "))
    nodes = list(ast.walk(tree))
    sums = [node for node in nodes if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _SWAPPED]
    conditions = [node for node in nodes if isinstance(node, ast.If | ast.IfExp | ast.While)]
    if sums:
        chosen = rng.choice(sums)
        chosen.op = _SWAPPED[type(chosen.op)]
    elif conditions:
        conditions[0].test = ast.UnaryOp(ast.Not(), conditions[0].test)
    else:
        raise ValueError("the reference body has no operator and no condition to change")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    return "\n".join(ast.unparse(ast.fix_missing_locations(statement)) for statement in function.body) + "\n"
