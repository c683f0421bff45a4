"""The ten escapes: what each tries, and what must have stopped it."""

import contextlib
import json
import os
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from simulation.replication.sandbox.base import Limits, Sandbox, SandboxResult
from simulation.replication.sandbox.escapes.bystander import Bystander, run_bystander
from simulation.replication.sandbox.filters import MACHINES, REFUSED
from simulation.replication.sandbox.inside import read_program
from simulation.replication.trees import MAX_FILE_BYTES, MAX_FILES, find_path_problem

_LIMITS = Limits(seconds=20)
_SMALL = Limits(
    seconds=20, address_mib=256, resident_mib=128, processes=32, work_mib=8, tmp_mib=2, file_mib=4, inodes=500
)
_TREE = {"kept.txt": b"kept"}


class Attempt(NamedTuple):
    """One thing that was tried, and what stopped it: an error, a limit or a check. Empty: nothing did."""

    tried: str
    stopped_by: str


class Escape(NamedTuple):
    """One of the ten escapes, with everything that it tried."""

    number: int
    title: str
    attempts: tuple[Attempt, ...]

    @property
    def contained(self) -> bool:
        return bool(self.attempts) and all(attempt.stopped_by for attempt in self.attempts)


def escape_to_json(escape: Escape) -> dict[str, Any]:
    return {
        "number": escape.number,
        "title": escape.title,
        "contained": escape.contained,
        "attempts": [attempt._asdict() for attempt in escape.attempts],
    }


def run_escapes(sandbox: Sandbox, numbers: tuple[int, ...] = (), folder: Path | None = None) -> Iterator[Escape]:
    """Yield the result of each escape, or of those of `numbers`. `folder` is where the bystander keeps its file."""
    for number, (title, try_escape) in ESCAPES.items():
        if not numbers or number in numbers:
            with run_bystander(folder) as bystander:
                attempts = list(try_escape(Trial(sandbox, bystander)))
                attempts.append(_check_bystander(bystander))
            yield Escape(number, title, tuple(attempts))


class Trial:
    """A sandbox under attack, and the process of the host that attempts are aimed at."""

    def __init__(self, sandbox: Sandbox, bystander: Bystander) -> None:
        self.sandbox, self.bystander = sandbox, bystander
        column = MACHINES[platform.machine()].column
        target = {
            "name": bystander.name,
            "secret": bystander.secret,
            "folder": str(bystander.folder),
            "file": str(bystander.file),
            "port": bystander.port,
            "socket": bystander.socket,
            "pid": bystander.process.pid,
            "worker": os.getpid(),
            "settings": str(Path(__file__).resolve().parents[4] / "wetbench_site/settings.py"),
            "calls": {name: row[column] for name, row in REFUSED.items()}
            | {"clone": MACHINES[platform.machine()].clone},
        }
        self._target = json.dumps(target).encode()

    def run(self, program: str, *arguments: str, limits: Limits = _LIMITS) -> SandboxResult:
        """Run a program of `inside/`."""
        read_only = {
            "escape.py": read_program(program),
            "simulation/replication/sandbox/inside/attempting.py": read_program("attempting"),
            "target.json": self._target,
        }
        return self.sandbox.run(
            ["python3", "/input/escape.py", *arguments], _TREE, read_only=read_only, limits=limits, with_result=True
        )


def _read_attempts(result: SandboxResult) -> Iterator[Attempt]:
    """Yield what a program reported. A program that was interrupted counts as an attempt that nothing stopped."""
    ended = False
    for line in result.result.splitlines():
        entry = json.loads(line)
        if entry["tried"] == "end":
            ended = True
        else:
            yield Attempt(entry["tried"], entry["stopped_by"])
    if not ended:
        yield Attempt(f"come to the end (stopped: {result.killed!r}, output: {result.output[-300:]!r})", "")


def _check_bystander(bystander: Bystander) -> Attempt:
    try:
        contacts = bystander.count_contacts()
        changed = bystander.file.read_text() != bystander.secret or len(os.listdir(bystander.folder)) > 1
        stopped_by = "" if contacts or changed else "nothing reached it"
    except (OSError, ValueError):
        stopped_by = ""
    return Attempt("reach a process of the host or its files", stopped_by)


def _judge(tried: str, is_stopped: bool, stopped_by: str) -> Attempt:
    return Attempt(tried, stopped_by if is_stopped else "")


def _try_program(name: str) -> Callable[[Trial], Iterator[Attempt]]:
    return lambda trial: _read_attempts(trial.run(name))


def _try_forks(trial: Trial) -> Iterator[Attempt]:
    with ThreadPoolExecutor(1) as pool:
        script = "import time; start = time.monotonic()\nwhile time.monotonic() < start + 0.3: pass\nprint('done')"
        other_run = pool.submit(trial.sandbox.run, ["python3", "-c", script], {}, limits=_LIMITS)
        yield from _read_attempts(trial.run("escape_6_forks", limits=_LIMITS._replace(processes=32)))
        neighbour = other_run.result()
    ran = neighbour.exit == 0 and neighbour.output == "done\n"
    yield _judge("disturb the sandbox beside it", ran, f"it ended by itself after {neighbour.seconds} s")


def _try_memory(trial: Trial) -> Iterator[Attempt]:
    yield from _read_attempts(trial.run("escape_7_memory", "alone", limits=_SMALL))
    together = trial.run("escape_7_memory", "together", limits=_SMALL)
    yield _judge("hold 320 MiB in 8 processes", together.killed == "memory", f"killed at {together.resident_mib} MiB")


def _try_disk(trial: Trial) -> Iterator[Attempt]:
    yield from _read_attempts(trial.run("escape_8_disk", "space", limits=_SMALL))
    files = trial.run("escape_8_disk", "files", limits=_SMALL)
    yield _judge("make 100,000 files", files.killed == "inodes", f"killed after {files.seconds} s")


def _try_noise(trial: Trial) -> Iterator[Attempt]:
    noise = trial.run("escape_9_noise", "noise")
    length = len(noise.output.encode())
    kept = length <= _LIMITS.output_kib * 1024 + 100
    yield _judge("print 20 MB", kept, f"{length} of {noise.output_bytes} bytes are kept")
    late = trial.run("escape_9_noise", "sleep", limits=Limits(seconds=0.5))
    yield _judge(
        "run for 1.5 s instead of 0.5 s", late.killed == "wall" and late.seconds <= 1, f"stopped after {late.seconds} s"
    )
    trial.run("escape_9_noise", "daemon", trial.bystander.name + "-daemon")
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_daemon(pid, trial.bystander.name)]
    yield _judge("leave a daemon behind", not left, "no process is left")


def _is_daemon(pid: str, name: str) -> bool:
    with contextlib.suppress(OSError):
        return f"{name}-daemon".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _try_return(trial: Trial) -> Iterator[Attempt]:
    result = trial.run("escape_10_return", "entries")
    yield from _read_attempts(result)
    files = result.files or {}
    wrong = [path for path in files if find_path_problem(path)]
    yield _judge(
        "return names that a workspace may not have", not wrong, f"{len(result.left_out)} entries are left out"
    )
    special = {"link", "folder-link", "pipe", "socket"} & set(files)
    yield _judge("return links, pipes and sockets", not special, "only regular files are kept")
    size = max(map(len, files.values()), default=0)
    within = len(files) <= MAX_FILES and size <= MAX_FILE_BYTES
    yield _judge(
        "return 600 files and one of 2 MiB", within, f"{len(files)} files are kept, the largest of {size} bytes"
    )
    killed = trial.run("escape_10_return", "kill")
    unchanged = killed.files is None or killed.files == _TREE
    yield _judge("kill the supervisor", unchanged, f"killed: {killed.killed!r}, the files stay as they were")


ESCAPES: dict[int, tuple[str, Callable[[Trial], Iterator[Attempt]]]] = {
    1: ("read what is not given", _try_program("escape_1_read")),
    2: ("write outside", _try_program("escape_2_write")),
    3: ("reach the network", _try_program("escape_3_network")),
    4: ("reach processes of the host", _try_program("escape_4_processes")),
    5: ("gain new powers", _try_program("escape_5_powers")),
    6: ("fork without end", _try_forks),
    7: ("take more memory", _try_memory),
    8: ("fill the disk", _try_disk),
    9: ("flood the output, run on, stay behind", _try_noise),
    10: ("return forbidden files", _try_return),
}
