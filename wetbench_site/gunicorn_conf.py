"""Configuration of gunicorn: `gunicorn wetbench_site.wsgi -c python:wetbench_site.gunicorn_conf`."""

import fcntl
import gc
import os
import shutil
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from wetbench_site import environment, loopback_only
from wetbench_site.observability import logs

try:
    ENVIRONMENT = environment.load_environment(os.environ)
except environment.InvalidConfiguration as error:
    sys.exit(str(error))

bind = "127.0.0.1:8000"
# Threads, so that a page that polls does not delay a rating. No thread waits for a slow client.
worker_class = "wetbench_site.buffering_worker.BufferingWorker"
workers = ENVIRONMENT.get_integer("WETBENCH_WEB_WORKERS")
threads = 8
# Open connections of a process. Each has at most two files, and systemd allows 1,024 files.
worker_connections = 400
timeout = 60
graceful_timeout = 30
# Workers are replaced now and then, which limits memory leaks; the jitter keeps them from being replaced all at once. A
# single worker is never replaced: no request would be answered for the seconds that a new one takes to start.
max_requests = 10_000 if workers > 1 else 0
max_requests_jitter = 1_000
control_socket_disable = True  # not used
logconfig_dict = logs.build_logging_config(
    ENVIRONMENT.get_text("WETBENCH_LOG_FORMAT"),
    ENVIRONMENT.get_text("WETBENCH_LOG_LEVEL"),
    environment.list_secrets(os.environ),
)
METRICS_DIR_VARIABLE, METRICS_DIR_PREFIX = "PROMETHEUS_MULTIPROC_DIR", "wetbench-numbers-"


def on_starting(server: Any) -> None:
    """Exit before binding an address that the embedded profile may not bind; else create the metrics folder."""
    if not ENVIRONMENT.is_production and (reason := loopback_only.explain_bind_refusal(server.cfg.address)):
        sys.exit(reason)
    _remove_stale_folders()
    server.numbers = os.environ[METRICS_DIR_VARIABLE] = tempfile.mkdtemp(prefix=METRICS_DIR_PREFIX)
    server.mark = _lock_folder(server.numbers)  # every process inherits the lock, so it ends with the last of them


def _remove_stale_folders() -> None:
    """Remove the metrics folders of servers that were killed and could not remove them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{METRICS_DIR_PREFIX}*"):
        try:
            lock = _lock_folder(folder)
        except OSError:  # in use by a running server, or of another user
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _lock_folder(folder: str | Path) -> int:
    """Lock the folder and return its descriptor; the lock lasts while any process has it open. Raises OSError if it is taken."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def pre_fork(server: Any, worker: Any) -> None:
    """Give the worker the lowest free number. A new worker reuses the metrics file of its number."""
    used_numbers = {other.file_number for other in server.WORKERS.values()}
    worker.file_number = next(number for number in count() if number not in used_numbers)


def post_fork(server: Any, worker: Any) -> None:
    from prometheus_client import values

    os.makedirs(server.numbers, exist_ok=True)  # a cleaner of temporary folders may have removed it
    values.ValueClass = values.MultiProcessValue(lambda: worker.file_number)  # type: ignore[no-untyped-call]


def post_worker_init(worker: Any) -> None:
    """Set the limits of requests, and tune the garbage collector and the switching of threads."""
    from wetbench_site.settings import VAR_DIR

    worker.request_seconds = ENVIRONMENT.get_number("WETBENCH_REQUEST_SECONDS")
    worker.folder = str(VAR_DIR)
    # All code is loaded by now and stays: collections that scan it again would make raters wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    # Switch threads after one millisecond instead of five: a thread with the database lock would otherwise wait behind
    # threads that render pages, at every statement.
    sys.setswitchinterval(0.001)


def on_exit(server: Any) -> None:
    shutil.rmtree(server.numbers, ignore_errors=True)
