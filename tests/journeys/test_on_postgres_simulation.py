"""What the laboratory promises on SQLite it promises on PostgreSQL, on a cluster of this run's own."""

import pytest

from tests.support import promises
from tests.support.services import PostgresCluster

pytestmark = pytest.mark.services


def test_the_promises_of_the_laboratory_hold_on_postgresql_too(postgres: PostgresCluster) -> None:
    promises.hold(postgres, promises.FOLDERS[1])
