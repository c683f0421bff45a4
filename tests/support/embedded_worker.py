"""Run the embedded worker until nothing is left to do."""

import threading

from simulation.engine import workers


def run_until_idle() -> None:
    """Do all requested work, one unit after the other, with the worker's own code."""
    while workers.run_next_row(threading.Event()):
        pass
