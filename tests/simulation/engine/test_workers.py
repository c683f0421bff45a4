"""Workers and the dispatcher. Killed at any moment, they lose or repeat no step."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from simulation import leases
from simulation.engine import notifications, runner, tasks, workers
from simulation.leases import Lease
from simulation.models import Episode, Experiment, Worker
from simulation.runs import create
from tests.support.embedded_worker import run_one_unit
from tests.support.steps import DatabaseOutage, run_to_end
from tests.support.warm_processes import ForkedProcess, PreloadedProcess

KILLS = 6


class Installation:
    """A separate site in a folder: SQLite, no broker, controlled by commands as a user would."""

    def __init__(self, warm: PreloadedProcess, folder: Path) -> None:
        self.warm, self.folder, self.database = warm, folder, folder / "wetbench.sqlite3"

    def manage(self, *arguments: str) -> str:
        process = self._start("manage.py", *arguments, log="command")
        assert process.wait_for_end(120) == 0, process.read_log()
        return process.read_log()

    def worker(self) -> ForkedProcess:
        return self._start("manage.py", "work", "--threads", "2", log="worker")

    def _start(self, *command: str, log: str) -> ForkedProcess:
        return self.warm.fork_command(str(self.database), self.folder / log, *command)

    def copy_from(self, other: "Installation") -> "Installation":
        """Copy the other's database into this one, and return it."""
        with closing(sqlite3.connect(other.database)) as source, closing(sqlite3.connect(self.database)) as copy:
            source.backup(copy)
        return self

    def rows(self, query: str) -> list[tuple]:
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)) as database:
            return database.execute(query).fetchall()

    def steps(self) -> dict[int, list[tuple]]:
        """Return replicate -> [(number, digest of the content)] in the order of storing."""
        found: dict[int, list[tuple]] = {}
        query = (
            "select e.replicate, t.number, t.content_sha256 from simulation_transition t "
            "join simulation_episode e on e.id = t.episode_id order by t.id"
        )
        for replicate, number, digest in self.rows(query):
            found.setdefault(replicate, []).append((number, digest))
        return found

    def count_steps(self) -> int:
        """Return the number of stored steps."""
        return self.rows("select count(*) from simulation_transition")[0][0]

    def count_unfinished(self) -> int:
        return self.rows("select count(*) from simulation_episode where ended_at is null")[0][0]


@pytest.fixture
def new_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Installation]]:
    """Create installations whose processes are forked from one that has imported everything."""
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "CELERY_BROKER_URL")},
        "WETBENCH_VAR_DIR": str(tmp_path_factory.mktemp("var")),
        "WETBENCH_PACE": "0.02",
        "WETBENCH_LOG_LEVEL": "ERROR",
    }
    with PreloadedProcess.run_process(environment) as warm:
        yield lambda name: Installation(warm, tmp_path_factory.mktemp(name))


def test_killed_workers_lose_and_repeat_no_step(new_site: Callable[[str], Installation]) -> None:
    order = ("run_episodes", "--experiment", "caffeine-hplc-analysis", "--attempts", "6", "--seed", "7")
    undisturbed = new_site("undisturbed")
    undisturbed.manage("migrate", "--verbosity", "0")
    undisturbed.manage("load_lab")
    disturbed = new_site("disturbed").copy_from(undisturbed)
    undisturbed.manage(*order, "--wait")
    disturbed.manage(*order)
    kills = sum(kill_a_worker(disturbed) for _ in range(KILLS))
    assert kills >= 3, "the workers finished before they could be killed: the test proved nothing"
    run_to_the_end(disturbed)
    assert disturbed.count_unfinished() == 0
    assert disturbed.steps() == undisturbed.steps()


def run_to_the_end(site: Installation) -> None:
    worker = site.worker()
    until = time.monotonic() + 120
    while site.count_unfinished() and time.monotonic() < until:
        time.sleep(0.05)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait_for_end(30) == 0, worker.read_log()


def kill_a_worker(site: Installation) -> bool:
    """Let a worker commit four more steps, then SIGKILL it. Return True if work was left."""
    before = site.count_steps()
    worker = site.worker()
    until = time.monotonic() + 60
    while site.count_unfinished() and time.monotonic() < until:
        if site.count_steps() >= before + 4:
            break
        time.sleep(0.01)
    worker.send_signal(signal.SIGKILL)
    worker.wait_for_end(20)
    return site.count_unfinished() > 0


def test_message_delivered_five_times_runs_one_unit_per_delivery_and_none_after_the_end(caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    episode = run.episodes.get()
    more = [run_one_unit("episode", episode.code) for _ in range(5)]
    assert more == [True] * 5  # one unit each: choose, answer, choose, answer, choose
    assert episode.transitions.count() == 2
    run_to_end(run)
    assert [run_one_unit("episode", episode.code) for _ in range(5)] == [False] * 5


def test_row_gets_no_second_message_until_the_first_is_overdue(caffeine: Experiment, settings) -> None:
    create.create_episode_run([caffeine], "offline", 2, seed=1)
    first = notifications.list_rows_to_notify()
    assert len(first) == 2
    for kind, code in first:
        workers.ROW_MODELS[kind].objects.filter(code=code).update(notified_at=timezone.now())
    assert notifications.list_rows_to_notify() == []
    settings.RING_AGAIN_SECONDS = 0  # as if the message had been lost long ago
    assert notifications.list_rows_to_notify() == first


def test_worker_is_registered_while_it_runs(db: None) -> None:
    assert not create.has_live_worker()
    with workers.worker_registered("embedded"):
        assert create.has_live_worker()
    assert Worker.objects.count() == 0


def test_dispatcher_does_not_count_as_a_worker(db: None) -> None:
    with workers.worker_registered("dispatcher"):
        assert not create.has_live_worker()


def test_dispatcher_sends_no_more_messages_after_the_broker_rejects_one(caffeine: Experiment) -> None:
    create.create_episode_run([caffeine], "offline", 3, seed=1)
    stop, offered = threading.Event(), []

    def refuse(kind: str, code: str) -> bool:
        offered.append(code)
        stop.set()
        return False

    notifications.run_dispatcher(stop, refuse, lambda: 0)
    assert len(offered) == 1


def lose_worker(*rows: Episode) -> None:
    """Let a worker die that had claimed these episodes."""
    for row in rows:
        assert leases.claim_row(Episode, row.code)
    Episode.objects.filter(pk__in=[row.pk for row in rows]).update(lease_until=timezone.now() - timedelta(seconds=1))


def test_rows_at_which_two_workers_died_run_one_at_a_time(
    caffeine: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer, neighbour, fresh = create.create_episode_run([caffeine], "offline", 3, seed=1).episodes.order_by("pk")
    lose_worker(killer, neighbour)
    lose_worker(killer, neighbour)
    beside: list[bool] = []

    def run_others_beside(lease: Lease[Episode]) -> bool:
        monkeypatch.undo()
        beside.extend(run_one_unit("episode", row.code) for row in (neighbour, fresh))
        return lease.release_between_units()

    monkeypatch.setattr(runner, "run_episode_unit", run_others_beside)
    run_one_unit("episode", killer.code)
    # The neighbour waits, and its count of deaths stays; other rows are not affected.
    assert beside == [False, True]
    neighbour.refresh_from_db()
    assert (neighbour.lost_leases, neighbour.lease_until) == (2, None) and neighbour.not_before is not None
    Episode.objects.filter(pk=neighbour.pk).update(not_before=None)
    # The killer's third death ends it alone, and the neighbour continues.
    lose_worker(killer)
    assert not run_one_unit("episode", killer.code) and run_one_unit("episode", neighbour.code)
    killer.refresh_from_db()
    neighbour.refresh_from_db()
    assert (killer.reason, neighbour.reason, neighbour.lost_leases) == ("worker_lost", "", 0)


@pytest.mark.django_db(transaction=True)
def test_command_that_runs_its_own_run_does_not_count_as_a_worker(caffeine: Experiment) -> None:
    run, seen = create.create_episode_run([caffeine], "offline", 1, seed=1), []
    workers.run_to_end(run, 1, lambda now: seen.append((now.is_finished, create.has_live_worker())))
    assert seen[0] == (False, False) and seen[-1] == (True, False)


@pytest.mark.django_db(transaction=True)
def test_command_survives_a_database_outage(caffeine: Experiment) -> None:
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    away = DatabaseOutage('SELECT "simulation_episode"."code"', times=2)
    with connection.execute_wrapper(away):
        workers.run_to_end(run, 1, lambda _: None)
    assert away.times == 0 and run.episodes.get().status == "submitted"


@pytest.mark.django_db(transaction=True)
def test_worker_repeats_a_heartbeat_that_failed(settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.1
    with (
        connection.execute_wrapper(DatabaseOutage('SELECT "simulation_worker"', times=1)),
        workers.worker_registered("embedded"),
    ):
        until = time.monotonic() + 10
        while not create.has_live_worker() and time.monotonic() < until:
            time.sleep(0.02)
        assert create.has_live_worker()


@pytest.mark.django_db(transaction=True)
def test_sweep_continues_after_an_exception_in_one_of_its_parts(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SWEEP_SECONDS = 0.02
    tried, often = [], threading.Event()

    def fail() -> None:
        tried.append(1)
        if len(tried) == 3:
            often.set()
        raise ValueError("a fault of its own")

    monkeypatch.setattr(workers, "_cleanups", [fail])
    monkeypatch.setattr(workers, "_next_cleanup_at", [0.0])
    with workers.periodic_sweep():
        assert often.wait(10)


@pytest.mark.django_db(transaction=True)
def test_worker_that_starts_during_a_database_outage_continues() -> None:
    stop, away = threading.Event(), DatabaseOutage('SELECT "simulation_job"."lease_owner"', times=1)
    stop.set()
    with connection.execute_wrapper(away):
        workers.run_worker(stop, 1)
    assert away.times == 0


@pytest.mark.django_db(transaction=True)
def test_celery_worker_polls_the_database_without_messages(caffeine: Experiment, settings, monkeypatch) -> None:
    monkeypatch.setattr(tasks, "_last_message_at", time.monotonic())
    settings.RING_AGAIN_SECONDS = 0.1
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    with tasks.poll_without_messages():
        until = time.monotonic() + 60
        while not create.get_progress(run).is_finished and time.monotonic() < until:
            time.sleep(0.05)
    assert run.episodes.get().status == "submitted"


@pytest.mark.django_db(transaction=True)
def test_celery_worker_does_not_poll_while_messages_arrive(caffeine: Experiment, settings, monkeypatch) -> None:
    monkeypatch.setattr(tasks, "_last_message_at", time.monotonic())
    settings.RING_AGAIN_SECONDS = 0.1
    run = create.create_episode_run([caffeine], "offline", 1, seed=1)
    with tasks.poll_without_messages():
        for _ in range(50):
            tasks.run_row("episode", "00000000-0000-0000-0000-000000000000")  # no such row
            time.sleep(0.02)
    assert run.episodes.get().status == "queued"
