"""Start processes of the site in a fraction of a second: fork them from one that has everything imported.

Run as a program, this module is that process: it reads one JSON order per line from its standard input, and forks. A forked
process is like any other, with its own connections; only its imports, four seconds of CPU time, were done before.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PRELOADED = (
    "anthropic.resources", "billiard.dummy", "billiard.pool", "celery.app.amqp", "celery.app.control", "celery.app.log",
    "celery.apps.worker", "celery.backends.base", "celery.bin.celery", "celery.concurrency.thread",
    "celery.contrib.django.task", "celery.events.receiver", "celery.worker.autoscale", "celery.worker.components",
    "celery.worker.consumer", "celery.worker.consumer.delayed_delivery", "celery.worker.strategy",
    "django.core.management.commands.shell", "encodings.idna", "encodings.utf_8_sig", "kombu.mixins",
    "kombu.transport.redis", "openai.resources.chat", "psycopg_pool",
)  # fmt: skip
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


@dataclass
class PreloadedProcess:
    """The process that forks the others, as seen from a test."""

    process: "subprocess.Popen[str]"
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    @contextmanager
    def run_process(cls, environment: Mapping[str, str]) -> Iterator["PreloadedProcess"]:
        """Start the process. All that it forks ends with it."""
        command = [sys.executable, str(Path(__file__))]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=ROOT, env=dict(environment), **pipes)
        try:
            yield cls(process)
        finally:
            process.kill()
            process.communicate()

    def fork_command(self, database: str, log: Path, *command: str) -> "ForkedProcess":
        """Run `celery worker ...`, `gunicorn ...` or `manage.py ...` on a database of the cluster in a forked process."""
        return ForkedProcess(self, self.send_order(start=command, database=database, log=str(log)), log)

    def send_order(self, **order: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        with self.lock:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())


@dataclass
class ForkedProcess:
    """A forked process. Its id is not reused until its exit status was read."""

    parent: PreloadedProcess
    pid: int
    log: Path
    status: int | None = None

    def send_signal(self, number: int) -> None:
        if self.get_exit_status() is None:
            os.kill(self.pid, number)

    def get_exit_status(self) -> int | None:
        """Return its exit status, less than 0 if a signal ended it; None while it runs."""
        if self.status is None:
            self.status = self.parent.send_order(poll=self.pid)
        return self.status

    def wait_for_end(self, seconds: float) -> int:
        deadline = time.monotonic() + seconds
        while self.get_exit_status() is None:
            assert time.monotonic() < deadline, f"process {self.pid} did not end within {seconds} s\n{self.read_log()}"
            time.sleep(0.01)
        assert self.status is not None
        return self.status

    def read_log(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def main() -> None:
    """Import everything once, then fork on each order until standard input ends."""
    sys.path.insert(1, str(ROOT))
    os.environ["DJANGO_SETTINGS_MODULE"] = "wetbench_site.settings"
    import_everything()
    for line in sys.stdin:
        order = json.loads(line)
        if "poll" in order:
            pid, status = os.waitpid(order["poll"], os.WNOHANG)
            result = os.waitstatus_to_exitcode(status) if pid else None
        elif not (result := os.fork()):
            sys.exit(run_forked_command(**order))
        print(json.dumps(result), flush=True)


def import_everything() -> None:
    """Import only: no thread and no connection may exist when the process forks."""
    for name in PRELOADED:
        importlib.import_module(name)
    import django
    from django.core.checks import run_checks

    django.setup()
    run_checks()  # imports every view, as Celery does when a worker starts
    importlib.import_module("wetbench_site.celery").app.loader.import_default_modules()
    gc.freeze()  # garbage collection in a child would touch, and so copy, every shared page


def run_forked_command(start: list[str], database: str, log: str) -> int:
    """Run the command in the forked process and return its exit status."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    os.setsid()
    for number, (path, flags) in enumerate([(os.devnull, os.O_RDONLY), (log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)]):
        os.dup2(os.open(path, flags, 0o600), number)
    os.dup2(1, 2)
    from django.db import connection

    connection.settings_dict["NAME"] = database  # the same object for every thread's connection
    sys.argv = start
    if start[0] == "celery":
        from wetbench_site.celery import app

        app.worker_main(start[1:])
    elif start[0] == "gunicorn":
        from gunicorn.app.wsgiapp import run

        run()
    else:
        from django.core.management import execute_from_command_line

        execute_from_command_line(start)
    return 0


if __name__ == "__main__":
    main()
