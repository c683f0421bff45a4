"""Raters at work lose nothing and double nothing while the web server and the database are killed under them."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.services import PostgresCluster
from tests.support.soaking import small_site
from tests.support.soaking.rater import Rater
from tests.support.soaking.small_site import SmallSite
from tests.support.soaking.web import Web

pytestmark = pytest.mark.services

RATERS = 6  # three over a planned order, three over a pool that wants three ratings of each item


def struck(raters: list[Rater], acts: list[Callable[[], object]], pause: float = 1.0) -> None:
    """Each act after a while in which answers were confirmed."""
    for act in acts:
        before = done(raters)
        time.sleep(pause)
        until = time.monotonic() + 60
        while done(raters) < before + len(raters):
            assert time.monotonic() < until, [rater.counts for rater in raters]
            time.sleep(0.05)
        act()


def done(raters: list[Rater]) -> int:
    return sum(rater.counts.confirmed for rater in raters)


def seen(raters: list[Rater]) -> dict[str, int]:
    """Errors that came to a rater's eyes."""
    return {name: count for rater in raters for name, count in rater.counts.errors.items()}


def met(raters: list[Rater]) -> set[str]:
    return {name for rater in raters for name in rater.counts.faults}


@pytest.fixture(scope="module")
def migrated(postgres: PostgresCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    """A site on PostgreSQL of which each test gets a copy."""
    with small_site.made(tmp_path_factory.mktemp("site"), postgres.new_database("raters")) as site:
        yield site


@pytest.fixture
def site(migrated: SmallSite, postgres: PostgresCluster, tmp_path: Path) -> SmallSite:
    name = f"raters_{tmp_path.name}".lower()[:60]
    return replace(migrated, database=name, folder=tmp_path, url=postgres.new_database(name, like="raters"))


def both_killed_twice(web: Web) -> list[Callable[[], object]]:
    return [lambda: web.kill_worker(0), lambda: web.kill_worker(1)] * 2


def test_postgresql_and_the_web_server_die_and_no_broker_was_ever_there(
    site: SmallSite, postgres: PostgresCluster
) -> None:
    def restart() -> None:
        postgres.stop("immediate")
        time.sleep(0.5)
        postgres.start()

    with site.web("tests.support.soaking.careless:dawdling") as web, site.at_work(web, RATERS) as raters:
        struck(raters, [*both_killed_twice(web), restart, web.kill, web.roll], pause=0.3)
        struck(raters, [lambda: None])
    assert site.wrong(raters) == {}
    assert seen(raters) == {}
    assert met(raters), "nobody was disturbed: the test proved too little"
    standing = site.rows("select current_setting('synchronous_commit')")
    assert [tuple(row) for row in standing] == [("on",)]


def test_where_the_commit_comes_after_the_answer_the_same_kills_lose_confirmed_answers(site: SmallSite) -> None:
    """A control."""
    with site.web("tests.support.soaking.careless:hasty") as web, site.at_work(web, RATERS) as raters:
        struck(raters, both_killed_twice(web), pause=0.3)
    assert "a confirmed answer is not in the database" in site.wrong(raters)


def test_where_a_form_is_not_known_by_its_id_the_same_kills_leave_raters_unconfirmed(site: SmallSite) -> None:
    """A control."""
    with site.web("tests.support.soaking.careless:forgetful") as web, site.at_work(web, RATERS) as raters:
        for rater in raters:
            rater.waits = (0.1,)
        struck(raters, both_killed_twice(web), pause=0.3)
    assert "an answer was sent and never confirmed" in site.wrong(raters)
    assert {"POST: 500 12 times"} <= seen(raters).keys()


def test_the_web_server_on_sqlite_is_killed_again_and_again_and_the_file_stays_whole(tmp_path: Path) -> None:
    with small_site.made(tmp_path) as site:
        with site.web() as web, site.at_work(web, RATERS) as raters:
            struck(raters, [lambda: web.kill_worker(0), web.kill, lambda: web.kill_worker(1)])
        assert site.wrong(raters) == {}
        assert seen(raters) == {}
        assert met(raters), "nobody was disturbed: the test proved too little"
        with closing(sqlite3.connect(site.database)) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.thorough
def test_ten_rolling_restarts_under_load_fail_no_answer(site: SmallSite) -> None:
    with site.web() as web, site.at_work(web, RATERS) as raters:
        at_first = web.workers()
        struck(raters, [web.roll] * 10, pause=2)
        struck(raters, [lambda: None])
        assert web.restarts == 0 and not set(at_first) & set(web.workers())
    assert site.wrong(raters) == {}
    assert seen(raters) == {}
