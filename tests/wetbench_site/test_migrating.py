"""Time limits of `migrate` on PostgreSQL: a short one for locks, a longer one for statements."""

import pytest
from django.core.management.sql import emit_post_migrate_signal, emit_pre_migrate_signal
from django.db import connection

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


def limits() -> tuple[str, ...]:
    """Return the limits of this session; none on SQLite."""
    if connection.vendor != "postgresql":
        return ()
    with connection.cursor() as cursor:
        return tuple(cursor.execute(f"SHOW {name}").fetchone()[0] for name in ("lock_timeout", "statement_timeout"))


def test_migrate_waits_at_most_two_seconds_for_a_lock_and_a_minute_for_a_statement() -> None:
    before = limits()
    assert before in ((), ("5s", "15s"))
    emit_pre_migrate_signal(verbosity=0, interactive=False, db="default")
    assert limits() in ((), ("2s", "1min")) and bool(limits()) == bool(before)
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
    assert limits() == before
