"""Reasons why the site does not start: unsafe settings, and a database that is not migrated or not durable.

Problems that can be found without the database are system checks, so every command reports them as well.
"""

import functools
import logging
import os
import string
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register, run_checks
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder

from wetbench_site.database import fetch_rows
from wetbench_site.environment import InvalidConfiguration

MOUNTS = Path("/proc/mounts")
# SQLite needs file locks and shared memory, which are not reliable on these file systems.
NETWORK_DISKS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
}  # fmt: skip
SDK_LOGS = ("ANTHROPIC_LOG", "OPENAI_LOG")
Key = tuple[str, str]  # app, name

log = logging.getLogger("wetbench.starting")
LAST_RELEASE_WITH_ALL_MIGRATIONS = "d524dde"
_MAX_NAMES = 3


def find_missing_migrations(applied: Iterable[Key]) -> list[Key]:
    """Return the migrations that still have to be applied, sorted.

    If only some of the replaced migrations are applied, these are the others.
    """
    keys = set(applied)
    return sorted({key for name, migration in _load_migrations() for key in _list_unapplied(name, migration, keys)})


def find_unknown_migrations(applied: Iterable[Key]) -> list[Key]:
    """Return the migrations of our apps that this version lacks, sorted: a newer version applied them."""
    known = {key for name, migration in _load_migrations() for key in (name, *migration.replaces)}
    apps = {app for app, _ in known}
    return sorted(key for key in set(applied) - known if key[0] in apps)


def find_migration_gaps(applied: Iterable[Key]) -> list[Key]:
    """Return the replaced migrations that are absent although others of their set are applied, sorted."""
    applied_keys = set(applied)
    replaced = [set(migration.replaces) for _, migration in _load_migrations()]
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
    replaced = set(migration.replaces)
    if not replaced:
        return () if name in applied_keys else (name,)
    # Django ignores the row of a migration as long as it has `replaces`: only the replaced ones count.
    return replaced - applied_keys if replaced & applied_keys else (name,)


@functools.cache
def _load_migrations() -> tuple[tuple[Key, Migration], ...]:
    return tuple(MigrationLoader(None).disk_migrations.items())


@register("wetbench")
def check_settings(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    return [*_check_exposure(), *_check_sdk_logs(), *_check_network_disk()]


@register("wetbench", Tags.database)
def check_durability(app_configs: Any = None, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that confirmed ratings survive a power cut, by the settings that the database reports for this connection."""
    return [*_check_database_durability()] if "default" in (databases or ()) else []


def check_migrations() -> list[CheckMessage]:
    """Return an error if migrations of this version are not applied. `migrate` itself does not run this check."""
    applied = MigrationRecorder(connection).applied_migrations()
    if reason := explain_migration_gaps(applied, "This database"):
        return [Error(reason, id="wetbench.E010")]
    missing = find_missing_migrations(applied)
    if not missing:
        return []
    message = f"The database lacks {len(missing)} migrations, such as {'.'.join(missing[0])}."
    return [Error(message, hint="Run `python manage.py migrate` once, then start again.", id="wetbench.E008")]


def list_missing_migrations() -> list[str]:
    """Return the migrations that are not applied, with one query. Migrations of a newer version are no problem."""
    applied = MigrationRecorder(connection).applied_migrations()
    return [".".join(key) for key in find_missing_migrations(applied)]


def _check_exposure() -> Iterator[Error]:
    if "*" in settings.ALLOWED_HOSTS:
        yield Error("WETBENCH_HOSTS is *.", hint="List the host names of the site instead.", id="wetbench.E001")
    if settings.PRODUCTION and settings.DEBUG:
        hint = "Debug pages reveal secrets: set it to false."
        yield Error("WETBENCH_DEBUG is true in production.", hint=hint, id="wetbench.E002")
    if settings.PRODUCTION and _is_weak_key(settings.SECRET_KEY):
        hint = '`python -c "import secrets; print(secrets.token_urlsafe(64))"` creates one.'
        yield Error("SECRET_KEY is too short or too regular for production.", hint=hint, id="wetbench.E003")


def _is_weak_key(key: str) -> bool:
    """Return whether the key has fewer than 50 characters or 10 different ones, or is a sequence or an example."""
    regular = key in string.printable or len(set(key)) < 10
    return len(key) < 50 or regular or key.startswith("django-insecure-") or "change" in key.lower()


def _check_sdk_logs() -> Iterator[Error]:
    for name in SDK_LOGS:
        # At this level the SDKs of the providers print whole prompts and replies.
        if os.environ.get(name, "").lower() == "debug":
            hint = f"Unset {name} or choose another level."
            yield Error(f"{name} is debug: prompts would be logged.", hint=hint, id="wetbench.E004")


def _check_network_disk() -> Iterator[Error]:
    database = settings.DATABASES["default"]
    if database["ENGINE"] == "wetbench_site.sqlite" and ":memory:" not in str(database["NAME"]):
        path = Path(str(database["NAME"])).absolute()
        if (kind := find_file_system(path)) in NETWORK_DISKS:
            hint = "Set WETBENCH_VAR_DIR to a folder on a local disk, or use PostgreSQL."
            message = f"{path} is on a network disk ({kind}), where SQLite can lose data."
            yield Error(message, hint=hint, id="wetbench.E005")


def find_file_system(path: Path) -> str:
    """Return the file system type of a path, or an empty text if the machine does not report it (not Linux)."""
    if not MOUNTS.exists():
        return ""
    best_mount, kind = Path("/"), ""
    full_path = path.resolve()
    for line in MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        # The longest mount point above the path wins. /proc/mounts writes a blank as \040.
        mount = Path(line.split()[1].replace("\\040", " "))
        if full_path.is_relative_to(mount) and mount.is_relative_to(best_mount):
            best_mount, kind = mount, line.split()[2]
    return kind


def _check_database_durability() -> Iterator[Error]:
    if connection.vendor == "sqlite":
        [(synchronous,)] = fetch_rows("PRAGMA synchronous")
        if synchronous < 2:
            hint = "Set it: otherwise a power cut can lose confirmed ratings."
            yield Error("SQLite does not run with synchronous=FULL.", hint=hint, id="wetbench.E006")
        return
    if fetch_rows("SHOW synchronous_commit") == [("off",)]:
        hint = "Set it to on for this database or role: otherwise a crash can lose confirmed ratings."
        yield Error("PostgreSQL runs with synchronous_commit=off.", hint=hint, id="wetbench.E006")
    # Not in the embedded profile: test databases run without fsync to be fast.
    if settings.PRODUCTION and fetch_rows("SHOW fsync") == [("off",)]:
        yield Error("PostgreSQL runs with fsync=off.", hint="Set it to on in postgresql.conf.", id="wetbench.E007")


def check_site() -> None:
    """Raise InvalidConfiguration with every problem found. Servers and workers call it; commands do not."""
    errors = [*run_checks(tags=["wetbench"]), *_check_database()]
    if errors:
        problems = "\n".join(f"- {fault.msg} {fault.hint or ''}".rstrip() for fault in errors)
        raise InvalidConfiguration(f"WetBench cannot start:\n{problems}")


def _check_database() -> list[CheckMessage]:
    """Return the errors of the database; none if it is not available."""
    try:
        return [*check_durability(databases=["default"]), *check_migrations()]
    # A database that is down can come back without a restart of the site; /readyz reports it until then.
    except (DatabaseError, InterfaceError) as error:
        log.warning("the database did not answer at the start and was not checked: %s", error)
        return []
    finally:
        if not connection.in_atomic_block:
            connection.close()
