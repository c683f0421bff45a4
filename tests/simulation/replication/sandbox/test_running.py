"""One command in a sandbox: what goes in, what comes back, and which limit stops it."""

import os
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def test_sandbox_that_does_not_end_is_a_fault_that_is_tried_again(monkeypatch):
    wait, calls = subprocess.Popen.wait, []

    def wait_too_long(process, timeout=None):
        calls.append(timeout)
        if len(calls) == 1:
            raise subprocess.TimeoutExpired("bwrap", 10)
        return wait(process, timeout)

    open_sandbox()  # its self-test must not be what fails
    monkeypatch.setattr(subprocess.Popen, "wait", wait_too_long)
    with pytest.raises(SandboxFault, match="did not end within 10 s"):
        run(["true"])
    assert len(calls) == 2


def test_sandbox_is_stopped_within_a_second_when_another_thread_asks_for_it():
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    start = time.monotonic()
    result = run(["sleep", "20"], stop=stop)
    assert result.killed == "stop" and result.files is None
    assert time.monotonic() - start < 1.3


def test_sandbox_takes_and_returns_the_largest_tree():
    files = {f"folder-{number % 20}/file-{number}.bin": bytes([number % 256]) * 41_900 for number in range(400)}
    result = run(["true"], files)
    assert result.files == files and result.left_out == ()
    with pytest.raises(SandboxFault, match=r"401 files and .* allowed are 400 files"):
        run(["true"], {**files, "one-more": b""})


def test_sandbox_returns_text_for_output_that_is_not_utf8_and_names_what_it_left_out():
    script = r"""printf 'caf\303\251 \377 \000 \033[2J'; printf x > "$(printf 'a\033b')"; ln -s /etc/passwd link"""
    result = run(["sh", "-c", script])
    assert result.output == "café \ufffd \0 \x1b[2J"
    assert result.files == {}
    assert [text.split(":")[0] for text in result.left_out] == ["'link'", r"'a\x1bb'"]


def test_sandboxes_run_side_by_side():
    with ThreadPoolExecutor(2) as pool:
        start = time.monotonic()
        results = list(pool.map(lambda name: run(["sh", "-c", f"sleep 1; echo {name} > {name}"]), ["a", "b"]))
        assert time.monotonic() - start < 1.9
    assert [result.files for result in results] == [{"a": b"a\n"}, {"b": b"b\n"}]


@pytest.mark.slow
def test_sandbox_ends_with_a_worker_that_was_killed(tmp_path):
    marker = f"marker-{uuid.uuid4().hex}"
    code = (
        "import sys; from simulation.replication.sandbox.choosing import SandboxSettings, build_sandbox\n"
        "build_sandbox(SandboxSettings()).run(['sh', '-c', 'setsid sleep 60 & sleep 60', sys.argv[1]], {})"
    )
    with subprocess.Popen([sys.executable, "-c", code, marker], start_new_session=True) as worker:
        wait_until(lambda: len(find_processes(marker)) >= 2, "the command runs")
        children = find_descendants(worker.pid)
        assert len(children) >= 4  # bwrap, perhaps its process 1, the supervisor, two of the command
        worker.kill()
    wait_until(lambda: not any(map(is_alive, children)), "every process of the sandbox has ended")


def find_processes(marker):
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and marker in read(f"/proc/{pid}/cmdline")]


def find_descendants(pid):
    children = read(f"/proc/{pid}/task/{pid}/children").split()
    return [*children, *(further for child in children for further in find_descendants(child))]


def is_alive(pid):
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] not in ([], ["Z"])


def read(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def wait_until(condition, description):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"not within 20 s: {description}"
        time.sleep(0.05)
