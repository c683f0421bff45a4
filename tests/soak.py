"""make soak: a site in use, at full size, while all its parts are killed and restarted.

Twenty raters over HTTP, twenty episodes of language models and ten code episodes of rules at a time, on PostgreSQL, Redis, gunicorn
and Celery workers of its own. It prints one line a minute. At the end all invariants are checked and the report is written; the exit status is 1
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

from tests.support import code_invariants, code_worlds, killed_site
from tests.support.killed_site import RUN_EPISODES, WITH_BUDGET, RunningSite
from tests.support.model_server import run_in_process
from tests.support.services import PostgresCluster, RedisServer
from tests.support.soaking import answer_checks, report, soak_studies
from tests.support.soaking.failures import FailureInjector
from tests.support.soaking.rater import SoakRater
from tests.support.soaking.web_server import WebServer
from tests.support.warm_processes import PreloadedProcess

MAX_STEPS = 100  # never reached: the models end an attempt long before
CALLS_PER_EPISODE = 25  # calls of an episode, one after another
CODE_EPISODES = "select count(*) from simulation_codeepisode"
SANDBOXES = "select count(*) from simulation_sandboxrun"
RUN_CODE = ("run_code", "--task", code_worlds.TASK, "--cast", "offline-oracle-lapses", "--seed", "7", "--skip-checks")
# A minute for CI: intervals divided by twenty, fast models and fast raters.
SHORT = {
    "minutes": 1.0, "code_episodes": 4, "pace": 0.05, "latency": 0.5, "think": 1.0, "strike_every": 3.0, "workers": 2, "play_out": 120.0,
}  # fmt: skip


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a minute, at the pace of the tests")
    parser.add_argument("--minutes", type=float, default=10, help="of failures; remaining episodes are then finished")
    parser.add_argument("--raters", type=int, default=20)
    parser.add_argument("--think", type=float, default=2.0, help="seconds a rater thinks, on average")
    parser.add_argument("--pace", type=float, default=1.0, help="WETBENCH_PACE: 0.05 is what the tests run at")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds before each answer of a model")
    parser.add_argument("--episodes", type=int, default=20, help="at a time")
    parser.add_argument("--code-episodes", type=int, default=10, help="at a time; rules play them, in sandboxes")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--threads", type=int, default=32, help="of each worker")
    parser.add_argument("--strike-every", type=float, default=8.0, help="seconds between two failures, on average")
    parser.add_argument(
        "--play-out", type=float, default=1800.0, help="maximum seconds for the remaining episodes to end"
    )
    parser.add_argument("--seed", type=int, default=4, help="of the times and targets of failures")
    parser.add_argument("--report", type=Path, default=Path("var/soak"), help="folder for soak-report.md and .json")
    if parser.parse_args(arguments).short:
        parser.set_defaults(**SHORT)
    return parser.parse_args(arguments)


class SoakSite(NamedTuple):
    """Everything that runs, and the raters."""

    running_site: RunningSite
    raters: list[SoakRater]
    failures: FailureInjector
    stop: threading.Event


class VerifyResult(NamedTuple):
    """The result of `manage.py verify`."""

    checks: int
    rows: int
    findings: list[Any]


def main() -> int:
    told = parse_options()
    with run_laboratory(told) as site:
        inject_failures(site, told)
        print(f"{told.minutes:g} minutes are over; finishing what is left", flush=True)
        violations = finish_and_check(site, told)
        verify_result = run_verify(site.running_site)
        if verify_result.findings:
            violations["manage.py verify found something"] = verify_result.findings
        full_report = report.build_report(
            describe_options(told), site.raters, site.failures.counts, describe_work(site, verify_result), violations
        )
    page = report.write_report(told.report, full_report)
    print(f"{report.format_report(full_report)}\nThis report is in {page}.")
    return bool(violations)


def describe_options(told: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(told).items() if name not in ("short", "report")}


def describe_work(site: SoakSite, seen: VerifyResult) -> dict[str, Any]:
    return {
        "episodes": count_finished_episodes(site.running_site),
        "code episodes": site.running_site.select_number(f"{CODE_EPISODES} where ended_at is not null"),
        "calls of models": dict(site.running_site.count_calls_by_state()),
        "web server started again": site.failures.web.restarts,
        "verified": f"{seen.checks} checks of `manage.py verify` over {seen.rows:,} rows",
    }


@contextmanager
def run_laboratory(told: argparse.Namespace) -> Iterator[SoakSite]:
    with (
        tempfile.TemporaryDirectory(prefix="wetbench-soak-") as folder,
        PostgresCluster.run_cluster() as cluster,
        RedisServer.run_server() as broker,
        run_in_process("--latency", str(told.latency)) as server,
    ):
        environment = {
            **os.environ,
            **server.get_environ(),
            "DATABASE_URL": f"postgres://postgres@127.0.0.1:{cluster.port}/soak",
            "CELERY_BROKER_URL": broker.url,
            "WETBENCH_VAR_DIR": folder,
            "TMPDIR": folder,  # killed processes leave their temporary files
            "WETBENCH_PACE": str(told.pace),
        }
        with (
            PreloadedProcess.run_process(environment) as warm,
            killed_site.run_site(warm, cluster, "soak", "", server, Path(folder)) as house,
        ):
            killed_site.load_small_site(house, MAX_STEPS)
            house.run_command("shell", "--no-imports", "-c", code_worlds.CREATE_WORLD)
            web, stop = WebServer(warm, "soak", Path(folder)), threading.Event()
            try:
                web.wait_until_ready()
                yield start_load(house, web, cluster, broker, told, stop)
            finally:
                stop.set()
                web.stop_server()


def start_load(
    house: RunningSite,
    web: WebServer,
    cluster: PostgresCluster,
    broker: RedisServer,
    told: argparse.Namespace,
    stop: threading.Event,
) -> SoakSite:
    """Start workers, dispatcher and raters, each rater in its own thread."""
    items = int(told.minutes * 60 / told.think) + 10
    raters = soak_studies.create_raters(
        house, web.base_url, told.raters, items, (told.think / 2, told.think * 1.5), told.seed, stop
    )
    workers = [house.start_worker(told.threads) for _ in range(told.workers)]
    strikes = FailureInjector(house, web, cluster, broker, workers, house.start_dispatcher(), random.Random(told.seed))
    for rater in raters:
        threading.Thread(target=rater.rate_until_stopped, name=rater.rater, daemon=True).start()
    return SoakSite(house, raters, strikes, stop)


def inject_failures(site: SoakSite, told: argparse.Namespace) -> None:
    """Inject failures until the time is over. About as many episodes as requested are always in progress, except near the end: episodes
    started then would only prolong the soak test.
    """
    house, rng, start, minutes = site.running_site, random.Random(told.seed), time.monotonic(), 0
    while (elapsed := time.monotonic() - start) < told.minutes * 60:
        has_time = told.minutes * 60 - elapsed > CALLS_PER_EPISODE * told.latency
        if has_time and (missing := max(told.episodes - house.count_unfinished_episodes(), 0)):
            house.run_command(*RUN_EPISODES, *WITH_BUDGET, "--attempts", str(missing))
        if has_time and (missing := max(told.code_episodes - count_unfinished_code_episodes(house), 0)):
            house.run_command(*RUN_CODE, "--validate", "--attempts", str(missing))
        if elapsed >= 60 * (minutes + 1):
            minutes += 1
            print(f"minute {minutes}: {format_progress(site)}", flush=True)
        time.sleep(rng.uniform(0, 2 * told.strike_every))
        site.failures.inject_next()


def finish_and_check(site: SoakSite, told: argparse.Namespace) -> dict[str, Any]:
    """Let raters and episodes finish, and return all violations."""
    house = site.running_site
    site.stop.set()
    for thread in [t for t in threading.enumerate() if t.name in {rater.rater for rater in site.raters}]:
        thread.join()
    violations = find_missing_activity(site)
    try:
        house.wait_until_finished(told.play_out)
        house.wait_until(lambda: not count_unfinished_code_episodes(house), told.play_out)
        # The sweep marks the sandboxes of killed workers as lost.
        house.wait_until(lambda: not house.select_number(f"{SANDBOXES} where state = 'started'"), 60)
    except AssertionError as timeout:
        exit_statuses = {
            process.pid: process.get_exit_status() for process in (*site.failures.workers, site.failures.dispatcher)
        }
        violations["episodes did not end in time"] = (
            f"{timeout}\nExit status of workers and dispatcher, None while running: {exit_statuses}"
        )
    violations |= killed_site.find_violations(house)
    violations |= code_invariants.find_row_violations(house.select_rows)
    events, ratings = (
        answer_checks.select_answers(house.select_rows, sql) for sql in (answer_checks.EVENTS, answer_checks.RATINGS)
    )
    violations |= answer_checks.find_wrong_answers(list(site.raters[0].journal.iter_entries()), events, ratings)
    violations |= report.find_visible_errors(report.sum_counts(site.raters))
    if unexplained := site.failures.find_unexplained_calls():
        violations["lost calls are not those that were under way when a worker was killed"] = unexplained
    return violations


def find_missing_activity(site: SoakSite) -> dict[str, Any]:
    """Return why this soak test means nothing even without violations: raters without answers, kinds of failure that never happened."""
    idle_raters = [rater.rater for rater in site.raters if not rater.counts.confirmed]
    stuck_code = [] if site.running_site.select_number("select count(*) from simulation_codestep") else ["all of them"]
    stuck = [] if site.running_site.list_steps_by_replicate() else ["all of them"]
    missing = {
        "raters never had an answer confirmed": idle_raters,
        "kinds of failure that were never injected": site.failures.list_missing_kinds(),
        "episodes made no step": stuck,
        "code episodes made no step": stuck_code,
    }
    return {name: details for name, details in missing.items() if details}


def run_verify(house: RunningSite) -> VerifyResult:
    process = house.start_process("manage.py", "verify", "--json", log="verify")
    status, output = process.wait_for_end(600), process.log.read_text()
    checks = json.loads(output[output.index("{\n") :])["checks"]
    findings = [(check["name"], check["findings"]) for check in checks if check["findings"]]
    assert bool(findings) == bool(status), output
    return VerifyResult(len(checks), sum(check["rows"] for check in checks), findings)


def count_finished_episodes(house: RunningSite) -> int:
    return house.select_number("select count(*) from simulation_episode where ended_at is not null")


def count_unfinished_code_episodes(house: RunningSite) -> int:
    return house.select_number(f"{CODE_EPISODES} where ended_at is null")


def format_progress(site: SoakSite) -> str:
    totals, calls = report.sum_counts(site.raters), sorted(site.running_site.count_calls_by_state().items())
    call_counts = ", ".join(f"{number} {state}" for state, number in calls)
    strikes = sum(site.failures.counts.values())
    return f"{totals.confirmed} answers confirmed, {totals.retries} retries, {count_finished_episodes(site.running_site)} episodes ended, {strikes} failures, calls: {call_counts or 'none yet'}"


if __name__ == "__main__":
    sys.exit(main())
