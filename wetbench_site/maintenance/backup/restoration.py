"""Restore a backup: check it first, prepare it beside the database, then replace the database in one step.

A restored database is migrated, leases of dead workers are cleared, and every session, link and token is revoked: the
backup does not contain which of them were used or revoked after it.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from django.apps import apps
from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.utils import timezone

from ratings.models import ApiToken, Invitation, Rater, SignInLink
from simulation.leases import LEASED_MODELS
from simulation.models import Worker
from wetbench_site import checks
from wetbench_site.database import read_snapshot
from wetbench_site.database_copies import extra_databases, postgres, sqlite
from wetbench_site.database_copies.extra_databases import BackupError
from wetbench_site.maintenance.backup import creation, manifest
from wetbench_site.maintenance.backup.creation import ReportProgress
from wetbench_site.maintenance.backup.manifest import DatabaseContents, Manifest
from wetbench_site.maintenance.verify import ALL_CHECKS
from wetbench_site.maintenance.verify.checks import CheckResult, run_checks


class Restored(NamedTuple):
    """The result of a restore: the manifest, applied migrations, the backup of the replaced data, and the results of `verify`."""

    manifest: Manifest
    migrated: list[str]
    replaced_backup: Path | None
    check_results: list[CheckResult]


def load_checked_manifest(file: Path) -> Manifest:
    """Return the backup's manifest. Raises BackupError if the file is damaged or cannot be restored here."""
    backup_manifest = manifest.load_manifest(file)
    if backup_manifest.database != connection.vendor:
        names = manifest.DATABASE_NAMES
        backup_name = names.get(backup_manifest.database, backup_manifest.database)
        raise BackupError(
            f"{file} is a backup of {backup_name}, but DATABASE_URL is a database of {names[connection.vendor]}"
        )
    migrations = _parse_migrations(backup_manifest.held)
    if newer := [".".join(key) for key in checks.find_unknown_migrations(migrations)]:
        raise BackupError(
            f"{file} was created by a newer version, with migrations that this one does not know: {', '.join(newer)}."
            " Install that version first"
        )
    if reason := checks.explain_migration_gaps(migrations, "The database in this backup"):
        advice = f"To do so, restore the backup with {checks.LAST_RELEASE_WITH_ALL_MIGRATIONS}."
        raise BackupError(f"{file} cannot be restored by this version. {reason} {advice}")
    manifest.check_file(file, backup_manifest)
    return backup_manifest


def undo_restore(report: ReportProgress, *, replace: bool = False, force: bool = False) -> Path | None:
    """Put back what an interrupted restore had set aside. Raises BackupError if there is nothing to put back.

    Data that was added since is dropped, but only with `replace`, and it is backed up first.
    """
    schemas = postgres.list_set_aside_schemas() if connection.vendor == "postgresql" else []
    if not schemas:
        raise BackupError("Exactly one interrupted restore can be undone, and there is none")
    if len(schemas) > 1:
        found = f"there are {len(schemas)}: {', '.join(schemas)}. Drop those that you do not need"
        raise BackupError(f"Exactly one interrupted restore can be undone, and {found}")
    if not force:
        creation.check_nobody_works()
    replaced_backup = _back_up_existing_data(replace, report)
    try:
        postgres.restore_schema(schemas[0])
    except DatabaseError as error:
        raise BackupError(f"{schemas[0]} could not be put back and is unchanged: {error}") from error
    return replaced_backup


def restore_backup(file: Path, report: ReportProgress, *, replace: bool = False, force: bool = False) -> Restored:
    """Restore the backup. Raises BackupError if that fails; the database is then unchanged."""
    report(f"reading {file}")
    backup_manifest = load_checked_manifest(file.resolve())
    if connection.vendor == "postgresql" and (schemas := postgres.list_set_aside_schemas()):
        raise BackupError(
            f"An earlier restore was interrupted; the data before it is in the schema {', '.join(schemas)}."
            f" `manage.py restore --undo` puts it back; if you do not need it, drop it (DROP SCHEMA {schemas[0]} CASCADE)"
        )
    if not force:
        creation.check_nobody_works()
    try:
        replaced_backup = _back_up_existing_data(replace, report)
        migrated = _list_missing_migrations(backup_manifest.held)
        restore_file = _restore_sqlite if connection.vendor == "sqlite" else _restore_postgres
        results = restore_file(file.resolve(), backup_manifest, report)
        return Restored(backup_manifest, migrated, replaced_backup, results)
    except (OSError, DatabaseError) as error:
        raise BackupError(f"The backup could not be restored; the database is unchanged: {error}") from error


def _back_up_existing_data(replace: bool, report: ReportProgress) -> Path | None:
    """Return a backup of the existing data, or None if there is none."""
    if not creation.has_data():
        return None
    if not replace:
        raise BackupError("The database has data: use --replace to back it up and replace it")
    folder = settings.VAR_DIR / "before-restore"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return creation.create_backup(folder, report).file
    except BackupError as error:
        advice = "To discard it, move the database away and restore into an empty one"
        raise BackupError(f"The existing data could not be backed up ({error}). {advice}") from error


def _restore_sqlite(file: Path, backup_manifest: Manifest, report: ReportProgress) -> list[CheckResult]:
    database_file = sqlite.get_database_path()
    database_file.parent.mkdir(parents=True, exist_ok=True)
    part_file = database_file.with_name(f".{database_file.name}.restoring")
    try:
        _remove_part_files(part_file)  # SQLite would apply a WAL that an interrupted restore left to this file
        os.close(os.open(part_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        shutil.copyfile(file, part_file)
        _check_contents(backup_manifest, creation.count_sqlite_copy(part_file))
        # Migrated and verified as a copy: the site's database is replaced only by one that is ready.
        with extra_databases.replace_site_database(part_file):
            results = _prepare_and_verify(backup_manifest, report)
            sqlite.check_not_in_use()  # also moves the WAL into the file
        sqlite.copy_owner_and_mode(part_file)
        creation.flush_to_disk(part_file)
        sqlite.replace_database(part_file)
        creation.flush_to_disk(database_file.parent)
        return results
    finally:
        _remove_part_files(part_file)


def _remove_part_files(part_file: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        part_file.with_name(part_file.name + ending).unlink(missing_ok=True)


def _restore_postgres(file: Path, backup_manifest: Manifest, report: ReportProgress) -> list[CheckResult]:
    with _set_data_aside(report):
        report(f"restoring {backup_manifest.size / 1e6:,.1f} MB")
        postgres.restore_dump(postgres.get_database_name(), file)
        with read_snapshot():
            contents = manifest.count_contents()
        _check_contents(backup_manifest, contents)
        return _prepare_and_verify(backup_manifest, report)


@contextmanager
def _set_data_aside(report: ReportProgress) -> Iterator[None]:
    """Move the existing data to another schema. Drop it after the block, or put it back if the block raises."""
    schema = f"{postgres.SET_ASIDE_PREFIX}{timezone.now():%Y%m%d%H%M%S}"
    postgres.set_schema_aside(schema)
    try:
        yield
    # SystemExit included: `restore` exits on SIGTERM, and the data has to be put back first.
    except BaseException:
        postgres.restore_schema(schema)
        raise
    try:
        postgres.drop_schema(schema)
    except DatabaseError as error:  # reported only, because the restore itself has succeeded
        report(f"The replaced data could not be dropped and is still in the schema {schema}; drop it: {error}")


def _prepare_and_verify(backup_manifest: Manifest, report: ReportProgress) -> list[CheckResult]:
    is_older = bool(_list_missing_migrations(backup_manifest.held))
    report("migrating and verifying" if is_older else "verifying")
    if is_older:
        call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    with transaction.atomic():
        _revoke_access()
        _end_sessions_and_leases()
    return list(run_checks(ALL_CHECKS, lambda done, of, name: None))


def _list_missing_migrations(held: DatabaseContents) -> list[str]:
    """Return the migrations that the backup lacks."""
    return [".".join(key) for key in checks.find_missing_migrations(_parse_migrations(held))]


def _parse_migrations(held: DatabaseContents) -> list[checks.Key]:
    return [(app, name) for app, _, name in (migration.partition(".") for migration in held.migrations)]


def _revoke_access() -> None:
    """Revoke every sign-in link, invitation and API token. Invited rater places are open for a new invitation."""
    now = timezone.now()
    Rater.objects.filter(user__isnull=True, invited_at__isnull=False).update(invited_at=None)
    for model in (SignInLink, Invitation):
        model._default_manager.filter(used_at__isnull=True, revoked_at__isnull=True).update(revoked_at=now)
    ApiToken.objects.filter(revoked_at__isnull=True).update(revoked_at=now)


def _end_sessions_and_leases() -> None:
    tables = connection.introspection.table_names()
    for model in apps.get_models():
        if issubclass(model, AbstractBaseSession) and model._meta.db_table in tables:
            model._default_manager.all().delete()
    for leased in LEASED_MODELS:
        # A higher fence rejects late writes of workers that were running when the backup was created.
        released = {"lease_until": None, "notified_at": None, "fence": F("fence") + 1}
        leased.objects.filter(lease_until__isnull=False).update(**released)
    Worker.objects.all().delete()


def _check_contents(backup_manifest: Manifest, contents: DatabaseContents) -> None:
    if contents != backup_manifest.held:
        differences = creation.describe_differences(backup_manifest.held, contents)
        raise BackupError(f"The restored data differs from the backup: {differences}. The database is unchanged")
