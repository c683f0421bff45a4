"""Shared by all tests: a database file, services, shorter intervals, and no silent skips under CI."""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import database_cleanup, migrated_databases
from tests.support.model_server import Server, run_in_thread
from tests.support.services import PostgresCluster, RedisServer

# Playwright's synchronous API keeps an event loop in the test's thread; Django would refuse the ORM there.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Use a database file for SQLite, as the site does, so that threads meet the real locks."""
    from django.conf import settings

    database = settings.DATABASES["default"]
    if database["ENGINE"] == "wetbench_site.sqlite":
        path = tmp_path_factory.mktemp("db") / "test.sqlite3"
        migrated_databases.copy_sqlite_database(path)
        database.setdefault("TEST", {})["NAME"] = str(path)
        database["CONN_MAX_AGE"] = 0  # test threads are short-lived, and some tests need exclusive access to the file


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Keep the migrated database that was copied for this process instead of creating one."""
    return True


SCALED_SETTINGS = (
    "LEASE_SECONDS", "TURN_SECONDS", "POLL_SECONDS", "RING_AGAIN_SECONDS", "WORKER_SILENT_SECONDS", "SWEEP_SECONDS",
    "GATE_LOWER_SECONDS", "GATE_PAUSE_SECONDS", "GATE_PAUSE_MAX_SECONDS", "CIRCUIT_PAUSE_SECONDS",
    "CIRCUIT_PAUSE_MAX_SECONDS", "SLOT_WAIT_SECONDS", "RETRY_SECONDS", "RETRY_MAX_SECONDS", "RETRY_WINDOW_SECONDS",
)  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def shorten_intervals() -> None:
    """Divide leases and polling intervals by twenty, once; a test can change them with its `settings`.

    The heartbeat stays: it writes from another thread, which would wait for ever on a test with an open transaction.
    """
    from django.conf import settings

    for name in SCALED_SETTINGS:
        setattr(settings, name, getattr(settings, name) / 20)
    settings.PRICE_SECONDS = 0  # no caching: each test has its own prices
    settings.TALLY_SECONDS = 0  # no caching: tests change rows without a log entry
    settings.WRITES_PER_MINUTE = settings.EXPORTS_PER_HOUR = (
        10**6
    )  # tests are fast, and their users have the same primary keys
    settings.LINK_REQUESTS_PER_MINUTE = 10**6  # and one address
    settings.WHITENOISE_AUTOREFRESH = True  # else every new test client reads all static files
    # Plain names, although a server in this folder may have collected the files.
    settings.STATIC_ROOT = Path(tempfile.gettempdir()) / "wetbench-nothing-collected"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a secure one takes half a second


@pytest.fixture(scope="session", autouse=True)
def draw_in_this_process() -> None:
    """Draw the figures of analyses in the process of the tests, and those of equal data once. test_drawing_process.py tests the real way."""
    from ratings.results.analyses import analysis_job
    from ratings.results.benchmarks import benchmark_job
    from tests.support import drawn_figures

    analysis_job.draw_all = benchmark_job.draw_all = drawn_figures.render_once


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A local server in place of every provider, and the environment variables that point to it."""
    with run_in_thread() as server:
        for name, value in server.get_environ().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def audit_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run audits on the test database, as if it were a scratch copy, and in this process; everything is rolled back.

    A copy would not contain the data of the open transaction, and starting a process takes seconds. test_audit_copy.py tests the real way.
    """
    from django.utils import timezone

    from ratings.studies.blinding_audit import audit_runner, inspection, scratch_copy

    def inspect_here(study: Any, progress: Any = None) -> dict[str, Any]:
        return inspection.run_inspection(study, timezone.now(), progress)

    monkeypatch.setattr(scratch_copy, "_is_allowed", True)
    monkeypatch.setattr(audit_runner, "inspect_copy", inspect_here)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresCluster]:
    """A PostgreSQL cluster for this test run, on a free port."""
    with PostgresCluster.run_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis for this test run, on a free port."""
    with RedisServer.run_server() as server:
        yield server


# The slowest files, the slowest first: one that starts last would leave the other workers idle.
SLOW_FILES = (
    "journeys/test_on_postgres_ratings.py", "journeys/test_on_postgres_simulation.py", "ratings/studies/blinding_audit/test_audit_blinding.py",
    "journeys/test_rater_in_browser.py", "journeys/test_admin_in_browser.py", "journeys/test_services.py",
    "journeys/test_language_models_survive.py", "journeys/test_raters_survive.py", "journeys/test_demo.py",
    "journeys/test_rater_loses_nothing_in_browser.py", "journeys/test_three_raters.py",
    "journeys/test_practice_in_browser.py", "journeys/test_studies_in_browser.py", "promises/test_access.py",
    "simulation/engine/test_workers.py", "ratings/studies/blinding_audit/test_audit_leaks.py", "ratings/results/test_empty_cells.py",
    "simulation/twin_audit/test_detectors.py", "simulation/offline/test_injectors_form.py",
)  # fmt: skip


MAX_FAILURE_LINES = 60  # lines shown of a failure, half from each end; Playwright prints pages with hundreds of lines


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start two workers more than there are cores: tests with browsers, leases and workers wait half of their time."""
    return (os.cpu_count() or 1) + 2


def pytest_configure(config: pytest.Config) -> None:
    """Keep the order of files: xdist would sort them by their number of tests, and the slow files have few."""
    database_cleanup.install_cleanup()
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    rank = {str(folder / name): position for position, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: rank.get(str(item.path), len(SLOW_FILES)))


def pytest_collection_finish() -> None:
    """Exclude the thousands of collected tests from garbage collection: they stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Fail skipped tests under CI, where everything that a test needs must exist, and shorten long failures.

    Tests marked `optional` may be skipped: they need a program that no promise of the product depends on.
    """
    result = yield
    report = result.get_result()  # type: ignore[attr-defined]  # pluggy's old-style wrapper
    is_allowed = hasattr(report, "wasxfail") or item.get_closest_marker("optional")
    if report.skipped and os.environ.get("CI") and not is_allowed:
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
    if traceback := getattr(report.longrepr, "reprtraceback", None):
        for entry in traceback.reprentries:
            if len(entry.lines) > MAX_FAILURE_LINES:
                entry.lines[MAX_FAILURE_LINES // 2 : -MAX_FAILURE_LINES // 2] = ["[...]"]
        report.longrepr.reprcrash.message = report.longrepr.reprcrash.message[:500]
