"""Steps that several tests take."""

from simulation import queueing, workers
from simulation.models import Run


def play_out(run: Run) -> queueing.RunProgress:
    """Play a run to its end in this thread, through the embedded worker's own code."""
    return workers.play_run(run, 1, lambda _progress: None)
