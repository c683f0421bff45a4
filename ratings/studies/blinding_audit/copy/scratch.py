"""A scratch copy of the database for one audit: a consistent copy of the live one, removed afterwards."""

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
from ratings.studies.blinding_audit.copy.guard import MARKER_TABLE
from ratings.studies.blinding_audit.errors import AuditError
from wetbench_site.database_copies import sqlite
from wetbench_site.database_copies.errors import BackupError


class ScratchCopy(NamedTuple):
    """The URL of the copy, in the form of DATABASE_URL, and the time just before the database was copied."""

    url: str
    made_at: datetime


@contextmanager
def create_scratch_copy() -> Iterator[ScratchCopy]:
    """Copy the live database and remove the copy at the end of the block. Raises AuditError if it cannot be copied."""
    with ExitStack() as resources:
        try:
            folder = resources.enter_context(folders.create_own_folder())
            # Before copying: a rating that comes in while copying may or may not be in the copy.
            made_at = timezone.now()
            if connection.vendor == "sqlite":
                url = _copy_sqlite(folder / "copy.sqlite3")
            else:
                url = resources.enter_context(scratch_postgres.create_scratch_database(folder))
        except (OSError, BackupError) as error:
            raise AuditError(f"The scratch copy for the audit could not be created: {error}") from error
        yield ScratchCopy(url, made_at)


def _copy_sqlite(file: Path) -> str:
    """Copy the database while others read and write it, and return the URL of the copy. Raises OSError if that fails."""
    free, size = shutil.disk_usage(file.parent).free, sqlite.get_database_size()
    if free < size:
        raise OSError(f"{file.parent} has {free / 1e6:,.0f} MB free, and the database has {size / 1e6:,.0f} MB")
    try:
        sqlite.copy_database(file)
    except DatabaseError as error:  # such as a full disk; a second attempt would fail in the same way
        raise OSError(str(error)) from error
    # The marker table, without which no process may write to the copy (`guard`).
    with closing(sqlite3.connect(file)) as copy:
        copy.execute(f"CREATE TABLE {MARKER_TABLE} (made_at text)")
        copy.commit()
    return f"sqlite:///{quote(str(file))}"
