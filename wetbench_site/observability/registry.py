"""What the apps register: gauges for /metrics, and checks of the database for /readyz.

Every process that sets up Django imports this module, so it imports neither the Prometheus client nor the Redis client, which
take 60 and 90 ms to load and which only web processes need."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from django.conf import settings
from django.core.cache import cache


class Gauge(NamedTuple):
    """A metric without history. Each row holds the values of the labels, and the number last."""

    name: str
    description: str
    labels: tuple[str, ...]
    rows: list[tuple[Any, ...]]


ReadGauges = Callable[[], Iterable[Gauge]]
_readers: dict[str, ReadGauges] = {}


def register_metrics(app: str, read: ReadGauges) -> None:
    """Add an app's function to those that every scrape calls. To be called by the app's `ready()`."""
    _readers[app] = read


def read_gauges() -> Iterator[Gauge]:
    """Yield the gauges of all apps, ordered by the name of the app so that a scrape always has the same order."""
    for app in sorted(_readers):
        yield from _readers[app]()


def build_single_gauge(name: str, description: str, value: float | None) -> Gauge:
    """Return a gauge without labels; no value, such as the sum of an empty table, counts as 0."""
    return Gauge(name, description, (), [(value or 0,)])


def build_labelled_gauge(
    name: str, description: str, labels: tuple[str, ...], rows: Iterable[tuple[Any, ...]]
) -> Gauge:
    """Return a gauge with one number for each combination of labels, and run the query of the rows at once."""
    return Gauge(name, description, labels, list(rows))


def cache_for_one_minute(name: str, count: Callable[[], Any]) -> Any:
    """Return what this process counted in the last minute, or count it again. For counts over a whole table."""
    return cache.get_or_set(f"metrics/{name}", count, settings.TALLY_SECONDS)


class PartState(NamedTuple):
    """The state of one part of the site: ok, degraded (raters are not affected) or failed; and the reason."""

    name: str
    state: str
    message: str


DatabaseCheck = Callable[[], PartState]
_database_checks: list[DatabaseCheck] = []


def register_database_check(check: DatabaseCheck) -> None:
    """Add a check that reads the database. An app's `ready()` calls it.

    The check runs in the thread and on the connection of the database part. It need not catch database
    errors: they make the database part fail.
    """
    if check not in _database_checks:
        _database_checks.append(check)


def run_database_checks() -> Iterator[PartState]:
    """Yield the results of the registered checks, in the order in which they were registered."""
    for check in _database_checks:
        yield check()
