"""gunicorn with its configuration: metrics and logs of all processes, and both profiles."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings as site
from django.db import connection

from tests.support.services import find_free_port
from wetbench_site import gunicorn_conf

KEY = "f3Zq9-tR0bLx7WnKc2Vd5Ym8Hj1Pg4Su6Aoe_QwIiTzUxBvNhDkEyGfXo"


class Served:
    """A site in production on SQLite, with its secrets in files. The test plays the proxy in front of it."""

    def __init__(self, folder: Path) -> None:
        self.port, self.log = find_free_port(), folder / "log"
        (folder / "key").write_text(KEY + "\n")
        here = {name: value for name, value in os.environ.items() if not name.startswith(("WETBENCH_", "SECRET_"))}
        self.environ = here | {
            "WETBENCH_PROFILE": "production", "SECRET_KEY_FILE": str(folder / "key"), "WETBENCH_VAR_DIR": str(folder),
            "WETBENCH_HOSTS": "wetbench.example.org", "WETBENCH_URL": "https://wetbench.example.org",
            "WETBENCH_PROXIES": "1", "TMPDIR": str(folder),
        }  # fmt: skip
        self.folder = folder

    def start(self) -> None:
        bound = ["-c", "python:wetbench_site.gunicorn_conf", "-b", f"0.0.0.0:{self.port}"]
        command = [sys.executable, "-m", "gunicorn", "wetbench_site.wsgi", *bound]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=site.BASE_DIR, env=self.environ, stdout=log, stderr=log)

    def workers(self) -> set[int]:
        """Return the worker processes of gunicorn."""
        pid = self.process.pid
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}

    def ask(self, path: str, **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=named)
        try:
            with urllib.request.build_opener(Stay).open(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers.get("Location", "")

    def until_up(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                assert self.ask("/healthz")[0] == 200
                return
            except OSError:
                assert time.monotonic() < until, self.log.read_text()
                time.sleep(0.1)


class Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects."""

    def redirect_request(self, *_: object) -> None:
        return None


@pytest.fixture
def served(tmp_path: Path, transactional_db: None) -> Iterator[Served]:
    site_process = Served(tmp_path)
    with connection.cursor() as cursor:  # a copy of the migrated database of the tests
        cursor.execute("VACUUM INTO %s", [str(tmp_path / "wetbench.sqlite3")])
    site_process.start()
    try:
        site_process.until_up()
        yield site_process
    finally:
        site_process.process.terminate()
        site_process.process.wait(40)


VIA = {"Host": "wetbench.example.org", "X_Forwarded_For": "192.0.2.7"}


def test_production_site_requires_https_sums_counters_over_all_processes_and_logs_json(served: Served) -> None:
    assert served.ask("/login/", **VIA) == (301, "https://wetbench.example.org/login/")
    assert served.ask("/login/", Host="elsewhere.example", X_Forwarded_Proto="https")[0] == 400
    for _ in range(12):
        assert served.ask("/login/", **VIA, X_Forwarded_Proto="https", X_Request_ID="proxy-000001")[0] == 200
    assert count_logins(served) == {12}
    kill_one_process(served)
    assert served.ask("/login/", **VIA, X_Forwarded_Proto="https")[0] == 200
    assert count_logins(served) == {13}, "a process that replaces another one continues its numbers"
    lines = [json.loads(line) for line in served.log.read_text().splitlines()]
    told = [line for line in lines if line["logger"] == "wetbench.requests" and line["view"] == "login"]
    assert len(told) == 13 and {line["request"] for line in told[:12]} == {"proxy-000001"}
    assert KEY not in served.log.read_text()


def count_logins(served: Served) -> set[float]:
    """Return the count of sign-in pages in several scrapes, which different processes answer."""
    asked = re.compile(r'wetbench_request_seconds_count{status="2xx",view="login"} (\S+)')
    return {float(asked.findall(served.ask("/metrics")[1])[0]) for _ in range(6)}


def kill_one_process(served: Served) -> None:
    """Kill one worker of gunicorn; return when another one has opened its metrics file."""
    before = served.workers()
    os.kill(min(before), signal.SIGKILL)
    until = time.monotonic() + 60
    while not any("/histogram_" in maps(pid) for pid in served.workers() - before):
        served.ask("/healthz")
        assert time.monotonic() < until, served.log.read_text()
        time.sleep(0.1)


def maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


def test_metrics_folder_of_a_killed_server_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(gunicorn_conf.METRICS_DIR_VARIABLE, "")
    killed, alive, started = (SimpleNamespace(cfg=SimpleNamespace(address=[])) for _ in range(3))
    gunicorn_conf.on_starting(killed)
    gunicorn_conf.on_starting(alive)
    assert Path(killed.numbers).exists(), "the server is running"
    os.close(killed.mark)  # as the kernel does when a process is killed

    gunicorn_conf.on_starting(started)

    assert {str(path) for path in tmp_path.iterdir()} == {alive.numbers, started.numbers}
    for server in (alive, started):
        os.close(server.mark)


def test_site_with_missing_migrations_logs_the_reason_once_and_does_not_restart(tmp_path: Path) -> None:
    site_process = Served(tmp_path)
    site_process.environ["WETBENCH_WEB_WORKERS"] = "1"
    site_process.start()
    assert site_process.process.wait(60) == 4
    log_text = site_process.log.read_text()
    assert log_text.startswith("WetBench cannot start:\n- The database lacks ")
    assert log_text.count("manage.py migrate") == 1 and "wsgi.py" not in log_text
