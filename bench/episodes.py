"""python -m bench.episodes: how well workers keep many episodes in progress while models think.

Starts PostgreSQL, Redis, the local model server, Celery workers and the dispatcher, and runs 1, 20, 100 and 200 episodes
at once, all with the same number of steps. The calls of an episode are sequential, so no run can be faster than

    the ideal = calls of the episode with the most calls x the server's latency

The results are the ratio of the wall time to the ideal, from queueing the episodes to the end of the last one, and the
processor time per step of workers, dispatcher, PostgreSQL and Redis together. The model server belongs to the benchmark: its
time is shown, and counted in neither. Exits with 1 if the largest number of episodes takes longer than 1.15 times the ideal,
or more than 25 ms of processor time per step.
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
from bench.processors import ProcessIds, ProcessorTimes
from bench.services import ROOT, ModelServer

MAX_RATIO = 1.15  # times the ideal
MAX_MILLISECONDS = 25.0  # of processor time per step
CAST = "bench"
EXPERIMENTS = 10  # number of different ones, so that prompts differ
WARM_UP = 20  # episodes run before measuring: imports, connections, and the ramp of the rate limit


class EpisodeMeasurement(NamedTuple):
    """The measurement for one number of concurrent episodes."""

    episodes: int
    ideal: float  # seconds
    wall: float
    steps: int
    calls: int
    cpu: ProcessorTimes
    queries: int
    transactions: int
    in_flight: int

    @property
    def ratio(self) -> float:
        return self.wall / self.ideal

    @property
    def milliseconds(self) -> float:
        """Return the processor time per step of everything but the model server."""
        return 1000 * self.cpu.product / self.steps

    def format_table_row(self) -> str:
        per_step = [1000 * seconds / self.steps for seconds in self.cpu]
        cells = [f"{self.episodes:8d}", f"{self.ideal:7.1f}", f"{self.wall:7.1f}", f"{self.ratio:6.3f}"]
        cells += [
            f"{self.steps:6d}",
            f"{self.calls:6d}",
            f"{self.milliseconds:8.1f}",
            *(f"{ms:8.1f}" for ms in per_step),
        ]
        cells += [f"{self.queries / self.steps:8.1f}", f"{self.transactions / self.steps:8.1f}", f"{self.in_flight:9d}"]
        return "  ".join(cells)


HEAD = (
    "episodes  ideal s   wall s   ratio   steps   calls    ms:all   workers      psql  dispatch     redis    models   queries  transact  in flight\n"
    "                                               per step                                                        per step  per step    at most"
)


@contextmanager
def start_laboratory(args: argparse.Namespace) -> Iterator[tuple[ProcessIds, ModelServer]]:
    """Start all services and workers. This process uses the same database as another user, whose queries are not counted."""
    with ExitStack() as stack:
        enter = stack.enter_context
        database, broker = enter(services.start_postgres("bench")), enter(services.start_redis())
        server = enter(services.start_model_server("--latency", str(args.latency), "--steps", str(args.steps)))
        var = enter(tempfile.TemporaryDirectory(prefix="wetbench-bench-var-"))
        # Start the rate limit at its maximum: its ramp affects only the first minute of a new site.
        rate_limit = {"WETBENCH_PROVIDER_CALLS": str(args.cap), "WETBENCH_PROVIDER_START": str(args.cap)}
        calls = {**rate_limit, "WETBENCH_LOG_LEVEL": "WARNING"}
        os.environ |= {"CELERY_BROKER_URL": broker.url, "WETBENCH_VAR_DIR": var, **calls, **server.build_environ()}
        prepare_database(database.url)
        env = {**os.environ, "DATABASE_URL": database.get_url_for("worker")}
        python, options = (
            [sys.executable, "-W", "ignore", "-m", "celery", "--quiet", "-A", "wetbench_site", "worker"],
            ["--pool", "threads"],
        )
        options += ["--concurrency", str(args.threads), "--without-gossip", "--without-mingle", "--loglevel", "error"]
        workers = [
            enter(services.run_process([*python, *options, "--hostname", f"worker-{number}"], cwd=ROOT, env=env)).pid
            for number in range(args.processes)
        ]
        dispatch = enter(services.run_process([sys.executable, "manage.py", "dispatch"], cwd=ROOT, env=env)).pid
        yield ProcessIds(workers, dispatch, database.pid, broker.pid, server.pid), server


def prepare_database(url: str) -> None:
    """Create the schema, load the data files and define a cast of two providers without further classifiers. Sets up Django in this process."""
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


def run_episodes(episodes: int, latency: float, processes: ProcessIds, server: ModelServer) -> EpisodeMeasurement:
    """Run this many episodes at once and measure them."""
    from django.db import connection
    from django.db.models import Count, Max
    from django.utils import timezone

    from simulation.models import Transition
    from simulation.runs import create

    server.reset_server()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_statements_reset()")
    experiments = create.get_experiments("all")[: min(EXPERIMENTS, episodes)]
    # Read processor times after the experiments are loaded, so that only the run counts.
    before, start = processors.read_processor_times(processes), timezone.now()
    run = create.create_episode_run(experiments, CAST, episodes // len(experiments), seed=episodes)
    while not create.get_progress(run).is_finished:
        if processors.has_exited(processes):
            sys.exit("a worker or the dispatcher exited unexpectedly; its output is above")
        time.sleep(0.5)
    cpu = processors.read_processor_times(processes).subtract(before)
    ended = run.episodes.aggregate(last=Max("ended_at"))["last"]
    check_run(run)
    calls_per_episode = list(run.calls.values("episode").annotate(n=Count("pk")).values_list("n", flat=True))
    steps = Transition.objects.filter(episode__run=run).count()
    queries, transactions = count_statements()
    in_flight = server.fetch_counters()["total"]["peak_in_flight"]
    # No wait between calls can be saved: the longest chain of calls is the lower bound.
    wall, ideal = (ended - start).total_seconds(), max(calls_per_episode) * latency
    return EpisodeMeasurement(
        run.episodes.count(), ideal, wall, steps, sum(calls_per_episode), cpu, queries, transactions, in_flight
    )


def check_run(run: Any) -> None:
    """Exit unless every episode was submitted and every call was answered at its first attempt."""
    not_submitted = run.episodes.exclude(status="submitted").values_list("status", "reason", "error")
    not_answered = run.calls.exclude(state="answered", attempt=1).values_list("state", "error_class", "error")
    if not_submitted or not_answered:
        sys.exit(
            f"{len(not_submitted)} episodes were not submitted, {len(not_answered)} calls were not answered: {[*not_submitted, *not_answered][:5]}"
        )


def count_statements() -> tuple[int, int]:
    """Return how many statements and COMMITs workers and dispatcher sent, as counted by the database."""
    from django.db import connection

    sql = "SELECT query, sum(calls) FROM pg_stat_statements WHERE userid = 'worker'::regrole GROUP BY query"
    with connection.cursor() as cursor:
        cursor.execute(sql)
        counts = {query: int(calls) for query, calls in cursor.fetchall()}
    if path := os.environ.get("BENCH_STATEMENTS"):  # optional: write the counts of all statements to this file
        ranked = sorted(counts.items(), key=lambda item: -item[1])
        Path(path).write_text("".join(f"{calls:8d}  {' '.join(query.split())[:300]}\n" for query, calls in ranked))
    transaction_commands = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET", "DEALLOCATE")
    total = sum(calls for query, calls in counts.items() if not query.upper().startswith(transaction_commands))
    return total, counts.get("COMMIT", 0)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.episodes")
    parser.add_argument("--sizes", default="1,20,100,200", help="numbers of concurrent episodes, separated by commas")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds until the server answers each call")
    parser.add_argument("--steps", type=int, default=10, help="steps per episode")
    parser.add_argument("--processes", type=int, default=2, help="Celery workers")
    parser.add_argument("--threads", type=int, default=200, help="threads of each worker")
    parser.add_argument("--cap", type=int, default=300, help="WETBENCH_PROVIDER_CALLS: concurrent calls with one key")
    return parser.parse_args()


def main() -> int:
    args = parse_options()
    sizes = [int(size) for size in args.sizes.split(",")]
    with start_laboratory(args) as (processes, server):
        run_episodes(WARM_UP, args.latency, processes, server)
        print(f"Episodes of {args.steps} steps on {os.cpu_count()} cores, latency {args.latency:g} s, {args.processes}")
        print(f"Celery workers with {args.threads} threads each, at most {args.cap} concurrent calls with one key.")
        print(
            "Baseline (ideal): the calls of the episode with the most calls, one after the other, at the server's latency."
        )
        print(HEAD, flush=True)
        for size in sizes:
            measured = run_episodes(size, args.latency, processes, server)
            print(measured.format_table_row(), flush=True)
    print(f"{measured.episodes} at once: {measured.ratio:.3f} times the ideal; the limit is {MAX_RATIO}.")
    print(f"Processor time per step: {measured.milliseconds:.1f} ms; the limit is {MAX_MILLISECONDS:g} ms.")
    return 1 if measured.ratio > MAX_RATIO or measured.milliseconds > MAX_MILLISECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
