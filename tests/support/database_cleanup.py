"""Empty the database after each test that commits, but only the tables that have rows.

Django empties all tables, which on PostgreSQL creates new files for each of them and its indexes, and then creates content
types and permissions again. Those are the same for every test, and stay.
"""

from typing import Any

from django.db import connections, transaction
from django.test import TransactionTestCase

KEPT_TABLES = {"django_migrations", "django_content_type", "auth_permission"}


def empty_all_databases(case: Any) -> None:
    """Replacement of what TransactionTestCase does after a test."""
    for alias in case._databases_names(include_mirrors=False):
        empty_database(alias)


def empty_database(alias: str) -> None:
    """Delete all rows in one transaction. Foreign keys are checked at its end, so the order of tables does not matter."""
    connection = connections[alias]
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    names = {table: connection.ops.quote_name(table) for table in tables if table not in KEPT_TABLES}
    query = " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {name})" for table, name in names.items())
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute(query)
        for (table,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {names[table]}")


def install_cleanup() -> None:
    TransactionTestCase._fixture_teardown = empty_all_databases  # type: ignore[method-assign]  # Django has only a private method for this
