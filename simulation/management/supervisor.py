"""Run several processes as one: all start together, and all stop when one ends or on Ctrl-C.

They are forked from the command, which has loaded the code: they start in a tenth of the time and share its memory.
"""

import ctypes
import gc
import io
import multiprocessing
import os
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections

from wetbench_site import checks

GRACE_SECONDS = 20  # for a process to end after SIGTERM before it is killed
_FORK = multiprocessing.get_context("fork")
_SET_PARENT_DEATH_SIGNAL, _SET_NAME = 1, 15  # PR_SET_PDEATHSIG and PR_SET_NAME of prctl(2)


def stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        # In a thread: a second signal during `set` would wait for ever for the lock that the first one holds.
        threading.Thread(target=stop.set).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, set_stop)
    return stop


def build_web_server_command(host: str, port: int) -> list[str]:
    """Return the command line of gunicorn with wetbench_site/gunicorn_conf.py."""
    options = ["--config", "python:wetbench_site.gunicorn_conf", "--bind", f"{host}:{port}"]
    return ["-m", "gunicorn", "wetbench_site.wsgi", *options]


def build_worker_commands(threads: int | None = None, with_dispatcher: bool = True) -> dict[str, list[str]]:
    """Return the command lines that run queued work: with a broker, of a Celery worker and the dispatcher."""
    if not settings.CELERY_BROKER_URL:
        return {"worker": ["manage.py", "work", "--threads", str(threads or 4)]}
    options = "--quiet -A wetbench_site worker --loglevel warning --pool threads --without-gossip --without-mingle"
    worker = ["-m", "celery", *options.split(), "--concurrency", str(threads or 32)]
    return {"worker": worker, **({"dispatcher": ["manage.py", "dispatch"]} if with_dispatcher else {})}


def enable_line_buffering() -> None:
    # Python buffers output to a pipe in whole blocks, which would delay the links that people wait for.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def migrate_if_needed(write_line: Callable[[str], None]) -> None:
    """Run `migrate`, unless a query shows that all migrations are applied: it would take half a second at every start."""
    if checks.list_missing_migrations():
        write_line("Preparing the database")
        _prepare_fork()
        # In a process of its own: every process that is forked from this one later would inherit its 30 MB.
        migration = _FORK.Process(target=_run_command, args=("migrate", ["manage.py", "migrate", "--verbosity", "0"]))
        migration.start()
        migration.join()
        if migration.exitcode:
            raise CommandError("The database could not be prepared", returncode=migration.exitcode)


def check_port_is_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        # as servers do: a port in TIME_WAIT after a restart is free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            advice = f"stop the process that uses it, or choose another port with PORT={port + 1}"
            raise CommandError(f"Port {port} is in use: {advice}") from error


def supervise_processes(
    commands: Mapping[str, Sequence[str]],
    write_line: Callable[[str], None],
    ready: Callable[[threading.Event], None] | None = None,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Start all commands, call `ready`, then `check` every 0.3 s. Stop everything when one ends or a signal arrives.

    A command is `manage.py` or `-m` and a module, with arguments. It is forked, so the caller must not have started threads.
    """
    stop = stop_on_signals()
    _prepare_fork()
    running = {name: _FORK.Process(target=_run_command, args=(name, command)) for name, command in commands.items()}
    ended = ""
    try:
        for process in running.values():
            process.start()
        if ready:
            ready(stop)
        while not stop.wait(0.3):
            if ended := next((name for name, process in running.items() if not process.is_alive()), ""):
                break
            check()
    finally:
        write_line("\nStopping.")
        started = [process for process in running.values() if process.pid]
        for process in started:
            process.terminate()
        for process in started:
            process.join(GRACE_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
    if ended:
        raise CommandError(f"The {ended} ended unexpectedly with exit code {running[ended].exitcode}")


def _prepare_fork() -> None:
    """Close connections, which processes must not share, and exempt all objects from garbage collection.

    A collection in a child would write to the memory that the processes share, and so copy it.
    """
    for connection in connections.all(initialized_only=True):
        connection.close()
        if connection.vendor == "postgresql":
            connection.close_pool()  # type: ignore[attr-defined]  # its threads would not exist in the child
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()


def _run_command(name: str, command: Sequence[str]) -> None:
    """Run a command line in this forked process as if Python had been started with it."""
    if sys.platform == "linux":
        # Linux sends SIGTERM to the child even if its supervisor is killed. The name is shown by ps and top.
        libc = ctypes.CDLL(None)
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
        libc.prctl(_SET_NAME, name.encode())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A session of its own: Ctrl-C reaches only the supervisor, which stops the processes in order.
    os.setsid()
    if command[0] == "-m":
        sys.argv = list(command[1:])
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command)
        runpy.run_path(str(Path(settings.BASE_DIR) / command[0]), run_name="__main__")


def wait_for_port(host: str, port: int, stop: threading.Event) -> None:
    """Return when a server accepts connections at the port or `stop` is set. Raise CommandError after a minute."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex((host, port)) == 0 or stop.is_set():
                return
        stop.wait(0.1)
    raise CommandError(f"No server answers on port {port} after a minute")
