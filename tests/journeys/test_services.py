"""A complete site on PostgreSQL, Redis, a real web server and real Celery workers: from creating runs to the CSV."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.conf import settings

from simulation.engine import notifications
from tests.support import migrated_databases
from tests.support.services import PostgresCluster, RedisServer, find_free_port
from tests.support.visitor import Page, Visitor
from tests.support.warm_processes import ForkedProcess, PreloadedProcess

pytestmark = pytest.mark.services

PROTOCOL = {
    "name": "Services",
    "slug": "services",
    "kind": "transition_plausibility",
    "sources": [
        {"cast": "offline", "perturbation": "none", "count": 6},
        {"cast": "offline", "perturbation": "obvious", "count": 3},
        {"cast": "offline", "perturbation": "subtle", "count": 3},
    ],
    "experiments": ["caffeine-hplc-analysis"],
    "ratings_per_item": 2,
    "raters": 4,
    "practice": 0,
    "seed": 3,
}


CELERY = ("celery", "worker", "--pool", "threads", "--concurrency", "2", "--loglevel", "error")


class ServiceSite:
    """A site in its own processes. Its commands are forked from one process that has everything imported."""

    def __init__(self, folder: Path, database: str, broker: str, pace: float) -> None:
        self.folder, self.port = folder, find_free_port()
        self.env = {
            **os.environ,
            "DATABASE_URL": database,
            "CELERY_BROKER_URL": broker,
            "WETBENCH_VAR_DIR": str(folder),
            "WETBENCH_PACE": str(pace),
        }
        self.database = database.rpartition("/")[2] if database.startswith("postgres") else str(folder / "site.sqlite3")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.forked = 0

    @contextmanager
    def run_site(self) -> Iterator["ServiceSite"]:
        """Migrate, load the laboratory, and yield; everything that runs ends with the block."""
        with PreloadedProcess.run_process(self.env) as self.warm:
            self.run_command("migrate", "--verbosity", "0")
            self.run_command("load_lab")
            yield self
            self.stop_services()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run_command(self, *arguments: str) -> str:
        process = self.fork_command("manage.py", *arguments)
        assert process.wait_for_end(120) == 0, f"{arguments}: {process.read_log()}"
        return process.log.read_text()

    def fork_command(self, *command: str) -> ForkedProcess:
        """Run a command in its own process, without waiting for it."""
        self.forked += 1
        return self.warm.fork_command(self.database, self.folder / f"{self.forked}.log", *command)

    def start_services(self) -> None:
        """Start web server and worker as `make serve` and `make worker` do."""
        gunicorn = ["-m", "gunicorn", "wetbench_site.wsgi", "--bind", f"127.0.0.1:{self.port}", "--threads", "4"]
        for arguments in (gunicorn, ["manage.py", "worker", "--threads", "2"]):
            log = (self.folder / f"{arguments[1]}.log").open("wb")
            command = [sys.executable, *arguments]
            self.processes.append(
                subprocess.Popen(command, cwd=settings.BASE_DIR, env=self.env, stdout=log, stderr=subprocess.STDOUT)
            )

    def stop_services(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(40)

    def read_logs(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))


@pytest.fixture
def laboratory(postgres: PostgresCluster, redis_server: RedisServer, tmp_path: Path) -> Iterator[ServiceSite]:
    with ServiceSite(
        tmp_path, migrated_databases.create_postgres_database(postgres, "journey"), redis_server.url, 0.2
    ).run_site() as site:
        site.start_services()
        yield site


def test_site_with_all_services_works_from_runs_to_the_exported_csv(
    laboratory: ServiceSite, redis_server: RedisServer
) -> None:
    laboratory.run_command("createsuperuser", "--username", "boss", "--email", "boss@example.org", "--noinput")
    link = re.search(r"http://\S+", laboratory.run_command("sign_in_link", "boss", "--url", laboratory.base_url))
    assert link
    admin = Visitor(laboratory.base_url)
    wait_until_ready(admin, link[0])

    form = admin.get("/episodes/new/")
    run = admin.submit_form(form, experiments="caffeine-hplc-analysis", cast="offline", replicates="2", seed="1")
    assert run.status == 200 and "/runs/" in run.url
    redis_server.stop()  # all messages are lost, and none can be sent for a while
    time.sleep(1)
    redis_server.start()
    wait_until_shown(admin, run.url, "2 of 2", laboratory)

    twins = admin.get("/twins/new/")
    twin_run = admin.submit_form(
        twins, experiments="caffeine-hplc-analysis", cast="offline", error="both", per_transition="1"
    )
    assert "/runs/" in twin_run.url
    wait_until_finished(admin, twin_run.url, laboratory)

    document = laboratory.folder / "protocol.json"
    document.write_text(json.dumps(PROTOCOL))
    links = re.findall(
        r"http://\S+/r/\S+/",
        laboratory.run_command("create_study", str(document), "--open", "--raters", "4", "--url", laboratory.base_url),
    )
    assert len(links) == 4
    assert rate_everything(Visitor(laboratory.base_url), links[0]) == 6  # 12 items, 2 ratings each, 4 raters

    laboratory.run_command(
        "simulate_raters",
        "services",
        "--raters",
        "3",
        "--sensitivity-obvious",
        ".9",
        "--sensitivity-subtle",
        ".3",
        "--seed",
        "1",
    )
    laboratory.run_command("unblind", "services", "--by", "boss")
    dashboard = admin.get("/studies/services/")
    assert dashboard.status == 200 and "simulated" in dashboard.text and "95% interval" in dashboard.text
    # The page requested the analysis with its resamples and figures, and the Celery worker does that job too.
    wait_until_shown(admin, "/studies/services/", "2,000 resamples", laboratory)
    wait_until_shown(admin, "/studies/services/", "<svg", laboratory)

    exported = admin.get("/studies/services/ratings.csv")
    rows = list(csv.DictReader(io.StringIO(exported.text.removeprefix("\ufeff"))))
    assert len(rows) == 24
    output = laboratory.run_command("export_ratings", "services").splitlines()  # the output includes log lines
    csv_output = [line for line in output if "wetbench.security" not in line]
    assert exported.text.removeprefix("\ufeff").splitlines() == csv_output
    assert {row["perturbation"] for row in rows} == {"none", "obvious", "subtle"}
    pairs_by_rater = [(row["rater"], row["pair"]) for row in rows]
    assert len(pairs_by_rater) == len(set(pairs_by_rater)), "a rater was given two versions of one transition"


STEPS = """
select e.replicate, t.number, t.content_sha256 from simulation_transition t
join simulation_episode e on e.id = t.episode_id order by e.replicate, t.id
"""
COUNT_UNFINISHED = "select count(*) from simulation_episode where ended_at is null"


def test_offline_run_with_killed_celery_workers_loses_and_doubles_no_step(
    postgres: PostgresCluster, redis_server: RedisServer, tmp_path: Path
) -> None:
    order = ("run_episodes", "--experiment", "caffeine-hplc-analysis", "--attempts", "4", "--seed", "7")
    steps_by_run, url = {}, migrated_databases.create_postgres_database(postgres, "undisturbed")
    # At this pace a dead worker's lease runs out after 1.2 s.
    with ServiceSite(tmp_path, url, redis_server.url, pace=0.02).run_site() as site:
        disturbed_url = postgres.create_database("disturbed", template="undisturbed")
        site.run_command(*order, "--wait")
        steps_by_run["undisturbed"] = select_steps(url)
        site.database = "disturbed"
        site.run_command(*order)
        with psycopg.connect(disturbed_url, autocommit=True) as database:
            assert run_with_kills(site, database) >= 3, "the workers finished before they could be killed"
        steps_by_run["disturbed"] = select_steps(disturbed_url)
    assert steps_by_run["disturbed"] == steps_by_run["undisturbed"] and len(steps_by_run["disturbed"]) > 40


def select_steps(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as database:
        return database.execute(STEPS).fetchall()


def run_with_kills(site: ServiceSite, database: "psycopg.Connection[tuple[int, ...]]") -> int:
    """Let Celery finish all episodes, killing each of the first workers after a few more steps, and return how many were killed."""
    dispatcher = site.fork_command("manage.py", "dispatch")
    killed, deadline = 0, time.monotonic() + 120
    try:
        while database.execute(COUNT_UNFINISHED).fetchall()[0][0]:
            before = len(database.execute(STEPS).fetchall())
            worker = site.fork_command(*CELERY)
            while database.execute(COUNT_UNFINISHED).fetchall()[0][0]:
                assert time.monotonic() < deadline, f"the episodes never ended\n{worker.read_log()}"
                if killed < 4 and len(database.execute(STEPS).fetchall()) >= before + 5:
                    killed += 1
                    break
                time.sleep(0.02)
            worker.send_signal(signal.SIGKILL)
            worker.wait_for_end(20)
    finally:
        dispatcher.send_signal(signal.SIGTERM)
        dispatcher.wait_for_end(30)
    return killed


def test_without_workers_the_dispatcher_does_not_fill_the_broker(redis_server: RedisServer, tmp_path: Path) -> None:
    # At this pace a notification is sent again after 0.3 s, and the dispatcher polls every 0.02 s.
    with ServiceSite(tmp_path, "", redis_server.url, pace=0.02).run_site() as site:
        site.run_command("run_episodes", "--experiment", "all", "--attempts", "7")  # 18 experiments: 126 episodes
        site.run_command(
            "shell", "-c", "from simulation.jobs import jobs; jobs.request_job('audit', {'study': 0}, subject='')"
        )
        broker = redis.Redis.from_url(redis_server.url)
        broker.flushall()
        dispatcher = site.fork_command("manage.py", "dispatch")
        try:
            deadline = time.monotonic() + 30
            while count_messages(broker) < notifications.MAX_QUEUED_MESSAGES and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(2)  # time to notify six more times for each
            assert count_messages(broker) == notifications.MAX_QUEUED_MESSAGES
            assert 1 <= broker.llen("celery") <= 10, "only messages of jobs are in the queue with the highest priority"
        finally:
            dispatcher.send_signal(signal.SIGTERM)
            assert dispatcher.wait_for_end(30) == 0, dispatcher.read_log()
            broker.flushall()


def count_messages(broker: "redis.Redis[bytes]") -> int:
    """Count the messages of every priority: kombu has one list for each."""
    return sum(int(broker.llen(name)) for name in broker.keys("celery*"))


def rate_everything(rater: Visitor, link: str) -> int:
    """Consent, read the guide and rate every item; return the number of items rated."""
    about = {"degree": "Doctorate (PhD, DPhil, MD)", "field": "cell biology", "years": "9", "consent": "on"}
    guide = rater.submit_form(rater.get(link), **about)
    page = rater.submit_form(guide, "/guide/")
    rated = 0
    while "/done/" not in page.url:
        page = rater.submit_form(
            page, page.url.removeprefix(rater.site), verdict=("yes", "no")[rated % 2], confidence=str(1 + rated % 5)
        )
        assert page.status == 200, page.text
        rated += 1
        assert rated < 50
    return rated


def wait_until_ready(visitor: Visitor, link: str) -> Page:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            page = visitor.get(link)
        except OSError:
            time.sleep(0.2)
            continue
        assert page.status == 200, page.text
        return page
    raise AssertionError("the web server did not start within 30 s")


def wait_until_shown(visitor: Visitor, url: str, text: str, laboratory: ServiceSite) -> None:
    deadline = time.monotonic() + 180  # a shared machine with four test processes is slow
    while text not in (page := visitor.get(url)).text:
        page_text = " ".join(re.sub(r"<[^>]+>", " ", page.text.partition("<main")[2]).split())[:1500]
        assert time.monotonic() < deadline, (
            f"{text!r} never showed on {page.url}, but: {page_text}\n{laboratory.read_logs()}"
        )
        time.sleep(0.5)


def wait_until_finished(visitor: Visitor, url: str, laboratory: ServiceSite) -> None:
    """Wait for a run page that no longer polls: that of a finished run."""
    deadline = time.monotonic() + 90
    while "hx-trigger" in (page := visitor.get(url)).text:
        assert time.monotonic() < deadline, f"{page.url} never ended\n{laboratory.read_logs()}"
        time.sleep(0.5)
