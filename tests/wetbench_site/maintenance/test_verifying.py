"""`manage.py verify`: nothing is found in a site that is sound, and every fault that SQL can plant is found and named."""

import io
import json
from collections.abc import Iterable

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction

from ratings.models import Rating
from tests.support import verified_site
from tests.support.planted_faults import BROKEN_TABLES, LABORATORY, RATINGS, Fault
from tests.support.steps import race
from wetbench_site.database import read_snapshot
from wetbench_site.maintenance.verify import every, form
from wetbench_site.maintenance.verify.form import Looked

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]
CHECKS = {one.name: one for one in every.CHECKS}


def looked(*names: str) -> list[Looked]:
    return list(form.look([CHECKS[name] for name in names], lambda *told: None))


def planted(statements: Iterable[str], *names: str) -> list[Looked]:
    """What the checks say while this stands in the database; afterwards it never did."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            for statement in statements:
                if statement.startswith(("DROP INDEX", "ALTER TABLE")) and connection.vendor == "postgresql":
                    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what waits for a commit keeps tables as they are
                cursor.execute(statement)
        found = looked(*names)
        transaction.set_rollback(True)
    return found


def missed(fault: Fault) -> str:
    """Why the fault does not count as named; "" if it does."""
    [found] = planted(fault.sql, fault.check)
    named = [one for one in found.findings if one.table == fault.table and fault.says in f"{one.expected} {one.found}"]
    return "" if named else f"{fault.check}: {fault.sql} gave {found.findings[:3]}"


def test_a_sound_site_is_found_sound_and_every_planted_fault_is_named() -> None:
    verified_site.furnish()
    clean = looked(*CHECKS)
    assert [(one.check.name, one.findings) for one in clean if one.findings] == []
    assert [one.check.name for one in clean if not one.rows] == []  # every check had something to look at
    assert [told for fault in (*RATINGS, *LABORATORY) if (told := missed(fault))] == []
    [tables] = planted(BROKEN_TABLES[connection.vendor], "integrity of tables")
    assert tables.findings != ()


def test_every_check_has_a_fault_that_it_must_name() -> None:
    assert {fault.check for fault in (*RATINGS, *LABORATORY)} | {"integrity of tables"} == set(CHECKS)


def test_rows_that_cannot_be_read_are_a_finding_and_keep_no_other_check_from_its_work() -> None:
    if connection.vendor == "postgresql":
        rename = "ALTER TABLE ratings_draft RENAME TO drafts_elsewhere"
    else:
        rename = "ALTER TABLE ratings_draft RENAME COLUMN assignment_id TO elsewhere"
    broken, sound = planted([rename], "unsaved answers of rated items", "payloads of items")
    assert broken.findings[0].expected == "rows that can be read" and sound.findings == ()


def test_many_findings_of_one_kind_are_counted_and_some_are_shown() -> None:
    with connection.cursor() as cursor:
        for number in range(form.SHOWN + 3):
            cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('ratings', %s, "
                           "'2026-01-01 00:00:00+00:00')", [f"9{number:03}_later"])  # fmt: skip
    [found] = looked("applied migrations")
    assert (len(found.findings), found.more) == (form.SHOWN, 3)


def test_the_command_says_nothing_found_and_ends_well_or_names_what_it_found_and_fails() -> None:
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
def test_while_it_looks_others_write_and_it_sees_one_moment() -> None:
    """The site goes on: the reader waits for nobody, and what is written meanwhile is not half seen."""
    with read_snapshot():
        before = Rating.objects.count()  # a transaction of SQLite begins with its first question
        [written] = race(lambda: User.objects.create_user("somebody"), 1)
        assert getattr(written, "username", written) == "somebody"
        assert not User.objects.filter(username="somebody").exists()
    assert User.objects.filter(username="somebody").exists() and before == Rating.objects.count()
