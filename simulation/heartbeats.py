"""One heartbeat for all leases that this process holds: a single UPDATE each, however many calls are under way."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.utils import timezone

from simulation.models import Leased

log = logging.getLogger("wetbench.leases")
_lock = threading.Lock()
_held: dict[tuple[type[Leased], int, str], float] = {}  # -> when it was last renewed, by the monotonic clock
_beating: threading.Thread | None = None


def lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.LEASE_SECONDS)


@contextmanager
def kept(model: type[Leased], pk: int, owner: str) -> Iterator[None]:
    """While this lasts, the row's lease is renewed each heartbeat, as long as `owner` is who holds it."""
    key = (model, pk, owner)
    with _lock:
        _held[key] = time.monotonic()
        _start()
    try:
        yield
    finally:
        with _lock:
            _held.pop(key, None)


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
                due = [key for key, at in _held.items() if time.monotonic() - at >= settings.HEARTBEAT_SECONDS]
            if due:
                _renew(due)
    finally:
        connection.close()


def _renew(due: list[tuple[type[Leased], int, str]]) -> None:
    now = time.monotonic()
    try:
        for model, owner in {(model, owner) for model, _, owner in due}:
            _rows(model, owner, due).update(lease_until=lease_end())
    except (OperationalError, InterfaceError):
        log.warning("could not renew %d leases; trying again", len(due))
        close_old_connections()
        return
    connection.close()
    with _lock:
        _held.update({key: now for key in due if key in _held})


def _rows(model: Any, owner: str, due: list[tuple[type[Leased], int, str]]) -> Any:
    keys = [pk for of, pk, by in due if of is model and by == owner]
    return model.objects.filter(pk__in=keys, lease_owner=owner, status__in=Leased.RUNNABLE, lease_until__isnull=False)
