"""Folders for scratch copies: one per audit, locked while in use, removed afterwards or by the next audit.

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
def own_folder() -> Iterator[Path]:
    """Make a folder that only the site's user can read, and remove it at the end. Raises OSError.

    Folders of audits that were killed are removed first. They are recognised by their lock, which the system releases
    with the process that holds it.
    """
    place = settings.VAR_DIR / "scratch"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(place):  # between making a folder and locking it, another audit would remove it
        _remove_leftovers(place)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_leftovers(place: Path) -> None:
    for folder in place.glob(f"{_PREFIX}*"):
        try:
            lock = _lock(folder, wait=False)
        except (BlockingIOError, FileNotFoundError):  # in use, or removed by its audit in this moment
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = _lock(folder)
    try:
        yield
    finally:
        os.close(lock)


def _lock(folder: Path, wait: bool = True) -> int:
    """Lock the folder and return its handle; closing that releases the lock. BlockingIOError if `wait` is false."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(handle)
        raise
    return handle
