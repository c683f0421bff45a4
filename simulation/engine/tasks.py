"""Celery tasks: a message contains only the kind and code of a row.

If a message is lost or arrives twice, no work is lost or done twice. A worker that receives no messages for a while
polls the database itself: the broker may be down, or a consumer may not have reconnected.
"""

import logging
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.conf import settings
from kombu.exceptions import OperationalError

from simulation.engine import notifications, workers
from simulation.leases import DATABASE_UNAVAILABLE
from wetbench_site import celery  # noqa: F401  # shared tasks belong to the Celery app that exists when they are first used

log = logging.getLogger("wetbench.tasks")
MESSAGE_PRIORITY = {
    "job": 0,
    "episode": 6,
    "code": 6,
    workers.SANDBOX_KIND: 6,
    "twin": 6,
}  # 0 is delivered first: people wait for jobs
_worker_contexts = ExitStack()
_stopping = threading.Event()
_last_message_at = 0.0  # monotonic seconds


@shared_task(name="simulation.advance")
def run_row(kind: str, code: str, **_later: Any) -> None:
    """Run units of a job, episode, code episode or twin if the row is claimable. If work is left, send another message."""
    global _last_message_at
    _last_message_at = time.monotonic()
    try:
        if workers.run_row(kind, code, _stopping.is_set):
            send_message(notifications.find_next_kind(kind, code), code)
    except DATABASE_UNAVAILABLE as error:
        log.warning("the database is unavailable; the dispatcher will notify again for %s: %s", code, error)


def send_message(kind: str, code: str) -> bool:
    """Send one message. Return False if the broker is down; the dispatcher then sends another later."""
    try:
        # No retry: each could block for seconds, and the dispatcher repeats what was lost.
        queue = settings.SANDBOX_QUEUE if kind == workers.SANDBOX_KIND else settings.CELERY_TASK_DEFAULT_QUEUE
        run_row.apply_async((kind, code), retry=False, priority=MESSAGE_PRIORITY[kind], queue=queue)
    except (OperationalError, OSError) as error:
        log.warning("the broker did not accept the message for %s: %s", code, error)
        return False
    return True


def count_queued_messages() -> int:
    """Return how many messages no worker has taken yet."""
    with run_row.app.connection_or_acquire() as broker:
        try:
            queues = (settings.CELERY_TASK_DEFAULT_QUEUE, settings.SANDBOX_QUEUE)
            return sum(int(broker.default_channel.queue_declare(name).message_count) for name in queues)
        except (*broker.connection_errors, *broker.channel_errors) as error:
            log.warning("could not get the number of queued messages from the broker: %s", error)
            # as if the queue were full: no messages are added to a broker whose state is unknown
            return notifications.MAX_QUEUED_MESSAGES


def poll_without_messages() -> AbstractContextManager[None]:
    """Run claimable rows in a thread of this worker while no messages arrive."""
    # One row at a time: slower than with all threads of the worker, but work continues without a broker.
    return workers.repeat_in_background(_poll_database, settings.RING_AGAIN_SECONDS, "look")


def _poll_database(stop: threading.Event) -> None:
    while not (stop.is_set() or _stopping.is_set()):
        silent_seconds = time.monotonic() - _last_message_at
        # By then the dispatcher would have sent a message if any row were claimable.
        if silent_seconds <= 2 * settings.RING_AGAIN_SECONDS or not workers.try_next_row(_stopping):
            return
        log.warning("no broker messages for %.0f s; found work by polling the database", silent_seconds)


@worker_ready.connect
def _on_worker_ready(**_signal: Any) -> None:
    global _last_message_at
    _last_message_at = time.monotonic()
    _worker_contexts.enter_context(workers.worker_registered("celery"))
    _worker_contexts.enter_context(poll_without_messages())


@worker_shutting_down.connect
def _on_worker_shutting_down(**_signal: Any) -> None:
    """Start no more units after SIGTERM: those under way are finished, and their rows released."""
    _stopping.set()


@worker_shutdown.connect
def _on_worker_shutdown(**_signal: Any) -> None:
    _worker_contexts.close()
