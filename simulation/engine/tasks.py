"""The doorbell: a task carries the code of a row and nothing else. Losing one, or getting it twice, changes nothing.

A worker that hears no bell for a while looks at the door itself: the broker may be away, or a consumer that lost its
connection may have come back deaf.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.conf import settings
from django.db import connection
from kombu.exceptions import OperationalError

from simulation.engine import workers
from simulation.leases.leases import DATABASE_AWAY
from wetbench_site.database import release_connection

log = logging.getLogger("wetbench.tasks")
PRIORITY = {"job": 0, "episode": 6, "twin": 6}  # 0 is taken first: people wait for jobs
_at_work = ExitStack()
_stopping = threading.Event()
_heard = 0.0  # when this process last heard a bell, by the monotonic clock


@shared_task(name="simulation.advance")
def advance(kind: str, code: str, **_later: Any) -> None:
    """Play units of a job, episode or twin, if it is this worker's to play, and ring for what is left."""
    global _heard
    _heard = time.monotonic()
    try:
        if workers.play_on(kind, code, _stopping.is_set):
            publish(kind, code)
    except DATABASE_AWAY as error:
        log.warning("the database did not answer; the dispatcher will ring again for %s: %s", code, error)


def ring(kind: str, code: str) -> bool:
    """The dispatcher's bell: remembered with the row, so that it does not ring each second."""
    workers.rung(kind, code)
    return publish(kind, code)


def publish(kind: str, code: str) -> bool:
    """One message; False if the broker is away, and then the dispatcher will ring again."""
    try:
        advance.apply_async((kind, code), retry=False, priority=PRIORITY[kind])
    except (OperationalError, OSError) as error:
        log.warning("the broker did not take the bell for %s: %s", code, error)
        return False
    return True


def waiting() -> int:
    """How many messages no worker has taken yet."""
    with advance.app.connection_or_acquire() as broker:
        try:
            return int(broker.default_channel.queue_declare(advance.app.conf.task_default_queue).message_count)
        except (*broker.connection_errors, *broker.channel_errors) as error:
            log.warning("the broker does not say how many messages wait: %s", error)
            return workers.BELLS


@contextmanager
def looking() -> Iterator[None]:
    """A thread of this worker that plays what waits while no bell is heard: slower than all of them, and never stuck."""
    done = threading.Event()
    thread = threading.Thread(target=_look, args=(done,), daemon=True, name="look")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _look(done: threading.Event) -> None:
    try:
        while not done.wait(settings.RING_AGAIN_SECONDS):
            while not (done.is_set() or _stopping.is_set()) and _deaf() and workers.try_next(_stopping):
                log.warning("no bell was heard for %.0f s and work waited: played without one", _silence())
            release_connection()
    finally:
        connection.close()


def _deaf() -> bool:
    """Whether the dispatcher must have rung again by now if anything waits."""
    return _silence() > 2 * settings.RING_AGAIN_SECONDS


def _silence() -> float:
    """Seconds since a bell was heard."""
    return time.monotonic() - _heard


@worker_ready.connect
def _announce(**_signal: Any) -> None:
    global _heard
    _heard = time.monotonic()
    _at_work.enter_context(workers.announced("celery"))
    _at_work.enter_context(looking())


@worker_shutting_down.connect
def _stop_soon(**_signal: Any) -> None:
    """SIGTERM: what is under way is finished, the row is given back after that unit."""
    _stopping.set()


@worker_shutdown.connect
def _fall_silent(**_signal: Any) -> None:
    _at_work.close()
