"""The tests named in docs/promises.md exist, and databases wait for the disk."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

ROOT = Path(settings.BASE_DIR)
PAGE = (ROOT / "docs/promises.md").read_text(encoding="utf-8")


def test_promises_page_names_only_tests_that_exist() -> None:
    sources = [path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py")]
    existing = {name for source in sources for name in re.findall(r"^def (test_\w+)", source, flags=re.M)}
    rows = re.findall(r"^\| (A\d) .*\| (.*) \|$", PAGE, flags=re.M)
    assert [number for number, _ in rows] == [f"A{number}" for number in range(1, 9)]
    assert all("`test_" in tests for _, tests in rows)
    assert {name for name in re.findall(r"`(test_\w+)`", PAGE) if name not in existing} == set()


@pytest.mark.django_db
@pytest.mark.both_databases
def test_database_commit_is_confirmed_only_once_it_is_on_disk() -> None:
    """SQLite uses WAL with synchronous=FULL (2), PostgreSQL synchronous_commit: a confirmed commit is on disk."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            pragmas = [cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
            assert pragmas == ["wal", 2]
        else:
            cursor.execute("SHOW synchronous_commit")
            assert cursor.fetchone() == ("on",)
