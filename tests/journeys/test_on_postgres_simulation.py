"""Tests of the laboratory that are marked both_databases, again on a PostgreSQL cluster of this test run."""

import pytest

from tests.support import postgres_rerun
from tests.support.services import PostgresCluster

pytestmark = pytest.mark.services


def test_laboratory_tests_marked_both_databases_pass_on_postgresql(postgres: PostgresCluster) -> None:
    postgres_rerun.run_on_postgres(postgres, postgres_rerun.FOLDERS[1])
