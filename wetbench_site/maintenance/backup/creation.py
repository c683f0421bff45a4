"""Create a backup: one snapshot of the database in a file that appears once it is complete and has been read again."""

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.utils import timezone

from ratings.models import Study
from simulation.models import Run, Worker
from wetbench_site.database import fetch_rows, read_snapshot
from wetbench_site.database_copies import extra_databases, postgres, sqlite
from wetbench_site.database_copies.extra_databases import BackupError
from wetbench_site.maintenance.backup import manifest
from wetbench_site.maintenance.backup.manifest import DatabaseContents, Manifest

FILE_SUFFIXES = {"sqlite": "sqlite3", "postgresql": "dump"}
_NAME_PATTERN = re.compile(r"wetbench-(\d{8}T\d{6}Z)(?:-\d+)?\.(?:sqlite3|dump)")
ReportProgress = Callable[[str], None]


class CreatedBackup(NamedTuple):
    """A backup, and how far it was checked."""

    file: Path
    manifest: Manifest
    checked: str


def count_sqlite_copy(file: Path) -> DatabaseContents:
    """Return the contents of the copy. Raises BackupError if SQLite reports it damaged."""
    try:
        with extra_databases.connect_sqlite_copy(file) as alias:
            sqlite.check_integrity(file, alias)
            return manifest.count_contents(alias)
    except DatabaseError as error:
        raise BackupError(f"{file} cannot be read as a database: {error}") from error


def dump_and_count(file: Path) -> DatabaseContents:
    """Write one snapshot of the database to the file while others write, and return its contents."""
    with read_snapshot():
        [(snapshot,)] = fetch_rows("SELECT pg_export_snapshot()")
        # pg_dump reads the exported snapshot, so that it and the counts see the same state.
        postgres.dump_database(file, f"--snapshot={snapshot}")
        return manifest.count_contents()


def restore_and_count(file: Path) -> DatabaseContents:
    """Restore the backup into a scratch database, which is dropped afterwards, and return its contents."""
    with postgres.create_scratch_database() as name:
        postgres.restore_dump(name, file)
        with extra_databases.connect_server_database(name) as alias:
            return manifest.count_contents(alias)


def format_backup_name(now: datetime, database: str) -> str:
    return f"wetbench-{now:%Y%m%dT%H%M%SZ}.{FILE_SUFFIXES[database]}"


def find_free_path(directory: Path, now: datetime, database: str) -> Path:
    """Return a path that no backup of this directory has; backups of the same second are numbered."""
    first = directory / format_backup_name(now, database)
    numbered = (first.with_stem(f"{first.stem}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([first], numbered) if not _is_taken(path))


def _is_taken(path: Path) -> bool:
    return path.exists() or manifest.get_manifest_path(path).exists()


def list_backups(directory: Path) -> dict[Path, datetime]:
    """Return the backups with a standard name, each with its time. Other files of the directory are ignored."""
    matches = ((path, _NAME_PATTERN.fullmatch(path.name)) for path in directory.iterdir())
    times = {path: match[1] for path, match in matches if match and manifest.get_manifest_path(path).is_file()}
    return {path: datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) for path, text in times.items()}


def find_expired_backups(backups: dict[Path, datetime], daily: int, weekly: int) -> list[Path]:
    """Return all backups except the last of each of the latest `daily` days and of each of the latest `weekly` weeks.

    Days and weeks without a backup do not count. The newest backup is never returned.
    """
    newest = sorted(backups, key=lambda path: (backups[path], path.name), reverse=True)
    days = _take_first_of_each_group((backups[path].date().isoformat(), path) for path in newest)
    weeks = _take_first_of_each_group((str(backups[path].isocalendar()[:2]), path) for path in newest)
    # The newest backup always stays, also with both numbers 0.
    retained = {*days[:daily], *weeks[:weekly], *newest[:1]}
    return sorted(set(backups) - retained)


def prune_backups(directory: Path, daily: int, weekly: int) -> list[Path]:
    """Remove the expired backups and return their paths."""
    expired = find_expired_backups(list_backups(directory), daily, weekly)
    for path in expired:
        # The backup before its manifest: if this is interrupted, a manifest is left, which nothing restores.
        path.unlink(missing_ok=True)
        manifest.get_manifest_path(path).unlink(missing_ok=True)
    return expired


def _take_first_of_each_group(grouped_paths: Iterable[tuple[str, Path]]) -> list[Path]:
    first: dict[str, Path] = {}
    for group, path in grouped_paths:
        first.setdefault(group, path)
    return list(first.values())


def create_backup(target: Path, report: ReportProgress, scratch: bool = True) -> CreatedBackup:
    """Create a backup in this file, or under a generated name in this directory. After BackupError, no files remain.

    On PostgreSQL it is restored into a scratch database and compared, if that is allowed and `scratch` is true.
    """
    file = _choose_file(target)
    part_file, part_manifest = (file.with_name(f".{file.name}.part{ending}") for ending in ("", ".json"))
    try:
        _create_part_file(part_file)
        database = sqlite if connection.vendor == "sqlite" else postgres
        size = _format_megabytes(database.get_database_size())
        report(f"copying {size} of {manifest.DATABASE_NAMES[connection.vendor]} to {file}")
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
        held, checked = count_sqlite_copy(part_file), "opened, found intact and counted"
    else:
        held = dump_and_count(part_file)
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
    if (restored := restore_and_count(part_file)) != held:
        raise BackupError(
            f"the backup differs from the database: {describe_differences(held, restored)}. It was removed; try again"
        )
    return "restored into a scratch database and compared"


def describe_differences(expected: DatabaseContents, found: DatabaseContents) -> str:
    """Return a description of how two databases differ."""
    tables = sorted(set(expected.rows) | set(found.rows))
    rows = [(table, found.rows.get(table, 0), expected.rows.get(table, 0)) for table in tables]
    counts = [f"{table} has {n:,} rows instead of {n_expected:,}" for table, n, n_expected in rows if n != n_expected]
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
        target = find_free_path(target, timezone.now(), connection.vendor)
    if not target.parent.is_dir():
        raise BackupError(f"There is no directory {target.parent}: create it first")
    if _is_taken(target):
        raise BackupError(f"{target} or its manifest exists already: choose another name")
    return target.resolve()


def _create_part_file(part_file: Path) -> None:
    """Create an empty file that only its owner may read. Raises BackupError if the disk is too full."""
    part_file.unlink(missing_ok=True)
    os.close(os.open(part_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    free = shutil.disk_usage(part_file.parent).free
    # Not on PostgreSQL: a compressed dump is much smaller than the database, so the sizes cannot be compared.
    if connection.vendor == "sqlite" and free < (size := sqlite.get_database_size()):
        sizes = f"{_format_megabytes(free)} free, and the database {_format_megabytes(size)}"
        raise BackupError(f"{part_file.parent} has {sizes}")


def _write_private_file(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    flush_to_disk(path)


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def has_data() -> bool:
    """Return whether there are accounts, studies or runs."""
    if connection.vendor == "sqlite" and not sqlite.get_database_path().is_file():
        return False
    tables = set(connection.introspection.table_names())
    # Experiments and catalogues do not count: they are loaded again from data files.
    return any(model._meta.db_table in tables and model._default_manager.exists() for model in (User, Study, Run))


def check_nobody_works() -> None:
    """Raise BackupError if workers are alive or others have the database open."""
    if connection.vendor == "sqlite" and not sqlite.get_database_path().is_file():
        return
    if owners := _list_live_workers():
        raise BackupError(
            f"Workers are running: {', '.join(owners)}. Stop them and the web server first. A dead one counts as running"
            f" for {settings.WORKER_SILENT_SECONDS:.0f} s; use --force to continue without waiting"
        )
    if connection.vendor == "sqlite":
        sqlite.check_not_in_use()
    elif others := postgres.count_other_connections():
        raise BackupError(
            f"{others} other connections to the database are open: stop the web server and the workers first,"
            " or use --force"
        )


def _list_live_workers() -> list[str]:
    if Worker._meta.db_table not in connection.introspection.table_names():
        return []
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    return list(Worker.objects.filter(seen_at__gt=since).values_list("owner", flat=True))
