"""Processor time of the processes of a benchmark, read from /proc (proc(5)); Linux only."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")  # clock ticks per second, the unit of times in /proc


class Processes(NamedTuple):
    """Process IDs by function."""

    workers: Sequence[int]
    dispatcher: int
    postgres: int
    redis: int
    models: int


class Spent(NamedTuple):
    """Processor time in seconds."""

    workers: float
    postgres: float
    others: float  # dispatcher, Redis, model server

    def since(self, before: "Spent") -> "Spent":
        return Spent(*(now - then for now, then in zip(self, before, strict=True)))


def spent(processes: Processes) -> Spent:
    """Return the processor time so far of each group, including all child processes."""
    others = (processes.dispatcher, processes.redis, processes.models)
    return Spent(sum(map(_seconds, processes.workers)), _tree(processes.postgres), sum(map(_seconds, others)))


def ended(processes: Processes) -> bool:
    """Return whether a worker or the dispatcher has exited."""
    return any(_stat(pid)[0] in "Z0" for pid in (*processes.workers, processes.dispatcher))


def _seconds(pid: int) -> float:
    """Return user and system time of a process and of its child processes that have ended; 0 once it has ended itself."""
    return sum(map(int, _stat(pid)[11:15])) / TICKS


def _tree(pid: int) -> float:
    # PostgreSQL starts a process per connection; its main process counts a child only after it has ended.
    children = [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(int(name)) == pid]
    return _seconds(pid) + sum(map(_seconds, children))


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    """Return the fields after the name (state, parent, ...); zeros for a process that has ended."""
    try:
        # A process name may contain spaces and parentheses, so the fields are taken after the last one.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 15
