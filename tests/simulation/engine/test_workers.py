"""Workers as processes: killed at any instruction, no step is lost or doubled."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection

from simulation.engine import tasks, tidying, workers
from simulation.models import Experiment, Worker
from simulation.runs import queueing
from tests.support.steps import Away, play_out
from tests.support.warm_processes import Forked, Warm

KILLS = 6


class Installation:
    """A site of its own in a folder: SQLite, no broker, driven by commands as a user would."""

    def __init__(self, warm: Warm, folder: Path) -> None:
        self.warm, self.folder, self.database = warm, folder, folder / "wetbench.sqlite3"

    def manage(self, *arguments: str) -> str:
        process = self._start("manage.py", *arguments, log="command")
        assert process.wait(120) == 0, process.said()
        return process.said()

    def worker(self) -> Forked:
        return self._start("manage.py", "work", "--threads", "2", log="worker")

    def _start(self, *command: str, log: str) -> Forked:
        return self.warm.start(str(self.database), self.folder / log, *command)

    def like(self, other: "Installation") -> "Installation":
        """This one with a copy of the other's database."""
        with closing(sqlite3.connect(other.database)) as source, closing(sqlite3.connect(self.database)) as copy:
            source.backup(copy)
        return self

    def rows(self, query: str) -> list[tuple]:
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)) as database:
            return database.execute(query).fetchall()

    def steps(self) -> dict[int, list[tuple]]:
        """replicate -> [(number, digest of the content)] in the order of storing."""
        found: dict[int, list[tuple]] = {}
        query = (
            "select e.replicate, t.number, t.content_sha256 from simulation_transition t "
            "join simulation_episode e on e.id = t.episode_id order by t.id"
        )
        for replicate, number, digest in self.rows(query):
            found.setdefault(replicate, []).append((number, digest))
        return found

    def stored(self) -> int:
        """Number of steps."""
        return self.rows("select count(*) from simulation_transition")[0][0]

    def unended(self) -> int:
        return self.rows("select count(*) from simulation_episode where ended_at is null")[0][0]


@pytest.fixture
def new_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Installation]]:
    """Makes installations whose processes are forked from one that has everything imported."""
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "CELERY_BROKER_URL")},
        "WETBENCH_VAR_DIR": str(tmp_path_factory.mktemp("var")),
        "WETBENCH_PACE": "0.02",
        "WETBENCH_LOG_LEVEL": "ERROR",
    }
    with Warm.started(environment) as warm:
        yield lambda name: Installation(warm, tmp_path_factory.mktemp(name))


def test_killed_workers_lose_and_double_no_step(new_site: Callable[[str], Installation]) -> None:
    order = ("run_episodes", "--experiment", "caffeine-hplc-analysis", "--attempts", "6", "--seed", "7")
    undisturbed = new_site("undisturbed")
    undisturbed.manage("migrate", "--verbosity", "0")
    undisturbed.manage("load_lab")
    disturbed = new_site("disturbed").like(undisturbed)
    undisturbed.manage(*order, "--wait")
    disturbed.manage(*order)
    kills = sum(kill_a_worker(disturbed) for _ in range(KILLS))
    assert kills >= 3, "the workers finished before they could be killed: the test proved nothing"
    play_to_the_end(disturbed)
    assert disturbed.unended() == 0
    assert disturbed.steps() == undisturbed.steps()


def play_to_the_end(site: Installation) -> None:
    worker = site.worker()
    until = time.monotonic() + 120
    while site.unended() and time.monotonic() < until:
        time.sleep(0.05)
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0, worker.said()


def kill_a_worker(site: Installation) -> bool:
    """Let a worker commit four more steps, then SIGKILL it. True if work was left to do."""
    before = site.stored()
    worker = site.worker()
    until = time.monotonic() + 60
    while site.unended() and time.monotonic() < until:
        if site.stored() >= before + 4:
            break
        time.sleep(0.01)
    worker.signal(signal.SIGKILL)
    worker.wait(20)
    return site.unended() > 0


def test_one_message_delivered_five_times_plays_one_unit(caffeine: Experiment) -> None:
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    episode = run.episodes.get()
    more = [workers.play("episode", episode.code) for _ in range(5)]
    assert more == [True] * 5  # each is a unit of its own: choose, answer, choose, answer, choose
    assert episode.transitions.count() == 2
    play_out(run)
    assert [workers.play("episode", episode.code) for _ in range(5)] == [False] * 5


def test_rows_are_rung_for_once_until_the_bell_is_old(caffeine: Experiment, settings) -> None:
    queueing.queue_episodes([caffeine], "offline", 2, seed=1)
    first = workers.due()
    assert len(first) == 2
    for kind, code in first:
        workers.rung(kind, code)
    assert workers.due() == []
    settings.RING_AGAIN_SECONDS = 0  # as if the message had been lost long ago
    assert workers.due() == first


def test_a_worker_says_that_it_is_there_and_takes_it_back(db: None) -> None:
    assert not queueing.workers_alive()
    with workers.announced("embedded"):
        assert queueing.workers_alive()
    assert Worker.objects.count() == 0


def test_a_dispatcher_alone_is_no_worker(db: None) -> None:
    with workers.announced("dispatcher"):
        assert not queueing.workers_alive()


def test_a_broker_that_refuses_one_bell_is_not_offered_the_others(caffeine: Experiment) -> None:
    queueing.queue_episodes([caffeine], "offline", 3, seed=1)
    stop, offered = threading.Event(), []

    def refuse(kind: str, code: str) -> bool:
        offered.append(code)
        stop.set()
        return False

    workers.dispatch(stop, refuse, lambda: 0)
    assert len(offered) == 1


@pytest.mark.django_db(transaction=True)
def test_a_command_that_plays_its_own_run_is_no_worker_for_others(caffeine: Experiment) -> None:
    run, seen = queueing.queue_episodes([caffeine], "offline", 1, seed=1), []
    workers.play_run(run, 1, lambda now: seen.append((now.finished, queueing.workers_alive())))
    assert seen[0] == (False, False) and seen[-1] == (True, False)


@pytest.mark.django_db(transaction=True)
def test_a_command_that_plays_outlasts_a_database_that_is_away(caffeine: Experiment) -> None:
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    away = Away('SELECT "simulation_episode"."code"', times=2)
    with connection.execute_wrapper(away):
        workers.play_run(run, 1, lambda _: None)
    assert away.times == 0 and run.episodes.get().status == "submitted"


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_could_not_say_that_it_is_there_says_so_later(settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.1
    with connection.execute_wrapper(Away('SELECT "simulation_worker"', times=1)), workers.announced("embedded"):
        until = time.monotonic() + 10
        while not queueing.workers_alive() and time.monotonic() < until:
            time.sleep(0.02)
        assert queueing.workers_alive()


@pytest.mark.django_db(transaction=True)
def test_the_sweep_goes_on_after_whatever_one_of_its_parts_found(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SWEEP_SECONDS = 0.02
    tried, often = [], threading.Event()

    def fail() -> None:
        tried.append(1)
        if len(tried) == 3:
            often.set()
        raise ValueError("a fault of its own")

    monkeypatch.setattr(tidying, "_work", [fail])
    monkeypatch.setattr(tidying, "_next", [0.0])
    with workers.sweeping():
        assert often.wait(10)


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_starts_while_the_database_is_away_stays() -> None:
    stop, away = threading.Event(), Away('SELECT "simulation_job"."lease_owner"', times=1)
    stop.set()
    with connection.execute_wrapper(away):
        workers.work(stop, 1)
    assert away.times == 0


@pytest.mark.django_db(transaction=True)
def test_a_celery_worker_that_hears_no_bell_plays_what_waits(caffeine: Experiment, settings, monkeypatch) -> None:
    monkeypatch.setattr(tasks, "_heard", time.monotonic())
    settings.RING_AGAIN_SECONDS = 0.1
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    with tasks.looking():
        until = time.monotonic() + 60
        while not queueing.progress(run).finished and time.monotonic() < until:
            time.sleep(0.05)
    assert run.episodes.get().status == "submitted"


@pytest.mark.django_db(transaction=True)
def test_a_celery_worker_that_hears_bells_leaves_the_looking_to_the_dispatcher(
    caffeine: Experiment, settings, monkeypatch
) -> None:
    monkeypatch.setattr(tasks, "_heard", time.monotonic())
    settings.RING_AGAIN_SECONDS = 0.1
    run = queueing.queue_episodes([caffeine], "offline", 1, seed=1)
    with tasks.looking():
        for _ in range(50):
            tasks.advance("episode", "00000000-0000-0000-0000-000000000000")  # not of this database
            time.sleep(0.02)
    assert run.episodes.get().status == "queued"
