"""Prepare a restored database for use: migrate it, clear leases of dead workers, and revoke every session, link and token.

The backup does not contain which links and tokens were used or revoked after it, so all are revoked.
"""

from django.apps import apps
from django.contrib.sessions.base_session import AbstractBaseSession
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from ratings.models import ApiToken, Invitation, Rater, SignInLink
from simulation.leases import LEASED_MODELS
from simulation.models import Worker
from wetbench_site import checks
from wetbench_site.maintenance.backup.manifest import DatabaseContents


def list_unknown_migrations(held: DatabaseContents) -> list[str]:
    """Return the migrations that the backup has but this version lacks: a newer version created the backup."""
    return [".".join(key) for key in checks.find_unknown_migrations(_parse_migration_keys(held))]


def explain_refusal(held: DatabaseContents) -> str:
    """Return why this version cannot migrate the backup; "" if it can."""
    release = checks.LAST_RELEASE_WITH_ALL_MIGRATIONS
    reason = checks.explain_migration_gaps(_parse_migration_keys(held), "The database in this backup")
    return f"{reason} To do so, restore the backup with {release}." if reason else ""


def list_missing_migrations(held: DatabaseContents) -> list[str]:
    """Return the migrations that the backup lacks."""
    return [".".join(key) for key in checks.find_missing_migrations(_parse_migration_keys(held))]


def _parse_migration_keys(held: DatabaseContents) -> list[checks.Key]:
    return [(app, name) for app, _, name in (migration.partition(".") for migration in held.migrations)]


def prepare_database(held: DatabaseContents) -> None:
    """Migrate the database, end all sessions and leases, and revoke all links and tokens."""
    if list_missing_migrations(held):
        call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    with transaction.atomic():
        revoke_access()
        tables = connection.introspection.table_names()
        for model in apps.get_models():
            if issubclass(model, AbstractBaseSession) and model._meta.db_table in tables:
                model._default_manager.all().delete()
        for leased in LEASED_MODELS:
            # A higher fence rejects late writes of workers that were running when the backup was created.
            released = {"lease_until": None, "notified_at": None, "fence": F("fence") + 1}
            leased.objects.filter(lease_until__isnull=False).update(**released)
        Worker.objects.all().delete()


def revoke_access() -> None:
    """Revoke every sign-in link, invitation and API token. Invited rater places are open for a new invitation."""
    now = timezone.now()
    Rater.objects.filter(user__isnull=True, invited_at__isnull=False).update(invited_at=None)
    for model in (SignInLink, Invitation):
        model._default_manager.filter(used_at__isnull=True, revoked_at__isnull=True).update(revoked_at=now)
    ApiToken.objects.filter(revoked_at__isnull=True).update(revoked_at=now)
