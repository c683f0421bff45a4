"""Run the embedded worker: one unit of a row, or all work until nothing is left to do."""

import threading

from simulation.engine import workers


def run_until_idle() -> None:
    """Do all requested work, one unit after the other, with the worker's own code."""
    while workers.run_next_row(threading.Event()):
        pass


def run_one_unit(kind: str, code: object) -> bool:
    """Run the next unit of a row and no more. Return True if the row was claimed and its next unit can start at once."""
    return workers.run_row(kind, code, lambda: True)
