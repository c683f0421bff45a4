"""Renew all leases that this process holds, with one UPDATE per model and heartbeat however many calls are under way."""

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


class Held(NamedTuple):
    """A row that a unit of this process holds, and the fence of its claim."""

    model: type[Leased]
    pk: int
    fence: int


_lock = threading.Lock()
_held: dict[Held, float] = {}  # seconds of the monotonic clock
_beating: threading.Thread | None = None


def lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)


@contextmanager
def kept(model: type[Leased], pk: int, fence: int) -> Iterator[None]:
    """Renew the row's lease at every heartbeat inside this context, as long as the fence is still current."""
    key = Held(model, pk, fence)
    with _lock:
        _held[key] = time.monotonic()
        _start()
    try:
        yield
    finally:
        with _lock:
            _held.pop(key, None)


def _start() -> None:
    global _beating
    # The thread ends when nothing is leased (see _run_heartbeat), so an idle process has none, and fork and exit
    # are
    # clean. The caller holds _lock: otherwise two units could start two threads.
    if _beating is None or not _beating.is_alive():
        _beating = threading.Thread(target=_beat, daemon=True, name="heartbeat")
        _beating.start()


def _beat() -> None:
    global _beating
    try:
        while True:
            # Much shorter than a heartbeat: leases taken at any time are renewed on time, and the thread ends
            # soon after the last one.
            time.sleep(min(settings.HEARTBEAT_SECONDS / 3, 0.5))
            with _lock:
                if not _held:
                    _beating = None
                    return
                due = [
                    key
                    for key, renewed_at in _held.items()
                    if time.monotonic() - renewed_at >= settings.HEARTBEAT_SECONDS
                ]
            if due:
                _renew(due)
    finally:
        connection.close()


def _renew(due: list[Held]) -> None:
    now = time.monotonic()
    try:
        for model in {key.model for key in due}:
            _rows(model, due).update(lease_until=lease_end())
    except (OperationalError, InterfaceError):
        log.warning("could not renew %d leases; trying again", len(due))
        # The entries stay due, so the next round tries again; a lease lasts for several heartbeats.
        close_old_connections()
        return
    connection.close()
    with _lock:
        # Only those still there: a unit may have ended during the UPDATE, and adding it again would renew it for
        # ever.
        _held.update({key: now for key in due if key in _held})


def _rows(model: Any, due: list[Held]) -> Any:
    """Return the rows of this model that are still leased under the fences of `due`."""
    held = Q()
    for key in due:
        if key.model is model:
            held |= Q(pk=key.pk, fence=key.fence)
    return model.objects.filter(held, status__in=Leased.RUNNABLE, lease_until__isnull=False)
