"""PostgreSQL databases: dumps, restores and schemas, mostly with the server's own programs."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection, connections, transaction

from wetbench_site.database import fetch_rows
from wetbench_site.database_copies import extra_databases
from wetbench_site.database_copies.extra_databases import BackupError

# Passed to the programs in their environment: a command line is visible to every user of the machine.
_PG_VARIABLES = {"HOST": "PGHOST", "PORT": "PGPORT", "USER": "PGUSER", "PASSWORD": "PGPASSWORD"}
_PG_OPTIONS = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "passfile": "PGPASSFILE", "service": "PGSERVICE"}
SET_ASIDE_PREFIX = "before_restore_"  # prefix of schemas with the tables that a restore replaces
_DEBIAN_FOLDER = "/usr/lib/postgresql"  # one folder for each version of the programs


def get_database_size() -> int:
    [(bytes_,)] = fetch_rows("SELECT pg_database_size(current_database())")
    return int(bytes_)


def dump_database(file: Path, *arguments: str) -> None:
    """Write one snapshot of the database to a file that pg_restore reads."""
    run_program("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--exclude-schema={SET_ASIDE_PREFIX}*",
        f"--file={file}", *arguments)  # fmt: skip


def check_dump(file: Path) -> None:
    """Raise BackupError if pg_restore cannot read the file's table of contents."""
    run_program("pg_restore", "--list", str(file))


def can_create_databases() -> bool:
    [(allowed,)] = fetch_rows("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user")
    return bool(allowed)


def restore_dump(database: str, file: Path, server: Mapping[str, Any] | None = None) -> None:
    """Restore the dump completely or not at all. `server` gives the connection if it is not the site's."""
    arguments = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    run_program("pg_restore", *arguments, f"--dbname={database}", str(file), server=server)


def count_other_connections() -> int:
    """Return how many other clients are connected to the database now."""
    [(count,)] = fetch_rows("""
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'""")
    return int(count)


def set_schema_aside(schema: str) -> None:
    """Rename the schema with all tables, and create an empty one in its place."""
    # Renaming takes no time whatever the size, and can be undone if the restore fails.
    _execute_in_transaction(f"ALTER SCHEMA public RENAME TO {schema}", "CREATE SCHEMA public")


def list_set_aside_schemas() -> list[str]:
    """Return the schemas that interrupted restores have left."""
    rows = fetch_rows(f"SELECT nspname FROM pg_namespace WHERE nspname ^@ '{SET_ASIDE_PREFIX}' ORDER BY nspname")
    return [schema for (schema,) in rows]


def restore_schema(schema: str) -> None:
    _execute_in_transaction("DROP SCHEMA public CASCADE", f"ALTER SCHEMA {schema} RENAME TO public")


def drop_schema(schema: str) -> None:
    _execute_in_transaction(f"DROP SCHEMA {schema} CASCADE")


def get_database_name() -> str:
    return str(connection.settings_dict["NAME"])


def run_program(program: str, *arguments: str, server: Mapping[str, Any] | None = None) -> str:
    """Return the output of the program. Raises BackupError with the end of its error output."""
    command = [find_program(program), *arguments]
    environment = _build_environment(server)
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, errors="replace")
    if result.returncode:
        raise BackupError(f"{program} failed: {result.stderr.strip()[-600:] or f'exit {result.returncode}'}")
    return result.stdout


def find_program(program: str) -> str:
    """Return the path of the program: the one on PATH, else the newest that Debian has installed."""
    versions = Path(_DEBIAN_FOLDER).glob(f"*/bin/{program}")
    newest = max(versions, key=lambda path: float(path.parts[-3]), default=None)
    if not (path := shutil.which(program) or newest):
        raise BackupError(f"{program} is not installed here: install PostgreSQL's client programs (postgresql-client)")
    return str(path)


def _build_environment(server: Mapping[str, Any] | None) -> dict[str, str]:
    settings: Mapping[str, Any] = server or connection.settings_dict
    pg_variables = {variable: str(settings[name]) for name, variable in _PG_VARIABLES.items() if settings[name]}
    options = settings.get("OPTIONS", {})
    pg_variables |= {variable: str(options[name]) for name, variable in _PG_OPTIONS.items() if name in options}
    return {**os.environ, **pg_variables, "PGDATABASE": str(settings["NAME"]), "PGCONNECT_TIMEOUT": "10"}


@contextmanager
def create_scratch_database() -> Iterator[str]:
    scratch = f"wetbench_check_{uuid.uuid4().hex[:8]}"
    create_database(scratch)
    try:
        yield scratch
    finally:
        drop_database(scratch)


def create_database(scratch: str) -> None:
    """Create an empty database on the site's server. Raises BackupError if that is not allowed."""
    with extra_databases.connect_server_database(get_database_name()) as alias, connections[alias].cursor() as cursor:
        try:
            cursor.execute(f"CREATE DATABASE {scratch} TEMPLATE template0")
        except DatabaseError as error:
            raise BackupError(f"the scratch database could not be created: {error}") from error


def drop_database(scratch: str) -> None:
    """Drop a database of the site's server, and end the connections to it."""
    with extra_databases.connect_server_database(get_database_name()) as alias, connections[alias].cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {scratch} WITH (FORCE)")


def _execute_in_transaction(*statements: str) -> None:
    """Execute the statements in one transaction, on a separate connection."""
    site_connection: Any = connection  # the stubs lack the pool of PostgreSQL's class
    # Closed because the prepared statements of this process refer to the tables before the change.
    site_connection.close()
    site_connection.close_pool()
    with (
        extra_databases.connect_server_database(get_database_name()) as alias,
        transaction.atomic(using=alias),
        connections[alias].cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)
