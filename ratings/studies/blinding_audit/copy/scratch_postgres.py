"""A scratch copy on PostgreSQL: the dump of one moment, restored into a database of its own or into one that was named.

Its own databases are named after the live one, so that audits of other sites on the same server leave them alone. An advisory
lock on the live database shows which of them are in use: the server releases it with the connection of the audit, however
that ends, and the next audit drops those that nobody holds.
"""

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dj_database_url
from django.conf import settings
from django.db import DatabaseError, connections

from ratings.studies.blinding_audit.copy.guard import MARK
from ratings.studies.blinding_audit.errors import AuditError
from wetbench_site.database_copies import opening, postgres

VARIABLE = "WETBENCH_SCRATCH_DATABASE_URL"
_PREFIX = "wetbench_scratch_"
_IN_USE = 0x5765744265  # the advisory lock of a named scratch database that an audit works on
_OBJECTS = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      AND NOT EXISTS (
        SELECT 1 FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('e', 'a', 'i'))"""
# Tables, views and the like, without those of extensions and without the sequences of columns.


@contextmanager
def scratch_database(folder: Path) -> Iterator[str]:
    """Copy the live database and return the URL of the copy. AuditError, BackupError or OSError if that cannot be done.

    The dump is written into `folder`. The copy is removed at the end of the block.
    """
    with ExitStack() as held:
        if settings.SCRATCH_DATABASE_URL:
            held.enter_context(_named_database(folder / "dump"))
            yield settings.SCRATCH_DATABASE_URL
        else:
            name = held.enter_context(_own_database(folder / "dump"))
            live = urlsplit(settings.ENVIRONMENT.text("DATABASE_URL"))
            yield live._replace(path=f"/{name}").geturl()


# A database of its own


@contextmanager
def _own_database(dump: Path) -> Iterator[str]:
    if not postgres.may_make_databases():
        raise AuditError(
            "An audit works on a scratch copy of the database, and the database's user lacks the right to create one "
            f"(CREATEDB). Either give it: ALTER ROLE {_user()} CREATEDB, or have an empty database made for the copies and "
            f"name it in {VARIABLE}"
        )
    prefix = f"{_PREFIX}{hashlib.sha256(postgres.name().encode()).hexdigest()[:8]}_"
    name = f"{prefix}{uuid.uuid4().hex[:8]}"
    with opening.database_of_the_server(postgres.name(), _new_alias()) as live:
        _drop_leftovers(live, prefix)
        _ask(live, "SELECT pg_advisory_lock(hashtextextended(%s, 0))", [name])
        postgres.create_database(name)
        try:
            postgres.dump_into(dump)
            postgres.restore_into(name, dump)
            dump.unlink()
            with opening.database_of_the_server(name) as copy:
                _ask(copy, f"CREATE TABLE {MARK} (made_at text)")
            yield name
        finally:
            postgres.drop_database(name)


def _drop_leftovers(live: str, prefix: str) -> None:
    """Drop what killed audits of this site have left."""
    for (name,) in _ask(live, "SELECT datname FROM pg_database WHERE datname ^@ %s", [prefix]):
        if _ask(live, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [name]) == [(True,)]:
            postgres.drop_database(name)
            _ask(live, "SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [name])


def _user() -> str:
    return str(connections["default"].settings_dict["USER"])


# A database that was named


@contextmanager
def _named_database(dump: Path) -> Iterator[None]:
    target = dj_database_url.parse(settings.SCRATCH_DATABASE_URL)
    if "postgresql" not in str(target["ENGINE"]):
        raise AuditError(f"{VARIABLE} has to name a PostgreSQL database, as DATABASE_URL does")
    with ExitStack() as held:
        live = held.enter_context(opening.database_of_the_server(postgres.name(), _new_alias()))
        try:
            copy = held.enter_context(opening.database_elsewhere(target, _new_alias()))
            _refuse_live(live, copy)
        except DatabaseError as error:
            raise AuditError(f"The database that {VARIABLE} names cannot be used: {error}") from error
        if _ask(copy, "SELECT pg_try_advisory_lock(%s)", [_IN_USE]) != [(True,)]:
            raise AuditError(
                f"Another audit works in the database that {VARIABLE} names: audit again when it has ended"
            )
        try:
            _empty(copy)
            _ask(copy, f"CREATE TABLE {MARK} (made_at text)")
        except DatabaseError as error:
            raise AuditError(f"The database that {VARIABLE} names cannot be emptied: {error}") from error
        try:
            postgres.dump_into(dump)
            postgres.restore_into(str(target["NAME"]), dump, target)
            dump.unlink()
            yield
        finally:
            _empty(copy)


def _refuse_live(live: str, copy: str) -> None:
    """AuditError if both connections lead to one database, under whatever names.

    An advisory lock is seen within one database only, and comparing it needs no special right.
    """
    key = uuid.uuid4().int % 2**63
    _ask(live, "SELECT pg_advisory_lock(%s)", [key])
    try:
        if _ask(copy, "SELECT pg_try_advisory_lock(%s)", [key]) != [(True,)]:
            raise AuditError(f"{VARIABLE} names the live database: name another one, which is empty")
        _ask(copy, "SELECT pg_advisory_unlock(%s)", [key])
    finally:
        _ask(live, "SELECT pg_advisory_unlock(%s)", [key])


def _empty(copy: str) -> None:
    """Drop all tables of an earlier copy. AuditError if the database has tables and is not marked as a copy."""
    tables = {name for (name,) in _ask(copy, _OBJECTS)}
    if tables and MARK not in tables:
        raise AuditError(
            f"The database that {VARIABLE} names is not empty, and no audit has used it ({', '.join(sorted(tables)[:3])}): "
            "name an empty one"
        )
    if tables:
        quoted = ", ".join(f'"{name}"' for name in sorted(tables - {MARK}))
        _ask(copy, f"DROP TABLE IF EXISTS {f'{quoted}, ' if quoted else ''}{MARK} CASCADE")


def _new_alias() -> str:
    """A name for a connection that stays open as long as the audit; others are opened and closed meanwhile."""
    return f"scratch_{uuid.uuid4().hex}"


def _ask(alias: str, statement: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []
