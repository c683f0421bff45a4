"""python -m bench.episodes: how well workers keep many episodes under way while models think.

Starts PostgreSQL, Redis, the local model server, Celery workers and the dispatcher, and plays 1, 20, 100 and 200 episodes
at once, all of the same number of steps. The calls of an episode follow one another, so no run can be faster than

    the ideal = calls of the episode that made most of them x the server's latency

What counts is the wall time over it: from the moment the episodes are queued until the last one has ended. Ends with 1
if the largest number of episodes takes longer than 1.15 times the ideal.
"""

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import processors, services
from bench.processors import Processes, Spent
from bench.services import ROOT, ModelServer

AIM = 1.15
CAST = "bench"
EXPERIMENTS = 10  # different ones that are played, so that prompts are not all alike
WARM_UP = 20  # episodes played before anything is measured: imports, connections, and the limiter's way up


class Measured(NamedTuple):
    """One number of episodes at once."""

    episodes: int
    ideal: float  # seconds
    wall: float
    steps: int
    calls: int
    cpu: Spent
    queries: int
    transactions: int
    in_flight: int

    @property
    def ratio(self) -> float:
        return self.wall / self.ideal

    def line(self) -> str:
        per_step = (1000 * seconds / self.steps for seconds in self.cpu)
        cells = [f"{self.episodes:8d}", f"{self.ideal:7.1f}", f"{self.wall:7.1f}", f"{self.ratio:6.3f}"]
        cells += [f"{self.steps:6d}", f"{self.calls:6d}", *(f"{spent:8.1f}" for spent in per_step)]
        cells += [f"{self.queries / self.steps:8.1f}", f"{self.transactions / self.steps:8.1f}", f"{self.in_flight:9d}"]
        return "  ".join(cells)


HEAD = (
    "episodes  ideal s   wall s  ratio   steps   calls  ms:work.  ms:psql  ms:other   queries  transact.  in flight\n"
    "                                                      per step  per step  per step  per step   per step   at most"
)


@contextmanager
def laboratory(given: argparse.Namespace) -> Iterator[tuple[Processes, ModelServer]]:
    """All services and workers; this process's Django speaks to the same database as another user."""
    with ExitStack() as stack:
        begin = stack.enter_context
        database, broker = begin(services.postgres("bench")), begin(services.redis())
        server = begin(services.model_server("--latency", str(given.latency), "--steps", str(given.steps)))
        var = begin(tempfile.TemporaryDirectory(prefix="wetbench-bench-var-"))
        # The limiter begins where it would be after a while: its way up belongs to the first minute of a laboratory's life.
        gate = {"WETBENCH_PROVIDER_CALLS": str(given.cap), "WETBENCH_PROVIDER_START": str(given.cap)}
        calls = {**gate, "WETBENCH_LOG_LEVEL": "WARNING"}
        os.environ |= {"CELERY_BROKER_URL": broker.url, "WETBENCH_VAR_DIR": var, **calls, **server.environ()}
        _prepare(database.url)
        env = {**os.environ, "DATABASE_URL": database.for_user("worker")}
        python, options = (
            [sys.executable, "-W", "ignore", "-m", "celery", "--quiet", "-A", "wetbench_site", "worker"],
            ["--pool", "threads"],
        )
        options += ["--concurrency", str(given.threads), "--without-gossip", "--without-mingle", "--loglevel", "error"]
        workers = [
            begin(services.process([*python, *options, "--hostname", f"worker-{number}"], cwd=ROOT, env=env)).pid
            for number in range(given.processes)
        ]
        dispatch = begin(services.process([sys.executable, "manage.py", "dispatch"], cwd=ROOT, env=env)).pid
        yield Processes(workers, dispatch, database.pid, broker.pid, server.pid), server


def _prepare(url: str) -> None:
    """The schema, the data files, and a cast of two providers without a panel; in this process from now on."""
    os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "wetbench_site.settings"}
    import django
    from django.core.management import call_command

    django.setup()
    from django.db import connection

    from simulation.models import CastDefinition

    call_command("migrate", verbosity=0)
    call_command("load_lab", stdout=io.StringIO())
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION pg_stat_statements")
        cursor.execute("CREATE ROLE worker SUPERUSER LOGIN")
    paper = CastDefinition.objects.get(name="paper").data
    CastDefinition.objects.create(name=CAST, data={**paper, "name": CAST, "panel": []})


def play(episodes: int, latency: float, processes: Processes, server: ModelServer) -> Measured:
    """Play so many episodes at once and measure them."""
    from django.db import connection
    from django.db.models import Count, Max
    from django.utils import timezone

    from simulation.models import Transition
    from simulation.runs import queueing

    server.reset()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_statements_reset()")
    chosen = queueing.experiments_named("all")[: min(EXPERIMENTS, episodes)]
    before, began = processors.spent(processes), timezone.now()
    run = queueing.queue_episodes(chosen, CAST, episodes // len(chosen), seed=episodes)
    while not queueing.progress(run).finished:
        if processors.ended(processes):
            sys.exit("a worker or the dispatcher ended by itself; what it said stands above")
        time.sleep(0.5)
    cpu = processors.spent(processes).since(before)
    ended = run.episodes.aggregate(last=Max("ended_at"))["last"]
    _check(run)
    made = list(run.calls.values("episode").annotate(n=Count("pk")).values_list("n", flat=True))
    steps = Transition.objects.filter(episode__run=run).count()
    queries, transactions = _statements()
    in_flight = server.counters()["total"]["peak_in_flight"]
    wall, ideal = (ended - began).total_seconds(), max(made) * latency
    return Measured(run.episodes.count(), ideal, wall, steps, sum(made), cpu, queries, transactions, in_flight)


def _check(run: Any) -> None:
    """Ends the benchmark unless every episode was played to its submission, and every call answered once."""
    bad = run.episodes.exclude(status="submitted").values_list("status", "reason", "error")
    lost = run.calls.exclude(state="answered", attempt=1).values_list("state", "error_class", "error")
    if bad or lost:
        sys.exit(f"{len(bad)} episodes were not submitted, {len(lost)} calls were not answered: {[*bad, *lost][:5]}")


def _statements() -> tuple[int, int]:
    """What workers and dispatcher asked of the database, by its own count: statements, and COMMITs of several."""
    from django.db import connection

    told = "SELECT query, sum(calls) FROM pg_stat_statements WHERE userid = 'worker'::regrole GROUP BY query"
    with connection.cursor() as cursor:
        cursor.execute(told)
        counted = {query: int(calls) for query, calls in cursor.fetchall()}
    if where := os.environ.get("BENCH_STATEMENTS"):  # a file for whoever wants to know which
        ranked = sorted(counted.items(), key=lambda item: -item[1])
        Path(where).write_text("".join(f"{calls:8d}  {' '.join(query.split())[:300]}\n" for query, calls in ranked))
    around = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET", "DEALLOCATE")
    asked = sum(calls for query, calls in counted.items() if not query.upper().startswith(around))
    return asked, counted.get("COMMIT", 0)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.episodes")
    parser.add_argument("--sizes", default="1,20,100,200", help="episodes at once, by comma")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds before each answer of the server")
    parser.add_argument("--steps", type=int, default=10, help="steps of every episode")
    parser.add_argument("--processes", type=int, default=2, help="Celery workers")
    parser.add_argument("--threads", type=int, default=200, help="of each of them")
    parser.add_argument("--cap", type=int, default=300, help="WETBENCH_PROVIDER_CALLS: calls at once with one key")
    return parser.parse_args()


def main() -> int:
    given = options()
    sizes = [int(size) for size in given.sizes.split(",")]
    with laboratory(given) as (processes, server):
        play(WARM_UP, given.latency, processes, server)
        print(
            f"Episodes of {given.steps} steps on {os.cpu_count()} cores, latency {given.latency:g} s, {given.processes}"
        )
        print(f"Celery workers with {given.threads} threads each, at most {given.cap} calls at once with one key.")
        print(
            "Baseline (ideal): the calls of the episode that made most, one after the other, at the server's latency."
        )
        print(HEAD, flush=True)
        for size in sizes:
            measured = play(size, given.latency, processes, server)
            print(measured.line(), flush=True)
    print(f"{measured.episodes} at once: {measured.ratio:.3f} of the ideal; the aim is {AIM}.")
    return 1 if measured.ratio > AIM else 0


if __name__ == "__main__":
    sys.exit(main())
