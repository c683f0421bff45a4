"""Workers as processes: killed at any instruction, no step is lost or doubled."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from tests_support import Away, play_out

from simulation import queueing, workers
from simulation.models import Experiment, Worker

KILLS = 6


class Installation:
    """A site of its own in a folder: SQLite, no broker, driven by commands as a user would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "WETBENCH_VAR_DIR": str(folder),
            "WETBENCH_PACE": "0.02",
            "WETBENCH_LOG_LEVEL": "ERROR",
        }
        for name in ("DATABASE_URL", "CELERY_BROKER_URL"):
            self.env.pop(name, None)

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=settings.BASE_DIR,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def worker(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "manage.py", "work", "--threads", "2"]
        return subprocess.Popen(command, cwd=settings.BASE_DIR, env=self.env, stdout=subprocess.DEVNULL)

    def rows(self, query: str) -> list[tuple]:
        with sqlite3.connect(f"file:{self.folder / 'wetbench.sqlite3'}?mode=ro", uri=True, timeout=20) as database:
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

    def unended(self) -> int:
        return self.rows("select count(*) from simulation_episode where ended_at is null")[0][0]


def test_killed_workers_lose_and_double_no_step(tmp_path_factory: pytest.TempPathFactory) -> None:
    order = ("run_episodes", "--experiment", "caffeine-hplc-analysis", "--attempts", "6", "--seed", "7")
    disturbed, undisturbed = (Installation(tmp_path_factory.mktemp(name)) for name in ("disturbed", "undisturbed"))
    for site in (disturbed, undisturbed):
        site.manage("migrate", "--verbosity", "0")
        site.manage("load_lab")
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
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0


def kill_a_worker(site: Installation) -> bool:
    """Let a worker commit four more steps, then SIGKILL it. True if work was left to do."""
    before = sum(len(steps) for steps in site.steps().values())
    worker = site.worker()
    until = time.monotonic() + 60
    while site.unended() and time.monotonic() < until:
        if sum(len(steps) for steps in site.steps().values()) >= before + 4:
            break
        time.sleep(0.005)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
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
