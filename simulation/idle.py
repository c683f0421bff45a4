"""Giving a database connection back while there is nothing to ask: a process of hundreds of threads has ten of them."""

from django.db import connection


def let_go() -> None:
    """Back to the pool with this thread's connection; inside somebody's transaction it is theirs to give.

    SQLite has no pool, and closing a file's last connection costs more than keeping it.
    """
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()
