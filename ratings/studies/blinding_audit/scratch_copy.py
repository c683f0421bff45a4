"""A scratch copy of the database for one audit, and the guard that keeps the audit from writing to the live database.

The audit gives raters' places to test users, deletes their answers and swaps the sources of items. Every function that
does so calls `require_scratch_copy` first. It raises RuntimeError in any process that has not called `allow_writes`,
which checks for a table that `create_scratch_copy` creates in each copy and that no live database has.

On PostgreSQL a dump is restored into a database created for it or into one that a setting names. Databases created for
audits are named after the live one, so that audits of other sites on the same server do not touch them. An advisory
lock on the live database marks each of them that is in use. The server releases the lock when the audit's connection
ends for whatever reason, and the next audit drops databases without a lock.
"""

import fcntl
import hashlib
import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import dj_database_url
from django.conf import settings
from django.db import DatabaseError, connection, connections, transaction
from django.utils import timezone

from ratings.studies.blinding_audit.findings import AuditError
from wetbench_site.database_copies import extra_databases, postgres, sqlite
from wetbench_site.database_copies.extra_databases import BackupError

SETTING_NAME = "WETBENCH_SCRATCH_DATABASE_URL"
_PREFIX = "wetbench_scratch_"
_IN_USE_LOCK = 0x5765744265  # the advisory lock on a named scratch database in which an audit works
_OBJECTS_QUERY = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      AND NOT EXISTS (
        SELECT 1 FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('e', 'a', 'i'))"""
# Tables, views and the like, without those of extensions and without the sequences of columns.
_FOLDER_PREFIX = "audit-"
MARKER_TABLE = "wetbench_scratch_copy"  # the table that only a scratch copy has

_is_allowed = False  # of this process; set by `allow_writes` alone


def allow_writes() -> None:
    """Allow this process to write to its database. Raises RuntimeError unless that is marked as a scratch copy."""
    global _is_allowed
    if MARKER_TABLE not in connection.introspection.table_names():
        raise RuntimeError(f"the database {connection.settings_dict['NAME']} is not a scratch copy of a blinding audit")
    _is_allowed = True


def require_scratch_copy() -> None:
    """Raise RuntimeError in every process that does not work on a scratch copy."""
    if not _is_allowed:
        problem = "a blinding audit writes to a scratch copy only, and this process works on the live database"
        raise RuntimeError(problem)


@contextmanager
def roll_back_changes() -> Iterator[None]:
    """Undo everything that the block writes. Raises RuntimeError in a process that does not work on a scratch copy."""
    require_scratch_copy()
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def create_own_folder() -> Iterator[Path]:
    """Create a folder that only the site's user can read, for this block. Remove those of killed audits."""
    parent = settings.VAR_DIR / "scratch"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    parent_lock = _lock_folder(parent)  # between creating a folder and locking it, another audit could remove it
    try:
        # Folders of killed audits have a free lock: the system releases the locks of a process that ends.
        for leftover in parent.glob(f"{_FOLDER_PREFIX}*"):
            with suppress(BlockingIOError, FileNotFoundError):  # in use, or just removed by its audit
                lock = _lock_folder(leftover, wait=False)
                shutil.rmtree(leftover, ignore_errors=True)
                os.close(lock)
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=parent))
        lock = _lock_folder(folder)
    finally:
        os.close(parent_lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _lock_folder(folder: Path, wait: bool = True) -> int:
    """Lock the folder and return its handle; closing the handle releases the lock. May raise BlockingIOError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def create_scratch_database(folder: Path) -> Iterator[str]:
    """Copy the live database and return the URL of the copy. The dump is written into `folder`.

    The copy is removed at the end of the block. Raises AuditError, BackupError or OSError if it cannot be copied.
    """
    with ExitStack() as resources:
        if settings.SCRATCH_DATABASE_URL:
            resources.enter_context(_use_named_database(folder / "dump"))
            yield settings.SCRATCH_DATABASE_URL
        else:
            name = resources.enter_context(_create_own_database(folder / "dump"))
            live = urlsplit(settings.ENVIRONMENT.get_text("DATABASE_URL"))
            yield live._replace(path=f"/{name}").geturl()


@contextmanager
def _create_own_database(dump: Path) -> Iterator[str]:
    if not postgres.can_create_databases():
        raise AuditError(
            "An audit works on a scratch copy of the database, and the database user lacks the right to create one "
            f"(CREATEDB). Either grant it: ALTER ROLE {connections['default'].settings_dict['USER']} CREATEDB, or create an empty database for the copies and "
            f"set {SETTING_NAME} to its URL"
        )
    # A digest, because names of databases are limited to 63 characters.
    prefix = f"{_PREFIX}{hashlib.sha256(postgres.get_database_name().encode()).hexdigest()[:8]}_"
    name = f"{prefix}{uuid.uuid4().hex[:8]}"
    with extra_databases.connect_server_database(postgres.get_database_name(), _new_alias()) as live:
        _drop_leftovers(live, prefix)
        _run_query(live, "SELECT pg_advisory_lock(hashtextextended(%s, 0))", [name])
        # After taking its lock: between creation and lock, another audit would drop it as a leftover.
        postgres.create_database(name)
        try:
            postgres.dump_database(dump)
            postgres.restore_dump(name, dump)
            dump.unlink()
            with extra_databases.connect_server_database(name) as copy:
                _run_query(copy, f"CREATE TABLE {MARKER_TABLE} (made_at text)")
            yield name
        finally:
            postgres.drop_database(name)


def _drop_leftovers(live: str, prefix: str) -> None:
    """Drop what killed audits of this site have left."""
    for (name,) in _run_query(live, "SELECT datname FROM pg_database WHERE datname ^@ %s", [prefix]):
        # The lock is free only if the audit that created the database has ended.
        if _run_query(live, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [name]) == [(True,)]:
            postgres.drop_database(name)
            _run_query(live, "SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [name])


@contextmanager
def _use_named_database(dump: Path) -> Iterator[None]:
    settings_of_copy = dj_database_url.parse(settings.SCRATCH_DATABASE_URL)
    if "postgresql" not in str(settings_of_copy["ENGINE"]):
        raise AuditError(f"{SETTING_NAME} must be the URL of a PostgreSQL database, like DATABASE_URL")
    with ExitStack() as resources:
        live_name = postgres.get_database_name()
        live = resources.enter_context(extra_databases.connect_server_database(live_name, _new_alias()))
        try:
            copy = resources.enter_context(extra_databases.connect_external_database(settings_of_copy, _new_alias()))
            _refuse_live(live, copy)
        except DatabaseError as error:
            raise AuditError(f"The database that {SETTING_NAME} names cannot be used: {error}") from error
        if _run_query(copy, "SELECT pg_try_advisory_lock(%s)", [_IN_USE_LOCK]) != [(True,)]:
            advice = "Start this audit again when it has ended"
            raise AuditError(f"Another audit is using the database that {SETTING_NAME} names. {advice}")
        try:
            _drop_copied_tables(copy)
            _run_query(copy, f"CREATE TABLE {MARKER_TABLE} (made_at text)")
        except DatabaseError as error:
            raise AuditError(f"The database that {SETTING_NAME} names cannot be emptied: {error}") from error
        try:
            postgres.dump_database(dump)
            postgres.restore_dump(str(settings_of_copy["NAME"]), dump, settings_of_copy)
            dump.unlink()
            yield
        finally:
            _drop_copied_tables(copy)


def _refuse_live(live: str, copy: str) -> None:
    """Raise AuditError if both connections lead to the same database, under whatever names."""
    # An advisory lock is visible within one database only, and testing it needs no special right. Host names and
    # ports would not do: one server may have several.
    key = uuid.uuid4().int % 2**63
    _run_query(live, "SELECT pg_advisory_lock(%s)", [key])
    try:
        if _run_query(copy, "SELECT pg_try_advisory_lock(%s)", [key]) != [(True,)]:
            raise AuditError(f"{SETTING_NAME} names the live database. Set it to another, empty database")
        _run_query(copy, "SELECT pg_advisory_unlock(%s)", [key])
    finally:
        _run_query(live, "SELECT pg_advisory_unlock(%s)", [key])


def _drop_copied_tables(copy: str) -> None:
    """Drop all tables of an earlier copy. Raises AuditError if the database has tables and is not marked as a copy."""
    tables = {name for (name,) in _run_query(copy, _OBJECTS_QUERY)}
    if tables and MARKER_TABLE not in tables:
        raise AuditError(
            f"The database that {SETTING_NAME} names is not empty, and no audit has used it ({', '.join(sorted(tables)[:3])}). "
            "Set it to an empty database"
        )
    if tables:
        # One statement: the marker disappears only together with everything that it marks.
        quoted_names = ", ".join(f'"{name}"' for name in sorted(tables - {MARKER_TABLE}))
        _run_query(copy, f"DROP TABLE IF EXISTS {f'{quoted_names}, ' if quoted_names else ''}{MARKER_TABLE} CASCADE")


def _new_alias() -> str:
    """Return a name for a connection that is open during the audit, while others are opened and closed."""
    return f"scratch_{uuid.uuid4().hex}"


def _run_query(alias: str, statement: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []


class ScratchCopy(NamedTuple):
    """The URL of the copy, in the form of DATABASE_URL, and the time just before the database was copied."""

    url: str
    made_at: datetime


@contextmanager
def create_scratch_copy() -> Iterator[ScratchCopy]:
    """Copy the live database and remove the copy at the end of the block. Raises AuditError if it cannot be copied."""
    with ExitStack() as resources:
        try:
            folder = resources.enter_context(create_own_folder())
            # Before copying: a rating that comes in while copying may or may not be in the copy.
            made_at = timezone.now()
            if connection.vendor == "sqlite":
                url = _copy_sqlite(folder / "copy.sqlite3")
            else:
                url = resources.enter_context(create_scratch_database(folder))
        except (OSError, BackupError) as error:
            raise AuditError(f"The scratch copy for the audit could not be created: {error}") from error
        yield ScratchCopy(url, made_at)


def _copy_sqlite(file: Path) -> str:
    """Copy the database while others read and write it, and return the URL of the copy. Raises OSError if that fails."""
    free, size = shutil.disk_usage(file.parent).free, sqlite.get_database_size()
    if free < size:
        raise OSError(f"{file.parent} has {free / 1e6:,.0f} MB free, and the database has {size / 1e6:,.0f} MB")
    try:
        sqlite.copy_database(file)
    except DatabaseError as error:  # such as a full disk; a second attempt would fail in the same way
        raise OSError(str(error)) from error
    # The marker table, without which no process may write to the copy (`allow_writes`).
    with closing(sqlite3.connect(file)) as copy:
        copy.execute(f"CREATE TABLE {MARKER_TABLE} (made_at text)")
        copy.commit()
    return f"sqlite:///{quote(str(file))}"
