"""python -m bench.rater_loop: ratings per second over HTTP, with every promise enforced, compared with the minimum possible work.

One rating is: fetch the next item, submit the answer. Journeys: `htmx`, whose reply contains the next item, and `plain`, which
redirects to it. gunicorn serves as in production (gthread, 2 processes with 8 threads) on two cores. The raters, without
think time and in a process of their own, use the same cores; each is signed in with a real session.

Baselines, with the same server, requests and database, in turn with the site: `least`, a minimal Django view that checks the
session, selects one row, inserts one and renders a page of a few lines, and `floor`, which renders the rater's own templates
each time. With `--peer otree`, oTree serves the same items in the same run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple
from urllib.error import URLError

from bench.peers import otree
from bench.services import ROOT, find_free_port, run_process, start_postgres

# Least share of the ratings per second of the least floor: for one rater, for more, and for the journey without scripts.
MIN_RATIO_ONE, MIN_RATIO, MIN_RATIO_PLAIN = 0.9, 0.7, 0.5
MIN_TIMES_PEER = 3.5  # times the ratings per second of oTree
RATINGS_PER_ROUND = 100  # ratings of each rater in one round
JOURNEYS = ("htmx", "plain")
READ_PAYLOADS = """
import json, sys, django
django.setup()
from ratings.models import Item
json.dump(list(Item.objects.order_by("pk").values_list("payload", flat=True)[:int(sys.argv[1])]), sys.stdout)
"""
SERVERS = {"site": "wetbench_site.wsgi", "floor": "bench.floor.wsgi", "least": "bench.floor.wsgi"}


class ServerProcess(NamedTuple):
    pid: int
    port: int

    def read_cpu_seconds(self) -> float:
        """Return the processor time of its workers in seconds."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        ticks = (Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13] for child in children)
        return sum(int(user) + int(system) for user, system in ticks) / os.sysconf("SC_CLK_TCK")


class RoundResult(NamedTuple):
    """One measurement; `cpu` (the server's workers) and `client` (the raters) are seconds."""

    ratings: int
    seconds: float
    cpu: float
    client: float
    milliseconds: list[float]


class LoopMeasurement(NamedTuple):
    """All rounds of one kind: ratings per second, milliseconds per request, milliseconds of processor time per rating."""

    rate: float
    median_time: float
    p95: float
    cpu: float
    client: float


def summarise_rounds(rounds: Sequence[RoundResult]) -> LoopMeasurement:
    times = [duration for result in rounds for duration in result.milliseconds]
    ratings = sum(result.ratings for result in rounds)
    return LoopMeasurement(
        rate=median(result.ratings / result.seconds for result in rounds),
        median_time=median(times),
        p95=quantiles(times, n=20)[-1],
        cpu=1000 * sum(result.cpu for result in rounds) / ratings,
        client=1000 * sum(result.client for result in rounds) / ratings,
    )


def compare_servers(
    database: str, raters: int, items: int, rounds: int, with_otree: bool
) -> Iterator[tuple[str, dict[str, LoopMeasurement]]]:
    """Yield for each journey the measurements of the site and both floors. The first round is a warm-up and not counted."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wetbench-loop-"))
        url = stack.enter_context(start_postgres("loop")).url if database == "PostgreSQL" else ""
        environ = build_environ(folder, url)
        visits = plan_visits(items, len(JOURNEYS) * (rounds + 1))
        plan = prepare_database(environ, raters, 1 + max(visit.study for visit in chain(*visits)), items)
        servers: dict[str, Any] = {
            name: stack.enter_context(start_server(environ, app)) for name, app in SERVERS.items() if name != "least"
        }
        servers["least"] = servers["floor"]
        if with_otree:
            otree_url = stack.enter_context(start_postgres("otree")).url if url else ""
            payloads = json.loads(run_command(environ, [sys.executable, "-c", READ_PAYLOADS, str(items)]))
            servers["otree"] = stack.enter_context(otree.start_otree(otree_url, payloads, raters))
        for turn, journey in enumerate(JOURNEYS):
            names = [name for name in servers if name != "otree" or journey == "plain"]  # oTree has no fragments
            results: dict[str, list[RoundResult]] = {name: [] for name in names}
            for number in range(rounds + 1):
                # The order alternates, so that no server always runs first.
                for name in names if number % 2 else reversed(names):
                    round_visits = visits[turn * (rounds + 1) + number]
                    rater_plans = [plan_rater(rater, name, n, items, round_visits) for n, rater in enumerate(plan)]
                    if name == "otree":
                        starts = servers[name].starts
                        rater_plans = [{"cookie": "", "starts": [s], "ratings": [RATINGS_PER_ROUND]} for s in starts]
                    results[name].append(run_round(servers[name], journey == "htmx", rater_plans))
            yield journey, {name: summarise_rounds(all_rounds[1:]) for name, all_rounds in results.items()}


class Visit(NamedTuple):
    """A study in which each rater gives this many ratings in one round."""

    study: int
    ratings: int


def plan_visits(items: int, rounds: int) -> list[list[Visit]]:
    """Return for each round the studies to visit. A study is left with an item to rate, so that every reply contains one."""
    per_study, visits = items - 1, list[list[Visit]]()
    if per_study >= RATINGS_PER_ROUND:
        in_one = per_study // RATINGS_PER_ROUND
        return [[Visit(number // in_one, RATINGS_PER_ROUND)] for number in range(rounds)]
    studies = -(-RATINGS_PER_ROUND // per_study)
    for number in range(rounds):
        visits.append([Visit(number * studies + study, per_study) for study in range(studies)])
    return visits


def plan_rater(rater: dict[str, Any], name: str, number: int, items: int, visits: Sequence[Visit]) -> dict[str, Any]:
    """Return a rater's cookie, start addresses and numbers of ratings. On the floors, raters start at different items."""
    cookie = f"wb_session={rater['site' if name == 'site' else 'floor']}"
    starts = [rater["starts"][v.study] if name == "site" else f"/{name}/{1 + items * number // 3}/" for v in visits]
    return {"cookie": cookie, "starts": starts, "ratings": [visit.ratings for visit in visits]}


def run_round(server: Any, htmx: bool, raters: list[dict[str, Any]]) -> RoundResult:
    before = server.read_cpu_seconds()
    plan = {"port": server.port, "htmx": htmx, "raters": raters}
    report = json.loads(run_command({}, [sys.executable, "-m", "bench.rater_clients"], json.dumps(plan)))
    return RoundResult(
        report["ratings"], report["seconds"], server.read_cpu_seconds() - before, report["cpu"], report["taken"]
    )


def build_environ(folder: str, url: str) -> dict[str, str]:
    """Return the servers' environment. The write limit is enforced, but above what raters without think time reach."""
    database = {"DATABASE_URL": url} if url else {}
    limits = {"WETBENCH_WRITES_PER_MINUTE": "1000000", "WETBENCH_LOG_LEVEL": "WARNING"}
    return {"DJANGO_SETTINGS_MODULE": "wetbench_site.settings", "WETBENCH_VAR_DIR": folder, **limits, **database}


def prepare_database(environ: dict[str, str], raters: int, studies: int, items: int) -> list[dict[str, Any]]:
    floor_environ = environ | {"DJANGO_SETTINGS_MODULE": "bench.floor.settings"}
    run_command(floor_environ, [sys.executable, "-m", "django", "migrate", "--run-syncdb", "--skip-checks", "-v", "0"])
    code = "import django; django.setup(); from bench import rater_rows; rater_rows.main()"
    plan: list[dict[str, Any]] = json.loads(
        run_command(environ, [sys.executable, "-c", code, str(raters), str(studies), str(items)])
    )
    return plan


@contextmanager
def start_server(environ: dict[str, str], application: str) -> Iterator[ServerProcess]:
    port = find_free_port()
    command = [
        sys.executable, "-m", "gunicorn", f"{application}:application", "-c", "python:wetbench_site.gunicorn_conf",
        "-b", f"127.0.0.1:{port}", "-w", "2", "--max-requests", "0", "--log-level", "warning",
    ]  # fmt: skip
    with run_process(command, cwd=ROOT, env=os.environ | environ) as running:
        for _ in range(200):
            if running.poll() is not None:
                sys.exit(f"the server of {application} ended with exit code {running.returncode}; its output is above")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=30).close()
                break
            except URLError:
                time.sleep(0.1)
        else:
            sys.exit(f"the server of {application} did not answer within 20 seconds")
        yield ServerProcess(running.pid, port)


def run_command(environ: dict[str, str], command: list[str], stdin_text: str = "") -> str:
    completed = subprocess.run(
        command, cwd=ROOT, env=os.environ | environ, input=stdin_text, stdout=subprocess.PIPE, text=True, check=False
    )
    if completed.returncode:
        sys.exit(f"{' '.join(command)[:100]} failed; its output is above")
    return completed.stdout


def get_least_ratio(raters: int, journey: str) -> float:
    """Return the least share of the least floor's ratings per second that the site has to reach."""
    if journey == "plain":
        return MIN_RATIO_PLAIN
    return MIN_RATIO_ONE if raters == 1 else MIN_RATIO


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.rater_loop", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="one round of two raters on SQLite, to check that it runs")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument(
        "--raters", type=int, action="append", help="measure only this number of raters (default: 1, 8 and 32)"
    )
    parser.add_argument("--items", type=int, action="append", help="items per rater (default: 1,000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--peer", choices=["otree"], help=f"compare with oTree as well; install it with {otree.INSTALL_COMMAND}"
    )
    args = parser.parse_args()
    if args.quick:
        args.database, args.raters, args.items, args.rounds = "sqlite", [2], [120], 1
    return args


def main() -> int:
    args = parse_arguments()
    head = f"{'':38}{'ratings/s':>10}{'of least':>9}{'of floor':>9}{'p50 ms':>8}{'p95 ms':>8}{'CPU ms':>8}{'client':>8}"
    print(head)
    missed, htmx_rate = [], 0.0
    if args.peer:
        otree.find_otree()  # exits with the command that installs it
    for database in ("SQLite", "PostgreSQL"):
        if args.database not in (database.lower(), "both"):
            continue
        for raters in args.raters or [1, 8, 32]:
            for items in args.items or [1000]:
                for journey, measured in compare_servers(database, raters, items, args.rounds, bool(args.peer)):
                    label = f"{database}, {raters} raters, {items} items, {journey}"
                    for name, one in measured.items():
                        print(f"{f'{label}, {name}':38}{format_measurement(one, measured)}", flush=True)
                    if measured["site"].rate < get_least_ratio(raters, journey) * measured["least"].rate:
                        missed.append(label)
                    # Of both, the journey that their own pages offer.
                    htmx_rate = measured["site"].rate if journey == "htmx" else htmx_rate
                    if "otree" in measured:
                        times = htmx_rate / measured["otree"].rate
                        print(
                            f"{label}: the site with htmx gives {times:.1f} times the ratings per second of oTree",
                            flush=True,
                        )
                        if raters == 8 and times < MIN_TIMES_PEER:
                            missed.append(f"{label}, times oTree")
    print(f"Aims missed: {'; '.join(missed) or 'none'}.")
    return 0 if args.quick else int(bool(missed))


def format_measurement(one: LoopMeasurement, measured: dict[str, LoopMeasurement]) -> str:
    ratios = "".join(f"{one.rate / measured[name].rate:9.2f}" for name in ("least", "floor"))
    return f"{one.rate:10.0f}{ratios}{one.median_time:8.1f}{one.p95:8.1f}{one.cpu:8.2f}{one.client:8.2f}"


if __name__ == "__main__":
    sys.exit(main())
