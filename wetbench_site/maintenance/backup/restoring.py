"""Restoring: looked at before anything is touched, made fit beside what is there, and put in its place at once."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from wetbench_site.database import read_snapshot
from wetbench_site.database_copies import opening, postgres, sqlite
from wetbench_site.database_copies.faults import BackupError
from wetbench_site.maintenance.backup import counted_copies, counting, making, manifest, settling, standing
from wetbench_site.maintenance.backup.counting import Held
from wetbench_site.maintenance.backup.making import Tell
from wetbench_site.maintenance.backup.manifest import Manifest
from wetbench_site.maintenance.verify import every, form
from wetbench_site.maintenance.verify.form import Looked


class Restored(NamedTuple):
    """What stands now: whence, what it was migrated by, where what stood before was put, and what `verify` says."""

    told: Manifest
    migrated: list[str]
    before: Path | None
    looked: list[Looked]


def checked(file: Path) -> Manifest:
    """The backup's manifest. BackupError if the file is not what was written, or cannot be restored here."""
    told = manifest.read(file)
    if told.database != connection.vendor:
        here, there = manifest.KINDS[connection.vendor], manifest.KINDS.get(told.database, told.database)
        raise BackupError(f"{file} is a backup of {there}, and DATABASE_URL names a database of {here}")
    if newer := settling.unknown(told.held):
        raise BackupError(
            f"{file} was made by a newer version, with migrations that this one does not know: {', '.join(newer)}."
            " Install that version first"
        )
    if why := settling.refusal(told.held):
        raise BackupError(f"{file} cannot be restored by this version. {why}")
    manifest.refuse_damaged(file, told)
    return told


def undo(tell: Tell, *, replace: bool = False, force: bool = False) -> Path | None:
    """What a restore that was broken off had set aside stands in its place again. BackupError if there is nothing such.

    What came to stand there meanwhile is dropped; where that has data, only with `replace`, and is backed up first.
    """
    waiting = postgres.set_aside_before() if connection.vendor == "postgresql" else []
    if len(waiting) != 1:
        named = f"{len(waiting)} restores: {', '.join(waiting)}. Drop those that are not wanted" if waiting else "none"
        raise BackupError(f"Exactly one restore that was broken off can be undone, and there is {named}")
    if not force:
        standing.refuse_at_work()
    before = _saved(replace, tell)
    try:
        postgres.put_back(waiting[0])
    except DatabaseError as error:
        raise BackupError(f"{waiting[0]} could not be put back, and waits as before: {error}") from error
    return before


def restore(file: Path, tell: Tell, *, replace: bool = False, force: bool = False) -> Restored:
    """BackupError if it was not restored; the database is then as it was."""
    tell(f"reading {file}")
    told = checked(file.resolve())
    if connection.vendor == "postgresql" and (waiting := postgres.set_aside_before()):
        raise BackupError(
            f"A restore was broken off: what was there before it waits in the schema {', '.join(waiting)}."
            f" `manage.py restore --undo` puts it back; if it is not wanted, drop it (DROP SCHEMA {waiting[0]} CASCADE)"
        )
    if not force:
        standing.refuse_at_work()
    try:
        before = _saved(replace, tell)
        migrated = settling.older(told.held)
        put = _into_sqlite if connection.vendor == "sqlite" else _into_postgres
        return Restored(told, migrated, before, put(file.resolve(), told, tell))
    except (OSError, DatabaseError) as error:
        raise BackupError(f"It could not be restored, and the database is as it was: {error}") from error


def _saved(replace: bool, tell: Tell) -> Path | None:
    """What is there, as a backup of its own, if there is anything."""
    if not standing.has_data():
        return None
    if not replace:
        raise BackupError("There is data in the database: --replace backs it up and puts the backup in its place")
    folder = settings.VAR_DIR / "before-restore"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return making.backup(folder, tell).file
    except BackupError as error:
        raise BackupError(
            f"What is there could not be backed up ({error}). To give it up, move the database away and restore into an empty one"
        ) from error


def _into_sqlite(file: Path, told: Manifest, tell: Tell) -> list[Looked]:
    place = sqlite.place()
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f".{place.name}.restoring")
    try:
        _forget(part)  # a WAL that a restore before this one left would be read into this file
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        shutil.copyfile(file, part)
        _refuse_other(told, counted_copies.looked_into(part))
        with opening.site_on(part):
            looked = _fit(told, tell)
            sqlite.refuse_in_use()  # which leaves all of it in the one file
        sqlite.dress(part)
        making.sync(part)
        sqlite.swap_in(part)
        making.sync(place.parent)
        return looked
    finally:
        _forget(part)


def _forget(part: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        part.with_name(part.name + ending).unlink(missing_ok=True)


def _into_postgres(file: Path, told: Manifest, tell: Tell) -> list[Looked]:
    with _set_aside(tell):
        tell(f"restoring {told.size / 1e6:,.1f} MB")
        postgres.restore_into(postgres.name(), file)
        with read_snapshot():
            found = counting.held()
        _refuse_other(told, found)
        return _fit(told, tell)


@contextmanager
def _set_aside(tell: Tell) -> Iterator[None]:
    """What is there waits under another name until the block has ended well; else it is put back."""
    aside = f"{postgres.ASIDE}{timezone.now():%Y%m%d%H%M%S}"
    postgres.set_aside(aside)
    try:
        yield
    except BaseException:
        postgres.put_back(aside)
        raise
    try:
        postgres.drop(aside)
    except DatabaseError as error:  # the backup stands by now
        tell(f"What was there before is still there, in the schema {aside}; drop it yourself: {error}")


def _fit(told: Manifest, tell: Tell) -> list[Looked]:
    tell("verifying" if not settling.older(told.held) else "migrating and verifying")
    settling.settle(told.held)
    return list(form.look(every.CHECKS, lambda done, of, name: None))


def _refuse_other(told: Manifest, found: Held) -> None:
    if found != told.held:
        raise BackupError(
            f"What was restored is not what was backed up: {making.apart(told.held, found)}. The database is as it was"
        )
