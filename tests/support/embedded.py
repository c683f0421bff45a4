"""Run the embedded worker until nothing is left to do."""

import threading

from simulation.engine import workers


def play_all() -> None:
    """Do all requested work, one unit after the other, with the worker's own code."""
    while workers.play_next(threading.Event()):
        pass
