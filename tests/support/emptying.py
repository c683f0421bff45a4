"""An empty database after each test that commits: only tables that have rows are touched.

Django empties all tables there are, which on PostgreSQL means new files for each of them and its indexes, and then makes
content types and permissions anew. Those are the same for every test, and stay.
"""

from typing import Any

from django.db import connections, transaction
from django.test import TransactionTestCase

STAYING = {"django_migrations", "django_content_type", "auth_permission"}


def in_all_databases(case: Any) -> None:
    """What TransactionTestCase does after a test."""
    for alias in case._databases_names(include_mirrors=False):
        empty(alias)


def empty(alias: str) -> None:
    """All in one transaction, at whose end foreign keys are looked at: the order does not matter."""
    connection = connections[alias]
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    names = {table: connection.ops.quote_name(table) for table in tables if table not in STAYING}
    filled = " UNION ALL ".join(
        f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {name})" for table, name in names.items()
    )
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute(filled)
        for (table,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {names[table]}")


def install() -> None:
    TransactionTestCase._fixture_teardown = in_all_databases  # type: ignore[method-assign]  # what Django has for this is private
