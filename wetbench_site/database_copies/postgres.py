"""PostgreSQL: its own programs, with what they need to know in their environment and never on their command line."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection, connections, transaction

from wetbench_site.database_copies import opening
from wetbench_site.database_copies.faults import BackupError

_VARIABLES = {"HOST": "PGHOST", "PORT": "PGPORT", "USER": "PGUSER", "PASSWORD": "PGPASSWORD"}
_OPTIONS = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "passfile": "PGPASSFILE", "service": "PGSERVICE"}
ASIDE = "before_restore_"  # how the schemas begin that a restore sets aside
_DEBIAN = "/usr/lib/postgresql"  # where Debian keeps the programs of each version


def size() -> int:
    [(bytes_,)] = asked("SELECT pg_database_size(current_database())")
    return int(bytes_)


def dump_into(file: Path, *arguments: str) -> None:
    """Write one moment of the database into a file that pg_restore reads."""
    run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--exclude-schema={ASIDE}*",
        f"--file={file}", *arguments)  # fmt: skip


def listed(file: Path) -> None:
    """BackupError if pg_restore cannot read the file's table of contents."""
    run("pg_restore", "--list", str(file))


def may_make_databases() -> bool:
    [(may,)] = asked("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user")
    return bool(may)


def restore_into(database: str, file: Path, server: Mapping[str, Any] | None = None) -> None:
    """All of it or nothing. `server` describes the place of the database, where that is not the site's server."""
    arguments = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    run("pg_restore", *arguments, f"--dbname={database}", str(file), server=server)


def others() -> int:
    """How many others are connected to the database now."""
    [(count,)] = asked("""
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'""")
    return int(count)


def set_aside(schema: str) -> None:
    """All tables under another name, and an empty place where they were."""
    _change(f"ALTER SCHEMA public RENAME TO {schema}", "CREATE SCHEMA public")


def set_aside_before() -> list[str]:
    """The schemas that restores have left."""
    found = asked(f"SELECT nspname FROM pg_namespace WHERE nspname ^@ '{ASIDE}' ORDER BY nspname")
    return [schema for (schema,) in found]


def put_back(schema: str) -> None:
    _change("DROP SCHEMA public CASCADE", f"ALTER SCHEMA {schema} RENAME TO public")


def drop(schema: str) -> None:
    _change(f"DROP SCHEMA {schema} CASCADE")


def name() -> str:
    return str(connection.settings_dict["NAME"])


def run(program: str, *arguments: str, server: Mapping[str, Any] | None = None) -> str:
    """What the program said; BackupError with the end of its complaint."""
    command = [found(program), *arguments]
    done = subprocess.run(
        command, env=_environment(server), capture_output=True, text=True, check=False, errors="replace"
    )
    if done.returncode:
        raise BackupError(f"{program} failed: {done.stderr.strip()[-600:] or f'exit {done.returncode}'}")
    return done.stdout


def found(program: str) -> str:
    """Where the program is; the newest, if it is nowhere on the path."""
    versions = sorted(Path(_DEBIAN).glob(f"*/bin/{program}"), key=lambda path: float(path.parts[-3]), reverse=True)
    path = shutil.which(program) or next(map(str, versions), None)
    if path is None:
        raise BackupError(f"{program} is not installed here: install PostgreSQL's client programs (postgresql-client)")
    return path


def _environment(server: Mapping[str, Any] | None) -> dict[str, str]:
    settings: Mapping[str, Any] = server or connection.settings_dict
    own = {variable: str(settings[name]) for name, variable in _VARIABLES.items() if settings[name]}
    options = settings.get("OPTIONS", {})
    own |= {variable: str(options[name]) for name, variable in _OPTIONS.items() if name in options}
    return {**os.environ, **own, "PGDATABASE": str(settings["NAME"]), "PGCONNECT_TIMEOUT": "10"}


@contextmanager
def check_database() -> Iterator[str]:
    scratch = f"wetbench_check_{uuid.uuid4().hex[:8]}"
    create_database(scratch)
    try:
        yield scratch
    finally:
        drop_database(scratch)


def create_database(scratch: str) -> None:
    """Make an empty database on the site's server. BackupError if that is not allowed."""
    with opening.database_of_the_server(name()) as alias, connections[alias].cursor() as cursor:
        try:
            cursor.execute(f"CREATE DATABASE {scratch} TEMPLATE template0")
        except DatabaseError as error:
            raise BackupError(f"no scratch database could be made: {error}") from error


def drop_database(scratch: str) -> None:
    """Drop a database of the site's server, and end the connections to it."""
    with opening.database_of_the_server(name()) as alias, connections[alias].cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {scratch} WITH (FORCE)")


def _change(*statements: str) -> None:
    """All of it or nothing. Connections of this process know the tables as they were: they are closed."""
    own: Any = connection  # of PostgreSQL's own class, which has a pool
    own.close()
    own.close_pool()
    with (
        opening.database_of_the_server(name()) as alias,
        transaction.atomic(using=alias),
        connections[alias].cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)


def asked(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
