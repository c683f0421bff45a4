"""python -m bench.rater_loop: ratings per second over HTTP, with every promise enforced, compared with the minimum possible work.

One rating is: fetch the next item, submit the answer. Journeys: `htmx`, whose reply contains the next item, and `plain`, which
redirects to it. gunicorn serves as in production (gthread, 2 processes with 8 threads) on two cores. The raters, without
think time and in a process of their own, use the same cores; each is signed in with a real session.

Baseline, with the same server, requests and database, in turn with the site: `floor`, a minimal Django view that checks the
session, selects one row, inserts one and renders the rater's own templates. `bare` renders nothing. The result is the ratio
to the floor: at least 0.7 of its ratings per second, and at most 1.5 times its 95th percentile of response times.
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
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple
from urllib.error import URLError

from bench.services import ROOT, find_free_port, run_process, start_postgres

MIN_RATE_RATIO, MAX_TIME_RATIO = 0.7, 1.5  # share of the floor's ratings per second; times the floor's 95th percentile
ITEMS_PER_RATER = 60  # items per rater in one study
JOURNEYS = ("htmx", "plain")
SERVERS = {"site": "wetbench_site.wsgi", "floor": "bench.floor.wsgi", "bare": "bench.floor.wsgi"}


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
    database: str, raters: int, rounds: int, studies: int
) -> Iterator[tuple[str, dict[str, LoopMeasurement]]]:
    """Yield for each journey the measurements of the site and both floors. The first round is a warm-up and not counted."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wetbench-loop-"))
        environ = build_environ(
            folder, stack.enter_context(start_postgres("loop")).url if database == "PostgreSQL" else ""
        )
        plan = prepare_database(environ, raters, studies * len(JOURNEYS) * (rounds + 1))
        servers = {
            name: stack.enter_context(start_server(environ, app)) for name, app in SERVERS.items() if name != "bare"
        }
        servers["bare"] = servers["floor"]
        for turn, journey in enumerate(JOURNEYS):
            results: dict[str, list[RoundResult]] = {name: [] for name in SERVERS}
            for number in range(rounds + 1):
                first = studies * (turn * (rounds + 1) + number)
                # The order alternates, so that no server always runs first.
                for name in SERVERS if number % 2 else reversed(SERVERS):
                    rater_plans = [plan_rater(rater, name, n, first, studies) for n, rater in enumerate(plan)]
                    results[name].append(run_round(servers[name], journey == "htmx", rater_plans))
            yield journey, {name: summarise_rounds(all_rounds[1:]) for name, all_rounds in results.items()}


def plan_rater(rater: dict[str, Any], name: str, number: int, first: int, studies: int) -> dict[str, Any]:
    """Return a rater's cookie and start addresses. On the floor, raters start at different items and continue by number."""
    cookie = f"wb_session={rater['site' if name == 'site' else 'floor']}"
    floor_starts = [f"/{name}/{1 + ITEMS_PER_RATER * number // 3 + n}/" for n in range(studies)]
    return {"cookie": cookie, "starts": rater["starts"][first : first + studies] if name == "site" else floor_starts}


def run_round(server: ServerProcess, htmx: bool, raters: list[dict[str, Any]]) -> RoundResult:
    before = server.read_cpu_seconds()
    plan = {"port": server.port, "htmx": htmx, "most": ITEMS_PER_RATER - 1, "raters": raters}
    report = json.loads(run_command({}, [sys.executable, "-m", "bench.rater_clients"], json.dumps(plan)))
    return RoundResult(
        report["ratings"], report["seconds"], server.read_cpu_seconds() - before, report["cpu"], report["taken"]
    )


def build_environ(folder: str, url: str) -> dict[str, str]:
    """Return the servers' environment. The write limit is enforced, but above what raters without think time reach."""
    database = {"DATABASE_URL": url} if url else {}
    limits = {"WETBENCH_WRITES_PER_MINUTE": "1000000", "WETBENCH_LOG_LEVEL": "WARNING"}
    return {"DJANGO_SETTINGS_MODULE": "wetbench_site.settings", "WETBENCH_VAR_DIR": folder, **limits, **database}


def prepare_database(environ: dict[str, str], raters: int, studies: int) -> list[dict[str, Any]]:
    floor_environ = environ | {"DJANGO_SETTINGS_MODULE": "bench.floor.settings"}
    run_command(floor_environ, [sys.executable, "-m", "django", "migrate", "--run-syncdb", "--skip-checks", "-v", "0"])
    code = "import django; django.setup(); from bench import rater_rows; rater_rows.main()"
    plan: list[dict[str, Any]] = json.loads(
        run_command(environ, [sys.executable, "-c", code, str(raters), str(studies), str(ITEMS_PER_RATER)])
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
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=30).close()
                break
            except URLError:
                time.sleep(0.1)
        yield ServerProcess(running.pid, port)


def run_command(environ: dict[str, str], command: list[str], stdin_text: str = "") -> str:
    completed = subprocess.run(
        command, cwd=ROOT, env=os.environ | environ, input=stdin_text, stdout=subprocess.PIPE, text=True, check=False
    )
    if completed.returncode:
        sys.exit(f"{' '.join(command)[:100]} failed; its output is above")
    return completed.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rater_loop", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="one round of two raters on SQLite, to check that it runs")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument(
        "--raters", type=int, action="append", help="measure only this number of raters (default: 1, 8 and 32)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rounds = 1 if args.quick else args.rounds
    print(f"{'':30}{'ratings/s':>10}{'ratio':>7}{'p50 ms':>8}{'p95 ms':>8}{'ratio':>7}{'CPU ms':>8}{'client':>8}")
    is_too_slow = False
    vendor = "sqlite" if args.quick else args.database
    for database in ("SQLite", "PostgreSQL"):
        if vendor not in (database.lower(), "both"):
            continue
        for raters in args.raters or ([2] if args.quick else [1, 8, 32]):
            for journey, measurements in compare_servers(
                database, raters, rounds, max(1, 0 if args.quick else 8 // raters)
            ):
                floor, site = measurements["floor"], measurements["site"]
                is_too_slow |= site.rate < MIN_RATE_RATIO * floor.rate or site.p95 > MAX_TIME_RATIO * floor.p95
                for name, measurement in measurements.items():
                    label = f"{database}, {raters:2}, {journey}, {name}"
                    rates = f"{measurement.rate:10.0f}{measurement.rate / floor.rate:7.2f}{measurement.median_time:8.1f}{measurement.p95:8.1f}"
                    print(
                        f"{label:30}{rates}{measurement.p95 / floor.p95:7.2f}{measurement.cpu:8.2f}{measurement.client:8.2f}",
                        flush=True,
                    )
    print(
        f"At least {MIN_RATE_RATIO} of the floor's ratings per second and at most {MAX_TIME_RATIO} times its p95: {'no' if is_too_slow else 'yes'}."
    )
    return 0 if args.quick else int(is_too_slow)


if __name__ == "__main__":
    sys.exit(main())
