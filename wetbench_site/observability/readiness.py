"""Whether the site can do its work: the state of each part, found within seconds even if a service hangs."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from wetbench_site import checks
from wetbench_site.observability import readiness_checks
from wetbench_site.observability.readiness_checks import PartState

TIMEOUT_SECONDS = 3.0  # for a part that does not answer
# A check that hangs blocks only its own thread, so later probes are still answered.
_check_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="readiness")


def check_parts() -> list[PartState]:
    """Return the state of every part, after TIMEOUT_SECONDS at most."""
    # All at once, so that the total is the time of the slowest and not the sum.
    futures = {name: _check_threads.submit(ask) for name, ask in CHECKS.items()}
    states, deadline = list[PartState](), time.monotonic() + TIMEOUT_SECONDS
    for name, future in futures.items():
        try:
            states += future.result(max(deadline - time.monotonic(), 0))
        except TooLate:
            future.cancel()
            # Ratings do not need the broker, and workers poll the database without it.
            state = "degraded" if name == "broker" else "failed"
            states.append(PartState(name, state, f"no answer within {TIMEOUT_SECONDS:.0f} s"))
    return states


def find_worst_state(states: list[PartState]) -> str:
    """Return the worst state of all parts."""
    return max((part.state for part in states), key=("ok", "degraded", "failed").index)


def _check_database() -> list[PartState]:
    """Run all checks that read the database in one thread, on one connection that is closed afterwards."""
    try:
        app_parts = list(readiness_checks.run_database_checks())
        return [PartState("database", "ok", "answers"), _check_migrations(), *app_parts]
    except (DatabaseError, InterfaceError) as error:
        return [PartState("database", "failed", f"does not answer: {type(error).__name__}")]
    finally:
        connection.close()


def _check_migrations() -> PartState:
    missing = checks.list_missing_migrations()
    if missing:
        return PartState("migrations", "failed", f"{len(missing)} not applied: run `manage.py migrate`")
    return PartState("migrations", "ok", "all applied")


def _check_broker() -> list[PartState]:
    """Return the state of the broker; nothing if none is configured."""
    if not settings.CELERY_BROKER_URL:
        return []
    # The only place where a web process connects to the broker. No retries: a probe must be fast.
    limits = {"socket_timeout": 1, "socket_connect_timeout": 1, "retry": None}
    try:
        with redis.Redis.from_url(settings.CELERY_BROKER_URL, **limits) as broker:
            broker.ping()
    except (redis.RedisError, OSError) as error:
        return [PartState("broker", "degraded", f"does not answer: {type(error).__name__}; rating is not affected")]
    return [PartState("broker", "ok", "answers")]


def _check_disk() -> list[PartState]:
    """Return the state of the disk with WETBENCH_VAR_DIR, where the SQLite file is."""
    try:
        # The disk of a PostgreSQL server on another host has to be monitored there.
        free = shutil.disk_usage(settings.VAR_DIR).free >> 20
    except OSError as error:
        return [PartState("disk", "failed", f"{settings.VAR_DIR} cannot be read: {error.strerror}")]
    state = "ok" if free >= settings.DISK_FREE_MB else "failed"
    return [PartState("disk", state, f"{free} MB free; {settings.DISK_FREE_MB} MB required")]


CHECKS: dict[str, Callable[[], list[PartState]]] = {
    "disk": _check_disk,
    "database": _check_database,
    "broker": _check_broker,
}
