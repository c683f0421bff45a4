"""What the laboratory promises on SQLite it promises on PostgreSQL, on a cluster of this run's own."""

import promises
import pytest
from services import PostgresCluster

pytestmark = pytest.mark.services


def test_the_promises_of_the_laboratory_hold_on_postgresql_too(postgres: PostgresCluster) -> None:
    promises.hold(postgres, "simulation")
