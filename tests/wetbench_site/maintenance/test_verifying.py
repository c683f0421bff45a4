"""`manage.py verify` finds nothing in an intact database, and reports every fault that SQL can plant."""

import io
import json
from collections.abc import Iterable

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder

from ratings.models import Rating
from tests.support import verified_site
from tests.support.planted_faults import BROKEN_TABLES, CODE_EPISODES, LABORATORY, RATINGS, PlantedFault
from tests.support.steps import run_concurrently
from wetbench_site.database import read_snapshot
from wetbench_site.maintenance.verify import ALL_CHECKS, checks
from wetbench_site.maintenance.verify.checks import CheckResult

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]
CHECKS = {one.name: one for one in ALL_CHECKS}


def looked(*names: str) -> list[CheckResult]:
    return list(checks.run_checks([CHECKS[name] for name in names], lambda *told: None))


def planted(statements: Iterable[str], *names: str) -> list[CheckResult]:
    """Return the results of the checks with these statements executed, which are then rolled back."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            for statement in statements:
                if statement.startswith(("DROP INDEX", "ALTER TABLE")) and connection.vendor == "postgresql":
                    cursor.execute(
                        "SET CONSTRAINTS ALL IMMEDIATE"
                    )  # pending constraint triggers would block changes of tables
                cursor.execute(statement)
        found = looked(*names)
        transaction.set_rollback(True)
    return found


def missed(fault: PlantedFault) -> str:
    """Return why the fault was not reported; "" if it was."""
    [found] = planted(fault.sql, fault.check)
    named = [
        one for one in found.findings if one.table == fault.table and fault.message in f"{one.expected} {one.found}"
    ]
    return "" if named else f"{fault.check}: {fault.sql} gave {found.findings[:3]}"


def test_verify_of_a_database_without_tables_names_migrate_and_nothing_else() -> None:
    MigrationRecorder.Migration.objects.all().delete()
    with pytest.raises(CommandError, match=r"run `python manage\.py migrate` first") as refused:
        call_command("verify")
    assert refused.value.returncode == 2


def test_verify_finds_nothing_in_an_intact_database_and_reports_every_planted_fault() -> None:
    verified_site.furnish()
    clean = looked(*CHECKS)
    assert [(one.check.name, one.findings) for one in clean if one.findings] == []
    assert [one.check.name for one in clean if not one.rows] == []  # every check had rows to check
    assert [told for fault in (*RATINGS, *LABORATORY, *CODE_EPISODES) if (told := missed(fault))] == []
    [tables] = planted(BROKEN_TABLES[connection.vendor], "integrity of tables")
    assert tables.findings != ()


def test_verify_tests_plant_a_fault_for_every_check() -> None:
    assert {fault.check for fault in (*RATINGS, *LABORATORY, *CODE_EPISODES)} | {"integrity of tables"} == set(CHECKS)


def test_verify_reports_unreadable_rows_and_runs_the_other_checks() -> None:
    if connection.vendor == "postgresql":
        rename = "ALTER TABLE ratings_unsavedanswer RENAME TO drafts_elsewhere"
    else:
        rename = "ALTER TABLE ratings_unsavedanswer RENAME COLUMN assignment_id TO elsewhere"
    broken, sound = planted([rename], "unsaved answers of rated items", "payloads of items")
    assert broken.findings[0].expected == "rows that can be read" and sound.findings == ()


def test_verify_shows_the_first_violations_and_counts_the_others() -> None:
    with connection.cursor() as cursor:
        for number in range(checks.MAX_VIOLATIONS + 3):
            cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('ratings', %s, "
                           "'2026-01-01 00:00:00+00:00')", [f"9{number:03}_later"])  # fmt: skip
    [found] = looked("applied migrations")
    assert (len(found.findings), found.further_violations) == (checks.MAX_VIOLATIONS, 3)


def test_verify_command_exits_with_one_if_there_are_violations() -> None:
    out = io.StringIO()
    call_command("verify", stdout=out)
    assert out.getvalue().endswith("nothing found\n")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO simulation_calltext (sha256, text) VALUES ('wrong', 'said')")
    told, quiet = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("verify", "--json", stdout=told)
    assert ended.value.code == 1
    answer = json.loads(told.getvalue())
    [found] = [one for one in answer["checks"] if one["findings"]]
    assert not answer["clean"] and (found["table"], found["findings"][0]["code"]) == ("simulation_calltext", "wrong")
    with pytest.raises(SystemExit):
        call_command("verify", "--quiet", stdout=quiet)
    assert "expected wrong" in quiet.getvalue()


@pytest.mark.one_database
@pytest.mark.django_db(transaction=True)
def test_verify_reads_a_snapshot_while_others_write() -> None:
    """The checks read a snapshot: they wait for no writer, and writers do not wait for them."""
    with read_snapshot():
        before = Rating.objects.count()  # a transaction of SQLite begins with its first query
        [written] = run_concurrently(lambda: User.objects.create_user("somebody"), 1)
        assert getattr(written, "username", written) == "somebody"
        assert not User.objects.filter(username="somebody").exists()
    assert User.objects.filter(username="somebody").exists() and before == Rating.objects.count()
