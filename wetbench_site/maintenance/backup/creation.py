"""Create a backup: one snapshot of the database in a file that appears once it is complete and has been read again."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from django.db import DatabaseError, connection
from django.utils import timezone

from wetbench_site.database_copies import postgres, sqlite
from wetbench_site.database_copies.errors import BackupError
from wetbench_site.maintenance.backup import counted_copies, manifest, retention
from wetbench_site.maintenance.backup.checksums import DatabaseContents
from wetbench_site.maintenance.backup.manifest import Manifest

ReportProgress = Callable[[str], None]


class CreatedBackup(NamedTuple):
    """A backup, and how far it was checked."""

    file: Path
    manifest: Manifest
    checked: str


def create_backup(target: Path, report: ReportProgress, scratch: bool = True) -> CreatedBackup:
    """Create a backup in this file, or under a generated name in this directory. After BackupError, no files remain.

    On PostgreSQL it is restored into a scratch database and compared, if that is allowed and `scratch` is true.
    """
    file = _choose_file(target)
    part_file, part_manifest = (file.with_name(f".{file.name}.part{ending}") for ending in ("", ".json"))
    try:
        _create_part_file(part_file)
        report(
            f"copying {_format_megabytes(_get_database_size())} of {manifest.DATABASE_NAMES[connection.vendor]} to {file}"
        )
        created = _write_backup(part_file, file, report, scratch)
        _write_private_file(part_manifest, json.dumps(created.manifest.to_dict(), indent=2))
        # The manifest first: a backup without its manifest cannot be restored.
        os.replace(part_manifest, manifest.get_manifest_path(file))
        os.replace(part_file, file)
        # The directory entry has to survive a power cut as well.
        flush_to_disk(file.parent)
        return created
    except (OSError, DatabaseError) as error:
        raise BackupError(f"{file} could not be written: {error}") from error
    finally:
        part_file.unlink(missing_ok=True)
        part_manifest.unlink(missing_ok=True)


def _write_backup(part_file: Path, file: Path, report: ReportProgress, scratch: bool) -> CreatedBackup:
    if connection.vendor == "sqlite":
        sqlite.copy_database(part_file)
        flush_to_disk(part_file)
        report(f"reading {_format_megabytes(part_file.stat().st_size)} again")
        held, checked = counted_copies.count_sqlite_copy(part_file), "opened, found intact and counted"
    else:
        held = counted_copies.dump_and_count(part_file)
        flush_to_disk(part_file)
        checked = _check_dump(part_file, held, report, scratch)
    return CreatedBackup(file, manifest.build_manifest(part_file, connection.vendor, held, timezone.now()), checked)


def _check_dump(part_file: Path, held: DatabaseContents, report: ReportProgress, scratch: bool) -> str:
    postgres.check_dump(part_file)
    if not scratch:
        return "table of contents read; no trial restore, as requested"
    if not postgres.can_create_databases():
        return "table of contents read; no trial restore: the database user may not create databases"
    report(f"restoring {_format_megabytes(part_file.stat().st_size)} into a scratch database for comparison")
    if (restored := counted_copies.restore_and_count(part_file)) != held:
        raise BackupError(
            f"the backup differs from the database: {describe_differences(held, restored)}. It was removed; try again"
        )
    return "restored into a scratch database and compared"


def describe_differences(expected: DatabaseContents, found: DatabaseContents) -> str:
    """Return a description of how two databases differ."""
    tables = sorted(set(expected.rows) | set(found.rows))
    counts = [
        f"{table} has {found.rows.get(table, 0):,} rows instead of {expected.rows.get(table, 0):,}"
        for table in tables
        if expected.rows.get(table, 0) != found.rows.get(table, 0)
    ]
    differences = counts[:5] + ["the ratings differ"] * (expected.ratings_sha256 != found.ratings_sha256)
    return "; ".join(differences + ["the migrations differ"] * (expected.migrations != found.migrations))


def flush_to_disk(path: Path) -> None:
    """Write the file or directory to the disk, not only to the cache of the operating system."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _choose_file(target: Path) -> Path:
    """Return the path of the new backup: `target`, or a generated name in it if it is a directory."""
    if target.is_dir():
        target = retention.find_free_path(target, timezone.now(), connection.vendor)
    if not target.parent.is_dir():
        raise BackupError(f"There is no directory {target.parent}: create it first")
    if target.exists() or manifest.get_manifest_path(target).exists():
        raise BackupError(f"{target} or its manifest exists already: choose another name")
    return target.resolve()


def _create_part_file(part_file: Path) -> None:
    """Create an empty file that only its owner may read. Raises BackupError if the disk is too full."""
    part_file.unlink(missing_ok=True)
    os.close(os.open(part_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    free = shutil.disk_usage(part_file.parent).free
    # Not on PostgreSQL: a compressed dump is much smaller than the database, so the sizes cannot be compared.
    if connection.vendor == "sqlite" and free < sqlite.get_database_size():
        raise BackupError(
            f"{part_file.parent} has {_format_megabytes(free)} free, and the database {_format_megabytes(sqlite.get_database_size())}"
        )


def _get_database_size() -> int:
    return sqlite.get_database_size() if connection.vendor == "sqlite" else postgres.get_database_size()


def _write_private_file(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    flush_to_disk(path)


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
