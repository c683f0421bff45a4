"""The dispatcher, which sends messages to Celery workers. A message only names a row; the database has all work."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import close_old_connections
from django.db.models import F, Q, Value
from django.utils import timezone

from simulation import leases
from simulation.engine.workers import ROW_MODELS, SANDBOX_KIND, log, periodic_sweep, worker_registered
from simulation.models import CodeEpisode
from wetbench_site.database import release_connection

MAX_QUEUED_MESSAGES = 500  # without workers, repeated messages would fill the broker


def run_dispatcher(stop: threading.Event, send: Callable[[str, str], bool], count_queued: Callable[[], int]) -> None:
    """Every POLL_SECONDS, send a message for each claimable row without a recent one, so that lost ones are repeated."""
    with worker_registered("dispatcher"), periodic_sweep():
        while not stop.wait(settings.POLL_SECONDS):
            try:
                _notify_rows(list_rows_to_notify(max(0, MAX_QUEUED_MESSAGES - count_queued())), stop, send)
            except leases.DATABASE_UNAVAILABLE as error:
                log.warning("the database is unavailable; trying again: %s", error)
                close_old_connections()
            release_connection()


def _notify_rows(rows: list[tuple[str, str]], stop: threading.Event, send: Callable[[str, str], bool]) -> None:
    # Marked first: otherwise a message would be sent every second until a worker takes the row.
    _mark_rows(rows, timezone.now())
    for position, (kind, code) in enumerate(rows):
        # If the broker rejects one message, the others are not tried: each could block for seconds.
        if stop.is_set() or not send(kind, code):
            _mark_rows(rows[position:], None)
            return


def _mark_rows(rows: list[tuple[str, str]], notified_at: datetime | None) -> None:
    """Set when these rows were notified, with one statement per kind."""
    for kind, model in ROW_MODELS.items():
        kinds = ("code", SANDBOX_KIND) if kind == "code" else (kind,)
        if codes := [code for row_kind, code in rows if row_kind in kinds]:
            model.objects.filter(code__in=codes).update(notified_at=notified_at)


def list_rows_to_notify(limit: int = MAX_QUEUED_MESSAGES) -> list[tuple[str, str]]:
    """Return the kind and code of rows that need a message now: jobs first, then the oldest."""
    since = timezone.now() - timedelta(seconds=settings.RING_AGAIN_SECONDS)
    due = Q(notified_at__isnull=True) | Q(notified_at__lt=since)
    rows = [
        (find_message_kind(kind, phase), str(code))
        for kind, model in ROW_MODELS.items()
        for code, phase in _list_phases(model.objects.claimable().filter(due).order_by("pk"))[:limit]
    ]
    return rows[:limit]


def _list_phases(rows: Any) -> Any:
    """Return code and phase of these rows; only code episodes need a phase here."""
    phase = F("phase") if rows.model is CodeEpisode else Value("")
    return rows.values_list("code", phase)


def find_message_kind(kind: str, phase: str) -> str:
    """Return the kind of the message for a row of this kind and phase."""
    return SANDBOX_KIND if phase in CodeEpisode.SANDBOX_PHASES else kind


def find_next_kind(kind: str, code: str) -> str:
    """Return the kind of the message for the next unit of a row that has work left."""
    if kind not in ("code", SANDBOX_KIND):
        return kind
    phase = CodeEpisode.objects.filter(code=code).values_list("phase", flat=True).first()
    return find_message_kind("code", phase or "")
