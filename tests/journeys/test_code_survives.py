"""Code episodes survive killed workers: Celery on PostgreSQL and the embedded worker on SQLite, with real sandboxes."""

import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support import code_invariants, code_worlds, killed_code_site, migrated_databases
from tests.support.code_invariants import find_violations, list_results
from tests.support.killed_code_site import UNDER_WAY, CodeSite, KillCounts, read_pid
from tests.support.model_server import run_in_process
from tests.support.services import PostgresCluster, RedisServer
from tests.support.warm_processes import ForkedProcess

pytestmark = pytest.mark.services
# Attempts at each of two masks by each of two casts, workers, and how often one of them is killed.
SHORT, FULL = (2, 2, 6), (10, 3, 60)
PAUSE = 0.4  # seconds that each command of the language model takes
SIZES = [pytest.param(SHORT, id="short"), pytest.param(FULL, id="full", marks=pytest.mark.thorough)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of bwrap, so that processes of these sandboxes can be told from those of other tests."""
    original = shutil.which("bwrap")
    assert original, "bubblewrap is needed: apt-get install bubblewrap"
    return Path(shutil.copy(original, tmp_path_factory.mktemp("program") / "bwrap"))


@pytest.fixture(scope="module", params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def world(
    database: str, program: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CodeSite]:
    """A site with the task and the cast. Every test uses a copy of its database."""
    folder = tmp_path_factory.mktemp(database)
    url, broker, name = "", "", str(folder / "world.sqlite3")
    if database == "postgresql":
        cluster: PostgresCluster = request.getfixturevalue("postgres")
        redis: RedisServer = request.getfixturevalue("redis_server")
        url, broker = migrated_databases.create_postgres_database(cluster, "code_world"), redis.url
        name = "code_world"
    else:
        migrated_databases.copy_sqlite_database(Path(name))
    script = code_worlds.write_script(folder, PAUSE)
    with run_in_process("--latency", "0.1", "--script", str(script)) as server:
        environment = {**server.get_environ(), "CELERY_BROKER_URL": broker}
        with killed_code_site.run_code_site(folder, program, name, url, environment) as site:
            yield site
    assert code_invariants.list_processes(program) == []


@contextmanager
def use_copy(site: CodeSite, name: str) -> Iterator[CodeSite]:
    copy = site.copy_to(name)
    try:
        yield copy
    finally:
        copy.stop_processes()


@pytest.fixture
def site(world: CodeSite, request: pytest.FixtureRequest) -> Iterator[CodeSite]:
    number = request.session.items.index(request.node)
    with use_copy(world, f"code_{number}") as copy:
        yield copy


@pytest.mark.parametrize("size", SIZES)
def test_code_episodes_with_killed_workers_have_each_step_once_and_the_same_outcomes(
    site: CodeSite, program: Path, size: tuple[int, int, int]
) -> None:
    attempts, n_workers, kills = size
    seconds = 120.0 * attempts  # most; a machine that runs much else needs a minute for an attempt
    site.order_episodes(attempts)
    with use_copy(site, f"{Path(site.database).stem}_undisturbed") as undisturbed:
        undisturbed.start_workers(1)
        undisturbed.wait_until_finished(seconds)
        assert find_violations(undisturbed, program, KillCounts()) == {}
        expected = list_results(undisturbed)
    assert len(expected) == 4 * attempts and len(code_invariants.count_outcomes(expected)) > 1
    workers = site.start_workers(n_workers)
    killed = killed_code_site.run_with_kills(site, workers, random.Random(4), kills)
    site.wait_until_finished(seconds)
    states = site.count_sandboxes_by_state()
    print(f"{killed.workers} workers killed, {len(killed.sandboxes)} sandboxes under way, {dict(states)}")
    assert find_violations(site, program, killed) == {}
    assert list_results(site) == expected
    assert killed.workers == kills, "the episodes ended too early: the test proved too little"
    assert len(killed.sandboxes) >= kills / 5, "too few workers died while a sandbox ran"
    site.stop_processes(signal.SIGTERM)
    site.stop_processes()


def stop_during_a_sandbox(site: CodeSite, worker: ForkedProcess) -> int:
    """Stop a worker while it runs a sandbox and writes nothing, and return the key of that sandbox."""
    stopped: list[int] = []

    def try_to_stop() -> bool:
        worker.send_signal(signal.SIGSTOP)
        time.sleep(0.02)
        keys = [key for owner, key in site.select_rows(UNDER_WAY) if read_pid(owner) == worker.pid]
        if keys and not is_locked(site):
            stopped.extend(keys)
            return True
        worker.send_signal(signal.SIGCONT)
        return False

    site.wait_until(try_to_stop)
    return stopped[0]


def is_locked(site: CodeSite) -> bool:
    """Return whether a transaction of the stopped worker would block all others."""
    with closing(sqlite3.connect(site.database, timeout=0.1, isolation_level=None)) as file:
        try:
            file.execute("begin immediate")
        except sqlite3.OperationalError:
            return True
        return False


def wake_up_late(site: CodeSite, sleeper: ForkedProcess) -> int:
    """Stop the worker during a sandbox, let another play two further steps, and let the worker continue. Return the sandbox's key."""
    key = stop_during_a_sandbox(site, sleeper)
    row = f"select e.next_number from simulation_codeepisode e join simulation_sandboxrun s on s.episode_id = e.id where s.id = {key}"
    number = site.select_number(row)
    site.start_worker()
    site.wait_until(lambda: site.select_number(row) > number)
    sleeper.send_signal(signal.SIGCONT)
    site.wait_until_finished()
    return key


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_code_worker_that_wakes_up_after_its_lease_changes_nothing(site: CodeSite, program: Path) -> None:
    site.order_episodes(1, (code_worlds.CAST,))
    sleeper = site.start_worker()
    key = wake_up_late(site, sleeper)
    fenced = f"select count(*) from simulation_sandboxrun where state = 'fenced' and id = {key}"
    site.wait_until(lambda: site.select_number(fenced))
    assert find_violations(site, program, KillCounts()) == {}
    assert code_invariants.count_outcomes(list_results(site)) == {"solved": 2}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_control_code_worker_without_the_fence_is_detected(site: CodeSite, program: Path) -> None:
    """Control: the invariants find the writes of a worker that does not check the fence."""
    site.order_episodes(1, (code_worlds.CAST,))
    sleeper = site.start_process("manage.py", "shell", "--no-imports", "-c", code_worlds.RUN_WITHOUT_FENCE)
    wake_up_late(site, sleeper)
    assert find_violations(site, program, KillCounts())
