"""Restore a backup: check it before anything is changed, prepare it next to the database, and replace that at once."""

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
    """The result: the manifest, applied migrations, the backup of the replaced data, and the results of `verify`."""

    told: Manifest
    migrated: list[str]
    before: Path | None
    looked: list[Looked]


def checked(file: Path) -> Manifest:
    """Return the backup's manifest. Raises BackupError if the file is damaged or cannot be restored here."""
    backup_manifest = manifest.read(file)
    if backup_manifest.database != connection.vendor:
        own_name, backup_name = (
            manifest.KINDS[connection.vendor],
            manifest.KINDS.get(backup_manifest.database, backup_manifest.database),
        )
        raise BackupError(f"{file} is a backup of {backup_name}, but DATABASE_URL is a database of {own_name}")
    if newer := settling.unknown(backup_manifest.held):
        raise BackupError(
            f"{file} was created by a newer version, with migrations that this one does not know: {', '.join(newer)}."
            " Install that version first"
        )
    if reason := settling.refusal(backup_manifest.held):
        raise BackupError(f"{file} cannot be restored by this version. {reason}")
    manifest.refuse_damaged(file, backup_manifest)
    return backup_manifest


def undo(tell: Tell, *, replace: bool = False, force: bool = False) -> Path | None:
    """Put back what an interrupted restore had set aside. Raises BackupError if there is nothing to put back.

    Data that was added since is dropped, but only with `replace`, and it is backed up first.
    """
    schemas = postgres.set_aside_before() if connection.vendor == "postgresql" else []
    if len(schemas) != 1:
        description = (
            f"there are {len(schemas)}: {', '.join(schemas)}. Drop those that you do not need"
            if schemas
            else "there is none"
        )
        raise BackupError(f"Exactly one interrupted restore can be undone, and {description}")
    if not force:
        standing.refuse_at_work()
    replaced_backup = _saved(replace, tell)
    try:
        postgres.put_back(schemas[0])
    except DatabaseError as error:
        raise BackupError(f"{schemas[0]} could not be put back and is unchanged: {error}") from error
    return replaced_backup


def restore(file: Path, tell: Tell, *, replace: bool = False, force: bool = False) -> Restored:
    """Restore the backup. Raises BackupError if that fails; the database is then unchanged."""
    tell(f"reading {file}")
    backup_manifest = checked(file.resolve())
    if connection.vendor == "postgresql" and (schemas := postgres.set_aside_before()):
        raise BackupError(
            f"An earlier restore was interrupted; the data before it is in the schema {', '.join(schemas)}."
            f" `manage.py restore --undo` puts it back; if you do not need it, drop it (DROP SCHEMA {schemas[0]} CASCADE)"
        )
    if not force:
        standing.refuse_at_work()
    try:
        replaced_backup = _saved(replace, tell)
        migrated = settling.older(backup_manifest.held)
        restore_file = _into_sqlite if connection.vendor == "sqlite" else _into_postgres
        return Restored(backup_manifest, migrated, replaced_backup, restore_file(file.resolve(), backup_manifest, tell))
    except (OSError, DatabaseError) as error:
        raise BackupError(f"The backup could not be restored; the database is unchanged: {error}") from error


def _saved(replace: bool, tell: Tell) -> Path | None:
    """Return a backup of the existing data, or None if there is none."""
    if not standing.has_data():
        return None
    if not replace:
        raise BackupError("The database has data: use --replace to back it up and replace it")
    folder = settings.VAR_DIR / "before-restore"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return making.backup(folder, tell).file
    except BackupError as error:
        raise BackupError(
            f"The existing data could not be backed up ({error}). To discard it, move the database away and restore into an empty one"
        ) from error


def _into_sqlite(file: Path, told: Manifest, tell: Tell) -> list[Looked]:
    database_file = sqlite.place()
    database_file.parent.mkdir(parents=True, exist_ok=True)
    part_file = database_file.with_name(f".{database_file.name}.restoring")
    try:
        _forget(part_file)  # SQLite would apply a WAL that an interrupted restore left to this file
        os.close(os.open(part_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        shutil.copyfile(file, part_file)
        _refuse_other(told, counted_copies.looked_into(part_file))
        # Migrated and verified as a copy: the site's database is replaced only by one that is ready.
        with opening.site_on(part_file):
            results = _fit(told, tell)
            sqlite.refuse_in_use()  # also moves the WAL into the file
        sqlite.dress(part_file)
        making.sync(part_file)
        sqlite.swap_in(part_file)
        making.sync(database_file.parent)
        return results
    finally:
        _forget(part_file)


def _forget(part: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        part.with_name(part.name + ending).unlink(missing_ok=True)


def _into_postgres(file: Path, told: Manifest, tell: Tell) -> list[Looked]:
    with _set_aside(tell):
        tell(f"restoring {told.size / 1e6:,.1f} MB")
        postgres.restore_into(postgres.name(), file)
        with read_snapshot():
            contents = counting.held()
        _refuse_other(told, contents)
        return _fit(told, tell)


@contextmanager
def _set_aside(tell: Tell) -> Iterator[None]:
    """Keep the existing data in another schema, and put it back unless the block ends without error."""
    schema = f"{postgres.ASIDE}{timezone.now():%Y%m%d%H%M%S}"
    postgres.set_aside(schema)
    try:
        yield
    # SystemExit included: `restore` exits on SIGTERM, and the data has to be put back first.
    except BaseException:
        postgres.put_back(schema)
        raise
    try:
        postgres.drop(schema)
    except DatabaseError as error:  # the restore has succeeded by now, so this is no error of it
        tell(f"The replaced data could not be dropped and is still in the schema {schema}; drop it: {error}")


def _fit(told: Manifest, tell: Tell) -> list[Looked]:
    tell("verifying" if not settling.older(told.held) else "migrating and verifying")
    settling.settle(told.held)
    return list(form.look(every.CHECKS, lambda done, of, name: None))


def _refuse_other(told: Manifest, found: Held) -> None:
    if found != told.held:
        raise BackupError(
            f"The restored data differs from the backup: {making.apart(told.held, found)}. The database is unchanged"
        )
