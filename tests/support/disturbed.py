"""A site that plays episodes while workers are killed and services fail, and the invariants to check afterwards."""

import json
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from simulation.scripted_server import Server
from tests.support.never import WRONG
from tests.support.services import PostgresCluster
from tests.support.warm_processes import Forked, Warm

EXPERIMENT = "zebrafish-genotyping"
CELERY = ("celery", "worker", "--pool", "threads", "--without-gossip", "--without-mingle", "--loglevel", "error")
CAST = "import tests.support.speakers; tests.support.speakers.cast(panel=('another-judge',))"
VERIFY = (
    "import json; from simulation.calls import spending; from simulation.models import Run\n"
    "print('HELD', json.dumps([[str(part) for part in spending.verify(run)] for run in Run.objects.all()]))"
)
ORDER = ("run_episodes", "--experiment", EXPERIMENT, "--cast", "talkers", "--seed", "7", "--skip-checks")
CAPPED = ("--max-cost", "1000", "--max-tokens", "1000000000")

ALLOWED = 3  # this many workers killed in a row at one step end an episode
CALLS = "select count(*) from simulation_modelcall"
# A lease's owner is host:pid:token.
HOLDERS = """
    select split_part(lease_owner, ':', 2), max(lost_leases) from simulation_episode
    where lease_until is not null group by 1"""
UNDER_WAY = """
    select count(*) from simulation_modelcall c join simulation_episode e on e.id = c.episode_id and e.fence = c.fence
    where c.state = 'started' and split_part(e.lease_owner, ':', 2) = %(pid)s::text"""
WHICH_UNDER_WAY = UNDER_WAY.replace("count(*)", "c.id")


class Killed(NamedTuple):
    """The effect of killing workers."""

    workers: int = 0
    calls: int = 0  # in progress when their workers were killed
    which: frozenset[int] = frozenset()  # primary keys of these calls


@dataclass
class House:
    """A database of the cluster, and the processes that work on it."""

    warm: Warm
    cluster: PostgresCluster
    database: str
    server: Server
    folder: Path
    processes: list[Forked] = field(default_factory=list)
    line: "psycopg.Connection[tuple[Any, ...]] | None" = None

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.cluster.port}/{self.database}"

    def start(self, *command: str, log: str = "log") -> Forked:
        process = self.warm.start(self.database, self.folder / f"{self.database}.{log}", *command)
        self.processes.append(process)
        return process

    def manage(self, *command: str, seconds: float = 120) -> str:
        """Run a management command, which must succeed, and return its output."""
        process = self.start("manage.py", *command, log=f"command{len(self.processes)}")
        assert process.wait(seconds) == 0, process.said()
        return process.log.read_text(errors="replace")

    def dispatcher(self) -> Forked:
        return self.start("manage.py", "dispatch", "--skip-checks")

    def worker(self, threads: int = 8) -> Forked:
        return self.start(*CELERY, "--concurrency", str(threads))

    def stop(self) -> None:
        for process in self.processes:
            process.signal(signal.SIGKILL)
        for process in self.processes:
            process.wait(20)
        if self.line is not None:
            self.line.close()

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a query. The connection is renewed once if the database was restarted."""
        try:
            return self._connected().execute(query, values).fetchall()
        except psycopg.OperationalError:
            return self._connected().execute(query, values).fetchall()

    def _connected(self) -> "psycopg.Connection[tuple[Any, ...]]":
        if self.line is None or self.line.closed:
            self.line = psycopg.connect(self.url, autocommit=True)
        return self.line

    def number(self, query: str, **values: Any) -> int:
        return int(self.rows(query, **values)[0][0])

    def unended(self) -> int:
        return self.number("select count(*) from simulation_episode where ended_at is null")

    def calls(self) -> Counter[str]:
        return Counter(dict(self.rows("select state, count(*) from simulation_modelcall group by state")))

    def steps(self) -> dict[int, list[tuple[int, str]]]:
        """Return {replicate: [(number, digest of the content)]} in the order of storing."""
        steps: dict[int, list[tuple[int, str]]] = {}
        for replicate, number, digest in self.rows(
            "select e.replicate, t.number, t.content_sha256 from simulation_transition t "
            "join simulation_episode e on e.id = t.episode_id order by e.replicate, t.id"
        ):
            steps.setdefault(replicate, []).append((number, digest))
        return steps

    def until(self, reached: Callable[[], object], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, f"not reached within {seconds} s: {self.state()}"
            time.sleep(0.02)

    def until_ended(self, seconds: float = 90) -> None:
        self.until(lambda: not self.unended(), seconds)
        self.until(lambda: not self.calls()["started"], 20)  # the sweep marks calls of killed workers as lost

    def state(self) -> str:
        episodes = self.rows("select status, phase, reason, error, lost_leases from simulation_episode")
        return f"{Counter(episodes)}\n{self.calls()}\n" + "\n".join(
            path.read_text(errors="replace")[-2000:] for path in self.folder.glob(f"{self.database}.log")
        )


@contextmanager
def opened(warm: Warm, cluster: PostgresCluster, name: str, like: str, server: Server, folder: Path) -> Iterator[House]:
    """Copy a database and yield a site on it. All of its processes end with the block."""
    with psycopg.connect(f"postgres://postgres@127.0.0.1:{cluster.port}/postgres", autocommit=True) as database:
        database.execute(f"create database {name}" + (f" template {like}" if like else ""))
    server.reset()
    site = House(warm, cluster, name, server, folder)
    try:
        yield site
    finally:
        site.stop()


def furnish(house: House, max_steps: int) -> None:
    """Load the laboratory and a cast of language models, and limit all experiments to a few steps."""
    house.manage("migrate", "--verbosity", "0", "--skip-checks")
    house.manage("load_lab", "--skip-checks")
    house.manage("shell", "--no-imports", "-c", CAST)
    house.rows("update simulation_experiment set max_steps = %(most)s returning 1", most=max_steps)


def wrong(house: House) -> dict[str, Any]:
    """Return all violations of invariants once every episode has ended, each with the rows that show it."""
    violations: dict[str, Any] = {name: rows for name, query in WRONG.items() if (rows := house.rows(query))}
    calls, counters = house.calls(), house.server.counters()["total"]
    n_paid, n_lost = calls["answered"] + calls["fenced"] + calls["failed"], calls["lost"]
    if not n_paid <= counters["sent"] <= counters["requests"] <= n_paid + n_lost:
        violations["the call log does not cover what the server sent"] = (calls, counters)
    if not (output := re.search(r"HELD (.*)", house.manage("shell", "--no-imports", "-c", VERIFY))):
        violations["the reserved budget was not printed"] = output
    elif differences := [
        held for held in json.loads(output[1]) if held[0] != held[1] or held[2] != held[3] or held[0] == "0"
    ]:
        violations["the reserved budget differs from the call log"] = differences
    return violations


def play_with_killings(house: House, workers: list[Forked], chance: random.Random, most: int, pause: float) -> Killed:
    """Kill a worker up to `most` times: each time after one to four further calls and a random pause."""
    killed = Killed()
    while killed.workers < most and house.unended():
        threshold = house.number(CALLS) + chance.randint(1, 4)
        house.until(lambda threshold=threshold: house.number(CALLS) >= threshold or not house.unended())
        time.sleep(chance.uniform(0, pause))
        killed = kill_one(house, workers, chance, killed)
    return killed


def kill_one(house: House, workers: list[Forked], chance: random.Random, before: Killed) -> Killed:
    """Send SIGKILL to a worker that has work, start another at once, and count the calls it had in progress.

    Never kill the third worker in a row at the same step: that would end the episode as "worker lost", which is another rule.
    """
    protected = [worker for worker in workers if most_lost(house, worker) >= ALLOWED - 1]
    if not (victims := [worker for worker in workers if worker not in protected]):
        return before
    victim = chance.choice(victims)
    victim.signal(signal.SIGSTOP)
    time.sleep(0.02)  # its last statement reaches the database
    if most_lost(house, victim) >= ALLOWED - 1:  # it has just claimed a step at which two others were killed
        victim.signal(signal.SIGCONT)
        return before
    victim.signal(signal.SIGKILL)
    assert victim.wait(20) == -signal.SIGKILL
    workers[workers.index(victim)] = house.worker()
    calls = {call for (call,) in house.rows(WHICH_UNDER_WAY, pid=victim.pid)}
    return Killed(before.workers + 1, before.calls + len(calls), before.which | calls)


def most_lost(house: House, worker: Forked) -> int:
    """Return the highest number of lost leases among the rows of this worker, or the limit if it has none."""
    return int(dict(house.rows(HOLDERS)).get(str(worker.pid), ALLOWED))
