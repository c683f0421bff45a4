"""Reasons why the site does not start: unsafe settings, and a database that is not migrated or not durable.

Problems that can be found without the database are system checks, so every command reports them as well.
"""

import os
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from wetbench_site import migration_state

MOUNTS = Path("/proc/mounts")
# SQLite needs file locks and shared memory, which are not reliable on these file systems.
NETWORK_DISKS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
}  # fmt: skip
SDK_LOGS = ("ANTHROPIC_LOG", "OPENAI_LOG")


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
    if reason := migration_state.explain_migration_gaps(applied, "This database"):
        return [Error(reason, id="wetbench.E010")]
    missing = migration_state.find_missing_migrations(applied)
    if not missing:
        return []
    message = f"The database lacks {len(missing)} migrations, such as {'.'.join(missing[0])}."
    return [Error(message, hint="Run `python manage.py migrate` once, then start again.", id="wetbench.E008")]


def list_missing_migrations() -> list[str]:
    """Return the migrations that are not applied, with one query. Migrations of a newer version are no problem."""
    applied = MigrationRecorder(connection).applied_migrations()
    return [".".join(key) for key in migration_state.find_missing_migrations(applied)]


def _check_exposure() -> Iterator[Error]:
    if "*" in settings.ALLOWED_HOSTS:
        yield Error("WETBENCH_HOSTS is *.", hint="List the host names of the site instead.", id="wetbench.E001")
    if settings.PRODUCTION and settings.DEBUG:
        yield Error(
            "WETBENCH_DEBUG is true in production.",
            hint="Debug pages reveal secrets: set it to false.",
            id="wetbench.E002",
        )
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
            yield Error(
                f"{name} is debug: prompts would be logged.",
                hint=f"Unset {name} or choose another level.",
                id="wetbench.E004",
            )


def _check_network_disk() -> Iterator[Error]:
    database = settings.DATABASES["default"]
    if database["ENGINE"] == "wetbench_site.sqlite" and ":memory:" not in str(database["NAME"]):
        path = Path(str(database["NAME"])).absolute()
        if (kind := find_file_system(path)) in NETWORK_DISKS:
            hint = "Set WETBENCH_VAR_DIR to a folder on a local disk, or use PostgreSQL."
            yield Error(
                f"{path} is on a network disk ({kind}), where SQLite can lose data.", hint=hint, id="wetbench.E005"
            )


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
        if int(_fetch_setting("PRAGMA synchronous")) < 2:
            yield Error(
                "SQLite does not run with synchronous=FULL.",
                hint="Set it: otherwise a power cut can lose confirmed ratings.",
                id="wetbench.E006",
            )
        return
    if _fetch_setting("SHOW synchronous_commit") == "off":
        hint = "Set it to on for this database or role: otherwise a crash can lose confirmed ratings."
        yield Error("PostgreSQL runs with synchronous_commit=off.", hint=hint, id="wetbench.E006")
    # Not in the embedded profile: test databases run without fsync to be fast.
    if settings.PRODUCTION and _fetch_setting("SHOW fsync") == "off":
        yield Error("PostgreSQL runs with fsync=off.", hint="Set it to on in postgresql.conf.", id="wetbench.E007")


def _fetch_setting(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return str(cursor.fetchone()[0])
