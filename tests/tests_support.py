"""Steps that several tests take."""

import threading
from typing import Any

from django.db import OperationalError

from simulation import queueing, workers
from simulation.models import Run


def play_out(run: Run) -> queueing.RunProgress:
    """Play a run to its end in this thread, by the embedded worker's own code."""
    stop = threading.Event()
    while workers.play_next(stop, run):
        pass
    return queueing.progress(run)


class Away:
    """A database that is away for the first `times` statements which begin so (Django's own hook for every statement)."""

    def __init__(self, beginning: str, times: int) -> None:
        self.beginning, self.times = beginning, times

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.times and sql.startswith(self.beginning):
            self.times -= 1
            raise OperationalError("database is locked")
        return execute(sql, params, many, context)
