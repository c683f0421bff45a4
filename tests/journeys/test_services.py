"""The whole house on PostgreSQL, Redis, a real web server and real Celery workers: from seeding to the CSV."""

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
from pathlib import Path

import psycopg
import pytest
import redis
from django.conf import settings
from services import PostgresCluster, RedisServer, free_port
from visitor import Page, Visitor

from simulation import workers

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


class Laboratory:
    """A site in processes of its own, as `make serve` and `make worker` start them on a server."""

    def __init__(self, folder: Path, database: str, broker: str) -> None:
        self.folder, self.port = folder, free_port()
        self.env = {
            **os.environ,
            "DATABASE_URL": database,
            "CELERY_BROKER_URL": broker,
            "WETBENCH_VAR_DIR": str(folder),
            "WETBENCH_PACE": "0.2",
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def site(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=settings.BASE_DIR, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self) -> None:
        gunicorn = ["-m", "gunicorn", "wetbench_site.wsgi", "--bind", f"127.0.0.1:{self.port}", "--threads", "4"]
        for arguments in (gunicorn, ["manage.py", "worker", "--threads", "2"]):
            log = (self.folder / f"{arguments[1]}.log").open("wb")
            command = [sys.executable, *arguments]
            self.processes.append(
                subprocess.Popen(command, cwd=settings.BASE_DIR, env=self.env, stdout=log, stderr=subprocess.STDOUT)
            )

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(40)

    def logs(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))


@pytest.fixture
def laboratory(postgres: PostgresCluster, redis_server: RedisServer, tmp_path: Path) -> Iterator[Laboratory]:
    house = Laboratory(tmp_path, postgres.new_database("journey"), redis_server.url)
    house.manage("migrate", "--verbosity", "0")
    house.manage("load_lab")
    house.start()
    yield house
    house.stop()


def test_seed_simulate_twin_rate_dashboard_and_csv(laboratory: Laboratory, redis_server: RedisServer) -> None:
    laboratory.manage("createsuperuser", "--username", "boss", "--email", "boss@example.org", "--noinput")
    link = re.search(r"http://\S+", laboratory.manage("sign_in_link", "boss", "--url", laboratory.site))
    assert link
    admin = Visitor(laboratory.site)
    until_answers(admin, link[0])

    form = admin.get("/episodes/new/")
    run = admin.submit(form, experiments="caffeine-hplc-analysis", cast="offline", replicates="2", seed="1")
    assert run.status == 200 and "/runs/" in run.url
    redis_server.stop()  # every message under way is lost, and nobody can be rung for a while
    time.sleep(1)
    redis_server.start()
    until_shown(admin, run.url, "2 of 2", laboratory)

    twins = admin.get("/twins/")
    ordered = admin.submit(
        twins, experiments="caffeine-hplc-analysis", cast="offline", error="both", per_transition="1"
    )
    assert "/runs/" in ordered.url
    until_finished(admin, ordered.url, laboratory)

    document = laboratory.folder / "protocol.json"
    document.write_text(json.dumps(PROTOCOL))
    links = re.findall(
        r"http://\S+/r/\S+/",
        laboratory.manage("create_study", str(document), "--open", "--raters", "4", "--url", laboratory.site),
    )
    assert len(links) == 4
    assert rate_everything(Visitor(laboratory.site), links[0]) == 6  # 12 items, 2 ratings each, 4 raters

    laboratory.manage(
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
    laboratory.manage("unblind", "services", "--by", "boss")
    dashboard = admin.get("/studies/services/")
    assert dashboard.status == 200 and "simulated" in dashboard.text and "Wilson" in dashboard.text

    exported = admin.get("/studies/services/ratings.csv")
    rows = list(csv.DictReader(io.StringIO(exported.text.removeprefix("\ufeff"))))
    assert len(rows) == 24
    assert exported.text.splitlines() == laboratory.manage("export_ratings", "services").splitlines()
    assert {row["perturbation"] for row in rows} == {"none", "obvious", "subtle"}
    seen = [(row["rater"], row["pair"]) for row in rows]
    assert len(seen) == len(set(seen)), "a rater met two versions of one transition"


STEPS = """
select e.replicate, t.number, t.content_sha256 from simulation_transition t
join simulation_episode e on e.id = t.episode_id order by e.replicate, t.id
"""
UNENDED = "select count(*) from simulation_episode where ended_at is null"


def test_killed_celery_workers_lose_and_double_no_step_on_postgresql(
    postgres: PostgresCluster, redis_server: RedisServer, tmp_path: Path
) -> None:
    order = ("run_episodes", "--experiment", "caffeine-hplc-analysis", "--attempts", "4", "--seed", "7")
    told = {}
    for name in ("undisturbed", "disturbed"):
        house = Laboratory(tmp_path, url := postgres.new_database(name), redis_server.url)
        house.env["WETBENCH_PACE"] = "0.02"  # a dead worker's lease runs out after 1.2 s
        house.manage("migrate", "--verbosity", "0")
        house.manage("load_lab")
        house.manage(*order, *(("--wait",) if name == "undisturbed" else ()))
        with psycopg.connect(url, autocommit=True) as database:
            if name == "disturbed":
                assert play_with_killings(house, database) >= 3, "the workers finished before they could be killed"
            told[name] = database.execute(STEPS).fetchall()
    assert told["disturbed"] == told["undisturbed"] and len(told["disturbed"]) > 40


def play_with_killings(house: Laboratory, database: "psycopg.Connection[tuple[int, ...]]") -> int:
    """Let Celery play to the end, killing each of the first workers after a few more steps: how many were killed."""
    celery = ["-m", "celery", "-A", "wetbench_site", "worker", "--pool", "threads", "--concurrency", "2"]
    quiet = {"cwd": settings.BASE_DIR, "env": house.env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dispatcher = subprocess.Popen([sys.executable, "manage.py", "dispatch"], **quiet)
    killed, until = 0, time.monotonic() + 120
    try:
        while database.execute(UNENDED).fetchall()[0][0]:
            before = len(database.execute(STEPS).fetchall())
            worker = subprocess.Popen([sys.executable, *celery, "--loglevel", "error"], **quiet)
            while database.execute(UNENDED).fetchall()[0][0]:
                assert time.monotonic() < until, "the episodes never ended"
                if killed < 4 and len(database.execute(STEPS).fetchall()) >= before + 5:
                    killed += 1
                    break
                time.sleep(0.01)
            worker.kill()
            worker.wait()
    finally:
        dispatcher.terminate()
        dispatcher.wait(30)
    return killed


def test_without_workers_the_dispatcher_does_not_fill_the_broker(redis_server: RedisServer, tmp_path: Path) -> None:
    house = Laboratory(tmp_path, "", redis_server.url)
    house.env["WETBENCH_PACE"] = "0.02"  # an unheard bell is old after 0.3 s, the dispatcher looks each 0.02 s
    house.manage("migrate", "--verbosity", "0")
    house.manage("load_lab")
    house.manage("run_episodes", "--experiment", "all", "--attempts", "7")  # 18 experiments: 126 episodes
    broker = redis.Redis.from_url(redis_server.url)
    broker.flushall()
    dispatcher = subprocess.Popen([sys.executable, "manage.py", "dispatch"], cwd=settings.BASE_DIR, env=house.env)
    try:
        until = time.monotonic() + 30
        while broker.llen("celery") < workers.BELLS and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(2)  # time to ring six times more for each
        assert broker.llen("celery") == workers.BELLS
    finally:
        dispatcher.send_signal(signal.SIGTERM)
        assert dispatcher.wait(30) == 0
        broker.flushall()


def rate_everything(rater: Visitor, link: str) -> int:
    """Through consent and the guide, then every item: the number of items rated."""
    about = {"degree": "Doctorate (PhD, DPhil, MD)", "field": "cell biology", "years": "9", "consent": "on"}
    guide = rater.submit(rater.get(link), **about)
    page = rater.submit(guide, "/guide/")
    rated = 0
    while "/done/" not in page.url:
        page = rater.submit(
            page, page.url.removeprefix(rater.site), verdict=("yes", "no")[rated % 2], confidence=str(1 + rated % 5)
        )
        assert page.status == 200, page.text
        rated += 1
        assert rated < 50
    return rated


def until_answers(visitor: Visitor, link: str) -> Page:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            page = visitor.get(link)
        except OSError:
            time.sleep(0.2)
            continue
        assert page.status == 200, page.text
        return page
    raise AssertionError("the web server did not start within 30 s")


def until_shown(visitor: Visitor, url: str, text: str, laboratory: Laboratory) -> None:
    until = time.monotonic() + 90
    while text not in (page := visitor.get(url)).text:
        assert time.monotonic() < until, f"{text!r} never showed on {page.url}\n{laboratory.logs()}"
        time.sleep(0.5)


def until_finished(visitor: Visitor, url: str, laboratory: Laboratory) -> None:
    """The page of a finished run asks for nothing more."""
    until = time.monotonic() + 90
    while "hx-trigger" in (page := visitor.get(url)).text:
        assert time.monotonic() < until, f"{page.url} never ended\n{laboratory.logs()}"
        time.sleep(0.5)
