"""The embedded worker, until nothing waits any more."""

import threading

from simulation.engine import workers


def play_all() -> None:
    """Everything that is asked for, by the worker's own code, one after the other."""
    while workers.play_next(threading.Event()):
        pass
