"""Raters lose no answer and store none twice while the web server and the database are killed."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import migrated_databases
from tests.support.services import PostgresCluster
from tests.support.soaking import small_site
from tests.support.soaking.rater import SoakRater
from tests.support.soaking.small_site import SmallSite
from tests.support.soaking.web_server import WebServer

pytestmark = pytest.mark.services

RATERS = 6  # three with a planned order, three in a pool with three ratings per item


def run_actions_under_load(raters: list[SoakRater], actions: list[Callable[[], object]], pause: float = 1.0) -> None:
    """Run each action after a pause in which further answers were confirmed."""
    for action in actions:
        before = count_confirmed(raters)
        time.sleep(pause)
        deadline = time.monotonic() + 60
        while count_confirmed(raters) < before + len(raters):
            assert time.monotonic() < deadline, [rater.counts for rater in raters]
            time.sleep(0.05)
        action()


def count_confirmed(raters: list[SoakRater]) -> int:
    return sum(rater.counts.confirmed for rater in raters)


def count_visible_errors(raters: list[SoakRater]) -> dict[str, int]:
    return {name: count for rater in raters for name, count in rater.counts.errors.items()}


def list_faults(raters: list[SoakRater]) -> set[str]:
    return {name for rater in raters for name in rater.counts.faults}


@pytest.fixture(scope="module")
def migrated_site(postgres: PostgresCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    """A site on PostgreSQL; each test gets a copy of its database."""
    with small_site.create_site(
        tmp_path_factory.mktemp("site"), migrated_databases.create_postgres_database(postgres, "raters")
    ) as site:
        yield site


@pytest.fixture
def site(migrated_site: SmallSite, postgres: PostgresCluster, tmp_path: Path) -> SmallSite:
    name = f"raters_{tmp_path.name}".lower()[:60]
    return replace(migrated_site, database=name, folder=tmp_path, url=postgres.create_database(name, template="raters"))


def list_worker_kills(web: WebServer) -> list[Callable[[], object]]:
    return [lambda: web.kill_worker(0), lambda: web.kill_worker(1)] * 2


def test_raters_lose_nothing_when_postgresql_and_the_web_server_are_killed_without_a_broker(
    site: SmallSite, postgres: PostgresCluster
) -> None:
    def restart() -> None:
        postgres.stop("immediate")
        time.sleep(0.5)
        postgres.start()

    with (
        site.run_web_server("tests.support.soaking.faulty_apps:respond_late") as web,
        site.run_raters(web, RATERS) as raters,
    ):
        run_actions_under_load(
            raters, [*list_worker_kills(web), restart, web.kill_master, web.restart_rolling], pause=0.3
        )
        run_actions_under_load(raters, [lambda: None])
    assert site.find_wrong_answers(raters) == {}
    assert count_visible_errors(raters) == {}
    assert list_faults(raters), "no request failed: the test proved too little"
    settings = site.select_rows("select current_setting('synchronous_commit')")
    assert [tuple(row) for row in settings] == [("on",)]


def test_control_raters_lose_confirmed_answers_if_the_server_responds_before_the_commit(site: SmallSite) -> None:
    """Control: a faulty server must be detected by this test."""
    with (
        site.run_web_server("tests.support.soaking.faulty_apps:commit_late") as web,
        site.run_raters(web, RATERS) as raters,
    ):
        run_actions_under_load(raters, list_worker_kills(web), pause=0.3)
    assert "a confirmed answer is not in the database" in site.find_wrong_answers(raters)


def test_control_answers_are_never_confirmed_if_the_server_ignores_submission_ids(site: SmallSite) -> None:
    """Control: a faulty server must be detected by this test."""
    with (
        site.run_web_server("tests.support.soaking.faulty_apps:ignore_submission_ids") as web,
        site.run_raters(web, RATERS) as raters,
    ):
        for rater in raters:
            rater.waits = (0.1,)
        run_actions_under_load(raters, list_worker_kills(web), pause=0.3)
    assert "an answer was sent and never confirmed" in site.find_wrong_answers(raters)
    assert {"POST: 500 12 times"} <= count_visible_errors(raters).keys()


def test_raters_lose_nothing_on_sqlite_when_the_web_server_is_killed_repeatedly(tmp_path: Path) -> None:
    with small_site.create_site(tmp_path) as site:
        with site.run_web_server() as web, site.run_raters(web, RATERS) as raters:
            run_actions_under_load(raters, [lambda: web.kill_worker(0), web.kill_master, lambda: web.kill_worker(1)])
        assert site.find_wrong_answers(raters) == {}
        assert count_visible_errors(raters) == {}
        assert list_faults(raters), "no request failed: the test proved too little"
        with closing(sqlite3.connect(site.database)) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.thorough
def test_raters_see_no_error_during_ten_rolling_restarts(site: SmallSite) -> None:
    with site.run_web_server() as web, site.run_raters(web, RATERS) as raters:
        first_workers = web.list_worker_pids()
        run_actions_under_load(raters, [web.restart_rolling] * 10, pause=2)
        run_actions_under_load(raters, [lambda: None])
        assert web.restarts == 0 and not set(first_workers) & set(web.list_worker_pids())
    assert site.find_wrong_answers(raters) == {}
    assert count_visible_errors(raters) == {}
