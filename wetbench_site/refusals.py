"""Why the site will not start: settings that give it away, and a database that is not ready or not durable.

What needs no database is a system check, so that every command finds it as well as the start of a server or worker.
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
# Locks and shared memory, which SQLite keeps its promises with, do not hold there.
NETWORK_DISKS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
}  # fmt: skip
SDK_LOGS = ("ANTHROPIC_LOG", "OPENAI_LOG")


@register("wetbench")
def settings_that_give_away(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    return [*_exposed(), *_told_prompts(), *_on_network_disk()]


@register("wetbench", Tags.database)
def durability(app_configs: Any = None, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """A rating that was confirmed survives a power cut: asked of the database, whoever set it up."""
    return [*_forgetful()] if "default" in (databases or ()) else []


def pending_migrations() -> list[CheckMessage]:
    """What this version would change in the database and nobody has done yet; not asked by `migrate` itself."""
    applied = MigrationRecorder(connection).applied_migrations()
    if why := migration_state.explain_gaps(applied, "This database"):
        return [Error(why, id="wetbench.E010")]
    missing = migration_state.find_missing(applied)
    if not missing:
        return []
    said = f"The database lacks {len(missing)} migrations, such as {'.'.join(missing[0])}."
    return [Error(said, hint="Run `python manage.py migrate` once, then start again.", id="wetbench.E008")]


def missing_migrations() -> list[str]:
    """One query. What the database has beyond that is of a newer version, and no hindrance."""
    applied = MigrationRecorder(connection).applied_migrations()
    return [".".join(key) for key in migration_state.find_missing(applied)]


def _exposed() -> Iterator[Error]:
    if "*" in settings.ALLOWED_HOSTS:
        yield Error("WETBENCH_HOSTS is *.", hint="Name the hosts the site is reached by.", id="wetbench.E001")
    if settings.PRODUCTION and settings.DEBUG:
        yield Error("WETBENCH_DEBUG is true in production.", hint="Its pages tell secrets.", id="wetbench.E002")
    if settings.PRODUCTION and _is_weak(settings.SECRET_KEY):
        made = '`python -c "import secrets; print(secrets.token_urlsafe(64))"` makes one.'
        yield Error("SECRET_KEY is too short or too regular for production.", hint=made, id="wetbench.E003")


def _is_weak(key: str) -> bool:
    """Shorter than 50 characters, of few different ones, or out of an example."""
    regular = key in string.printable or len(set(key)) < 10
    return len(key) < 50 or regular or key.startswith("django-insecure-") or "change" in key.lower()


def _told_prompts() -> Iterator[Error]:
    """At that level the SDKs print whole prompts and replies."""
    for name in SDK_LOGS:
        if os.environ.get(name, "").lower() == "debug":
            yield Error(f"{name} is debug: prompts would be logged.", hint=f"Unset {name}.", id="wetbench.E004")


def _on_network_disk() -> Iterator[Error]:
    database = settings.DATABASES["default"]
    if database["ENGINE"] == "wetbench_site.sqlite" and ":memory:" not in str(database["NAME"]):
        path = Path(str(database["NAME"])).absolute()
        if (kind := disk_of(path)) in NETWORK_DISKS:
            hint = "Set WETBENCH_VAR_DIR to a folder of a local disk, or use PostgreSQL."
            yield Error(
                f"{path} is on a network disk ({kind}), where SQLite loses data.", hint=hint, id="wetbench.E005"
            )


def disk_of(path: Path) -> str:
    """The type of the file system that holds a path; empty where the machine does not say (it is no Linux)."""
    if not MOUNTS.exists():
        return ""
    at, kind = Path("/"), ""
    whole = path.resolve()
    for line in MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        where = Path(line.split()[1].replace("\\040", " "))
        if whole.is_relative_to(where) and where.is_relative_to(at):
            at, kind = where, line.split()[2]
    return kind


def _forgetful() -> Iterator[Error]:
    if connection.vendor == "sqlite":
        if int(_asked("PRAGMA synchronous")) < 2:
            yield Error(
                "SQLite does not run with synchronous=FULL.", hint="A power cut loses ratings.", id="wetbench.E006"
            )
        return
    if _asked("SHOW synchronous_commit") == "off":
        hint = "Set it to on for this database or role: a crash loses ratings that were confirmed."
        yield Error("PostgreSQL runs with synchronous_commit=off.", hint=hint, id="wetbench.E006")
    if settings.PRODUCTION and _asked("SHOW fsync") == "off":
        yield Error("PostgreSQL runs with fsync=off.", hint="Set it to on in postgresql.conf.", id="wetbench.E007")


def _asked(statement: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return str(cursor.fetchone()[0])
