"""What is promised on SQLite is promised on PostgreSQL: the tests so marked run again on a cluster of this run's own."""

import os
import subprocess
import sys

import pytest
from django.conf import settings
from services import PostgresCluster

pytestmark = pytest.mark.services


def test_the_promises_hold_on_postgresql_too(postgres: PostgresCluster) -> None:
    environment = {**os.environ, "DATABASE_URL": postgres.new_database("promises")}
    # Only the files that are marked: collecting the thousands of others takes longer than many of these tests.
    marked = [
        str(path)
        for path in (settings.BASE_DIR / "tests").rglob("test_*.py")
        if "mark.both_databases" in path.read_text()
    ]
    assert len(marked) > 5
    command = [sys.executable, "-m", "pytest", "-m", "both_databases", "-q", "-p", "no:cacheprovider", *marked]
    done = subprocess.run(command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and " skipped" not in done.stdout
