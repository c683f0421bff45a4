"""Whether the site can do its work: each part with a word for it, found out within seconds whatever hangs."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from wetbench_site import refusals
from wetbench_site.observability import readiness_checks
from wetbench_site.observability.readiness_checks import Part

PATIENCE_SECONDS = 3.0  # for a part that says nothing
# What is asked hangs in a thread of its own, a few at most: the next question does not wait behind it.
_askers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="readiness")


def parts() -> list[Part]:
    """All are asked at once, so that all together take no longer than the slowest may."""
    asked = {name: _askers.submit(ask) for name, ask in QUESTIONS.items()}
    found, until = list[Part](), time.monotonic() + PATIENCE_SECONDS
    for name, answer in asked.items():
        try:
            found += answer.result(max(until - time.monotonic(), 0))
        except TooLate:
            answer.cancel()
            state = "degraded" if name == "broker" else "failed"
            found.append(Part(name, state, f"no answer within {PATIENCE_SECONDS:.0f} s"))
    return found


def verdict(found: list[Part]) -> str:
    """The worst state of all."""
    return max((part.state for part in found), key=("ok", "degraded", "failed").index)


def _of_database() -> list[Part]:
    """Run all checks that read the database in one thread, on one connection that is closed afterwards."""
    try:
        of_apps = list(readiness_checks.run_database_checks())
        return [Part("database", "ok", "it answers"), _migrations(), *of_apps]
    except (DatabaseError, InterfaceError) as error:
        return [Part("database", "failed", f"it does not answer: {type(error).__name__}")]
    finally:
        connection.close()


def _migrations() -> Part:
    missing = refusals.missing_migrations()
    if missing:
        return Part("migrations", "failed", f"{len(missing)} are missing: run `manage.py migrate`")
    return Part("migrations", "ok", "all are applied")


def _of_broker() -> list[Part]:
    """The one place where a web process speaks to the broker, and nobody waits for it. Rating needs none."""
    if not settings.CELERY_BROKER_URL:
        return []
    limits = {"socket_timeout": 1, "socket_connect_timeout": 1, "retry": None}
    try:
        with redis.Redis.from_url(settings.CELERY_BROKER_URL, **limits) as broker:
            broker.ping()
    except (redis.RedisError, OSError) as error:
        return [Part("broker", "degraded", f"it does not answer: {type(error).__name__}; rating goes on")]
    return [Part("broker", "ok", "it answers")]


def _disk() -> list[Part]:
    """Of the folder of WETBENCH_VAR_DIR, where SQLite is; a database elsewhere is for its own host to watch."""
    try:
        free = shutil.disk_usage(settings.VAR_DIR).free >> 20
    except OSError as error:
        return [Part("disk", "failed", f"{settings.VAR_DIR} cannot be read: {error.strerror}")]
    state = "ok" if free >= settings.DISK_FREE_MB else "failed"
    return [Part("disk", state, f"{free} MB free; {settings.DISK_FREE_MB} are wanted")]


QUESTIONS: dict[str, Callable[[], list[Part]]] = {"disk": _disk, "database": _of_database, "broker": _of_broker}
