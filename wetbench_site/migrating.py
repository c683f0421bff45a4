"""`migrate` on PostgreSQL: it gives up a lock soon, so that raters never queue behind it, and may compute for longer."""

from typing import Any

from django.db import connections

LIMITS = {"lock_timeout": "2s", "statement_timeout": "60s"}


def limit_waiting(using: str, **signal: Any) -> None:
    """For the session of the command alone."""
    _say(using, *(f"SET {name} = '{value}'" for name, value in LIMITS.items()))


def as_before(using: str, **signal: Any) -> None:
    _say(using, *(f"RESET {name}" for name in LIMITS))


def _say(using: str, *statements: str) -> None:
    if connections[using].vendor == "postgresql":
        with connections[using].cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
