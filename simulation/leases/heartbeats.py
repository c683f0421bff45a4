"""Renew all leases that this process holds, with one UPDATE per model and heartbeat.

The number of UPDATEs does not depend on how many calls are under way.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.db.models import Q
from django.utils import timezone

from simulation.models import Leased

log = logging.getLogger("wetbench.leases")


class LeaseKey(NamedTuple):
    """A row that a unit of this process holds, and the fence of its claim."""

    model: type[Leased]
    pk: int
    fence: int


_lock = threading.Lock()
_renewed_at: dict[LeaseKey, float] = {}  # seconds of the monotonic clock
_heartbeat_thread: threading.Thread | None = None


def compute_lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)


@contextmanager
def keep_renewed(model: type[Leased], pk: int, fence: int) -> Iterator[None]:
    """Renew the row's lease at every heartbeat inside this context, as long as the fence is still current."""
    key = LeaseKey(model, pk, fence)
    with _lock:
        _renewed_at[key] = time.monotonic()
        _ensure_heartbeat_thread()
    try:
        yield
    finally:
        with _lock:
            _renewed_at.pop(key, None)


def _ensure_heartbeat_thread() -> None:
    global _heartbeat_thread
    # The thread ends when nothing is leased (see _run_heartbeat), so an idle process has none, and fork and exit are
    # clean. The caller holds _lock: otherwise two units could start two threads.
    if _heartbeat_thread is None or not _heartbeat_thread.is_alive():
        _heartbeat_thread = threading.Thread(target=_run_heartbeat, daemon=True, name="heartbeat")
        _heartbeat_thread.start()


def _run_heartbeat() -> None:
    global _heartbeat_thread
    try:
        while True:
            # Sleep much less than a heartbeat, so that leases taken at any time are renewed in time and the thread
            # ends soon after the last lease.
            time.sleep(min(settings.HEARTBEAT_SECONDS / 3, 0.5))
            with _lock:
                if not _renewed_at:
                    _heartbeat_thread = None
                    return
                due = [
                    key
                    for key, renewed_at in _renewed_at.items()
                    if time.monotonic() - renewed_at >= settings.HEARTBEAT_SECONDS
                ]
            if due:
                _renew_leases(due)
    finally:
        connection.close()


def _renew_leases(due: list[LeaseKey]) -> None:
    now = time.monotonic()
    try:
        for model in {key.model for key in due}:
            _filter_held_rows(model, due).update(lease_until=compute_lease_end())
    except (OperationalError, InterfaceError):
        log.warning("could not renew %d leases; trying again", len(due))
        # The entries stay due, so the next round tries again; a lease lasts for several heartbeats.
        close_old_connections()
        return
    connection.close()
    with _lock:
        # Only the leases that are still registered: a unit may have ended during the UPDATE, and its lease must not
        # be renewed for ever.
        _renewed_at.update({key: now for key in due if key in _renewed_at})


def _filter_held_rows(model: Any, due: list[LeaseKey]) -> Any:
    """Return the rows of this model that are still leased under the fences of `due`."""
    held = Q()
    for key in due:
        if key.model is model:
            held |= Q(pk=key.pk, fence=key.fence)
    return model.objects.filter(held, status__in=Leased.RUNNABLE, lease_until__isnull=False)
