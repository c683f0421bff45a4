"""SQLite databases: a copy made by SQLite itself, and a file put in the place of the database."""

import os
from contextlib import suppress
from pathlib import Path

from django.db import DatabaseError, connection, connections

from wetbench_site.database_copies.faults import BackupError


def place() -> Path:
    """Return the file of the site's database."""
    return Path(str(connection.settings_dict["NAME"]))


def size() -> int:
    return sum(path.stat().st_size for path in (place(), _beside("-wal")) if path.is_file())


def copy_into(file: Path) -> None:
    """Write one snapshot of the database to a file while others write."""
    with connection.cursor() as cursor:
        # Copying the file itself would miss the latest pages, which are in the WAL.
        cursor.execute("VACUUM INTO %s", [str(file)])


def dress(file: Path) -> None:
    """Give the file the owner and mode of the site's database."""
    exists = place().is_file()
    model_stat = (place() if exists else place().parent).stat()
    if exists:
        file.chmod(model_stat.st_mode & 0o777)
    # Only root may change the owner, and is the one who needs it: the site runs as another user.
    with suppress(PermissionError):
        os.chown(file, model_stat.st_uid, model_stat.st_gid)


def swap_in(file: Path) -> None:
    """Replace the site's database with this file, atomically. Raises BackupError if anybody has it open."""
    if place().is_file():
        refuse_in_use()
    connection.close()
    # A WAL of the old database would be applied to the new one and destroy it.
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            _beside(ending).unlink()
    os.replace(file, place())


def refuse_in_use() -> None:
    """Raise BackupError if anybody else has the database open. Otherwise all data is in the one file afterwards."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 2000")
            # SQLite leaves WAL mode only if no other connection is open: this detects others and empties the WAL.
            cursor.execute("PRAGMA journal_mode = DELETE")
            mode = cursor.fetchone()[0]
    except DatabaseError as error:
        raise BackupError(f"{place()} is in use ({error}): stop the web server and the workers first") from error
    finally:
        connection.close()
    if mode != "delete":
        raise BackupError(f"{place()} is in use: stop the web server and the workers first")


def refuse_broken(file: Path, alias: str) -> None:
    """Raise BackupError if SQLite reports damage or missing parent rows."""
    with connections[alias].cursor() as cursor:
        for statement, expected in (("PRAGMA integrity_check(5)", [("ok",)]), ("PRAGMA foreign_key_check", [])):
            cursor.execute(statement)
            if (result := cursor.fetchmany(5)) != expected:
                raise BackupError(f"{file} is damaged: {statement} returns {result}")


def _beside(ending: str) -> Path:
    return place().with_name(place().name + ending)
