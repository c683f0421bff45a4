"""What the laboratory reports about itself: gauges in /metrics, and whether a worker or dispatcher is running."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Max, Sum
from django.utils import timezone

from simulation.models import CodeEpisode, Episode, Job, ModelCall, Run, Twin, Worker
from wetbench_site.observability.registry import (
    Gauge,
    PartState,
    build_labelled_gauge,
    build_single_gauge,
    cache_for_one_minute,
)

ROW_MODELS: dict[str, type[Episode] | type[Twin] | type[Job] | type[CodeEpisode]] = {
    "episode": Episode, "twin": Twin, "job": Job, "code": CodeEpisode,
}  # fmt: skip
LATEST_CALLS = 10_000  # by primary key, because a count over all calls would scan the largest table


def read_laboratory_gauges() -> Iterator[Gauge]:
    """Yield the gauges of episodes, twins, code episodes and jobs, of model calls, and of workers."""
    yield from _read_row_gauges()
    yield from _read_call_gauges()
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    alive = Worker.objects.filter(seen_at__gt=since).order_by().values_list("kind").annotate(number=Count("pk"))
    yield build_labelled_gauge("wetbench_workers", "Worker processes by kind.", ("kind",), alive)


def _read_row_gauges() -> Iterator[Gauge]:
    by_status = cache_for_one_minute("rows", _count_rows_by_status)
    yield build_labelled_gauge(
        "wetbench_rows", "Episodes, twins, code episodes and jobs by status.", ("kind", "status"), by_status
    )
    waiting = [(kind, model.objects.claimable().count()) for kind, model in ROW_MODELS.items()]
    yield build_labelled_gauge("wetbench_rows_waiting", "Rows that a worker could run now.", ("kind",), waiting)
    running = {kind: model.objects.filter(status__in=model.RUNNABLE) for kind, model in ROW_MODELS.items()}
    lost = [(kind, rows.aggregate(n=Sum("lost_leases"))["n"] or 0) for kind, rows in running.items()]
    description = "Workers that died on rows that are under way now."
    yield build_labelled_gauge("wetbench_leases_lost", description, ("kind",), lost)


def _count_rows_by_status() -> list[tuple[str, str, int]]:
    return [
        (kind, *row)
        for kind, model in ROW_MODELS.items()
        for row in model.objects.order_by().values_list("status").annotate(number=Count("pk"))
    ]


def _read_call_gauges() -> Iterator[Gauge]:
    newest = ModelCall.objects.aggregate(n=Max("pk"))["n"] or 0
    latest = ModelCall.objects.filter(pk__gt=newest - LATEST_CALLS).order_by().values_list("state")
    by_state = latest.annotate(number=Count("pk"))
    description = f"The latest {LATEST_CALLS} calls of language models by state."
    yield build_labelled_gauge("wetbench_model_calls", description, ("state",), by_state)
    held = Run.objects.aggregate(tokens=Sum("held_tokens"), cost=Sum("held_cost"))
    yield build_single_gauge("wetbench_model_tokens", "Tokens spent or reserved.", held["tokens"])
    yield build_single_gauge("wetbench_model_cost_usd", "US dollars spent or reserved.", held["cost"])


HEARTBEAT_LIMIT_SECONDS = 60


def check_worker() -> PartState:
    """Return the state "ok" if the process that starts work has sent a heartbeat within a minute, else "failed"."""
    # Without that process, the dispatcher or the embedded worker, no episode, analysis or export is created.
    has_broker = bool(settings.CELERY_BROKER_URL)
    kind, name = ("dispatcher", "dispatcher") if has_broker else ("embedded", "worker")
    seen_at = Worker.objects.filter(kind=kind).aggregate(at=Max("seen_at"))["at"]
    if seen_at is None:
        return PartState(name, "failed", "not running: start `manage.py worker`")
    age = timezone.now() - seen_at
    state = "ok" if age < timedelta(seconds=HEARTBEAT_LIMIT_SECONDS * settings.PACE) else "failed"
    return PartState(name, state, f"last heartbeat {max(age.total_seconds(), 0):.0f} s ago")
