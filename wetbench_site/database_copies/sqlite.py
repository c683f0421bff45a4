"""SQLite databases: a copy made by SQLite itself, and a file put in the place of the database."""

import os
from contextlib import suppress
from pathlib import Path

from django.db import DatabaseError, connection, connections

from wetbench_site.database_copies.extra_databases import BackupError


def get_database_path() -> Path:
    """Return the file of the site's database."""
    return Path(str(connection.settings_dict["NAME"]))


def get_database_size() -> int:
    return sum(path.stat().st_size for path in (get_database_path(), _get_companion_path("-wal")) if path.is_file())


def copy_database(file: Path) -> None:
    """Write one snapshot of the database to a file while others write."""
    with connection.cursor() as cursor:
        # Copying the file itself would miss the latest pages, which are in the WAL.
        cursor.execute("VACUUM INTO %s", [str(file)])


def copy_owner_and_mode(file: Path) -> None:
    """Give the file the owner and mode of the site's database."""
    exists = get_database_path().is_file()
    model_stat = (get_database_path() if exists else get_database_path().parent).stat()
    if exists:
        file.chmod(model_stat.st_mode & 0o777)
    # Only root may change the owner, and only root needs to, because the site runs as another user.
    with suppress(PermissionError):
        os.chown(file, model_stat.st_uid, model_stat.st_gid)


def replace_database(file: Path) -> None:
    """Replace the site's database with this file, atomically. Raises BackupError if anybody has it open."""
    if get_database_path().is_file():
        check_not_in_use()
    connection.close()
    # A WAL of the old database would be applied to the new one and destroy it.
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            _get_companion_path(ending).unlink()
    os.replace(file, get_database_path())


def check_not_in_use() -> None:
    """Raise BackupError if anybody else has the database open. Otherwise move the WAL into the file."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 2000")
            # SQLite leaves WAL mode only if no other connection is open: this detects others and empties the WAL.
            cursor.execute("PRAGMA journal_mode = DELETE")
            mode = cursor.fetchone()[0]
    except DatabaseError as error:
        message = f"{get_database_path()} is in use ({error}): stop the web server and the workers first"
        raise BackupError(message) from error
    finally:
        connection.close()
    if mode != "delete":
        raise BackupError(f"{get_database_path()} is in use: stop the web server and the workers first")


def check_integrity(file: Path, alias: str) -> None:
    """Raise BackupError if SQLite reports damage or missing parent rows."""
    with connections[alias].cursor() as cursor:
        for statement, expected in (("PRAGMA integrity_check(5)", [("ok",)]), ("PRAGMA foreign_key_check", [])):
            cursor.execute(statement)
            if (result := cursor.fetchmany(5)) != expected:
                raise BackupError(f"{file} is damaged: {statement} returns {result}")


def _get_companion_path(ending: str) -> Path:
    return get_database_path().with_name(get_database_path().name + ending)
