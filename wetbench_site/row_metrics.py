"""The numbers that the database knows, read when they are asked for: they are right for all processes, and after a restart.

What is counted over a whole table is kept by each process for a minute; the rest is found by an index, however many rows there are.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Count, Max, Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ratings.models import Rating, RatingEvent
from simulation.models import Episode, Job, ModelCall, Run, Twin, Worker

ROWS: dict[str, type[Episode] | type[Twin] | type[Job]] = {"episode": Episode, "twin": Twin, "job": Job}
LATEST_CALLS = 10_000


class Rows(Collector):
    """Some twenty short queries a scrape; no request of a person pays for them."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """`wetbench_database_up` alone while the database is away."""
        try:
            found = [*_ratings(), *_work(), *_calls(), *_workers(), *_connections()]
        except (DatabaseError, InterfaceError):
            found = []
        yield _one("wetbench_database_up", "Whether the database answers.", bool(found))
        yield from found


registry = CollectorRegistry()
registry.register(Rows())


def _kept(name: str, count: Callable[[], Any]) -> Any:
    """What this process counted in the last minute, or what there is now."""
    return cache.get_or_set(f"metrics/{name}", count, settings.TALLY_SECONDS)


def _one(name: str, said: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, said, value=float(value or 0))


def _many(name: str, said: str, labels: list[str], rows: Iterable[tuple[Any, ...]]) -> GaugeMetricFamily:
    """Rows of label values, and the number last."""
    family = GaugeMetricFamily(name, said, labels=labels)
    for *values, number in rows:
        family.add_metric([str(value) for value in values], float(number))
    return family


def _ratings() -> Iterator[GaugeMetricFamily]:
    yield _one("wetbench_ratings", "Ratings that stand.", _kept("ratings", Rating.objects.count))
    yield _one(
        "wetbench_rating_versions",
        "Versions of ratings that were saved.",
        RatingEvent.objects.aggregate(n=Max("pk"))["n"],
    )


def _work() -> Iterator[GaugeMetricFamily]:
    yield _many("wetbench_rows", "Episodes, twins and jobs by status.", ["kind", "status"], _kept("rows", _statuses))
    waiting = [(kind, model.objects.claimable().count()) for kind, model in ROWS.items()]
    yield _many("wetbench_rows_waiting", "Rows that a worker could play now.", ["kind"], waiting)
    lost = [
        (kind, model.objects.filter(status__in=model.RUNNABLE).aggregate(n=Sum("lost_leases"))["n"] or 0)
        for kind, model in ROWS.items()
    ]
    yield _many("wetbench_leases_lost", "Workers that died on rows now under way.", ["kind"], lost)


def _statuses() -> list[tuple[str, str, int]]:
    return [
        (kind, *row)
        for kind, model in ROWS.items()
        for row in model.objects.order_by().values_list("status").annotate(number=Count("pk"))
    ]


def _calls() -> Iterator[GaugeMetricFamily]:
    newest = ModelCall.objects.aggregate(n=Max("pk"))["n"] or 0
    latest = ModelCall.objects.filter(pk__gt=newest - LATEST_CALLS).order_by().values_list("state")
    said = f"The latest {LATEST_CALLS} calls of language models by state."
    yield _many("wetbench_model_calls", said, ["state"], latest.annotate(number=Count("pk")))
    held = Run.objects.aggregate(tokens=Sum("held_tokens"), cost=Sum("held_cost"))
    yield _one("wetbench_model_tokens", "Tokens spent or reserved.", held["tokens"])
    yield _one("wetbench_model_cost_usd", "US dollars spent or reserved.", held["cost"])


def _workers() -> Iterator[GaugeMetricFamily]:
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    alive = Worker.objects.filter(seen_at__gt=since).order_by().values_list("kind").annotate(number=Count("pk"))
    yield _many("wetbench_workers", "Processes that play, by kind.", ["kind"], alive)


def _connections() -> Iterator[GaugeMetricFamily]:
    """Of all processes together, as the server counts them; SQLite has none."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT coalesce(state, 'unknown'), count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() GROUP BY 1"
            )
            rows = cursor.fetchall()
        yield _many("wetbench_database_connections", "Connections to the database by state.", ["state"], rows)
