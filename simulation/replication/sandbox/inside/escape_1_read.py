"""Read what the sandbox was not given."""

import functools
import os

from simulation.replication.sandbox.inside.attempting import NotPossible, attempt, read_target, report


def open_file(path: str) -> None:
    with open(path, "rb") as source:
        source.read(100)


def find_secret(secret: bytes) -> None:
    """Search the environment of every visible process."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as source:
                if secret in source.read():
                    return
        except OSError:
            continue
    raise NotPossible("no environment contains it")


def find_descriptor() -> None:
    """Search for an open file besides standard input, output, error and the result."""
    for number in range(4, 256):
        try:
            os.fstat(number)
        except OSError:
            continue
        return
    raise NotPossible("no further descriptor is open")


target = read_target()
for path in (
    "/etc/shadow", "/etc/passwd", "/proc/1/root/etc/shadow", "/workspace/../etc/passwd", "/home", "/proc/kcore",
    target["file"], target["settings"], f"/proc/{target['pid']}/environ",
):  # fmt: skip
    attempt(f"read {path}", functools.partial(open_file, path))
attempt("find the secret of a process of the host", lambda: find_secret(target["secret"].encode()))
attempt("find a descriptor that was left open", find_descriptor)
report("end", "")
