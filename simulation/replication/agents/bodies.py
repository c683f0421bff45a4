"""Bodies of functions that rules write: stubs, a crashing body and planted errors."""

import random

from simulation.replication.tasks.checking.mutants import WRITTEN, list_mutants
from simulation.replication.tasks.checking.stubs import list_stubs
from simulation.replication.values import Task

CRASHING_BODY = "return result_that_is_not_defined\n"


def choose_stub(task: Task, function_id: str, rng: random.Random) -> str:
    """Return a body that ignores what the function is for. Raises KeyError for an unknown function."""
    return rng.choice(list(list_stubs(task, function_id).values()))


def choose_error(task: Task, function_id: str, rng: random.Random, error_type: str = "") -> str:
    """Return a wrong body of a function: an error that the task's author wrote, of `error_type` if one is given.

    A function without one gets a generic mutant, a single edit of its reference body; these are mostly subtle, and were not run here.
    Raises KeyError for an unknown function and ValueError if nothing in it can be changed.
    """
    written = [error for error in task.errors if error.function == function_id]
    bodies = [error.body for error in written if error_type in ("", error.error_type)]
    if not bodies:
        bodies = [mutant.body for mutant in list_mutants(task, function_id) if mutant.operator != WRITTEN]
    if not bodies and not written:
        raise ValueError(f"nothing in {function_id} of {task.slug} can be changed")
    return rng.choice(bodies or [error.body for error in written])
