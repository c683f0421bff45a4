"""The tests that are marked both_databases, run again on PostgreSQL: each folder of them by a test file of its own,
so that two workers share them.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from django.conf import settings

from tests.support.services import PostgresCluster

TESTS: Path = settings.BASE_DIR / "tests"
# What one test file runs again: two of them share the work.
FOLDERS = (("ratings",), ("simulation", "promises", "wetbench_site"))


def marked(folder: Path) -> list[str]:
    """Only the files that are marked: collecting the thousands of others takes longer than many of these tests."""
    return sorted(str(path) for path in folder.rglob("test_*.py") if "mark.both_databases" in path.read_text())


def hold(cluster: PostgresCluster, folders: Sequence[str]) -> None:
    """Run the marked tests of these folders in a process whose only database is one of the cluster."""
    files = [path for folder in folders for path in marked(TESTS / folder)]
    assert len(files) > 5
    environment = {**os.environ, "DATABASE_URL": cluster.new_database(f"promises_{folders[0]}")}
    chosen = ["-m", "both_databases and not one_database and not thorough", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *chosen, *files]
    done = subprocess.run(command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and " skipped" not in done.stdout
