"""Run the tests that are marked both_databases again on PostgreSQL: one test file per group of folders, so that two workers share them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from django.conf import settings

from tests.support import migrated_databases
from tests.support.services import PostgresCluster

TESTS: Path = settings.BASE_DIR / "tests"
# What each of the two test files runs again.
FOLDERS = (("ratings",), ("simulation", "promises", "wetbench_site"))


def find_marked_files(folder: Path) -> list[str]:
    """Return only the files with the mark: collecting the thousands of other tests takes longer than many of these tests."""
    return sorted(str(path) for path in folder.rglob("test_*.py") if "mark.both_databases" in path.read_text())


def run_on_postgres(cluster: PostgresCluster, folders: Sequence[str]) -> None:
    """Run the marked tests of these folders in a process whose only database is one of the cluster."""
    files = [path for folder in folders for path in find_marked_files(TESTS / folder)]
    assert len(files) > 5
    name = f"promises_{folders[0]}"
    url = migrated_databases.create_postgres_database(cluster, f"test_{name}")  # Django's name for the test database
    environment = {**os.environ, "DATABASE_URL": url.replace(f"test_{name}", name)}
    options = ["-m", "both_databases and not one_database and not thorough", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    process = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout[-8000:] + process.stderr[-2000:]
    assert " passed" in process.stdout and " skipped" not in process.stdout
