"""Folders for scratch copies: one per audit, locked while in use, and removed at its end or by the next audit.

They are in the folder of WETBENCH_VAR_DIR and not in /tmp, which is often too small for a copy of the database.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

_PREFIX = "audit-"


@contextmanager
def create_own_folder() -> Iterator[Path]:
    """Create a folder that only the site's user can read, and remove it at the end of the block. Raises OSError.

    Folders of audits that were killed are removed first.
    """
    parent = settings.VAR_DIR / "scratch"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _hold_lock(parent):  # between creating a folder and locking it, another audit could remove it
        # Folders of killed audits are recognised by their free lock: the system releases the locks of a process that
        # ends.
        _remove_leftovers(parent)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = _lock_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_leftovers(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            lock = _lock_folder(folder, wait=False)
        except (BlockingIOError, FileNotFoundError):  # in use, or just removed by its audit
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    lock = _lock_folder(folder)
    try:
        yield
    finally:
        os.close(lock)


def _lock_folder(folder: Path, wait: bool = True) -> int:
    """Lock the folder and return its handle; closing the handle releases the lock. Raises BlockingIOError if `wait`
    is false.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(handle)
        raise
    return handle
