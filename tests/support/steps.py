"""Steps of several tests."""

import io
import threading
from collections.abc import Callable
from typing import Any

from django.db import OperationalError, connection

from simulation.engine import workers
from simulation.models import Run
from simulation.runs import create


def run_to_end(run: Run) -> create.RunProgress:
    """Play a run to its end in this thread, with the embedded worker's own code."""
    stop = threading.Event()
    while workers.run_next_row(stop, run):
        pass
    return create.get_progress(run)


def run_concurrently(action: Callable[[], object], threads: int) -> list[Any]:
    """Call `act` in this many threads at the same time and return what each returned or raised."""
    barrier, results = threading.Barrier(threads), []

    def run_action() -> None:
        try:
            barrier.wait(timeout=30)
            results.append(action())
        except Exception as error:  # an exception is a result like any other
            results.append(error)
        finally:
            connection.close()

    runners = [threading.Thread(target=run_action) for _ in range(threads)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    return results


class InterruptedFile(io.BytesIO):
    """A file that runs an action once, when it is first read."""

    def __init__(self, file: io.BytesIO, act: Callable[[], object]) -> None:
        super().__init__(file.getvalue())
        self._acts = [act]

    def _run_actions(self) -> None:
        while self._acts:
            self._acts.pop()()

    def read(self, size: int | None = -1, /) -> bytes:
        self._run_actions()
        return super().read(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        self._run_actions()
        return super().readline(size)


class DatabaseOutage:
    """Let the first `times` statements that contain this text fail, as if the database were down (Django's execute_wrapper)."""

    def __init__(self, text: str, times: int) -> None:
        self.text, self.times = text, times

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.times and self.text in sql:
            self.times -= 1
            raise OperationalError("database is locked")
        return execute(sql, params, many, context)
