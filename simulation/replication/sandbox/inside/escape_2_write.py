"""Write outside of the workspace."""

import functools

from simulation.replication.sandbox.inside.attempting import attempt, read_target, report


def write(path: str, mode: str) -> None:
    with open(path, mode) as changed:
        changed.write("changed")


target = read_target()
for folder in (
    "",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/dev",
    "/packages",
    "/python",
    "/input",
    "/proc/1",
    target["folder"],
):
    attempt(f"write a file into {folder or '/'}", functools.partial(write, f"{folder}/written", "w"))
for path in (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger",
    "/supervisor.pyc",
    target["file"],
):
    attempt(f"change {path}", functools.partial(write, path, "r+"))
report("end", "")
