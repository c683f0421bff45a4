"""Readiness check: whether a worker or dispatcher is running."""

from datetime import timedelta

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from simulation.models import Worker
from wetbench_site.observability.readiness_checks import PartState

HEARTBEAT_LIMIT_SECONDS = 60


def check_worker() -> PartState:
    """Return the state "ok" if the process that starts work has sent a heartbeat within a minute, else "failed"."""
    # Without that process no episode, analysis or export is created. With a broker it is the dispatcher, else the
    # embedded worker.
    has_broker = bool(settings.CELERY_BROKER_URL)
    kind, name = ("dispatcher", "dispatcher") if has_broker else ("embedded", "worker")
    seen_at = Worker.objects.filter(kind=kind).aggregate(at=Max("seen_at"))["at"]
    if seen_at is None:
        return PartState(name, "failed", "not running: start `manage.py worker`")
    age = timezone.now() - seen_at
    state = "ok" if age < timedelta(seconds=HEARTBEAT_LIMIT_SECONDS * settings.PACE) else "failed"
    return PartState(name, state, f"last heartbeat {max(age.total_seconds(), 0):.0f} s ago")
