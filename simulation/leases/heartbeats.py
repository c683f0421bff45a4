"""One heartbeat for all leases that this process holds: a single UPDATE each, however many calls are under way."""

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
    """A row that a unit of this process holds, under the fence it was given."""

    model: type[Leased]
    pk: int
    fence: int


_lock = threading.Lock()
_held: dict[Held, float] = {}  # -> when it was last renewed, by the monotonic clock
_beating: threading.Thread | None = None


def lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)


@contextmanager
def kept(model: type[Leased], pk: int, fence: int) -> Iterator[None]:
    """While this lasts, the row's lease is renewed each heartbeat, as long as it is held under this fence."""
    row = Held(model, pk, fence)
    with _lock:
        _held[row] = time.monotonic()
        _start()
    try:
        yield
    finally:
        with _lock:
            _held.pop(row, None)


def _start() -> None:
    """The thread lives for as long as anything is held, so that no process ends with one at work."""
    global _beating
    if _beating is None or not _beating.is_alive():
        _beating = threading.Thread(target=_beat, daemon=True, name="heartbeat")
        _beating.start()


def _beat() -> None:
    global _beating
    try:
        while True:
            time.sleep(min(settings.HEARTBEAT_SECONDS / 3, 0.5))
            with _lock:
                if not _held:
                    _beating = None
                    return
                due = [row for row, at in _held.items() if time.monotonic() - at >= settings.HEARTBEAT_SECONDS]
            if due:
                _renew(due)
    finally:
        connection.close()


def _renew(due: list[Held]) -> None:
    now = time.monotonic()
    try:
        for model in {row.model for row in due}:
            _rows(model, due).update(lease_until=lease_end())
    except (OperationalError, InterfaceError):
        log.warning("could not renew %d leases; trying again", len(due))
        close_old_connections()
        return
    connection.close()
    with _lock:
        _held.update({row: now for row in due if row in _held})


def _rows(model: Any, due: list[Held]) -> Any:
    """Those of this model that are still held under their fences."""
    ours = Q()
    for row in due:
        if row.model is model:
            ours |= Q(pk=row.pk, fence=row.fence)
    return model.objects.filter(ours, status__in=Leased.RUNNABLE, lease_until__isnull=False)
