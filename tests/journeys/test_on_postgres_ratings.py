"""Tests of ratings that are marked both_databases, again on a PostgreSQL cluster of this test run."""

import pytest

from tests.support import postgres_rerun
from tests.support.services import PostgresCluster

pytestmark = pytest.mark.services


def test_rating_tests_marked_both_databases_pass_on_postgresql(postgres: PostgresCluster) -> None:
    postgres_rerun.run_on_postgres(postgres, postgres_rerun.FOLDERS[0])


def test_every_test_marked_both_databases_is_in_a_folder_that_runs_on_postgresql() -> None:
    covered = [
        path
        for folders in postgres_rerun.FOLDERS
        for folder in folders
        for path in postgres_rerun.find_marked_files(postgres_rerun.TESTS / folder)
    ]
    assert sorted(covered) == postgres_rerun.find_marked_files(postgres_rerun.TESTS)
