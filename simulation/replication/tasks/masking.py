"""Hide functions of a task's code: their bodies become `raise NotImplementedError("hidden")`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from simulation.replication.tasks.source_text import read_body, replace_bodies
from simulation.replication.values import HIDDEN_MESSAGE, DocsArm, Task

HIDDEN_BODY = f'raise NotImplementedError("{HIDDEN_MESSAGE}")\n'


def mask_code(task: Task, function_ids: Sequence[str], docs: DocsArm = "kept") -> dict[str, str]:
    """Return all code of the task by path, with these functions hidden. `docs` "signature" removes their docstrings too.

    Raises KeyError for an unknown function.
    """
    return fill_code(task, dict.fromkeys(function_ids, HIDDEN_BODY), docs)


def fill_code(task: Task, bodies: Mapping[str, str], docs: DocsArm = "kept") -> dict[str, str]:
    """Return all code of the task by path, with these bodies by function id in place of the reference ones. Raises KeyError."""
    by_path: dict[str, dict[str, str]] = defaultdict(dict)
    for function_id, body in bodies.items():
        function = task.get_function(function_id)
        by_path[function.path][function.name] = body
    return {
        path: replace_bodies(text, by_path[path], docs) if path in by_path else text for path, text in task.code.items()
    }


def read_gold_bodies(task: Task, function_ids: Sequence[str] | None = None) -> dict[str, str]:
    """Return the reference body of each function by id; of all functions by default."""
    chosen = [function.id for function in task.functions] if function_ids is None else function_ids
    functions = [task.get_function(function_id) for function_id in chosen]
    return {function.id: read_body(task.code[function.path], function.name) for function in functions}
