"""Slots: how many sandboxes run on this machine at the same time."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def take_slot(folder: Path, count: int) -> Iterator[bool]:
    """Yield whether one of `count` slots was free; it is held until the end of the block.

    A slot is a locked file in `folder`. The kernel frees it when its holder dies, so that no slot is ever lost.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        descriptor = os.open(folder / f"slot-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield True
            return
        finally:
            os.close(descriptor)
    yield False
