"""Limits by a control group (cgroup v2), if the administrator has delegated a cgroup folder to WetBench.

A group also counts what the watcher cannot see: socket buffers, pipes and other memory of the kernel.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from simulation.replication.sandbox.base import Limits, SandboxFault

_OWN_PROCESSES = 8  # of bwrap and the supervisor, besides those of the command


@contextlib.contextmanager
def open_group(folder: str, limits: Limits) -> Iterator[Path]:
    """Yield a new group below `folder` with the limits of one sandbox; remove it at the end. Raises SandboxFault."""
    # Groups of sandboxes whose worker was killed are empty; rmdir refuses any other.
    for old in Path(folder).glob("sandbox-*"):
        with contextlib.suppress(OSError):
            old.rmdir()
    group = Path(folder, f"sandbox-{os.getpid()}-{time.monotonic_ns()}")
    try:
        group.mkdir()
        for name, value in (
            ("memory.max", str(limits.resident_mib * 2**20)),
            ("pids.max", str(limits.processes + _OWN_PROCESSES)),
            ("cpu.max", "100000 100000"),  # one core
        ):
            with open(group / name, "r+") as target:  # r+ does not create a file; it is missing if its controller is
                target.write(value)
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise SandboxFault(
            f"WETBENCH_SANDBOX_CGROUP: {error}; the folder must be a cgroup v2 group that this user owns, with the "
            "controllers memory, pids and cpu in cgroup.subtree_control"
        ) from error
    try:
        yield group
    finally:
        for _ in range(100):  # the kernel needs a moment to forget processes that have ended
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.01)


def join_group(group: Path | None) -> list[str]:
    """Return the beginning of a command that puts itself into `group` before it becomes the rest of the command."""
    if group is None:
        return []
    return ["/bin/sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(group)]
