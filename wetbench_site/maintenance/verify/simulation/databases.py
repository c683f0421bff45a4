"""Checks of the database itself: the schema is that of the code, no reference is dangling, and no page is damaged."""

import re
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Exists, Model, OuterRef

from wetbench_site import migration_state
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_Migration = MigrationRecorder.Migration
# Expected state -> query for constraints, indexes and triggers that exist but that the server does not enforce.
_NOT_KEPT = {
    "a validated constraint": """
        SELECT conrelid::regclass::text, conname, 'not validated' FROM pg_constraint
        WHERE NOT convalidated AND connamespace = current_schema()::regnamespace""",
    "a valid index": """
        SELECT indrelid::regclass::text, indexrelid::regclass::text, 'invalid' FROM pg_index
        JOIN pg_class ON pg_class.oid = indexrelid
        WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace""",
    "an enabled trigger": """
        SELECT tgrelid::regclass::text, tgname, 'disabled' FROM pg_trigger
        JOIN pg_class ON pg_class.oid = tgrelid
        WHERE tgenabled = 'D' AND relnamespace = current_schema()::regnamespace""",
}


@check("applied migrations", "all migrations of this version are applied, and no others", _Migration)
def migrations() -> Iterator[Wrong]:
    applied = MigrationRecorder(connection).applied_migrations()
    for app, name in migration_state.find_missing(applied):
        yield wrong(_Migration, f"{app}.{name}", "applied: run manage.py migrate", "not applied")
    for app, name in migration_state.find_unknown(applied):
        yield wrong(_Migration, f"{app}.{name}", "migrations that this version knows", "one that it does not know")


@check("constraints of tables", "every constraint of the models exists in the database", _Migration)
def guards() -> Iterator[Wrong]:
    for model in _tables():
        names, unique = _kept(model._meta.db_table)
        for name in sorted({one.name for one in model._meta.constraints} - names):
            yield wrong(model, name, "this constraint", "none of its name")
        for field in model._meta.local_fields:
            if field.unique and not field.primary_key and field.column not in unique:
                yield wrong(model, str(field.column), "a unique constraint", "none")


@check("integrity of tables", "the database reports no damage of its tables", _Migration)
def tables() -> Iterator[Wrong]:
    if connection.vendor == "sqlite":
        for (message,) in _asked("PRAGMA integrity_check(100)"):
            if message != "ok":
                yield wrong(_Migration, "", "ok from PRAGMA integrity_check", message)
        return
    for expected, query in _NOT_KEPT.items():
        for table, name, found in _asked(query):
            yield Wrong(table, name, expected, found)


@check("foreign keys", "every reference points to an existing row", _Migration)
def references() -> Iterator[Wrong]:
    if connection.vendor == "sqlite":
        for table, row, parent, _ in _asked("PRAGMA foreign_key_check"):
            yield Wrong(table, str(row), f"a row of {parent} that it refers to", "none")
        return
    # PostgreSQL has no such command: foreign keys can be violated while triggers are disabled, as in a restore.
    for model in _tables():
        for field in model._meta.local_fields:
            if isinstance(field, models.ForeignKey):
                yield from _orphans(model, field)


def _kept(table: str) -> tuple[set[str], set[str]]:
    """Return the names of a table's constraints, and the columns that are unique by themselves."""
    if connection.vendor == "sqlite":
        # SQLite keeps the names of constraints only in the SQL text of the table.
        definitions = _asked(f"SELECT name, coalesce(sql, '') FROM sqlite_master WHERE tbl_name = '{table}'")
        names = {name for name, _ in definitions}.union(
            *(re.findall(r'CONSTRAINT "(\w+)"', sql) for _, sql in definitions)
        )
        unique = _asked(f"""
            SELECT max(c.name) FROM pragma_index_list('{table}') AS i, pragma_index_info(i.name) AS c
            WHERE i."unique" AND NOT i.partial GROUP BY i.name HAVING count(*) = 1""")
        return names, {column for (column,) in unique}
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, table)
    return set(constraints), {
        one["columns"][0] for one in constraints.values() if one["unique"] and len(one["columns"]) == 1
    }


def _orphans(model: type[Model], field: Any) -> Iterator[Wrong]:
    parent = field.related_model
    parents = parent._base_manager.filter(**{field.target_field.attname: OuterRef(field.attname)})
    orphans = model._base_manager.filter(~Exists(parents), **{f"{field.attname}__isnull": False})
    for pk, value in rows(orphans.order_by("pk").values_list("pk", field.attname)):
        yield wrong(model, pk, f"a row of {parent._meta.db_table} that it refers to", f"{field.attname} {value}")


def _tables() -> list[type[Model]]:
    return [
        model for model in apps.get_models(include_auto_created=True) if model._meta.managed and not model._meta.proxy
    ]


def _asked(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


CHECKS = (migrations, guards, tables, references)
