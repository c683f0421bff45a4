"""Each service of a site on PostgreSQL and Redis is stopped in turn: /readyz fails within ten seconds, and recovers."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from tests.support import migrated_databases
from tests.support.services import PostgresCluster, RedisServer, find_free_port

pytestmark = [pytest.mark.services, pytest.mark.thorough]
MAX_SECONDS_TO_FAIL = 10


class Site:
    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.port, self.folder = find_free_port(), folder
        self.environ = {**os.environ, **environ, "WETBENCH_VAR_DIR": str(folder), "WETBENCH_PACE": "0.1"}

    @contextmanager
    def run_process(self, *command: str) -> Iterator["subprocess.Popen[bytes]"]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command], cwd=settings.BASE_DIR, env=self.environ, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def build_web_command(self) -> tuple[str, ...]:
        bound = ("-b", f"127.0.0.1:{self.port}")
        return ("-m", "gunicorn", "wetbench_site.wsgi", "-c", "python:wetbench_site.gunicorn_conf", *bound)

    def get_readiness(self) -> tuple[int, dict[str, str]]:
        """Return the status, and the parts that are not ok with their states."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/readyz", timeout=MAX_SECONDS_TO_FAIL
            ) as response:
                status, body = response.status, json.load(response)
        except urllib.error.HTTPError as response:
            status, body = response.code, json.load(response)
        except OSError:
            return 0, {}
        return status, {name: part["state"] for name, part in body["parts"].items() if part["state"] != "ok"}

    def wait_for_readiness(self, status: int, bad: dict[str, str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (readiness := self.get_readiness()) != (status, bad):
            assert time.monotonic() < deadline, f"{readiness}\n{(self.folder / 'log').read_text()[-4000:]}"
            time.sleep(0.1)


def test_readyz_reports_each_stopped_part_within_ten_seconds(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(PostgresCluster.run_cluster())
        broker = stack.enter_context(RedisServer.run_server())
        url = migrated_databases.create_postgres_database(cluster, "ready")
        site = Site(tmp_path, {"DATABASE_URL": url, "CELERY_BROKER_URL": broker.url})
        stack.enter_context(site.run_process(*site.build_web_command()))
        dispatcher = stack.enter_context(site.run_process("manage.py", "dispatch"))
        site.wait_for_readiness(200, {}, 90)

        broker.stop()
        site.wait_for_readiness(200, {"broker": "degraded"}, MAX_SECONDS_TO_FAIL)
        broker.start()
        site.wait_for_readiness(200, {}, MAX_SECONDS_TO_FAIL)

        dispatcher.kill()  # its last heartbeat is too old after 60 s, 6 s at this pace
        site.wait_for_readiness(503, {"dispatcher": "failed"}, 6 + MAX_SECONDS_TO_FAIL)
        stack.enter_context(site.run_process("manage.py", "dispatch"))
        site.wait_for_readiness(200, {}, 90)

        cluster.stop("immediate")
        site.wait_for_readiness(503, {"database": "failed"}, MAX_SECONDS_TO_FAIL)
        cluster.start()
        site.wait_for_readiness(200, {}, 30)
