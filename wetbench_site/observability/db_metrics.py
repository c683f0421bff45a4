"""Metrics from the database, read at each scrape: every process returns the same, also after a restart.

The apps register functions that read their gauges (`gauges.register_metrics`); this module adds those of the database.
"""

from collections.abc import Iterator

from django.db import DatabaseError, InterfaceError, connection
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from wetbench_site.observability import gauges
from wetbench_site.observability.gauges import Gauge


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


registry = CollectorRegistry()
registry.register(DatabaseCollector())


def _build_family(gauge: Gauge) -> GaugeMetricFamily:
    family = GaugeMetricFamily(gauge.name, gauge.description, labels=gauge.labels)
    for *values, number in gauge.rows:
        family.add_metric([str(value) for value in values], float(number))
    return family


def _read_connections() -> Iterator[Gauge]:
    """Yield the connections of all processes together, as the PostgreSQL server counts them; SQLite has none."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT coalesce(state, 'unknown'), count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() GROUP BY 1"
            )
            rows = cursor.fetchall()
        description = "Connections to the database by state."
        yield gauges.build_labelled_gauge("wetbench_database_connections", description, ("state",), rows)
