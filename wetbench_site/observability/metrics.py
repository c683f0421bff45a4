"""Metrics for Prometheus: gauges read from the database at each scrape, and the number and duration of requests.

Every process returns the same gauges, also after a restart. Each gunicorn process writes its request numbers to a file that
the others read (wetbench_site/gunicorn_conf.py), so a scrape of one process returns the sum over all."""

import os
from collections.abc import Iterator

from django.db import DatabaseError, InterfaceError, connection
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from wetbench_site.database import fetch_rows
from wetbench_site.observability import registry as gauges
from wetbench_site.observability.registry import Gauge


class DatabaseCollector(Collector):
    """Read all gauges at each scrape, with some twenty short queries; no page waits for them."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield `wetbench_database_up` and all gauges; `wetbench_database_up` alone if the database does not answer."""
        try:
            families = [_build_family(gauge) for gauge in (*gauges.read_gauges(), *_read_connections())]
        except (DatabaseError, InterfaceError):
            families = []
        up = gauges.build_single_gauge("wetbench_database_up", "Whether the database answers.", bool(families))
        yield _build_family(up)
        yield from families


def _build_family(gauge: Gauge) -> GaugeMetricFamily:
    family = GaugeMetricFamily(gauge.name, gauge.description, labels=gauge.labels)
    for *values, number in gauge.rows:
        family.add_metric([str(value) for value in values], float(number))
    return family


def _read_connections() -> Iterator[Gauge]:
    """Yield the connections of all processes together, as the PostgreSQL server counts them; SQLite has none."""
    if connection.vendor == "postgresql":
        rows = fetch_rows("""
            SELECT coalesce(state, 'unknown'), count(*) FROM pg_stat_activity
            WHERE datname = current_database() GROUP BY 1""")
        description = "Connections to the database by state."
        yield gauges.build_labelled_gauge("wetbench_database_connections", description, ("state",), rows)


registry = CollectorRegistry()
registry.register(DatabaseCollector())
_process_registry = CollectorRegistry()
_request_seconds = Histogram(
    "wetbench_request_seconds",
    "Time of requests by page and class of status.",
    ["view", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 15),
    registry=_process_registry,
)


def observe_request(view: str, status: int, seconds: float) -> None:
    """Count a request. `view` is the name of the view."""
    # Labels have to be few: paths contain codes, of which there are thousands.
    _request_seconds.labels(view or "none", f"{status // 100}xx").observe(seconds)


def get_registry() -> CollectorRegistry:
    """Return the numbers of all serving processes, or of this one if it serves alone."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return _process_registry
    all_processes = CollectorRegistry()
    MultiProcessCollector(all_processes)  # type: ignore[no-untyped-call]
    return all_processes
