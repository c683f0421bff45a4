"""make soak: a site in use, at full size, while all its parts are killed and restarted.

Twenty raters over HTTP and twenty episodes of language models at a time, on PostgreSQL, Redis, gunicorn and Celery workers of
its own. It prints one line a minute. At the end all invariants are checked and the report is written; the exit status is 1
if an invariant is violated, or if too little happened for the result to mean anything.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from simulation.scripted_server import spawned
from tests.support import disturbed
from tests.support.disturbed import CAPPED, ORDER, House
from tests.support.services import PostgresCluster, RedisServer
from tests.support.soaking import confirmed, report, rooms
from tests.support.soaking.rater import Rater
from tests.support.soaking.striking import Strikes
from tests.support.soaking.web import Web
from tests.support.warm_processes import Warm

HUNDRED = 100  # never reached: the models end an attempt long before
LONG = 25  # calls of an episode, one after another
# A minute for CI: intervals divided by twenty, fast models and fast raters.
SHORT = {
    "minutes": 1.0, "pace": 0.05, "latency": 0.5, "think": 1.0, "strike_every": 3.0, "workers": 2, "play_out": 120.0,
}  # fmt: skip


def options(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a minute, at the pace of the tests")
    parser.add_argument("--minutes", type=float, default=10, help="of failures; remaining episodes are then finished")
    parser.add_argument("--raters", type=int, default=20)
    parser.add_argument("--think", type=float, default=2.0, help="seconds a rater thinks, on average")
    parser.add_argument("--pace", type=float, default=1.0, help="WETBENCH_PACE: 0.05 is what the tests run at")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds before each answer of a model")
    parser.add_argument("--episodes", type=int, default=20, help="at a time")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--threads", type=int, default=32, help="of each worker")
    parser.add_argument("--strike-every", type=float, default=8.0, help="seconds between two failures, on average")
    parser.add_argument(
        "--play-out", type=float, default=1800.0, help="maximum seconds for the remaining episodes to end"
    )
    parser.add_argument("--seed", type=int, default=4, help="of the times and targets of failures")
    parser.add_argument("--report", type=Path, default=Path("var/soak"), help="folder for soak-report.md and .json")
    if parser.parse_args(given).short:
        parser.set_defaults(**SHORT)
    return parser.parse_args(given)


class Site(NamedTuple):
    """Everything that runs, and the raters."""

    house: House
    raters: list[Rater]
    strikes: Strikes
    stop: threading.Event


class Verified(NamedTuple):
    """The result of `manage.py verify`."""

    checks: int
    rows: int
    findings: list[Any]


def main() -> int:
    told = options()
    with laboratory(told) as site:
        soak(site, told)
        print(f"{told.minutes:g} minutes are over; finishing what is left", flush=True)
        violations = end(site, told)
        verify_result = verified(site.house)
        if verify_result.findings:
            violations["manage.py verify found something"] = verify_result.findings
        full_report = report.document(
            asked(told), site.raters, site.strikes.counts, played(site, verify_result), violations
        )
    page = report.write(told.report, full_report)
    print(f"{report.text(full_report)}\nThis report is in {page}.")
    return bool(violations)


def asked(told: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(told).items() if name not in ("short", "report")}


def played(site: Site, seen: Verified) -> dict[str, Any]:
    return {
        "episodes": played_out(site.house),
        "calls of models": dict(site.house.calls()),
        "web server started again": site.strikes.web.restarts,
        "verified": f"{seen.checks} checks of `manage.py verify` over {seen.rows:,} rows",
    }


@contextmanager
def laboratory(told: argparse.Namespace) -> Iterator[Site]:
    with (
        tempfile.TemporaryDirectory(prefix="wetbench-soak-") as folder,
        PostgresCluster.started() as cluster,
        RedisServer.started() as broker,
        spawned("--latency", str(told.latency)) as server,
    ):
        environment = {
            **os.environ,
            **server.environ(),
            "DATABASE_URL": f"postgres://postgres@127.0.0.1:{cluster.port}/soak",
            "CELERY_BROKER_URL": broker.url,
            "WETBENCH_VAR_DIR": folder,
            "TMPDIR": folder,  # killed processes leave their temporary files
            "WETBENCH_PACE": str(told.pace),
        }
        with (
            Warm.started(environment) as warm,
            disturbed.opened(warm, cluster, "soak", "", server, Path(folder)) as house,
        ):
            disturbed.furnish(house, HUNDRED)
            web, stop = Web(warm, "soak", Path(folder)), threading.Event()
            try:
                web.until_answers()
                yield at_work(house, web, cluster, broker, told, stop)
            finally:
                stop.set()
                web.stop()


def at_work(
    house: House,
    web: Web,
    cluster: PostgresCluster,
    broker: RedisServer,
    told: argparse.Namespace,
    stop: threading.Event,
) -> Site:
    """Start workers, dispatcher and raters, each rater in its own thread."""
    items = int(told.minutes * 60 / told.think) + 10
    raters = rooms.taken(house, web.site, told.raters, items, (told.think / 2, told.think * 1.5), told.seed, stop)
    workers = [house.worker(told.threads) for _ in range(told.workers)]
    strikes = Strikes(house, web, cluster, broker, workers, house.dispatcher(), random.Random(told.seed))
    for rater in raters:
        threading.Thread(target=rater.work, name=rater.seat, daemon=True).start()
    return Site(house, raters, strikes, stop)


def soak(site: Site, told: argparse.Namespace) -> None:
    """Inject failures until the time is over. About as many episodes as requested are always in progress, except near the end: episodes
    started then would only prolong the soak test.
    """
    house, rng, start, minutes = site.house, random.Random(told.seed), time.monotonic(), 0
    while (elapsed := time.monotonic() - start) < told.minutes * 60:
        has_time = told.minutes * 60 - elapsed > LONG * told.latency
        if has_time and (missing := max(told.episodes - house.unended(), 0)):
            house.manage(*ORDER, *CAPPED, "--attempts", str(missing))
        if elapsed >= 60 * (minutes + 1):
            minutes += 1
            print(f"minute {minutes}: {line(site)}", flush=True)
        time.sleep(rng.uniform(0, 2 * told.strike_every))
        site.strikes.strike()


def end(site: Site, told: argparse.Namespace) -> dict[str, Any]:
    """Let raters and episodes finish, and return all violations."""
    house = site.house
    site.stop.set()
    for thread in [t for t in threading.enumerate() if t.name in {rater.seat for rater in site.raters}]:
        thread.join()
    violations = too_little(site)
    try:
        house.until_ended(told.play_out)
    except AssertionError as timeout:
        exit_statuses = {process.pid: process.poll() for process in (*site.strikes.workers, site.strikes.dispatcher)}
        violations["episodes did not end in time"] = (
            f"{timeout}\nExit status of workers and dispatcher, None while running: {exit_statuses}"
        )
    violations |= disturbed.wrong(house)
    events, ratings = (confirmed.rows(house.rows, sql) for sql in (confirmed.EVENTS, confirmed.RATINGS))
    violations |= confirmed.wrong(list(site.raters[0].journal.entries()), events, ratings)
    violations |= report.wrong(report.gathered(site.raters))
    if unexplained := site.strikes.calls_lost_otherwise():
        violations["lost calls are not those that were under way when a worker was killed"] = unexplained
    return violations


def too_little(site: Site) -> dict[str, Any]:
    """Return why this soak test means nothing even without violations: raters without answers, kinds of failure that never happened."""
    idle_raters = [rater.seat for rater in site.raters if not rater.counts.confirmed]
    stuck = [] if site.house.steps() else ["all of them"]
    missing = {
        "raters never had an answer confirmed": idle_raters,
        "kinds of failure that were never injected": site.strikes.never(),
        "episodes made no step": stuck,
    }
    return {name: details for name, details in missing.items() if details}


def verified(house: House) -> Verified:
    process = house.start("manage.py", "verify", "--json", log="verify")
    status, output = process.wait(600), process.log.read_text()
    checks = json.loads(output[output.index("{\n") :])["checks"]
    findings = [(check["name"], check["findings"]) for check in checks if check["findings"]]
    assert bool(findings) == bool(status), output
    return Verified(len(checks), sum(check["rows"] for check in checks), findings)


def played_out(house: House) -> int:
    return house.number("select count(*) from simulation_episode where ended_at is not null")


def line(site: Site) -> str:
    totals, calls = report.gathered(site.raters), sorted(site.house.calls().items())
    call_counts = ", ".join(f"{number} {state}" for state, number in calls)
    strikes = sum(site.strikes.counts.values())
    return f"{totals.confirmed} answers confirmed, {totals.retries} retries, {played_out(site.house)} episodes ended, {strikes} failures, calls: {call_counts or 'none yet'}"


if __name__ == "__main__":
    sys.exit(main())
