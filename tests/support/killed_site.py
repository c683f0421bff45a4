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

from tests.support.episode_invariants import VIOLATION_QUERIES
from tests.support.model_server import Server
from tests.support.services import PostgresCluster
from tests.support.warm_processes import ForkedProcess, PreloadedProcess

EXPERIMENT = "zebrafish-genotyping"
CELERY = ("celery", "worker", "--pool", "threads", "--without-gossip", "--without-mingle", "--loglevel", "error")
CREATE_CAST = "import tests.support.model_casts; tests.support.model_casts.create_cast(panel=('another-judge',))"
VERIFY = (
    "import json; from simulation.calls import run_usage; from simulation.models import Run\n"
    "print('HELD', json.dumps([[str(part) for part in run_usage.check_budget_counters(run)] for run in Run.objects.exclude(kind='code')]))"
)
RUN_EPISODES = (
    "run_episodes",
    "--experiment",
    EXPERIMENT,
    "--cast",
    "model_cast_server",
    "--seed",
    "7",
    "--skip-checks",
)
WITH_BUDGET = ("--max-cost", "1000", "--max-tokens", "1000000000")

MAX_LOST_LEASES = 3  # this many workers killed in a row at one step end an episode
CALLS = "select count(*) from simulation_modelcall"
# A lease's owner is host:pid:token.
WORKERS_WITH_LEASES = """
    select split_part(lease_owner, ':', 2), max(lost_leases) from (
        select lease_owner, lost_leases from simulation_episode where lease_until is not null union all
        select lease_owner, lost_leases from simulation_codeepisode where lease_until is not null) held group by 1"""
COUNT_CALLS_IN_PROGRESS = """
    select count(*) from simulation_modelcall c join simulation_episode e on e.id = c.episode_id and e.fence = c.fence
    where c.state = 'started' and split_part(e.lease_owner, ':', 2) = %(pid)s::text"""
CALLS_IN_PROGRESS = COUNT_CALLS_IN_PROGRESS.replace("count(*)", "c.id")


class KillCounts(NamedTuple):
    """The effect of killing workers."""

    workers: int = 0
    calls: int = 0  # in progress when their workers were killed
    call_ids: frozenset[int] = frozenset()  # primary keys of these calls


@dataclass
class RunningSite:
    """A database of the cluster, and the processes that work on it."""

    warm: PreloadedProcess
    cluster: PostgresCluster
    database: str
    server: Server
    folder: Path
    processes: list[ForkedProcess] = field(default_factory=list)
    connection: "psycopg.Connection[tuple[Any, ...]] | None" = None

    @property
    def database_url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.cluster.port}/{self.database}"

    def start_process(self, *command: str, log: str = "log") -> ForkedProcess:
        process = self.warm.fork_command(self.database, self.folder / f"{self.database}.{log}", *command)
        self.processes.append(process)
        return process

    def run_command(self, *command: str, seconds: float = 120) -> str:
        """Run a management command, which must succeed, and return its output."""
        process = self.start_process("manage.py", *command, log=f"command{len(self.processes)}")
        assert process.wait_for_end(seconds) == 0, process.read_log()
        return process.log.read_text(errors="replace")

    def start_dispatcher(self) -> ForkedProcess:
        return self.start_process("manage.py", "dispatch", "--skip-checks")

    def start_worker(self, threads: int = 8) -> ForkedProcess:
        return self.start_process(*CELERY, "--concurrency", str(threads))

    def stop_processes(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
        for process in self.processes:
            process.wait_for_end(20)
        if self.connection is not None:
            self.connection.close()

    def select_rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a query. The connection is renewed once if the database was restarted."""
        try:
            return self._connect().execute(query, values).fetchall()
        except psycopg.OperationalError:
            return self._connect().execute(query, values).fetchall()

    def _connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        if self.connection is None or self.connection.closed:
            self.connection = psycopg.connect(self.database_url, autocommit=True)
        return self.connection

    def select_number(self, query: str, **values: Any) -> int:
        return int(self.select_rows(query, **values)[0][0])

    def count_unfinished_episodes(self) -> int:
        return self.select_number("select count(*) from simulation_episode where ended_at is null")

    def count_calls_by_state(self) -> Counter[str]:
        return Counter(dict(self.select_rows("select state, count(*) from simulation_modelcall group by state")))

    def list_steps_by_replicate(self) -> dict[int, list[tuple[int, str]]]:
        """Return {replicate: [(number, digest of the content)]} in the order of storing."""
        steps: dict[int, list[tuple[int, str]]] = {}
        for replicate, number, digest in self.select_rows(
            "select e.replicate, t.number, t.content_sha256 from simulation_transition t "
            "join simulation_episode e on e.id = t.episode_id order by e.replicate, t.id"
        ):
            steps.setdefault(replicate, []).append((number, digest))
        return steps

    def wait_until(self, condition: Callable[[], object], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not reached within {seconds} s: {self.describe_state()}"
            time.sleep(0.02)

    def wait_until_finished(self, seconds: float = 90) -> None:
        self.wait_until(lambda: not self.count_unfinished_episodes(), seconds)
        self.wait_until(
            lambda: not self.count_calls_by_state()["started"], 20
        )  # the sweep marks calls of killed workers as lost

    def describe_state(self) -> str:
        episodes = self.select_rows("select status, phase, reason, error, lost_leases from simulation_episode")
        return f"{Counter(episodes)}\n{self.count_calls_by_state()}\n" + "\n".join(
            path.read_text(errors="replace")[-2000:] for path in self.folder.glob(f"{self.database}.log")
        )


@contextmanager
def run_site(
    warm: PreloadedProcess, cluster: PostgresCluster, name: str, template: str, server: Server, folder: Path
) -> Iterator[RunningSite]:
    """Copy a database and yield a site on it. All of its processes end with the block."""
    with psycopg.connect(f"postgres://postgres@127.0.0.1:{cluster.port}/postgres", autocommit=True) as database:
        database.execute(f"create database {name}" + (f" template {template}" if template else ""))
    server.reset_all()
    site = RunningSite(warm, cluster, name, server, folder)
    try:
        yield site
    finally:
        site.stop_processes()


def load_small_site(house: RunningSite, max_steps: int) -> None:
    """Load the laboratory and a cast of language models, and limit all experiments to a few steps."""
    house.run_command("migrate", "--verbosity", "0", "--skip-checks")
    house.run_command("load_lab", "--skip-checks")
    house.run_command("shell", "--no-imports", "-c", CREATE_CAST)
    house.select_rows("update simulation_experiment set max_steps = %(most)s returning 1", most=max_steps)


def find_violations(house: RunningSite) -> dict[str, Any]:
    """Return all violations of invariants once every episode has ended, each with the rows that show it."""
    violations: dict[str, Any] = {
        name: rows for name, query in VIOLATION_QUERIES.items() if (rows := house.select_rows(query))
    }
    calls, counters = house.count_calls_by_state(), house.server.get_counters()["total"]
    n_replied = calls["answered"] + calls["fenced"]
    # A call of a stopped worker can run out of time before its request was sent.
    n_most = n_replied + calls["failed"] + calls["lost"]
    if not n_replied <= counters["sent"] <= counters["requests"] <= n_most:
        violations["the call log does not cover what the server sent"] = (calls, counters)
    if not (output := re.search(r"HELD (.*)", house.run_command("shell", "--no-imports", "-c", VERIFY))):
        violations["the reserved budget was not printed"] = output
    elif differences := [
        held for held in json.loads(output[1]) if held[0] != held[1] or held[2] != held[3] or held[0] == "0"
    ]:
        violations["the reserved budget differs from the call log"] = differences
    return violations


def run_with_kills(
    house: RunningSite, workers: list[ForkedProcess], rng: random.Random, max_kills: int, pause: float
) -> KillCounts:
    """Kill a worker up to `most` times: each time after one to four further calls and a random pause."""
    killed = KillCounts()
    while killed.workers < max_kills and house.count_unfinished_episodes():
        threshold = house.select_number(CALLS) + rng.randint(1, 4)
        house.wait_until(
            lambda threshold=threshold: house.select_number(CALLS) >= threshold or not house.count_unfinished_episodes()
        )
        time.sleep(rng.uniform(0, pause))
        killed = kill_busy_worker(house, workers, rng, killed)
    return killed


def kill_busy_worker(
    house: RunningSite, workers: list[ForkedProcess], rng: random.Random, before: KillCounts
) -> KillCounts:
    """Send SIGKILL to a worker that has work, start another at once, and count the calls it had in progress.

    Never kill the third worker in a row at the same step: that would end the episode as "worker lost", which is another rule.
    """
    protected = [worker for worker in workers if max_lost_leases(house, worker) >= MAX_LOST_LEASES - 1]
    if not (victims := [worker for worker in workers if worker not in protected]):
        return before
    victim = rng.choice(victims)
    victim.send_signal(signal.SIGSTOP)
    time.sleep(0.02)  # its last statement reaches the database
    if (
        max_lost_leases(house, victim) >= MAX_LOST_LEASES - 1
    ):  # it has just claimed a step at which two others were killed
        victim.send_signal(signal.SIGCONT)
        return before
    victim.send_signal(signal.SIGKILL)
    assert victim.wait_for_end(20) == -signal.SIGKILL
    workers[workers.index(victim)] = house.start_worker()
    calls = {call for (call,) in house.select_rows(CALLS_IN_PROGRESS, pid=victim.pid)}
    return KillCounts(before.workers + 1, before.calls + len(calls), before.call_ids | calls)


def max_lost_leases(house: RunningSite, worker: ForkedProcess) -> int:
    """Return the highest number of lost leases among the rows of this worker, or the limit if it has none."""
    return int(dict(house.select_rows(WORKERS_WITH_LEASES)).get(str(worker.pid), MAX_LOST_LEASES))
