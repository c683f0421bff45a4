"""Steps that several tests take."""

import threading

from simulation import queueing, workers
from simulation.models import Run


def play_out(run: Run) -> queueing.RunProgress:
    """Play a run to its end in this thread, by the embedded worker's own code."""
    stop = threading.Event()
    while workers.play_next(stop, run):
        pass
    return queueing.progress(run)
