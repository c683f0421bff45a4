"""Tests of ratings that are marked both_databases, again on a PostgreSQL cluster of this test run."""

import pytest

from tests.support import promises
from tests.support.services import PostgresCluster

pytestmark = pytest.mark.services


def test_rating_tests_marked_both_databases_pass_on_postgresql(postgres: PostgresCluster) -> None:
    promises.hold(postgres, promises.FOLDERS[0])


def test_every_test_marked_both_databases_is_in_a_folder_that_runs_on_postgresql() -> None:
    covered = [
        path for folders in promises.FOLDERS for folder in folders for path in promises.marked(promises.TESTS / folder)
    ]
    assert sorted(covered) == promises.marked(promises.TESTS)
