"""What the rating room promises on SQLite it promises on PostgreSQL, on a cluster of this run's own."""

import pytest

from tests.support import promises
from tests.support.services import PostgresCluster

pytestmark = pytest.mark.services


def test_the_promises_of_the_rating_room_hold_on_postgresql_too(postgres: PostgresCluster) -> None:
    promises.hold(postgres, promises.FOLDERS[0])


def test_no_promise_is_made_where_nobody_looks() -> None:
    looked_at = [
        path for folders in promises.FOLDERS for folder in folders for path in promises.marked(promises.TESTS / folder)
    ]
    assert sorted(looked_at) == promises.marked(promises.TESTS)
