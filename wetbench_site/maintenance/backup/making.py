"""Making a backup: one moment of the database into a file that appears when it is whole and has been read again."""

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
    """Into this file, or under a name of its own into this directory. BackupError leaves nothing behind.

    On PostgreSQL it is restored into a scratch database and compared, unless that is not allowed or not wanted.
    """
    file = _target(to)
    part, part_told = (file.with_name(f".{file.name}.part{ending}") for ending in ("", ".json"))
    try:
        _reserve(part)
        tell(f"copying {_megabytes(_size())} of {manifest.KINDS[connection.vendor]} to {file}")
        made = _made(part, file, tell, scratch)
        _write(part_told, json.dumps(made.told.to_json(), indent=2))
        os.replace(part_told, manifest.beside(file))
        os.replace(part, file)
        sync(file.parent)
        return made
    except (OSError, DatabaseError) as error:
        raise BackupError(f"{file} could not be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)
        part_told.unlink(missing_ok=True)


def _made(part: Path, file: Path, tell: Tell, scratch: bool) -> Made:
    if connection.vendor == "sqlite":
        sqlite.copy_into(part)
        sync(part)
        tell(f"reading {_megabytes(part.stat().st_size)} again")
        held, checked = counted_copies.looked_into(part), "opened, found whole and counted"
    else:
        held = counted_copies.copy_into(part)
        sync(part)
        checked = _checked(part, held, tell, scratch)
    return Made(file, manifest.of(part, connection.vendor, held, timezone.now()), checked)


def _checked(part: Path, held: Held, tell: Tell, scratch: bool) -> str:
    postgres.listed(part)
    if not scratch:
        return "its contents listed; not restored for a trial, as was asked"
    if not postgres.may_make_databases():
        return "its contents listed; not restored for a trial: the database's user may make no databases"
    tell(f"restoring {_megabytes(part.stat().st_size)} into a scratch database, to compare")
    if (found := counted_copies.restored_beside(part)) != held:
        raise BackupError(
            f"the backup does not hold what was copied: {apart(held, found)}. Nothing was kept; try again"
        )
    return "restored into a scratch database and compared"


def apart(expected: Held, found: Held) -> str:
    """In what two databases differ, in words."""
    tables = sorted(set(expected.rows) | set(found.rows))
    counts = [
        f"{table} has {found.rows.get(table, 0):,} rows for {expected.rows.get(table, 0):,}"
        for table in tables
        if expected.rows.get(table, 0) != found.rows.get(table, 0)
    ]
    said = counts[:5] + ["the ratings are others"] * (expected.ratings_sha256 != found.ratings_sha256)
    return "; ".join(said + ["the migrations are others"] * (expected.migrations != found.migrations))


def sync(path: Path) -> None:
    """To the disk, and not only to the system that writes there."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _target(to: Path) -> Path:
    """In a directory that is there, a name of its own; anything else is the name of the file."""
    if to.is_dir():
        to = keeping.free(to, timezone.now(), connection.vendor)
    if not to.parent.is_dir():
        raise BackupError(f"There is no directory {to.parent}: make it first")
    if to.exists() or manifest.beside(to).exists():
        raise BackupError(f"{to} is there already, or its manifest is: name another file")
    return to.resolve()


def _reserve(part: Path) -> None:
    """An empty file that nobody else may read; on SQLite with room for all of it."""
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    free = shutil.disk_usage(part.parent).free
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
