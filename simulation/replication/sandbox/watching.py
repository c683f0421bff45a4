"""Limits that the kernel does not enforce by itself: memory of all processes together, and the number of files."""

import contextlib
import os
from collections.abc import Callable

from simulation.replication.sandbox.base import SCRATCH, WORKSPACE, Limits, SandboxFault
from simulation.replication.sandbox.exchange import Watch

_PAGE = os.sysconf("SC_PAGE_SIZE")


def attach_watch(stack: contextlib.ExitStack, pid: int, limits: Limits) -> Callable[[], Watch]:
    """Return a function that makes one pass over the sandbox whose first process is `pid`.

    The sandbox's own /proc lists exactly its processes, also those that no tree of parents and children reaches. Its
    folders are opened once: later, another process could have the number `pid`. Raises SandboxFault.
    """
    try:
        processes, *folders = (
            _open_folder(stack, f"/proc/{pid}/root{path}") for path in ("/proc", WORKSPACE, SCRATCH, "/dev/shm")
        )
    except OSError as error:
        raise SandboxFault(f"the sandbox cannot be watched: {error}") from error

    def watch() -> Watch:
        resident = measure_resident_bytes(processes) // 2**20
        inodes = sum(state.f_files - state.f_ffree for state in map(os.fstatvfs, folders))
        reason = "memory" if resident > limits.resident_mib else "inodes" if inodes > limits.inodes else ""
        return Watch(reason, resident)

    return watch


def measure_resident_bytes(processes: int) -> int:
    """Return the resident memory of all processes below the /proc folder that is open as `processes`.

    Pages of files count once or not at all for the kernel, but in each process here, so they are left out: programs and
    libraries are shared, and files of the sandbox are limited by their file systems.
    """
    total = 0
    for name in os.listdir(processes):
        if name.isdigit():
            with contextlib.suppress(OSError):  # the process has ended
                number = os.open(f"{name}/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=processes)
                try:
                    _, resident, of_files, *_ = map(int, os.read(number, 200).split())
                    total += (resident - of_files) * _PAGE
                finally:
                    os.close(number)
    return total


def _open_folder(stack: contextlib.ExitStack, path: str) -> int:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, number)
    return number
