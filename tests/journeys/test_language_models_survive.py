"""Episodes of language models survive anything: real workers, PostgreSQL and Redis, and each of them struck down."""

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
KNOWN = 6  # so many episodes are also played undisturbed
STEPS = 6  # of an attempt, at most
NewHouse = Callable[[str], AbstractContextManager[House]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disturbed")


@pytest.fixture(scope="module")
def model_process() -> Iterator[Server]:
    with spawned("--latency", "0.15") as server:
        yield server


@pytest.fixture(scope="module")
def new_house(
    postgres: PostgresCluster, redis_server: RedisServer, model_process: Server, folder: Path
) -> Iterator[NewHouse]:
    """Opens houses on copies of one furnished database; their clockwork goes at a twentieth."""
    environment = {
        **os.environ,
        **model_process.environ(),
        "DATABASE_URL": f"postgres://postgres@127.0.0.1:{postgres.port}/furnished",
        "CELERY_BROKER_URL": redis_server.url,
        "WETBENCH_VAR_DIR": str(folder),
        "WETBENCH_PACE": "0.05",
    }
    with Warm.started(environment) as warm:
        with disturbed.opened(warm, postgres, "furnished", "", model_process, folder) as house:
            disturbed.furnish(house, STEPS)
        yield lambda name: disturbed.opened(warm, postgres, name, "furnished", model_process, folder)


@pytest.fixture(scope="module")
def undisturbed(new_house: NewHouse) -> dict[int, list[tuple[int, str]]]:
    """The steps as they are when nothing happens, by replicate."""
    with new_house("left_alone") as house:
        order(house, KNOWN)
        house.dispatcher()
        house.worker()
        house.until_ended()
        calls, counted = house.calls(), house.server.counters()["total"]
        assert disturbed.wrong(house) == {}
        assert calls == {"answered": counted["requests"]}
        return house.steps()


def order(house: House, episodes: int) -> None:
    house.manage(*ORDER, *CAPPED, "--attempts", str(episodes))


def test_killed_workers_lose_and_double_no_step_and_each_pays_again_only_what_it_had_under_way(
    new_house: NewHouse, undisturbed: dict[int, list[tuple[int, str]]]
) -> None:
    kills, episodes = 50, 20
    with new_house("killed") as house:
        order(house, episodes)
        house.dispatcher()
        workers = [house.worker() for _ in range(3)]
        killed = disturbed.play_with_killings(house, workers, random.Random(4), kills, pause=0.05)
        house.until_ended()
        calls = house.calls()
        assert disturbed.wrong(house) == {}
        assert calls["lost"] == killed.calls  # each call in flight was paid again at most, and the ledger says so
        assert len(house.steps()) == episodes
        assert first(house.steps(), KNOWN) == undisturbed
        assert killed.workers == kills, "the episodes ended too soon: the test proved too little"
        assert killed.calls >= kills / 5, "too few workers died in the middle of a call"


def first(steps: dict[int, list[tuple[int, str]]], episodes: int) -> dict[int, list[tuple[int, str]]]:
    return {replicate: steps[replicate] for replicate in range(1, episodes + 1)}


def more_calls(house: House, number: int) -> None:
    """Let it play until so many more calls are in the ledger."""
    mark = house.number(disturbed.CALLS) + number
    house.until(lambda: house.number(disturbed.CALLS) >= mark)


def test_a_broker_that_is_emptied_and_restarted_costs_nothing(
    new_house: NewHouse, undisturbed: dict[int, list[tuple[int, str]]], redis_server: RedisServer
) -> None:
    with new_house("broker") as house:
        order(house, 4)
        house.dispatcher()
        house.worker()
        for _ in range(4):
            more_calls(house, 4)
            redis.Redis.from_url(redis_server.url).flushall()
        redis_server.stop()
        time.sleep(0.5)
        assert house.unended() == 4, "they ended too soon: nothing was disturbed"
        redis_server.start()
        house.until_ended()
        assert disturbed.wrong(house) == {}
        assert set(house.calls()) == {"answered"}  # what was under way went on without a broker
        assert house.steps() == first(undisturbed, 4)


def test_a_database_that_is_restarted_loses_and_doubles_no_step(
    new_house: NewHouse, undisturbed: dict[int, list[tuple[int, str]]], postgres: PostgresCluster
) -> None:
    with new_house("restarted") as house:
        order(house, 4)
        dispatcher, worker = house.dispatcher(), house.worker()
        for _ in range(2):
            more_calls(house, 6)
            assert house.unended() == 4, "they ended too soon: nothing was disturbed"
            postgres.stop("immediate")
            time.sleep(0.5)
            postgres.start()
        house.until_ended()
        assert (dispatcher.poll(), worker.poll()) == (None, None)
        assert disturbed.wrong(house) == {}
        assert house.steps() == first(undisturbed, 4)


def test_messages_that_come_many_times_to_two_workers_pay_and_store_everything_once(
    new_house: NewHouse, undisturbed: dict[int, list[tuple[int, str]]], redis_server: RedisServer
) -> None:
    with new_house("doubled") as house:
        order(house, 2)
        house.dispatcher()
        workers = [house.worker() for _ in range(2)]
        codes = [str(code) for (code,) in house.rows("select code from simulation_episode")] * 5
        with Celery(broker=redis_server.url) as elsewhere:
            while house.unended():
                random.Random(len(codes)).shuffle(codes)
                for code in codes:
                    elsewhere.send_task("simulation.advance", ("episode", code))
                time.sleep(0.1)
        house.until_ended()
        played = {pid for (pid,) in house.rows("select distinct split_part(owner, ':', 2)::int from simulation_worker")}
        assert {worker.pid for worker in workers} <= played
        assert disturbed.wrong(house) == {}
        assert house.calls() == {"answered": house.server.counters()["total"]["requests"]}
        assert house.steps() == first(undisturbed, 2)


def test_a_deploy_in_the_middle_finishes_what_is_under_way_and_the_next_worker_goes_on(
    new_house: NewHouse, undisturbed: dict[int, list[tuple[int, str]]]
) -> None:
    with new_house("deployed") as house:
        order(house, 4)
        house.dispatcher()
        for _ in range(2):
            worker = house.worker()
            more_calls(house, 6)
            worker.signal(signal.SIGTERM)
            assert worker.wait(10) == 0
        assert house.unended() == 4, "they ended too soon: nothing was disturbed"
        house.worker()
        house.until_ended()
        assert disturbed.wrong(house) == {}
        assert set(house.calls()) == {"answered"}
        assert house.steps() == first(undisturbed, 4)


def test_a_worker_that_sleeps_past_its_lease_and_wakes_up_changes_nothing_but_the_end_of_its_own_calls(
    new_house: NewHouse, undisturbed: dict[int, list[tuple[int, str]]]
) -> None:
    with new_house("slept") as house:
        order(house, 4)
        house.dispatcher()
        sleeper = house.worker()
        more_calls(house, 4)
        under_way = asleep_in_a_call(house, sleeper)
        other = house.worker()
        house.until(lambda: not house.number(HELD, pid=sleeper.pid))
        assert house.unended() == 4, "they ended too soon: nobody was disturbed"
        sleeper.signal(signal.SIGCONT)  # in the middle of what others do now
        house.until(lambda: house.calls()["fenced"] == under_way)
        house.until_ended()
        other.signal(signal.SIGTERM)
        assert other.wait(10) == 0
        order(house, 2)  # which the sleeper alone can begin
        under_way += asleep_in_a_call(house, sleeper)
        house.worker()
        house.until_ended()
        before = played(house)
        sleeper.signal(signal.SIGCONT)  # after it all
        house.until(lambda: house.calls()["fenced"] == under_way)
        time.sleep(1)  # time to do more harm
        assert played(house) == before
        assert disturbed.wrong(house) == {} and not house.calls()["lost"]
        assert house.steps() == first(undisturbed, 6)


HELD = "select count(*) from simulation_episode where split_part(lease_owner, ':', 2) = %(pid)s::text"


def asleep_in_a_call(house: House, worker: Forked) -> int:
    """Stop it while it has calls under way and no transaction open, which would hold up the others: how many calls."""

    def stopped() -> bool:
        worker.signal(signal.SIGSTOP)
        time.sleep(0.02)  # what it sent to the database last is done
        open_now = house.number("select count(*) from pg_stat_activity where state ^@ 'idle in transaction'")
        if house.number(disturbed.UNDER_WAY, pid=worker.pid) and not open_now:
            return True
        worker.signal(signal.SIGCONT)
        return False

    house.until(stopped)
    return house.number(disturbed.UNDER_WAY, pid=worker.pid)


def played(house: House) -> list[tuple[Any, ...]]:
    """Everything but how its calls ended."""
    told = "select to_jsonb(e) from simulation_episode e", "select to_jsonb(t) from simulation_transition t"
    return [house.rows(f"{query} order by id") for query in told] + [house.calls()["answered"]]
