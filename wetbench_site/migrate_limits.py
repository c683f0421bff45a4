"""Time limits of `migrate` on PostgreSQL: it gives up waiting for a lock soon, and its statements may run for longer."""

from typing import Any

from django.db import connections

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
