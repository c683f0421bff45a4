"""Episodes of language models survive failures: real workers, PostgreSQL and Redis, each of them killed."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from simulation.scripted_server import Server, spawned
from tests.support import disturbed
from tests.support.disturbed import CAPPED, ORDER, House
from tests.support.services import PostgresCluster, RedisServer
from tests.support.warm_processes import Forked, Warm

pytestmark = pytest.mark.services
KNOWN = 6  # episodes that are also played without failures
STEPS = 6  # maximum per attempt
NewHouse = Callable[[str], AbstractContextManager[House]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disturbed")


@pytest.fixture(scope="module")
def model_process() -> Iterator[Server]:
    with spawned("--latency", "0.15") as server:
        yield server


@pytest.fixture(scope="module")
def new_site(
    postgres: PostgresCluster, redis_server: RedisServer, model_process: Server, folder: Path
) -> Iterator[NewHouse]:
    """Return a function that starts a site on a copy of one loaded database, at a twentieth of the usual intervals."""
    environment = {
        **os.environ,
        **model_process.environ(),
        "DATABASE_URL": f"postgres://postgres@127.0.0.1:{postgres.port}/loaded",
        "CELERY_BROKER_URL": redis_server.url,
        "WETBENCH_VAR_DIR": str(folder),
        "WETBENCH_PACE": "0.05",
    }
    with Warm.started(environment) as warm:
        with disturbed.opened(warm, postgres, "loaded", "", model_process, folder) as site:
            disturbed.furnish(site, STEPS)
        yield lambda name: disturbed.opened(warm, postgres, name, "loaded", model_process, folder)


@pytest.fixture(scope="module")
def expected_steps(new_site: NewHouse) -> dict[int, list[tuple[int, str]]]:
    """The steps by replicate when nothing fails."""
    with new_site("left_alone") as site:
        order(site, KNOWN)
        site.dispatcher()
        site.worker()
        site.until_ended()
        calls, counters = site.calls(), site.server.counters()["total"]
        assert disturbed.wrong(site) == {}
        assert calls == {"answered": counters["requests"]}
        return site.steps()


def order(house: House, episodes: int) -> None:
    house.manage(*ORDER, *CAPPED, "--attempts", str(episodes))


def test_llm_run_with_fifty_killed_workers_repeats_only_calls_in_progress(
    new_site: NewHouse, expected_steps: dict[int, list[tuple[int, str]]]
) -> None:
    kills, episodes = 50, 20
    with new_site("killed") as site:
        order(site, episodes)
        site.dispatcher()
        workers = [site.worker() for _ in range(3)]
        killed = disturbed.play_with_killings(site, workers, random.Random(4), kills, pause=0.05)
        site.until_ended()
        calls = site.calls()
        assert disturbed.wrong(site) == {}
        assert (
            calls["lost"] == killed.calls
        )  # only calls in progress were repeated, and the call log shows them as lost
        assert len(site.steps()) == episodes
        assert first(site.steps(), KNOWN) == expected_steps
        assert killed.workers == kills, "the episodes ended too early: the test proved too little"
        assert killed.calls >= kills / 5, "too few workers died in the middle of a call"


def first(steps: dict[int, list[tuple[int, str]]], episodes: int) -> dict[int, list[tuple[int, str]]]:
    return {replicate: steps[replicate] for replicate in range(1, episodes + 1)}


def more_calls(house: House, number: int) -> None:
    """Wait until the call log has `number` more calls."""
    threshold = house.number(disturbed.CALLS) + number
    house.until(lambda: house.number(disturbed.CALLS) >= threshold)


def test_llm_run_loses_nothing_when_the_broker_is_flushed_and_restarted(
    new_site: NewHouse, expected_steps: dict[int, list[tuple[int, str]]], redis_server: RedisServer
) -> None:
    with new_site("broker") as site:
        order(site, 4)
        site.dispatcher()
        site.worker()
        for _ in range(4):
            more_calls(site, 4)
            redis.Redis.from_url(redis_server.url).flushall()
        redis_server.stop()
        time.sleep(0.5)
        assert site.unended() == 4, "the episodes ended too early: the test proved nothing"
        redis_server.start()
        site.until_ended()
        assert disturbed.wrong(site) == {}
        assert set(site.calls()) == {"answered"}  # calls in progress continued without a broker
        assert site.steps() == first(expected_steps, 4)


def test_llm_run_loses_and_doubles_no_step_when_the_database_restarts(
    new_site: NewHouse, expected_steps: dict[int, list[tuple[int, str]]], postgres: PostgresCluster
) -> None:
    with new_site("restarted") as site:
        order(site, 4)
        dispatcher, worker = site.dispatcher(), site.worker()
        for _ in range(2):
            more_calls(site, 6)
            assert site.unended() == 4, "the episodes ended too early: the test proved nothing"
            postgres.stop("immediate")
            time.sleep(0.5)
            postgres.start()
        site.until_ended()
        assert (dispatcher.poll(), worker.poll()) == (None, None)
        assert disturbed.wrong(site) == {}
        assert site.steps() == first(expected_steps, 4)


def test_llm_run_with_duplicate_messages_pays_and_stores_everything_once(
    new_site: NewHouse, expected_steps: dict[int, list[tuple[int, str]]], redis_server: RedisServer
) -> None:
    with new_site("doubled") as site:
        order(site, 2)
        site.dispatcher()
        workers = [site.worker() for _ in range(2)]
        codes = [str(code) for (code,) in site.rows("select code from simulation_episode")] * 5
        with Celery(broker=redis_server.url) as elsewhere:
            while site.unended():
                random.Random(len(codes)).shuffle(codes)
                for code in codes:
                    elsewhere.send_task("simulation.advance", ("episode", code))
                time.sleep(0.1)
        site.until_ended()
        played = {pid for (pid,) in site.rows("select distinct split_part(owner, ':', 2)::int from simulation_worker")}
        assert {worker.pid for worker in workers} <= played
        assert disturbed.wrong(site) == {}
        assert site.calls() == {"answered": site.server.counters()["total"]["requests"]}
        assert site.steps() == first(expected_steps, 2)


def test_llm_run_survives_a_deployment_without_lost_calls(
    new_site: NewHouse, expected_steps: dict[int, list[tuple[int, str]]]
) -> None:
    with new_site("deployed") as site:
        order(site, 4)
        site.dispatcher()
        for _ in range(2):
            worker = site.worker()
            more_calls(site, 6)
            worker.signal(signal.SIGTERM)
            assert worker.wait(10) == 0
        assert site.unended() == 4, "the episodes ended too early: the test proved nothing"
        site.worker()
        site.until_ended()
        assert disturbed.wrong(site) == {}
        assert set(site.calls()) == {"answered"}
        assert site.steps() == first(expected_steps, 4)


def test_llm_run_worker_that_wakes_up_after_its_lease_only_ends_its_own_calls(
    new_site: NewHouse, expected_steps: dict[int, list[tuple[int, str]]]
) -> None:
    with new_site("slept") as site:
        order(site, 4)
        site.dispatcher()
        sleeper = site.worker()
        more_calls(site, 4)
        under_way = asleep_in_a_call(site, sleeper)
        other = site.worker()
        site.until(lambda: not site.number(HELD, pid=sleeper.pid))
        assert site.unended() == 4, "the episodes ended too early: the test proved nothing"
        sleeper.signal(signal.SIGCONT)  # while another worker plays its episodes
        site.until(lambda: site.calls()["fenced"] == under_way)
        site.until_ended()
        other.signal(signal.SIGTERM)
        assert other.wait(10) == 0
        order(site, 2)  # only the stopped worker can start these
        under_way += asleep_in_a_call(site, sleeper)
        site.worker()
        site.until_ended()
        before = played(site)
        sleeper.signal(signal.SIGCONT)  # after everything has ended
        site.until(lambda: site.calls()["fenced"] == under_way)
        time.sleep(1)  # time for it to do something wrong
        assert played(site) == before
        assert disturbed.wrong(site) == {} and not site.calls()["lost"]
        assert site.steps() == first(expected_steps, 6)


HELD = "select count(*) from simulation_episode where split_part(lease_owner, ':', 2) = %(pid)s::text"


def asleep_in_a_call(house: House, worker: Forked) -> int:
    """Stop the worker while it has calls in progress, and return how many. An open transaction would block the other workers, so it must have none."""

    def stopped() -> bool:
        worker.signal(signal.SIGSTOP)
        time.sleep(0.02)  # its last statement reaches the database
        n_open_transactions = house.number("select count(*) from pg_stat_activity where state ^@ 'idle in transaction'")
        if house.number(disturbed.UNDER_WAY, pid=worker.pid) and not n_open_transactions:
            return True
        worker.signal(signal.SIGCONT)
        return False

    house.until(stopped)
    return house.number(disturbed.UNDER_WAY, pid=worker.pid)


def played(house: House) -> list[tuple[Any, ...]]:
    """Return everything except how calls ended."""
    queries = "select to_jsonb(e) from simulation_episode e", "select to_jsonb(t) from simulation_transition t"
    return [house.rows(f"{query} order by id") for query in queries] + [house.calls()["answered"]]
