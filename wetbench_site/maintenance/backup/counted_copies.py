"""Copies of the database with counted contents, so that a backup can be compared with its original."""

from pathlib import Path

from django.db import DatabaseError

from wetbench_site.database import read_snapshot
from wetbench_site.database_copies import extra_databases, postgres, sqlite
from wetbench_site.database_copies.errors import BackupError
from wetbench_site.maintenance.backup import checksums
from wetbench_site.maintenance.backup.checksums import DatabaseContents


def count_sqlite_copy(file: Path) -> DatabaseContents:
    """Return the contents of the copy. Raises BackupError if SQLite reports it damaged."""
    try:
        with extra_databases.connect_sqlite_copy(file) as alias:
            sqlite.check_integrity(file, alias)
            return checksums.count_contents(alias)
    except DatabaseError as error:
        raise BackupError(f"{file} cannot be read as a database: {error}") from error


def dump_and_count(file: Path) -> DatabaseContents:
    """Write one snapshot of the database to the file while others write, and return its contents."""
    with read_snapshot():
        [(snapshot,)] = postgres.fetch_rows("SELECT pg_export_snapshot()")
        # pg_dump reads the exported snapshot, so that it and the counts see the same state.
        postgres.dump_database(file, f"--snapshot={snapshot}")
        return checksums.count_contents()


def restore_and_count(file: Path) -> DatabaseContents:
    """Restore the backup into a scratch database, which is dropped afterwards, and return its contents."""
    with postgres.create_scratch_database() as name:
        postgres.restore_dump(name, file)
        with extra_databases.connect_server_database(name) as alias:
            return checksums.count_contents(alias)
