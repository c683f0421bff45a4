"""Workers that call models have no sandbox, those that run sandboxes have no key, and code episodes end all the same: Celery, PostgreSQL and Redis."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import code_invariants, code_worlds, killed_code_site, migrated_databases
from tests.support.killed_code_site import UNFINISHED
from tests.support.model_server import run_in_process
from tests.support.services import PostgresCluster, RedisServer, require_program
from tests.support.warm_processes import ROOT

pytestmark = pytest.mark.services
LEFT_TO_SANDBOXES = f"{UNFINISHED} and phase = 'sandbox' and lease_until is null"
KEYS = "_API_KEY"


@contextmanager
def run_worker(log: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """Run `manage.py worker` as a service does, and yield the id of its process."""
    command = [sys.executable, "manage.py", "worker", "--without-dispatcher", "--threads", "3"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


def test_code_episodes_are_played_by_workers_with_keys_and_workers_with_sandboxes(
    postgres: PostgresCluster, redis_server: RedisServer, tmp_path: Path
) -> None:
    name, program = "code_workers_apart", Path(require_program("bwrap"))
    url = migrated_databases.create_postgres_database(postgres, name)
    script = code_worlds.write_script(tmp_path, 0)
    with run_in_process("--script", str(script)) as server:
        environment = {**server.get_environ(), "CELERY_BROKER_URL": redis_server.url}
        with killed_code_site.run_code_site(tmp_path, program, name, url, environment) as site:
            site.order_episodes(1, (code_worlds.CAST,))
            everything = killed_code_site.build_variables(tmp_path, program, name, url, environment)
            site.start_process("manage.py", "dispatch", "--skip-checks")
            with run_worker(tmp_path / "models.log", {**everything, "WETBENCH_SANDBOX": "off"}):
                # It plays until every episode needs a sandbox, and leaves them to others.
                site.wait_until(lambda: site.select_number(LEFT_TO_SANDBOXES) == site.select_number(UNFINISHED) == 2)
                assert site.select_number(killed_code_site.SANDBOXES) == 0
                without_keys = {name: value for name, value in everything.items() if not name.endswith(KEYS)}
                with run_worker(tmp_path / "sandboxes.log", {**without_keys, "WETBENCH_SANDBOX_ONLY": "true"}) as pid:
                    site.wait_until_finished()
                    assert KEYS.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
            assert code_invariants.find_row_violations(site.select_rows) == {}
            assert code_invariants.count_outcomes(code_invariants.list_results(site)) == {"solved": 2}
            assert site.count_sandboxes_by_state().keys() == {"done"}
            site.stop_processes()
