"""Processor time of the processes of a benchmark, read from /proc (proc(5)); Linux only."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")  # clock ticks per second, the unit of times in /proc


class ProcessIds(NamedTuple):
    """Process IDs by function."""

    workers: Sequence[int]
    dispatcher: int
    postgres: int
    redis: int
    models: int


class ProcessorTimes(NamedTuple):
    """Processor time in seconds."""

    workers: float
    postgres: float
    dispatcher: float
    redis: float
    models: float  # the stand-in for the providers, which belongs to the benchmark

    def subtract(self, before: "ProcessorTimes") -> "ProcessorTimes":
        return ProcessorTimes(*(now - then for now, then in zip(self, before, strict=True)))

    @property
    def product(self) -> float:
        """Return the time of everything that a site runs: all but the model server."""
        return self.workers + self.postgres + self.dispatcher + self.redis


def read_processor_times(processes: ProcessIds) -> ProcessorTimes:
    """Return the processor time so far of each group, including all child processes."""
    others = map(read_seconds, (processes.dispatcher, processes.redis, processes.models))
    workers = sum(map(read_seconds, processes.workers))
    return ProcessorTimes(workers, read_tree_seconds(processes.postgres), *others)


def has_exited(processes: ProcessIds) -> bool:
    """Return whether a worker or the dispatcher has exited."""
    return any(read_stat_fields(pid)[0] in "Z0" for pid in (*processes.workers, processes.dispatcher))


def read_seconds(pid: int) -> float:
    """Return user and system time of a process and of its child processes that have ended; 0 once it has ended itself."""
    return sum(map(int, read_stat_fields(pid)[11:15])) / TICKS_PER_SECOND


def read_tree_seconds(pid: int) -> float:
    # PostgreSQL starts a process per connection; its main process counts a child only after it has ended.
    children = [int(name) for name in os.listdir("/proc") if name.isdigit() and read_parent_pid(int(name)) == pid]
    return read_seconds(pid) + sum(map(read_seconds, children))


def read_parent_pid(pid: int) -> int:
    return int(read_stat_fields(pid)[1])


def read_stat_fields(pid: int) -> list[str]:
    """Return the fields after the name (state, parent, ...); zeros for a process that has ended."""
    try:
        # A process name may contain spaces and parentheses, so the fields are taken after the last one.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 15
