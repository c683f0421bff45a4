"""Run several processes as one: all start together, and all stop when one ends or on Ctrl-C."""

import ctypes
import io
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from django.core.management.base import CommandError

GRACE_SECONDS = 20  # for a process to end after SIGTERM before it is killed
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        # In a thread: a second signal during `set` would wait for ever for the lock that the first one holds.
        threading.Thread(target=stop.set).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, set_stop)
    return stop


def build_manage_command(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", *arguments]


def build_web_server_command(host: str, port: int) -> list[str]:
    """Return the command line of gunicorn with wetbench_site/gunicorn_conf.py."""
    options = ["--config", "python:wetbench_site.gunicorn_conf", "--bind", f"{host}:{port}"]
    return [sys.executable, "-m", "gunicorn", "wetbench_site.wsgi", *options]


def enable_line_buffering() -> None:
    # Python buffers output to a pipe in whole blocks, which would delay the links that people wait for.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


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
) -> None:
    """Start all commands, call `ready`, and stop everything when one ends or a signal arrives."""
    stop = stop_on_signals()
    # Each in a session of its own: Ctrl-C reaches only this process, which stops the children in order.
    running = {
        name: subprocess.Popen(command, start_new_session=True, preexec_fn=_request_death_signal)
        for name, command in commands.items()
    }
    ended = ""
    try:
        if ready:
            ready(stop)
        while not stop.wait(0.3):
            if ended := next((name for name, process in running.items() if process.poll() is not None), ""):
                break
    finally:
        write_line("\nStopping.")
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    if ended:
        raise CommandError(f"The {ended} ended unexpectedly with exit code {running[ended].returncode}")


def wait_for_port(host: str, port: int, stop: threading.Event) -> None:
    """Return when a server accepts connections at the port or `stop` is set. Raise CommandError after 30 s."""
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex((host, port)) == 0 or stop.is_set():
                return
        stop.wait(0.1)
    raise CommandError(f"No server answers on port {port} after 30 s")


def _request_death_signal() -> None:
    """Let Linux send SIGTERM to the child even if its supervisor is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
