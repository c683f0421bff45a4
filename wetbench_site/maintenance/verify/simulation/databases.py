"""Checks of the database itself: the schema is that of the code, no reference is dangling, and no page is damaged."""

import re
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Exists, Model, OuterRef

from wetbench_site import migration_state
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows

_Migration = MigrationRecorder.Migration
# Expected state -> query for constraints, indexes and triggers that exist but that the server does not enforce.
_NOT_ENFORCED = {
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


@build_check("applied migrations", "all migrations of this version are applied, and no others", _Migration)
def check_migrations() -> Iterator[Violation]:
    applied = MigrationRecorder(connection).applied_migrations()
    for app, name in migration_state.find_missing_migrations(applied):
        yield build_violation(_Migration, f"{app}.{name}", "applied: run manage.py migrate", "not applied")
    for app, name in migration_state.find_unknown_migrations(applied):
        yield build_violation(
            _Migration, f"{app}.{name}", "migrations that this version knows", "one that it does not know"
        )


@build_check("constraints of tables", "every constraint of the models exists in the database", _Migration)
def check_constraints() -> Iterator[Violation]:
    for model in _list_models():
        names, unique = _list_constraints(model._meta.db_table)
        for name in sorted({one.name for one in model._meta.constraints} - names):
            yield build_violation(model, name, "this constraint", "none of its name")
        for field in model._meta.local_fields:
            if field.unique and not field.primary_key and field.column not in unique:
                yield build_violation(model, str(field.column), "a unique constraint", "none")


@build_check("integrity of tables", "the database reports no damage of its tables", _Migration)
def check_integrity() -> Iterator[Violation]:
    if connection.vendor == "sqlite":
        for (message,) in _fetch_rows("PRAGMA integrity_check(100)"):
            if message != "ok":
                yield build_violation(_Migration, "", "ok from PRAGMA integrity_check", message)
        return
    for expected, query in _NOT_ENFORCED.items():
        for table, name, found in _fetch_rows(query):
            yield Violation(table, name, expected, found)


@build_check("foreign keys", "every reference points to an existing row", _Migration)
def check_references() -> Iterator[Violation]:
    if connection.vendor == "sqlite":
        for table, row, parent, _ in _fetch_rows("PRAGMA foreign_key_check"):
            yield Violation(table, str(row), f"a row of {parent} that it refers to", "none")
        return
    # PostgreSQL has no such command: foreign keys can be violated while triggers are disabled, as in a restore.
    for model in _list_models():
        for field in model._meta.local_fields:
            if isinstance(field, models.ForeignKey):
                yield from _find_orphans(model, field)


def _list_constraints(table: str) -> tuple[set[str], set[str]]:
    """Return the names of a table's constraints, and the columns that are unique by themselves."""
    if connection.vendor == "sqlite":
        # SQLite keeps the names of constraints only in the SQL text of the table.
        definitions = _fetch_rows(f"SELECT name, coalesce(sql, '') FROM sqlite_master WHERE tbl_name = '{table}'")
        names = {name for name, _ in definitions}.union(
            *(re.findall(r'CONSTRAINT "(\w+)"', sql) for _, sql in definitions)
        )
        unique = _fetch_rows(f"""
            SELECT max(c.name) FROM pragma_index_list('{table}') AS i, pragma_index_info(i.name) AS c
            WHERE i."unique" AND NOT i.partial GROUP BY i.name HAVING count(*) = 1""")
        return names, {column for (column,) in unique}
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, table)
    return set(constraints), {
        one["columns"][0] for one in constraints.values() if one["unique"] and len(one["columns"]) == 1
    }


def _find_orphans(model: type[Model], field: Any) -> Iterator[Violation]:
    parent = field.related_model
    parents = parent._base_manager.filter(**{field.target_field.attname: OuterRef(field.attname)})
    orphans = model._base_manager.filter(~Exists(parents), **{f"{field.attname}__isnull": False})
    for pk, value in iter_rows(orphans.order_by("pk").values_list("pk", field.attname)):
        yield build_violation(
            model, pk, f"a row of {parent._meta.db_table} that it refers to", f"{field.attname} {value}"
        )


def _list_models() -> list[type[Model]]:
    return [
        model for model in apps.get_models(include_auto_created=True) if model._meta.managed and not model._meta.proxy
    ]


def _fetch_rows(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


CHECKS = (check_migrations, check_constraints, check_integrity, check_references)
