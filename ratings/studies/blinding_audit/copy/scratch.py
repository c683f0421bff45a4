"""A scratch copy of the database for one audit: made from one moment of the live one, and removed afterwards."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from django.db import DatabaseError, connection
from django.utils import timezone

from ratings.studies.blinding_audit.copy import folders, scratch_postgres
from ratings.studies.blinding_audit.copy.guard import MARK
from ratings.studies.blinding_audit.errors import AuditError
from wetbench_site.database_copies import sqlite
from wetbench_site.database_copies.faults import BackupError


class ScratchCopy(NamedTuple):
    """Where the copy is, as a value of DATABASE_URL, and of which moment it is."""

    url: str
    made_at: datetime


@contextmanager
def scratch_copy() -> Iterator[ScratchCopy]:
    """Copy the live database and remove the copy at the end of the block. AuditError if no copy can be made."""
    with ExitStack() as held:
        try:
            folder = held.enter_context(folders.own_folder())
            made_at = timezone.now()
            if connection.vendor == "sqlite":
                url = _copy_sqlite(folder / "copy.sqlite3")
            else:
                url = held.enter_context(scratch_postgres.scratch_database(folder))
        except (OSError, BackupError) as error:
            raise AuditError(f"The scratch copy for the audit could not be made: {error}") from error
        yield ScratchCopy(url, made_at)


def _copy_sqlite(file: Path) -> str:
    """Copy the database while others read and write it, and return the URL of the copy."""
    free, size = shutil.disk_usage(file.parent).free, sqlite.size()
    if free < size:
        raise OSError(f"{file.parent} has {free / 1e6:,.0f} MB free, and the database has {size / 1e6:,.0f} MB")
    try:
        sqlite.copy_into(file)
    except DatabaseError as error:  # such as a disk that is full; another attempt would fail in the same way
        raise OSError(str(error)) from error
    with closing(sqlite3.connect(file)) as copy:
        copy.execute(f"CREATE TABLE {MARK} (made_at text)")
        copy.commit()
    return f"sqlite:///{quote(str(file))}"
