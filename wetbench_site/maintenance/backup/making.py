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
from wetbench_site.database_copies.faults import BackupError
from wetbench_site.maintenance.backup import counted_copies, keeping, manifest
from wetbench_site.maintenance.backup.counting import Held
from wetbench_site.maintenance.backup.manifest import Manifest

Tell = Callable[[str], None]


class Made(NamedTuple):
    """A backup, and how far it was checked."""

    file: Path
    told: Manifest
    checked: str


def backup(to: Path, tell: Tell, scratch: bool = True) -> Made:
    """Create a backup in this file, or under a generated name in this directory. BackupError leaves no files behind.

    On PostgreSQL it is restored into a scratch database and compared, if that is allowed and `scratch` is true.
    """
    file = _target(to)
    part_file, part_manifest = (file.with_name(f".{file.name}.part{ending}") for ending in ("", ".json"))
    try:
        _reserve(part_file)
        tell(f"copying {_megabytes(_size())} of {manifest.KINDS[connection.vendor]} to {file}")
        created = _made(part_file, file, tell, scratch)
        _write(part_manifest, json.dumps(created.told.to_json(), indent=2))
        # The manifest first: a backup without its manifest cannot be restored.
        os.replace(part_manifest, manifest.beside(file))
        os.replace(part_file, file)
        # The directory entry has to survive a power cut as well.
        sync(file.parent)
        return created
    except (OSError, DatabaseError) as error:
        raise BackupError(f"{file} could not be written: {error}") from error
    finally:
        part_file.unlink(missing_ok=True)
        part_manifest.unlink(missing_ok=True)


def _made(part: Path, file: Path, tell: Tell, scratch: bool) -> Made:
    if connection.vendor == "sqlite":
        sqlite.copy_into(part)
        sync(part)
        tell(f"reading {_megabytes(part.stat().st_size)} again")
        held, checked = counted_copies.looked_into(part), "opened, found intact and counted"
    else:
        held = counted_copies.copy_into(part)
        sync(part)
        checked = _checked(part, held, tell, scratch)
    return Made(file, manifest.of(part, connection.vendor, held, timezone.now()), checked)


def _checked(part: Path, held: Held, tell: Tell, scratch: bool) -> str:
    postgres.listed(part)
    if not scratch:
        return "table of contents read; no trial restore, as requested"
    if not postgres.may_make_databases():
        return "table of contents read; no trial restore: the database user may not create databases"
    tell(f"restoring {_megabytes(part.stat().st_size)} into a scratch database for comparison")
    if (restored := counted_copies.restored_beside(part)) != held:
        raise BackupError(f"the backup differs from the database: {apart(held, restored)}. It was removed; try again")
    return "restored into a scratch database and compared"


def apart(expected: Held, found: Held) -> str:
    """Return a description of how two databases differ."""
    tables = sorted(set(expected.rows) | set(found.rows))
    counts = [
        f"{table} has {found.rows.get(table, 0):,} rows instead of {expected.rows.get(table, 0):,}"
        for table in tables
        if expected.rows.get(table, 0) != found.rows.get(table, 0)
    ]
    differences = counts[:5] + ["the ratings differ"] * (expected.ratings_sha256 != found.ratings_sha256)
    return "; ".join(differences + ["the migrations differ"] * (expected.migrations != found.migrations))


def sync(path: Path) -> None:
    """Write the file or directory to the disk, not only to the cache of the operating system."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _target(to: Path) -> Path:
    """Return a generated name in an existing directory; anything else is the name of the file."""
    if to.is_dir():
        to = keeping.free(to, timezone.now(), connection.vendor)
    if not to.parent.is_dir():
        raise BackupError(f"There is no directory {to.parent}: create it first")
    if to.exists() or manifest.beside(to).exists():
        raise BackupError(f"{to} or its manifest exists already: choose another name")
    return to.resolve()


def _reserve(part: Path) -> None:
    """Create an empty file that only its owner may read. Raises BackupError if the disk is too full."""
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    free = shutil.disk_usage(part.parent).free
    # Not on PostgreSQL: a compressed dump is much smaller than the database, so the sizes cannot be compared.
    if connection.vendor == "sqlite" and free < sqlite.size():
        raise BackupError(f"{part.parent} has {_megabytes(free)} free, and the database {_megabytes(sqlite.size())}")


def _size() -> int:
    return sqlite.size() if connection.vendor == "sqlite" else postgres.size()


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text + "\n")
    sync(path)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
