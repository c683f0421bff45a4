"""Report what a program in a sandbox tried, one JSON line each, on the result descriptor."""

import ctypes
import errno
import json
import os
from collections.abc import Callable
from typing import Any


class NotPossible(Exception):  # noqa: N818  # a result
    """The attempt had no effect, although no system call failed."""


def attempt(tried: str, action: Callable[[], object]) -> None:
    """Call `action`. It succeeded if it raises nothing."""
    try:
        action()
    except OSError as error:
        report(tried, errno.errorcode.get(error.errno or 0, str(error)))
    except (MemoryError, ValueError, NotPossible) as error:
        report(tried, str(error) or type(error).__name__)
    else:
        report(tried, "")


def report(tried: str, stopped_by: str) -> None:
    line = json.dumps({"tried": tried, "stopped_by": stopped_by}) + "\n"
    os.write(int(os.environ["RESULT_FD"]), line.encode())


def read_target() -> dict[str, Any]:
    """Return facts about the host, given to the attempts so that they are harder to stop."""
    with open("/input/target.json", encoding="utf-8") as source:
        target: dict[str, Any] = json.load(source)
    return target


def open_memory(pid: int) -> None:
    """Open the memory of a process for writing."""
    with open(f"/proc/{pid}/mem", "rb+"):
        pass


def call(number: int, *arguments: object) -> int:
    """Make a system call; return its result. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    result: int = library.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
