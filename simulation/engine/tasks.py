"""Celery tasks: a message has the code of a row and nothing else. If it is lost or arrives twice, nothing changes.

A worker that receives no messages for a while polls the database itself: the broker may be down, or a consumer may not
have reconnected.
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
PRIORITY = {"job": 0, "episode": 6, "twin": 6}  # 0 is delivered first: people wait for jobs
_at_work = ExitStack()
_stopping = threading.Event()
_heard = 0.0  # monotonic seconds


@shared_task(name="simulation.advance")
def advance(kind: str, code: str, **_later: Any) -> None:
    """Run units of a job, episode or twin if it is claimable, and send a message for the work that is left."""
    global _heard
    _heard = time.monotonic()
    try:
        if workers.play_on(kind, code, _stopping.is_set):
            publish(kind, code)
    except DATABASE_AWAY as error:
        log.warning("the database is unavailable; the dispatcher will notify again for %s: %s", code, error)


def ring(kind: str, code: str) -> bool:
    """Mark the row as notified and send a message. Return False if the broker is down."""
    # Marked first: otherwise the dispatcher would send a message every second until a worker takes the row.
    workers.rung(kind, code)
    return publish(kind, code)


def publish(kind: str, code: str) -> bool:
    """Send one message. Return False if the broker is down; the dispatcher then sends another later."""
    try:
        # No retry: each could block for seconds, and the dispatcher repeats what was lost.
        advance.apply_async((kind, code), retry=False, priority=PRIORITY[kind])
    except (OperationalError, OSError) as error:
        log.warning("the broker did not accept the message for %s: %s", code, error)
        return False
    return True


def waiting() -> int:
    """Return how many messages no worker has taken yet."""
    with advance.app.connection_or_acquire() as broker:
        try:
            return int(broker.default_channel.queue_declare(advance.app.conf.task_default_queue).message_count)
        except (*broker.connection_errors, *broker.channel_errors) as error:
            log.warning("could not get the number of queued messages from the broker: %s", error)
            # as if the queue were full: no messages are added to a broker whose state is unknown
            return workers.BELLS


@contextmanager
def looking() -> Iterator[None]:
    """Run claimable rows in a thread of this worker while no messages arrive."""
    # One row at a time: slower than all threads of the worker, but work never stops for want of a broker.
    stop = threading.Event()
    thread = threading.Thread(target=_look, args=(stop,), daemon=True, name="look")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _look(done: threading.Event) -> None:
    try:
        while not done.wait(settings.RING_AGAIN_SECONDS):
            while not (done.is_set() or _stopping.is_set()) and _deaf() and workers.try_next(_stopping):
                log.warning("no broker messages for %.0f s; found work by polling the database", _silence())
            release_connection()
    finally:
        connection.close()


def _deaf() -> bool:
    """Return whether the dispatcher must have sent a message by now if any row is claimable."""
    return _silence() > 2 * settings.RING_AGAIN_SECONDS


def _silence() -> float:
    return time.monotonic() - _heard


@worker_ready.connect
def _announce(**_signal: Any) -> None:
    global _heard
    _heard = time.monotonic()
    _at_work.enter_context(workers.announced("celery"))
    _at_work.enter_context(looking())


@worker_shutting_down.connect
def _stop_soon(**_signal: Any) -> None:
    """Finish the units under way after SIGTERM, and release their rows."""
    _stopping.set()


@worker_shutdown.connect
def _fall_silent(**_signal: Any) -> None:
    _at_work.close()
