"""What all tests share: a database file of their own, services of their own, and no silent skips under CI."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from model_server import Server, running
from services import PostgresCluster, RedisServer

# Playwright's synchronous API keeps an event loop in the test's thread; Django would refuse the ORM there.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SQLite tests run on a file, as the site does: threads then meet the real locks."""
    from django.conf import settings

    database = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database.setdefault("TEST", {})["NAME"] = str(tmp_path_factory.mktemp("db") / "test.sqlite3")


PACED = (
    "LEASE_SECONDS", "TURN_SECONDS", "POLL_SECONDS", "RING_AGAIN_SECONDS", "WORKER_SILENT_SECONDS", "SWEEP_SECONDS",
    "GATE_LOWER_SECONDS", "GATE_PAUSE_SECONDS", "GATE_PAUSE_MAX_SECONDS", "CIRCUIT_PAUSE_SECONDS",
    "CIRCUIT_PAUSE_MAX_SECONDS", "SLOT_WAIT_SECONDS", "RETRY_SECONDS", "RETRY_MAX_SECONDS", "RETRY_WINDOW_SECONDS",
)  # fmt: skip


@pytest.fixture(autouse=True)
def quick_clockwork(settings: Any) -> None:
    """Leases and polls at a twentieth of their length.

    Not the heartbeat: it writes from a thread of its own, which waits for ever on a test that holds its transaction open.
    """
    for name in PACED:
        setattr(settings, name, getattr(settings, name) / 20)
    settings.PRICE_SECONDS = 0  # each test has prices of its own
    settings.WHITENOISE_AUTOREFRESH = True  # else every test client reads all static files when it is made


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A stand-in for every provider, and an environment that leads there."""
    with running() as server:
        for name, value in server.environ().items():
            monkeypatch.setenv(name, value)
        yield server


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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Under CI nothing is skipped: what a test needs must be there."""
    result = yield
    report = result.get_result()  # type: ignore[attr-defined]  # pluggy's old-style wrapper
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
