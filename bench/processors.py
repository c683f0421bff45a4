"""Processor time of the processes of a benchmark, from /proc (proc(5)); Linux only."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")


class Processes(NamedTuple):
    """Process ids by what they do."""

    workers: Sequence[int]
    dispatcher: int
    postgres: int
    redis: int
    models: int


class Spent(NamedTuple):
    """Seconds of processor time."""

    workers: float
    postgres: float
    others: float  # dispatcher, Redis, model server

    def since(self, before: "Spent") -> "Spent":
        return Spent(*(now - then for now, then in zip(self, before, strict=True)))


def spent(processes: Processes) -> Spent:
    """Processor time so far, of each group with all its children."""
    others = (processes.dispatcher, processes.redis, processes.models)
    return Spent(sum(map(_seconds, processes.workers)), _tree(processes.postgres), sum(map(_seconds, others)))


def ended(processes: Processes) -> bool:
    """Whether a worker or the dispatcher has ended by itself."""
    return any(_stat(pid)[0] in "Z0" for pid in (*processes.workers, processes.dispatcher))


def _seconds(pid: int) -> float:
    """User and system time of a process and of those of its children that have ended; 0 once it has itself."""
    return sum(map(int, _stat(pid)[11:15])) / TICKS


def _tree(pid: int) -> float:
    children = [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(int(name)) == pid]
    return _seconds(pid) + sum(map(_seconds, children))


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    """proc(5)'s fields after the name: state, parent and so on; of a process that has ended, zeros."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 15
