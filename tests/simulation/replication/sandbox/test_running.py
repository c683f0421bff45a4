"""One command in a sandbox: what goes in, what comes back, and which limit stops it."""

import threading
import time

import pytest

from simulation.replication.sandbox.base import Limits, SandboxFault
from simulation.replication.sandbox.choosing import open_sandbox

LIMITS = Limits(seconds=20)


def run(command, files=None, **arguments):
    return open_sandbox().run(command, files or {}, **{"limits": LIMITS, **arguments})


def test_sandbox_returns_exit_status_output_and_changed_files():
    script = "cat a.txt /input/b/c.txt; echo error >&2; mkdir new; echo 1 > new/d.txt; rm a.txt; exit 3"
    result = run(["sh", "-c", script], {"a.txt": b"first\n", "kept.txt": b"k"}, read_only={"b/c.txt": b"second\n"})
    assert (result.exit, result.killed, result.output) == (3, "", "first\nsecond\nerror\n")
    assert result.files == {"kept.txt": b"k", "new/d.txt": b"1\n"}


def test_sandbox_shows_only_the_packages_that_were_asked_for():
    script = "import os, numpy; os.write(int(os.environ['RESULT_FD']), str(numpy.arange(4).sum()).encode())"
    assert run(["python3", "-c", script], packages=["numpy"], with_result=True).result == b"6"
    assert "No module named 'numpy'" in run(["python3", "-c", script], with_result=True).output


def test_sandbox_reports_a_command_that_does_not_exist_as_its_exit_status():
    result = run(["no-such-program"])
    assert (result.exit, result.killed) == (127, "") and "no-such-program" in result.output


def test_sandbox_keeps_files_of_a_command_that_is_stopped_at_its_time_limit():
    result = run(["sh", "-c", "echo 1 > a; sleep 60"], limits=Limits(seconds=0.5))
    assert (result.exit, result.killed, result.files) == (None, "wall", {"a": b"1\n"})
    assert 0.5 <= result.seconds < 2


def test_sandbox_rejects_a_path_outside_of_the_workspace_before_it_starts():
    with pytest.raises(SandboxFault, match=r"'\.\./x': a path is relative"):
        run(["true"], {"../x": b""})


def test_sandbox_is_stopped_within_a_second_when_another_thread_asks_for_it():
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    start = time.monotonic()
    result = run(["sleep", "20"], stop=stop)
    assert result.killed == "stop" and result.files is None
    assert time.monotonic() - start < 1.3
