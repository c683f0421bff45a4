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

from tests.support import killed_site, migrated_databases
from tests.support.killed_site import RUN_EPISODES, WITH_BUDGET, RunningSite
from tests.support.model_server import Server, run_in_process
from tests.support.services import PostgresCluster, RedisServer
from tests.support.warm_processes import ForkedProcess, PreloadedProcess

pytestmark = pytest.mark.services
KNOWN = 6  # episodes that are also played without failures
STEPS = 6  # maximum per attempt
NewSite = Callable[[str], AbstractContextManager[RunningSite]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("disturbed")


@pytest.fixture(scope="module")
def model_process() -> Iterator[Server]:
    with run_in_process("--latency", "0.15") as server:
        yield server


@pytest.fixture(scope="module")
def new_site(
    postgres: PostgresCluster, redis_server: RedisServer, model_process: Server, folder: Path
) -> Iterator[NewSite]:
    """Return a function that starts a site on a copy of one loaded database, at a twentieth of the usual intervals."""
    environment = {
        **os.environ,
        **model_process.get_environ(),
        "DATABASE_URL": f"postgres://postgres@127.0.0.1:{postgres.port}/loaded",
        "CELERY_BROKER_URL": redis_server.url,
        "WETBENCH_VAR_DIR": str(folder),
        "WETBENCH_PACE": "0.05",
    }
    with PreloadedProcess.run_process(environment) as warm:
        with killed_site.run_site(
            warm, postgres, "loaded", migrated_databases.get_postgres_template(postgres), model_process, folder
        ) as site:
            killed_site.load_small_site(site, STEPS)
        yield lambda name: killed_site.run_site(warm, postgres, name, "loaded", model_process, folder)


@pytest.fixture(scope="module")
def expected_steps(new_site: NewSite) -> dict[int, list[tuple[int, str]]]:
    """The steps by replicate when nothing fails."""
    with new_site("left_alone") as site:
        start_run(site, KNOWN)
        site.start_dispatcher()
        site.start_worker()
        site.wait_until_finished()
        calls, counters = site.count_calls_by_state(), site.server.get_counters()["total"]
        assert killed_site.find_violations(site) == {}
        assert calls == {"answered": counters["requests"]}
        return site.list_steps_by_replicate()


def start_run(house: RunningSite, episodes: int) -> None:
    house.run_command(*RUN_EPISODES, *WITH_BUDGET, "--attempts", str(episodes))


def test_llm_run_with_fifty_killed_workers_repeats_only_calls_in_progress(
    new_site: NewSite, expected_steps: dict[int, list[tuple[int, str]]]
) -> None:
    kills, episodes = 50, 20
    with new_site("killed") as site:
        start_run(site, episodes)
        site.start_dispatcher()
        workers = [site.start_worker() for _ in range(3)]
        killed = killed_site.run_with_kills(site, workers, random.Random(4), kills, pause=0.05)
        site.wait_until_finished()
        calls = site.count_calls_by_state()
        assert killed_site.find_violations(site) == {}
        assert (
            calls["lost"] == killed.calls
        )  # only calls in progress were repeated, and the call log shows them as lost
        assert len(site.list_steps_by_replicate()) == episodes
        assert select_replicates(site.list_steps_by_replicate(), KNOWN) == expected_steps
        assert killed.workers == kills, "the episodes ended too early: the test proved too little"
        assert killed.calls >= kills / 5, "too few workers died in the middle of a call"


def select_replicates(steps: dict[int, list[tuple[int, str]]], episodes: int) -> dict[int, list[tuple[int, str]]]:
    return {replicate: steps[replicate] for replicate in range(1, episodes + 1)}


def wait_for_more_calls(house: RunningSite, number: int) -> None:
    """Wait until the call log has `number` more calls."""
    threshold = house.select_number(killed_site.CALLS) + number
    house.wait_until(lambda: house.select_number(killed_site.CALLS) >= threshold)


def test_llm_run_loses_nothing_when_the_broker_is_flushed_and_restarted(
    new_site: NewSite, expected_steps: dict[int, list[tuple[int, str]]], redis_server: RedisServer
) -> None:
    with new_site("broker") as site:
        start_run(site, 4)
        site.start_dispatcher()
        site.start_worker()
        for _ in range(4):
            wait_for_more_calls(site, 4)
            redis.Redis.from_url(redis_server.url).flushall()
        redis_server.stop()
        time.sleep(0.5)
        assert site.count_unfinished_episodes() == 4, "the episodes ended too early: the test proved nothing"
        redis_server.start()
        site.wait_until_finished()
        assert killed_site.find_violations(site) == {}
        assert set(site.count_calls_by_state()) == {"answered"}  # calls in progress continued without a broker
        assert site.list_steps_by_replicate() == select_replicates(expected_steps, 4)


def test_llm_run_loses_and_doubles_no_step_when_the_database_restarts(
    new_site: NewSite, expected_steps: dict[int, list[tuple[int, str]]], postgres: PostgresCluster
) -> None:
    with new_site("restarted") as site:
        start_run(site, 4)
        dispatcher, worker = site.start_dispatcher(), site.start_worker()
        for _ in range(2):
            wait_for_more_calls(site, 6)
            assert site.count_unfinished_episodes() == 4, "the episodes ended too early: the test proved nothing"
            postgres.stop("immediate")
            time.sleep(0.5)
            postgres.start()
        site.wait_until_finished()
        assert (dispatcher.get_exit_status(), worker.get_exit_status()) == (None, None)
        assert killed_site.find_violations(site) == {}
        assert site.list_steps_by_replicate() == select_replicates(expected_steps, 4)


def test_llm_run_with_duplicate_messages_pays_and_stores_everything_once(
    new_site: NewSite, expected_steps: dict[int, list[tuple[int, str]]], redis_server: RedisServer
) -> None:
    with new_site("doubled") as site:
        start_run(site, 2)
        site.start_dispatcher()
        workers = [site.start_worker() for _ in range(2)]
        codes = [str(code) for (code,) in site.select_rows("select code from simulation_episode")] * 5
        with Celery(broker=redis_server.url) as elsewhere:
            while site.count_unfinished_episodes():
                random.Random(len(codes)).shuffle(codes)
                for code in codes:
                    elsewhere.send_task("simulation.advance", ("episode", code))
                time.sleep(0.1)
        site.wait_until_finished()
        played = {
            pid for (pid,) in site.select_rows("select distinct split_part(owner, ':', 2)::int from simulation_worker")
        }
        assert {worker.pid for worker in workers} <= played
        assert killed_site.find_violations(site) == {}
        assert site.count_calls_by_state() == {"answered": site.server.get_counters()["total"]["requests"]}
        assert site.list_steps_by_replicate() == select_replicates(expected_steps, 2)


def test_llm_run_survives_a_deployment_without_lost_calls(
    new_site: NewSite, expected_steps: dict[int, list[tuple[int, str]]]
) -> None:
    with new_site("deployed") as site:
        start_run(site, 4)
        site.start_dispatcher()
        for _ in range(2):
            worker = site.start_worker()
            wait_for_more_calls(site, 6)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait_for_end(10) == 0
        assert site.count_unfinished_episodes() == 4, "the episodes ended too early: the test proved nothing"
        site.start_worker()
        site.wait_until_finished()
        assert killed_site.find_violations(site) == {}
        assert set(site.count_calls_by_state()) == {"answered"}
        assert site.list_steps_by_replicate() == select_replicates(expected_steps, 4)


def test_llm_run_worker_that_wakes_up_after_its_lease_only_ends_its_own_calls(
    new_site: NewSite, expected_steps: dict[int, list[tuple[int, str]]]
) -> None:
    with new_site("slept") as site:
        start_run(site, 4)
        site.start_dispatcher()
        sleeper = site.start_worker()
        wait_for_more_calls(site, 4)
        under_way = stop_during_a_call(site, sleeper)
        other = site.start_worker()
        site.wait_until(lambda: not site.select_number(COUNT_LEASES, pid=sleeper.pid))
        assert site.count_unfinished_episodes() == 4, "the episodes ended too early: the test proved nothing"
        sleeper.send_signal(signal.SIGCONT)  # while another worker plays its episodes
        site.wait_until(lambda: count_calls_that_came_too_late(site) == under_way)
        site.wait_until_finished()
        other.send_signal(signal.SIGTERM)
        assert other.wait_for_end(10) == 0
        start_run(site, 2)  # only the stopped worker can start these
        under_way += stop_during_a_call(site, sleeper)
        site.start_worker()
        site.wait_until_finished()
        before = select_everything_played(site)
        sleeper.send_signal(signal.SIGCONT)  # after everything has ended
        site.wait_until(lambda: count_calls_that_came_too_late(site) == under_way)
        time.sleep(1)  # time for it to do something wrong
        assert select_everything_played(site) == before
        assert killed_site.find_violations(site) == {} and not site.count_calls_by_state()["lost"]
        assert site.list_steps_by_replicate() == select_replicates(expected_steps, 6)


def count_calls_that_came_too_late(site: RunningSite) -> int:
    """Return how many calls ended without a reply that counts.

    A call of the stopped worker ends as "fenced" when its reply arrives after all, and as "failed" when the time allowed for
    it ran out while the worker was stopped, which happens on a busy machine.
    """
    calls = site.count_calls_by_state()
    return calls["fenced"] + calls["failed"]


COUNT_LEASES = "select count(*) from simulation_episode where split_part(lease_owner, ':', 2) = %(pid)s::text"


def stop_during_a_call(house: RunningSite, worker: ForkedProcess) -> int:
    """Stop the worker while it has calls in progress, and return how many. An open transaction would block the other workers, so it must have none."""

    def try_to_stop() -> bool:
        worker.send_signal(signal.SIGSTOP)
        time.sleep(0.02)  # its last statement reaches the database
        n_open_transactions = house.select_number(
            "select count(*) from pg_stat_activity where state ^@ 'idle in transaction'"
        )
        if house.select_number(killed_site.COUNT_CALLS_IN_PROGRESS, pid=worker.pid) and not n_open_transactions:
            return True
        worker.send_signal(signal.SIGCONT)
        return False

    house.wait_until(try_to_stop)
    return house.select_number(killed_site.COUNT_CALLS_IN_PROGRESS, pid=worker.pid)


def select_everything_played(house: RunningSite) -> list[tuple[Any, ...]]:
    """Return everything except how calls ended."""
    queries = "select to_jsonb(e) from simulation_episode e", "select to_jsonb(t) from simulation_transition t"
    return [house.select_rows(f"{query} order by id") for query in queries] + [house.count_calls_by_state()["answered"]]
