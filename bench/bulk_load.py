"""Load hundreds of thousands of rows into tables: COPY for PostgreSQL, executemany for SQLite, then update the database's statistics."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from django.db import connection
from django.db.models import Model

CHUNK = 5_000  # rows per block sent to COPY


def load_rows(model: type[Model], rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows given as column name -> value in the database's form. Missing columns get the model's default."""
    fields = model._meta.concrete_fields
    defaults = {field.column: to_database_value(field.get_default()) for field in fields if not field.primary_key}
    columns = ["id", *defaults]
    values = ([row.get(name, defaults.get(name)) for name in columns] for row in rows)
    if connection.vendor == "postgresql":
        copy_rows(model._meta.db_table, columns, values)
    else:
        insert_rows(model._meta.db_table, columns, values)


def to_database_value(value: Any) -> Any:
    """Return the value in a form that both databases accept."""
    if callable(getattr(value, "isoformat", None)):
        return str(value)
    if isinstance(value, dict | list):
        return json.dumps(value)
    return int(value) if isinstance(value, bool) else value


def begin_loading() -> None:
    """Remove the statement timeout of PostgreSQL."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            # The site's limit is meant for pages; loading a million rows takes longer.
            cursor.execute("SET statement_timeout = 0")


def finish_loading() -> None:
    """Update the sequences and the planner's statistics."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for table in connection.introspection.table_names():
                with suppress(Exception):  # a table without a sequence
                    cursor.execute(
                        f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))"
                    )
            # Autovacuum would do this within hours; without it the planner assumes empty tables.
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("RESET statement_timeout")
        else:
            cursor.execute("ANALYZE")
            # Otherwise readers find most pages in the log of the last gigabyte until the last connection is closed.
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def insert_rows(table: str, columns: list[str], rows: Iterable[list[Any]]) -> None:
    # The driver's own connection: Django's cursor would convert and log every row.
    connection.ensure_connection()
    database: sqlite3.Connection = connection.connection
    # A crash loses the scratch database, which can be created again.
    database.execute("PRAGMA synchronous=OFF")
    database.execute("PRAGMA cache_size=-400000")
    database.execute("BEGIN")
    placeholders = ", ".join("?" * len(columns))
    database.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders})", rows)
    database.execute("COMMIT")


def copy_rows(table: str, columns: list[str], rows: Iterable[list[Any]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
        for text in iter_copy_blocks(rows):
            copy.write(text)


def iter_copy_blocks(rows: Iterable[list[Any]]) -> Iterator[str]:
    lines: list[str] = []
    for row in rows:
        lines.append("\t".join(map(format_copy_cell, row)))
        if len(lines) == CHUNK:
            yield "\n".join(lines) + "\n"
            lines = []
    if lines:
        yield "\n".join(lines) + "\n"


def format_copy_cell(value: Any) -> str:
    """Return the value in PostgreSQL's text format of COPY."""
    if value is None:
        return "\\N"
    return (
        value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") if isinstance(value, str) else str(value)
    )
