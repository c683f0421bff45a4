"""What holds while `migrate` runs: on PostgreSQL it gives up a lock soon and may compute for longer."""

from importlib import import_module

import factories
import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management.sql import emit_post_migrate_signal, emit_pre_migrate_signal
from django.db import connection

from simulation.models import Twin, TwinDecision

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


def limits() -> tuple[str, ...]:
    """Of this session; SQLite has none."""
    if connection.vendor != "postgresql":
        return ()
    with connection.cursor() as cursor:
        return tuple(cursor.execute(f"SHOW {name}").fetchone()[0] for name in ("lock_timeout", "statement_timeout"))


def test_a_migration_waits_two_seconds_for_a_lock_and_may_take_a_minute() -> None:
    before = limits()
    assert before in ((), ("5s", "15s"))
    emit_pre_migrate_signal(verbosity=0, interactive=False, db="default")
    assert limits() in ((), ("2s", "1min")) and bool(limits()) == bool(before)
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")
    assert limits() == before


def test_kinds_that_nobody_had_named_are_empty_after_the_upgrade_and_named_ones_stay() -> None:
    played = factories.episode("caffeine")
    steps = [factories.transition(played, number) for number in (1, 2, 3)]
    unnamed, by_rule, named = (factories.twin(step, "subtle", kind="model", rule="") for step in steps)
    Twin.objects.filter(pk=by_rule.pk).update(rule="a rule that is called so")
    boss = User.objects.create_user("boss", is_staff=True)
    TwinDecision.objects.create(twin=named, decision="accepted", perturbation="subtle", kind="model", by=boss)
    import_module("simulation.migrations.0009_unnamed_kinds")._clear_placeholder(apps, None)
    kinds = [Twin.objects.get(pk=twin.pk).kind for twin in (unnamed, by_rule, named)]
    assert kinds == ["", "model", "model"]
