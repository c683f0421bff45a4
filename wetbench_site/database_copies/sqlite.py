"""SQLite: a copy made by the database itself, and a file put in the place of another."""

import os
from contextlib import suppress
from pathlib import Path

from django.db import DatabaseError, connection, connections

from wetbench_site.database_copies.faults import BackupError


def place() -> Path:
    """The file of the site's database."""
    return Path(str(connection.settings_dict["NAME"]))


def size() -> int:
    return sum(path.stat().st_size for path in (place(), _beside("-wal")) if path.is_file())


def copy_into(file: Path) -> None:
    """One moment of the database, while others write: never the file itself, whose latest pages stand in the WAL."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(file)])


def dress(file: Path) -> None:
    """Owner and mode as the site's database has them; whoever restores may not be whom the site runs as."""
    there = place().is_file()
    like = (place() if there else place().parent).stat()
    if there:
        file.chmod(like.st_mode & 0o777)
    with suppress(PermissionError):
        os.chown(file, like.st_uid, like.st_gid)


def swap_in(file: Path) -> None:
    """Put this file in the place of the site's database, at once. BackupError if anybody has that open."""
    if place().is_file():
        refuse_in_use()
    connection.close()
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            _beside(ending).unlink()
    os.replace(file, place())


def refuse_in_use() -> None:
    """BackupError if anybody else has the database open; else all of it is in the one file afterwards.

    Only who is alone with a database can change how it keeps its journal.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 2000")
            cursor.execute("PRAGMA journal_mode = DELETE")
            mode = cursor.fetchone()[0]
    except DatabaseError as error:
        raise BackupError(f"{place()} is in use ({error}): stop the web server and the workers first") from error
    finally:
        connection.close()
    if mode != "delete":
        raise BackupError(f"{place()} is in use: stop the web server and the workers first")


def refuse_broken(file: Path, alias: str) -> None:
    with connections[alias].cursor() as cursor:
        for question, sound in (("PRAGMA integrity_check(5)", [("ok",)]), ("PRAGMA foreign_key_check", [])):
            cursor.execute(question)
            if (said := cursor.fetchmany(5)) != sound:
                raise BackupError(f"{file} is not whole: {question} says {said}")


def _beside(ending: str) -> Path:
    return place().with_name(place().name + ending)
