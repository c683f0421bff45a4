"""Compare the migrations that a database has with those of this version.

Each app has one initial migration. Its `replaces` lists the single migrations of the last release that had them.
A database or backup with all of those counts as migrated by the initial migration. One with only some of them cannot be
migrated by this version, because the files of the others no longer exist.
"""

import functools
from collections.abc import Iterable, Iterator

from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration

Key = tuple[str, str]  # app, name

LAST_RELEASE_WITH_ALL_MIGRATIONS = "d524dde"
_MAX_NAMES = 3


def find_missing_migrations(applied: Iterable[Key]) -> list[Key]:
    """Return the migrations that still have to be applied, sorted.

    If only some of the replaced migrations are applied, these are the others.
    """
    applied_keys = set(applied)
    return sorted(
        {key for name, migration in _load_migrations() for key in _list_unapplied(name, migration, applied_keys)}
    )


def find_unknown_migrations(applied: Iterable[Key]) -> list[Key]:
    """Return the migrations of our apps that this version lacks, sorted: a newer version applied them."""
    known = {key for name, migration in _load_migrations() for key in (name, *_list_replaced(migration))}
    apps = {app for app, _ in known}
    return sorted(key for key in set(applied) - known if key[0] in apps)


def find_migration_gaps(applied: Iterable[Key]) -> list[Key]:
    """Return the replaced migrations that are absent although others of their set are applied, sorted."""
    applied_keys = set(applied)
    replaced = [set(_list_replaced(migration)) for _, migration in _load_migrations()]
    return sorted(key for keys in replaced if keys & applied_keys for key in keys - applied_keys)


def explain_migration_gaps(applied: Iterable[Key], holder: str) -> str:
    """Return why `holder` ("This database", a backup's name) cannot be migrated and what to do; "" if it can be."""
    missing = [".".join(key) for key in find_migration_gaps(applied)]
    if not missing:
        return ""
    more = f" and {len(missing) - _MAX_NAMES} more" if len(missing) > _MAX_NAMES else ""
    release = LAST_RELEASE_WITH_ALL_MIGRATIONS
    return (
        f"{holder} was made by a release older than {release} and lacks {', '.join(missing[:_MAX_NAMES])}{more}, which this"
        f" version no longer contains. Upgrade to {release} first: check out that commit, run `python manage.py migrate`"
        " there, then install this version again."
    )


def _list_unapplied(name: Key, migration: Migration, applied_keys: set[Key]) -> Iterable[Key]:
    """Return what is left to apply of one migration of this version: itself, or the absent migrations it replaces."""
    replaced = set(_list_replaced(migration))
    if not replaced:
        return () if name in applied_keys else (name,)
    # Django ignores the row of a migration as long as it has `replaces`: only the replaced ones count.
    return replaced - applied_keys if replaced & applied_keys else (name,)


def _list_replaced(migration: Migration) -> Iterator[Key]:
    yield from ((app, name) for app, name in migration.replaces)


@functools.cache
def _load_migrations() -> tuple[tuple[Key, Migration], ...]:
    return tuple(MigrationLoader(None).disk_migrations.items())
