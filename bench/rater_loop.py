"""python -m bench.rater_loop: ratings a second over HTTP, with every promise in force, against the least that could be done.

One rating is: fetch the next item, send the answer. Journeys: `htmx`, whose answer brings the next item with it, and
`plain`, which is sent there. gunicorn serves as in production (gthread, 2 processes with 8 threads) on two cores, which the
raters, without think time and in a process of their own, share with it; each is signed in by a real session.

Baseline, with the same server, requests and database, in turn with the site: `floor`, a minimal Django view that checks the
session, selects one row, inserts one and renders the rater's own templates. `bare` renders nothing. What counts is the
ratio to the floor: at least 0.7 of its ratings a second, and at most 1.5 times the time within which 95 % of requests end.
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

from bench.services import ROOT, free_port, postgres, process

LEAST, MOST = 0.7, 1.5  # of the floor's ratings a second; times the floor's 95th percentile
ITEMS = 60  # of a study for one rater
JOURNEYS = ("htmx", "plain")
SERVERS = {"site": "wetbench_site.wsgi", "floor": "bench.floor.wsgi", "bare": "bench.floor.wsgi"}


class Server(NamedTuple):
    pid: int
    port: int

    def cpu(self) -> float:
        """Seconds of processor its workers have taken."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        ticks = (Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13] for child in children)
        return sum(int(user) + int(system) for user, system in ticks) / os.sysconf("SC_CLK_TCK")


class Round(NamedTuple):
    """One measurement; `cpu` of the server's workers and `client` of the raters are seconds."""

    ratings: int
    seconds: float
    cpu: float
    client: float
    taken: list[float]


class Measured(NamedTuple):
    """All rounds of one kind: ratings a second, milliseconds of a request, milliseconds of processor for a rating."""

    rate: float
    middle: float
    late: float
    cpu: float
    client: float


def measured(rounds: Sequence[Round]) -> Measured:
    taken = [one for each in rounds for one in each.taken]
    ratings = sum(each.ratings for each in rounds)
    return Measured(
        rate=median(each.ratings / each.seconds for each in rounds),
        middle=median(taken),
        late=quantiles(taken, n=20)[-1],
        cpu=1000 * sum(each.cpu for each in rounds) / ratings,
        client=1000 * sum(each.client for each in rounds) / ratings,
    )


def compare(database: str, raters: int, rounds: int, studies: int) -> Iterator[tuple[str, dict[str, Measured]]]:
    """For each journey what was measured of the site and both floors, in turn; the first round is not counted."""
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="wetbench-loop-"))
        environ = _environ(folder, held.enter_context(postgres("loop")).url if database == "PostgreSQL" else "")
        plan = _prepare(environ, raters, studies * len(JOURNEYS) * (rounds + 1))
        servers = {name: held.enter_context(_server(environ, app)) for name, app in SERVERS.items() if name != "bare"}
        servers["bare"] = servers["floor"]
        for turn, journey in enumerate(JOURNEYS):
            found: dict[str, list[Round]] = {name: [] for name in SERVERS}
            for number in range(rounds + 1):
                first = studies * (turn * (rounds + 1) + number)
                for name in SERVERS if number % 2 else reversed(SERVERS):
                    own = [_rater(rater, name, n, first, studies) for n, rater in enumerate(plan)]
                    found[name].append(_play(servers[name], journey == "htmx", own))
            yield journey, {name: measured(every[1:]) for name, every in found.items()}


def _rater(rater: dict[str, Any], name: str, number: int, first: int, studies: int) -> dict[str, Any]:
    """The floor's raters begin at different items, and go on by their numbers."""
    cookie = f"wb_session={rater['site' if name == 'site' else 'floor']}"
    floors = [f"/{name}/{1 + ITEMS * number // 3 + n}/" for n in range(studies)]
    return {"cookie": cookie, "starts": rater["starts"][first : first + studies] if name == "site" else floors}


def _play(server: Server, htmx: bool, raters: list[dict[str, Any]]) -> Round:
    before = server.cpu()
    plan = {"port": server.port, "htmx": htmx, "most": ITEMS - 1, "raters": raters}
    done = json.loads(_run({}, [sys.executable, "-m", "bench.rater_clients"], json.dumps(plan)))
    return Round(done["ratings"], done["seconds"], server.cpu() - before, done["cpu"], done["taken"])


def _environ(folder: str, url: str) -> dict[str, str]:
    """Of the servers: a limit on writes is in force, and above what raters without think time reach."""
    chosen = {"DATABASE_URL": url} if url else {}
    limits = {"WETBENCH_WRITES_PER_MINUTE": "1000000", "WETBENCH_LOG_LEVEL": "WARNING"}
    return {"DJANGO_SETTINGS_MODULE": "wetbench_site.settings", "WETBENCH_VAR_DIR": folder, **limits, **chosen}


def _prepare(environ: dict[str, str], raters: int, studies: int) -> list[dict[str, Any]]:
    floor = environ | {"DJANGO_SETTINGS_MODULE": "bench.floor.settings"}
    _run(floor, [sys.executable, "-m", "django", "migrate", "--run-syncdb", "--skip-checks", "-v", "0"])
    make = "import django; django.setup(); from bench import rater_rows; rater_rows.main()"
    plan: list[dict[str, Any]] = json.loads(
        _run(environ, [sys.executable, "-c", make, str(raters), str(studies), str(ITEMS)])
    )
    return plan


@contextmanager
def _server(environ: dict[str, str], application: str) -> Iterator[Server]:
    port = free_port()
    command = [
        sys.executable, "-m", "gunicorn", f"{application}:application", "-c", "python:wetbench_site.gunicorn_conf",
        "-b", f"127.0.0.1:{port}", "-w", "2", "--max-requests", "0", "--log-level", "warning",
    ]  # fmt: skip
    with process(command, cwd=ROOT, env=os.environ | environ) as started:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=30).close()
                break
            except URLError:
                time.sleep(0.1)
        yield Server(started.pid, port)


def _run(environ: dict[str, str], command: list[str], given: str = "") -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environ, input=given, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)[:100]} failed; what it said stands above")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rater_loop", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="one round of two raters on SQLite: to see that it runs")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--raters", type=int, action="append", help="as many alone; else 1, 8 and 32")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    rounds = 1 if asked.quick else asked.rounds
    print(f"{'':30}{'ratings/s':>10}{'ratio':>7}{'p50 ms':>8}{'p95 ms':>8}{'ratio':>7}{'CPU ms':>8}{'client':>8}")
    fell_short = False
    wanted = "sqlite" if asked.quick else asked.database
    for database in ("SQLite", "PostgreSQL"):
        if wanted not in (database.lower(), "both"):
            continue
        for raters in asked.raters or ([2] if asked.quick else [1, 8, 32]):
            for journey, found in compare(database, raters, rounds, max(1, 0 if asked.quick else 8 // raters)):
                floor, site = found["floor"], found["site"]
                fell_short |= site.rate < LEAST * floor.rate or site.late > MOST * floor.late
                for name, one in found.items():
                    label = f"{database}, {raters:2}, {journey}, {name}"
                    rates = f"{one.rate:10.0f}{one.rate / floor.rate:7.2f}{one.middle:8.1f}{one.late:8.1f}"
                    print(f"{label:30}{rates}{one.late / floor.late:7.2f}{one.cpu:8.2f}{one.client:8.2f}", flush=True)
    print(
        f"At least {LEAST} of the floor's ratings a second and at most {MOST} times its p95: {'no' if fell_short else 'yes'}."
    )
    return 0 if asked.quick else int(fell_short)


if __name__ == "__main__":
    sys.exit(main())
