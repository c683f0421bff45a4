"""Rows into tables by the hundred thousand: COPY for PostgreSQL, executemany for SQLite, and the database's own statistics."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from django.db import connection
from django.db.models import Model

CHUNK = 5_000


def load(model: type[Model], rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert these rows: column name -> value as the database writes it. What a row leaves out has the model's default."""
    fields = model._meta.concrete_fields
    defaults = {field.column: written(field.get_default()) for field in fields if not field.primary_key}
    columns = ["id", *defaults]
    told = ([row.get(name, defaults.get(name)) for name in columns] for row in rows)
    if connection.vendor == "postgresql":
        _copy(model._meta.db_table, columns, told)
    else:
        _insert(model._meta.db_table, columns, told)


def written(value: Any) -> Any:
    """A value as both databases take it in a row of text, numbers and nothing."""
    if callable(getattr(value, "isoformat", None)):
        return str(value)
    if isinstance(value, dict | list):
        return json.dumps(value)
    return int(value) if isinstance(value, bool) else value


def begin() -> None:
    """The site's limit of a statement's time is for pages, not for this."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")


def finish() -> None:
    """What autovacuum and an idle night would do: sequences behind the rows, statistics for the planner."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for table in connection.introspection.table_names():
                with suppress(Exception):  # a table without a sequence
                    cursor.execute(
                        f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))"
                    )
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("RESET statement_timeout")
        else:
            cursor.execute("ANALYZE")


def _insert(table: str, columns: list[str], rows: Iterable[list[Any]]) -> None:
    connection.ensure_connection()
    database: sqlite3.Connection = connection.connection
    database.execute("PRAGMA synchronous=OFF")
    database.execute("PRAGMA cache_size=-400000")
    database.execute("BEGIN")
    holes = ", ".join("?" * len(columns))
    database.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({holes})", rows)
    database.execute("COMMIT")


def _copy(table: str, columns: list[str], rows: Iterable[list[Any]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
        for text in _chunks(rows):
            copy.write(text)


def _chunks(rows: Iterable[list[Any]]) -> Iterator[str]:
    lines: list[str] = []
    for row in rows:
        lines.append("\t".join(map(_cell, row)))
        if len(lines) == CHUNK:
            yield "\n".join(lines) + "\n"
            lines = []
    if lines:
        yield "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "\\N"
    return (
        value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") if isinstance(value, str) else str(value)
    )
