"""One moment of the database: all that is read inside is of it, and nobody who writes meanwhile waits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction


@contextmanager
def one_moment() -> Iterator[None]:
    """A transaction that only reads. Inside another one, such as a test's, it is that one's moment."""
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        with _reading_only(connection), transaction.atomic():
            yield
    else:
        with transaction.atomic():
            _look_at_leisure()
            yield


@contextmanager
def _reading_only(database: Any) -> Iterator[None]:
    """Transactions of the site take the write lock when they begin; one that only reads must not."""
    database.ensure_connection()
    usual, database.transaction_mode = database.transaction_mode, "DEFERRED"
    try:
        yield
    finally:
        database.transaction_mode = usual


def _look_at_leisure() -> None:
    """The limits that keep a page from holding a connection are not for this."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SET LOCAL {limit} = 0")
