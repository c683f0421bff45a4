"""A database that the last release made is upgraded without loss, on SQLite and on PostgreSQL.

make_release.py made the dumps with that release's own code, and fill_release.py lists what is in them.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.sessions.base_session import AbstractBaseSession

from ratings.models import StudyEvent
from tests.support.services import PostgresCluster, find_free_port
from tests.wetbench_site.upgrade.databases import Database, Row
from wetbench_site.checks import LAST_RELEASE_WITH_ALL_MIGRATIONS

# Tables in which an upgrade adds rows of its own: for new migrations and new models.
GROWING = {"django_migrations", "django_content_type", "auth_permission"}
# Tables and columns that an upgrade renames: former name -> name.
RENAMED_TABLES = {
    "ratings_firstlook": "ratings_initialrating",
    "ratings_draft": "ratings_unsavedanswer",
    "ratings_drawing": "ratings_storedfigure",
}
RENAMED_COLUMNS = {
    ("ratings_invitation", "seat_id"): "rater_id",
    ("ratings_assignment", "lease_until"): "reserved_until",
    ("ratings_analysis", "mark"): "state_digest",
    ("ratings_analysis", "made_at"): "created_at",
    ("simulation_job", "said"): "message",
    ("simulation_twin", "why"): "explanation",
    **{(f"simulation_{model}", "rung_at"): "notified_at" for model in ("episode", "twin", "job")},
}
# Columns that an upgrade removes, because their content is stored elsewhere: table -> columns.
REMOVED_COLUMNS = {"ratings_studyevent": {"detail"}}
# Columns whose content an upgrade changes on purpose: table -> columns.
# Documents of opened studies state that raters had no calculator.
CONVERTED: dict[str, set[str]] = {"django_content_type": {"model"}, "ratings_study": {"protocol"}}
NEW_EVENT_KINDS = {"public page"}  # that later releases write


@dataclass
class Upgraded:
    """The release's database after `migrate`, with its rows from before."""

    database: Database
    before: dict[str, list[Row]]
    printed: str


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def empty(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A place for databases of one kind."""
    folder = tmp_path_factory.mktemp("upgrade")
    if request.param == "sqlite":
        yield Database(folder)
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    yield Database(folder, cluster.create_database("upgraded"))


def beside(database: Database, name: str, request: Any) -> Database:
    """Return another empty database of the same kind."""
    folder = database.folder / name
    folder.mkdir()
    url = request.getfixturevalue("postgres").create_database(name) if database.url else ""
    return replace(database, folder=folder, url=url)


@pytest.fixture(scope="module")
def upgraded(empty: Database) -> Upgraded:
    empty.load_release()
    before = empty.read_tables()
    return Upgraded(empty, before, empty.run_command("migrate", "--skip-checks"))


def test_release_in_the_dump_is_the_one_named_when_an_older_database_is_refused(upgraded: Upgraded) -> None:
    from tests.wetbench_site.upgrade import make_release

    assert make_release.RELEASE == LAST_RELEASE_WITH_ALL_MIGRATIONS
    assert "0001_squashed" not in {row["name"] for row in upgraded.before["django_migrations"]}


def test_the_dump_has_a_study_event_of_every_kind_that_the_release_wrote(upgraded: Upgraded) -> None:
    kinds = {row["kind"] for row in upgraded.before["ratings_studyevent"]}
    assert kinds == {kind for kind, _ in StudyEvent.KINDS} - NEW_EVENT_KINDS


def test_upgrade_records_the_initial_migrations_without_running_them(upgraded: Upgraded) -> None:
    assert "0001_squashed" not in upgraded.printed
    applied = {(row["app"], row["name"]) for row in upgraded.database.read_tables()["django_migrations"]}
    assert {("simulation", "0001_squashed"), ("ratings", "0001_squashed")} <= applied


def test_upgrade_loses_no_row_and_changes_no_value(upgraded: Upgraded) -> None:
    after = upgraded.database.read_tables()
    before = rename_tables_and_columns(upgraded.before)
    assert set(before) <= set(after)
    for table, rows in before.items():
        assert table in GROWING or len(after[table]) == len(rows), table
        if rows and after[table]:
            kept = rows[0].keys() - REMOVED_COLUMNS.get(table, set())
            assert kept <= after[table][0].keys(), table
            columns = sorted(kept - CONVERTED.get(table, set()))
            lost = Counter(values(rows, columns)) - Counter(values(after[table], columns))
            assert not lost, f"{table}: {list(lost)[:3]}"


def test_upgrade_changes_nothing_of_documents_but_the_calculator(upgraded: Upgraded) -> None:
    after = {row["slug"]: row for row in upgraded.database.read_tables()["ratings_study"]}
    for row in upgraded.before["ratings_study"]:
        document, upgraded_document = (read_document(one["protocol"]) for one in (row, after[row["slug"]]))
        if row["status"] != "draft":
            document.setdefault("display", {})["calculator"] = False
        assert upgraded_document == document


def read_document(value: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return document


def rename_tables_and_columns(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the rows under the names that their tables and columns have after the upgrade."""
    return {
        RENAMED_TABLES.get(table, table): [
            {RENAMED_COLUMNS.get((table, column), column): value for column, value in row.items()} for row in rows
        ]
        for table, rows in tables.items()
    }


def values(rows: list[Row], columns: list[str]) -> list[str]:
    return [repr([row[column] for column in columns]) for row in rows]


def test_upgraded_database_has_the_schema_of_a_new_database(upgraded: Upgraded, request: Any) -> None:
    fresh = beside(upgraded.database, "fresh", request)
    fresh.run_command("migrate", "--verbosity", "0", "--skip-checks")
    here, there = upgraded.database.describe_schema(), fresh.describe_schema()
    assert (sorted(here - there), sorted(there - here)) == ([], [])
    assert len(here) > 500


def test_models_and_migrations_agree_and_nothing_is_left_to_migrate(upgraded: Upgraded) -> None:
    upgraded.database.run_command("makemigrations", "--check", "--dry-run")
    upgraded.database.run_command("migrate", "--check", "--skip-checks")


def test_verify_finds_nothing_in_the_upgraded_database(upgraded: Upgraded) -> None:
    assert upgraded.database.run_command("verify").endswith("nothing found\n")


def test_rater_answers_the_next_item_after_the_upgrade(upgraded: Upgraded) -> None:
    answered = upgraded.database.run("tests/wetbench_site/upgrade/answer_next.py")
    assert answered.stdout.split() == ["1", "2"], answered.stdout + answered.stderr


def test_backup_of_the_last_release_can_be_restored_by_this_one(empty: Database, request: Any) -> None:
    old = beside(empty, "release", request)
    old.load_release()
    tables = rename_tables_and_columns(old.read_tables())
    rows = {table: len(found) for table, found in tables.items() if table not in GROWING}
    backup = old.folder / f"release.{'dump' if old.url else 'sqlite3'}"
    old.run_command("backup", str(backup), "--no-trial")
    place = beside(empty, "restored", request)
    assert "verify: nothing found" in place.run_command("restore", str(backup), "--yes", "--force")
    emptied = {model._meta.db_table for model in apps.get_models() if issubclass(model, AbstractBaseSession)}
    emptied.add("simulation_worker")
    there = place.read_tables()
    assert {table: len(there[table]) for table in rows if table not in emptied} == {
        table: count for table, count in rows.items() if table not in emptied
    }


@pytest.mark.parametrize("command", ["migrate", "serve", "demo", "worker", "runserver"])
def test_a_database_older_than_the_release_is_refused_by_each_command(command: str, tmp_path: Path) -> None:
    older = Database(tmp_path)
    older.load_release()
    older.run_script("DELETE FROM django_migrations WHERE app = 'ratings' AND name >= '0014'")
    port = str(find_free_port())
    more = {"serve": ["--port", port], "demo": ["--make-only"], "runserver": [f"127.0.0.1:{port}", "--noreload"]}
    done = older.run("manage.py", command, *more.get(command, []))
    printed = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in printed and "NodeNotFound" not in printed
    assert "ratings.0014_new_items, ratings.0015_rights, ratings.0016_declared_things, which" in printed
    assert f"Upgrade to {LAST_RELEASE_WITH_ALL_MIGRATIONS} first" in printed
