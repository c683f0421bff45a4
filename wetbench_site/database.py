"""The database connection of this thread: released while it is idle, rows of SQL, snapshots, limits of `migrate`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from django.db import connection, connections, transaction


def fetch_rows(query: str) -> list[tuple[Any, ...]]:
    """Return all rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def release_connection() -> None:
    """Return this thread's connection to the pool, unless a transaction is open on it.

    A process with hundreds of threads shares ten connections. SQLite has no pool, and closing the last connection of a
    file costs more than keeping it, so SQLite connections stay open.
    """
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()


def transaction_if(is_needed: bool) -> AbstractContextManager[Any]:
    """Return a transaction if several statements belong together, else a block in which one statement commits by itself.

    That spares PostgreSQL and the worker two round trips. On SQLite the block is always a transaction, because writers
    queue for transactions only.
    """
    return transaction.atomic() if is_needed or connection.vendor == "sqlite" else nullcontext()


@contextmanager
def read_snapshot() -> Iterator[None]:
    """Make all reads in the block return one committed state of the database, without making any writer wait.

    The block is a read-only transaction. Inside another transaction, such as that of a test, that transaction is used.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        with _defer_write_lock(connection), transaction.atomic():
            yield
    else:
        with transaction.atomic():
            _begin_long_read()
            yield


@contextmanager
def _defer_write_lock(database: Any) -> Iterator[None]:
    """Begin transactions in the block without taking the write lock, which the site's settings take at the start."""
    database.ensure_connection()
    usual_mode, database.transaction_mode = database.transaction_mode, "DEFERRED"
    try:
        yield
    finally:
        database.transaction_mode = usual_mode


def _begin_long_read() -> None:
    """Make the transaction a snapshot without time limits."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # The site's limits are meant for pages; an export or a verification reads for minutes.
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SET LOCAL {limit} = 0")


# A waiting ALTER TABLE blocks every later query of the table, raters' included, so it waits 2 s at most.
LIMITS = {"lock_timeout": "2s", "statement_timeout": "60s"}


def set_migration_limits(using: str, **signal: Any) -> None:
    """Set the limits for the session of the command."""
    _execute_on_postgres(using, *(f"SET {name} = '{value}'" for name, value in LIMITS.items()))


def reset_limits(using: str, **signal: Any) -> None:
    _execute_on_postgres(using, *(f"RESET {name}" for name in LIMITS))


def _execute_on_postgres(using: str, *statements: str) -> None:
    if connections[using].vendor == "postgresql":
        with connections[using].cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
