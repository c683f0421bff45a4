"""Copies of the database whose rows are counted, so that a backup can be compared with what it was made of."""

from pathlib import Path

from django.db import DatabaseError

from wetbench_site.database import read_snapshot
from wetbench_site.database_copies import opening, postgres, sqlite
from wetbench_site.database_copies.faults import BackupError
from wetbench_site.maintenance.backup import counting
from wetbench_site.maintenance.backup.counting import Held


def looked_into(file: Path) -> Held:
    """What the copy holds. BackupError if SQLite does not find it whole."""
    try:
        with opening.copy_of_sqlite(file) as alias:
            sqlite.refuse_broken(file, alias)
            return counting.held(alias)
    except DatabaseError as error:
        raise BackupError(f"{file} is no database that can be read: {error}") from error


def copy_into(file: Path) -> Held:
    """One moment of the database, while others write; what it holds at that moment is counted beside it."""
    with read_snapshot():
        [(moment,)] = postgres.asked("SELECT pg_export_snapshot()")
        postgres.dump_into(file, f"--snapshot={moment}")
        return counting.held()


def restored_beside(file: Path) -> Held:
    """What the backup holds once it is restored into a database of its own, which is dropped again."""
    with postgres.check_database() as name:
        postgres.restore_into(name, file)
        with opening.database_of_the_server(name) as alias:
            return counting.held(alias)
