"""What all tests share: a database file of their own, services of their own, and no silent skips under CI."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulation.scripted_server import Server, running
from tests.support import emptying
from tests.support.services import PostgresCluster, RedisServer

# Playwright's synchronous API keeps an event loop in the test's thread; Django would refuse the ORM there.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SQLite tests run on a file, as the site does: threads then meet the real locks."""
    from django.conf import settings

    database = settings.DATABASES["default"]
    if database["ENGINE"] == "wetbench_site.sqlite":
        database.setdefault("TEST", {})["NAME"] = str(tmp_path_factory.mktemp("db") / "test.sqlite3")
        database["CONN_MAX_AGE"] = 0  # threads of tests come and go, and some tests want the file for themselves


PACED = (
    "LEASE_SECONDS", "TURN_SECONDS", "POLL_SECONDS", "RING_AGAIN_SECONDS", "WORKER_SILENT_SECONDS", "SWEEP_SECONDS",
    "GATE_LOWER_SECONDS", "GATE_PAUSE_SECONDS", "GATE_PAUSE_MAX_SECONDS", "CIRCUIT_PAUSE_SECONDS",
    "CIRCUIT_PAUSE_MAX_SECONDS", "SLOT_WAIT_SECONDS", "RETRY_SECONDS", "RETRY_MAX_SECONDS", "RETRY_WINDOW_SECONDS",
)  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def quick_clockwork() -> None:
    """Leases and polls at a twentieth of their length; set once, for a test to change with its `settings`.

    Not the heartbeat: it writes from a thread of its own, which waits for ever on a test that holds its transaction open.
    """
    from django.conf import settings

    for name in PACED:
        setattr(settings, name, getattr(settings, name) / 20)
    settings.PRICE_SECONDS = 0  # each test has prices of its own
    settings.TALLY_SECONDS = 0  # tests change rows behind the back of the log
    settings.WRITES_PER_MINUTE = settings.EXPORTS_PER_HOUR = 10**6  # tests hurry, and their users share numbers
    settings.WHITENOISE_AUTOREFRESH = True  # else every test client reads all static files when it is made
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a good one takes half a second


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A stand-in for every provider, and an environment that leads there."""
    with running() as server:
        for name, value in server.environ().items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def audit_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let audits work on the test database, as if it were a scratch copy, and in this process: all is rolled back.

    A transaction's data is in no copy, and starting a process takes seconds. The whole way is tested in test_audit_copy.py.
    """
    from django.utils import timezone

    from ratings.studies.blinding_audit import inspection
    from ratings.studies.blinding_audit.copy import guard, process

    def inspect_here(study: Any, progress: Any = None) -> dict[str, Any]:
        return inspection.inspect(study, timezone.now(), progress)

    monkeypatch.setattr(guard, "_is_allowed", True)
    monkeypatch.setattr(process, "inspect_copy", inspect_here)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresCluster]:
    """A PostgreSQL cluster of this run's own, on a free port."""
    with PostgresCluster.started() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis of this run's own, on a free port."""
    with RedisServer.started() as server:
        yield server


# Files that take longest, the longest first: one that begins when all else is done would leave the other workers idle.
LONG = (
    "journeys/test_on_postgres_ratings.py", "journeys/test_on_postgres_simulation.py", "ratings/studies/blinding_audit/test_audit_blinding.py",
    "journeys/test_rater_in_browser.py", "journeys/test_admin_in_browser.py", "journeys/test_services.py",
    "journeys/test_language_models_survive.py", "journeys/test_raters_survive.py", "journeys/test_demo.py",
    "journeys/test_rater_loses_nothing_in_browser.py", "journeys/test_three_raters.py",
    "journeys/test_practice_in_browser.py", "journeys/test_studies_in_browser.py", "promises/test_access.py",
    "simulation/engine/test_workers.py", "ratings/studies/blinding_audit/test_audit_leaks.py",
)  # fmt: skip


TOLD = 60  # lines of a failure, from its beginning and its end; a page that Playwright tells has hundreds


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: tests with browsers, leases and workers in them wait half of their time."""
    return (os.cpu_count() or 1) + 2


def pytest_configure(config: pytest.Config) -> None:
    """xdist would hand out files by how many tests they have, and those with few tests are the long ones."""
    emptying.install()
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    rank = {str(here / name): at for at, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(str(item.path), len(LONG)))


def pytest_collection_finish() -> None:
    """Thousands of tests are there to the end: whoever looks for garbage need not look through them each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Under CI nothing is skipped: what a test needs must be there. And no failure is told so long that others are cut off."""
    result = yield
    report = result.get_result()  # type: ignore[attr-defined]  # pluggy's old-style wrapper
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
    if told := getattr(report.longrepr, "reprtraceback", None):
        for entry in told.reprentries:
            if len(entry.lines) > TOLD:
                entry.lines[TOLD // 2 : -TOLD // 2] = ["[...]"]
        report.longrepr.reprcrash.message = report.longrepr.reprcrash.message[:500]
