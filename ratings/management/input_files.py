"""Input files of commands, and safe output of their content."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from django.core.management.base import CommandError


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """Yield the file, or standard input for "-". Raises CommandError (exit 2) if there is no such file."""
    if name == "-":
        yield sys.stdin.buffer
        return
    if not _is_file(name):
        raise CommandError(f"no such file: {escape_for_terminal(name)}", returncode=2)
    with Path(name).open("rb") as stream:
        yield stream


def escape_for_terminal(text: str) -> str:
    """Return text of unknown origin so that a terminal can print it: on one line, without control sequences."""
    # Escape sequences in a file could otherwise recolour, move or overwrite what the terminal shows.
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:300])


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # ValueError: a name with a NUL byte
        return False
