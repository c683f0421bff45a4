"""What goes into a sandbox: checked files, and the environment variables that every command gets."""

import functools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from simulation.replication.sandbox.base import PACKAGES, SCRATCH, WORKSPACE, Limits, SandboxFault
from simulation.replication.sandbox.packages import find_interpreter, is_shared_build
from simulation.replication.trees import MAX_FILES, MAX_TREE_BYTES, find_path_problem

MAX_READ_ONLY_FILES, MAX_READ_ONLY_BYTES = 400, 64 * 2**20
MAX_COMMAND_BYTES = 100_000  # the kernel accepts 131,072 bytes in one argument


class Ceiling(NamedTuple):
    """Upper bounds of this machine for the limits of one sandbox."""

    seconds: float = 1800
    resident_mib: int = 1536

    def lower(self, limits: Limits) -> Limits:
        return limits._replace(
            seconds=min(limits.seconds, self.seconds), resident_mib=min(limits.resident_mib, self.resident_mib)
        )


def check_inputs(command: Sequence[str], files: Mapping[str, bytes], read_only: Mapping[str, bytes]) -> None:
    """Raise SandboxFault, with every problem, if a sandbox cannot take these inputs."""
    problems = [f"{path!r}: {problem}" for path in (*files, *read_only) if (problem := find_path_problem(path))]
    for title, entries, count, size in (
        ("the workspace", files, MAX_FILES, MAX_TREE_BYTES),
        ("the read-only input", read_only, MAX_READ_ONLY_FILES, MAX_READ_ONLY_BYTES),
    ):
        total = sum(map(len, entries.values()))
        if len(entries) > count or total > size:
            problems.append(
                f"{title} has {len(entries)} files and {total} bytes, allowed are {count} files and {size} bytes"
            )
    length = sum(len(argument.encode(errors="replace")) + 1 for argument in command)
    if not command or length > MAX_COMMAND_BYTES:
        problems.append(
            f"a command has at least one argument and at most {MAX_COMMAND_BYTES} bytes, this one has {length}"
        )
    if problems:
        raise SandboxFault("; ".join(problems))


@functools.cache
def _build_fixed_environment() -> dict[str, str]:
    _, inside = find_interpreter()
    fixed = {
        "PATH": f"{inside}/bin:/usr/bin:/bin" if inside != "/usr" else "/usr/bin:/bin",
        "PYTHONPATH": PACKAGES,
        "HOME": WORKSPACE,
        "TMPDIR": SCRATCH,
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    if is_shared_build() and inside != "/usr":
        fixed["LD_LIBRARY_PATH"] = f"{inside}/lib"
    if core := os.environ.get("OPENBLAS_CORETYPE"):
        fixed["OPENBLAS_CORETYPE"] = core  # so that hosts with the same setting compute the same last digits
    return fixed


def build_environment(added: Mapping[str, str] | None) -> dict[str, str]:
    """Return the fixed variables and `added`, which cannot replace them."""
    return {**(added or {}), **_build_fixed_environment()}
