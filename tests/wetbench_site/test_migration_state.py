"""Databases of earlier releases: taken as migrated, or refused with the release to upgrade to first."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from wetbench_site import checks
from wetbench_site.checks import LAST_RELEASE_WITH_ALL_MIGRATIONS as RELEASE
from wetbench_site.checks import Key
from wetbench_site.database_copies.extra_databases import BackupError
from wetbench_site.environment import InvalidConfiguration
from wetbench_site.maintenance.backup import creation, restoration
from wetbench_site.observability import health

ALL = set(MigrationLoader(None).disk_migrations)
OLD = {key for migration in MigrationLoader(None).disk_migrations.values() for key in migration.replaces}
INITIAL = {("simulation", "0001_squashed"), ("ratings", "0001_squashed")}


def forget(*keys: Key) -> None:
    """Remove rows of django_migrations, as if these migrations had never been applied."""
    for app, name in keys:
        MigrationRecorder(connection).record_unapplied(app, name)


def test_empty_database_lacks_the_initial_migrations_but_not_those_they_replaced() -> None:
    assert set(checks.find_missing_migrations([])) == ALL
    assert checks.explain_migration_gaps([], "This database") == ""


def test_database_of_the_last_release_counts_as_migrated_by_the_initial_migrations() -> None:
    later = ALL - INITIAL
    assert checks.find_missing_migrations(OLD | later) == []
    assert checks.find_unknown_migrations(OLD) == []
    assert checks.explain_migration_gaps(OLD, "This database") == ""


def test_missing_replaced_migration_is_reported_with_the_release_that_has_it() -> None:
    applied = OLD - {("ratings", "0016_declared_things")}
    assert ("ratings", "0016_declared_things") in checks.find_missing_migrations(applied)
    why = checks.explain_migration_gaps(applied, "This database")
    assert "lacks ratings.0016_declared_things, which" in why and f"Upgrade to {RELEASE} first" in why


def test_missing_replaced_migrations_are_counted_and_the_first_three_are_listed() -> None:
    why = checks.explain_migration_gaps({("ratings", "0001_initial")}, "This database")
    assert "lacks ratings.0002_rating_room, ratings.0003_fill, ratings.0004_seat_codes and 12 more" in why


def test_migration_of_a_newer_version_is_reported_as_unknown_and_not_as_missing() -> None:
    applied = {*OLD, ("ratings", "9999_later"), ("elsewhere", "0001_initial")}
    assert checks.find_unknown_migrations(applied) == [("ratings", "9999_later")]
    assert checks.explain_migration_gaps(applied, "This database") == ""


@pytest.mark.both_databases
@pytest.mark.django_db
@pytest.mark.parametrize(
    "lost", [("ratings", "0016_declared_things"), ("simulation", "0010_paper_plan_and_unread")], ids=lambda key: key[0]
)
def test_migrate_and_server_start_reject_a_database_older_than_the_last_release(lost: Key) -> None:
    forget(lost, *INITIAL)
    name = ".".join(lost)
    with pytest.raises(CommandError, match=f"Nothing was changed.*lacks {name}, which.*Upgrade to {RELEASE} first"):
        call_command("migrate", verbosity=0)
    with pytest.raises(InvalidConfiguration, match=f"lacks {name}, which.*Upgrade to {RELEASE} first"):
        checks.check_site()
    assert "failed" in {part.state for part in health._check_database() if part.name == "migrations"}


@pytest.mark.django_db(transaction=True)
def test_restore_rejects_a_backup_older_than_the_last_release_and_changes_nothing(
    settings: Any, tmp_path: Path
) -> None:
    settings.VAR_DIR = tmp_path / "var"
    lost = ("ratings", "0015_rights")
    forget(lost, *INITIAL)
    try:
        made = creation.create_backup(tmp_path, lambda line: None, scratch=False)
    finally:
        for key in (lost, *INITIAL):
            MigrationRecorder(connection).record_applied(*key)
    with pytest.raises(BackupError, match=f"ratings.0015_rights, which.*Upgrade to {RELEASE} first"):
        restoration.load_checked_manifest(made.file)
