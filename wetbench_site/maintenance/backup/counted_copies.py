"""Copies of the database with counted contents, so that a backup can be compared with its original."""

from pathlib import Path

from django.db import DatabaseError

from wetbench_site.database import read_snapshot
from wetbench_site.database_copies import opening, postgres, sqlite
from wetbench_site.database_copies.faults import BackupError
from wetbench_site.maintenance.backup import counting
from wetbench_site.maintenance.backup.counting import Held


def looked_into(file: Path) -> Held:
    """Return the contents of the copy. Raises BackupError if SQLite reports it damaged."""
    try:
        with opening.copy_of_sqlite(file) as alias:
            sqlite.refuse_broken(file, alias)
            return counting.held(alias)
    except DatabaseError as error:
        raise BackupError(f"{file} cannot be read as a database: {error}") from error


def copy_into(file: Path) -> Held:
    """Write one snapshot of the database to the file while others write, and return its contents."""
    with read_snapshot():
        [(snapshot,)] = postgres.asked("SELECT pg_export_snapshot()")
        # pg_dump reads the exported snapshot, so that it and the counts see the same state.
        postgres.dump_into(file, f"--snapshot={snapshot}")
        return counting.held()


def restored_beside(file: Path) -> Held:
    """Restore the backup into a scratch database, which is dropped afterwards, and return its contents."""
    with postgres.check_database() as name:
        postgres.restore_into(name, file)
        with opening.database_of_the_server(name) as alias:
            return counting.held(alias)
