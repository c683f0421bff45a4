"""How gunicorn serves: `gunicorn wetbench_site.wsgi -c python:wetbench_site.gunicorn_conf`."""

import fcntl
import gc
import os
import shutil
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from wetbench_site import environment, loopback
from wetbench_site.observability import logs

try:
    ENVIRONMENT = environment.read(os.environ)
except environment.Unusable as error:
    sys.exit(str(error))

bind = "127.0.0.1:8000"
worker_class = "gthread"  # a page that polls must not hold up a rating
workers = ENVIRONMENT.whole("WETBENCH_WEB_WORKERS")
threads = 8
timeout = 60
graceful_timeout = 30
# Of several, one is replaced now and then, not all at the same time: what leaks, leaks little. One alone is not: nobody
# would be answered in the seconds until the next one is there.
max_requests = 10_000 if workers > 1 else 0
max_requests_jitter = 1_000
control_socket_disable = True
logconfig_dict = logs.configuration(
    ENVIRONMENT.text("WETBENCH_LOG_FORMAT"), ENVIRONMENT.text("WETBENCH_LOG_LEVEL"), environment.secrets(os.environ)
)
NUMBERS, PREFIX = "PROMETHEUS_MULTIPROC_DIR", "wetbench-numbers-"


def on_starting(server: Any) -> None:
    """Refuses, before anything is bound, what the embedded profile may not be bound to."""
    if not ENVIRONMENT.production and (why := loopback.refusal(server.cfg.address)):
        sys.exit(why)
    _remove_left_behind()
    server.numbers = os.environ[NUMBERS] = tempfile.mkdtemp(prefix=PREFIX)
    server.mark = _marked(server.numbers)  # held by every process of this server, until the last one has ended


def _remove_left_behind() -> None:
    """The folders of numbers of servers that were killed outright, which could not do so themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            mark = _marked(folder)
        except OSError:  # a server that runs, or somebody else's
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(mark)


def _marked(folder: str | Path) -> int:
    """The folder, locked as long as this is open in some process. OSError if it cannot be."""
    mark = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(mark)
        raise
    return mark


def pre_fork(server: Any, worker: Any) -> None:
    """A worker counts in the file of one that has ended, and goes on from its numbers: there are never many files."""
    taken = {other.place for other in server.WORKERS.values()}
    worker.place = next(place for place in count() if place not in taken)


def post_fork(server: Any, worker: Any) -> None:
    from prometheus_client import values

    os.makedirs(server.numbers, exist_ok=True)  # what cleans temporary folders may have been there
    values.ValueClass = values.MultiProcessValue(lambda: worker.place)  # type: ignore[no-untyped-call]


def post_worker_init(worker: Any) -> None:
    """What was loaded stays to the end: looking through it for garbage makes raters wait."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    # A thread gives way after one millisecond, not five: one that holds the database's lock must not wait behind pages that
    # are being drawn, at each statement again.
    sys.setswitchinterval(0.001)


def on_exit(server: Any) -> None:
    shutil.rmtree(server.numbers, ignore_errors=True)
