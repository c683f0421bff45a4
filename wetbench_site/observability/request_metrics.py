"""How many requests there were and how long they took: the one thing about the site that no database knows.

Each process of gunicorn keeps its numbers in a file that the others read (wetbench_site/gunicorn_conf.py): a scrape
reaches one of them, and tells of all.
"""

import os

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

_own = CollectorRegistry()
_seconds = Histogram(
    "wetbench_request_seconds",
    "Time of requests by page and class of status.",
    ["view", "status"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 15),
    registry=_own,
)


def observe(view: str, status: int, seconds: float) -> None:
    """`view` is the name of an address, of which there are few; never the address."""
    _seconds.labels(view or "none", f"{status // 100}xx").observe(seconds)


def registry() -> CollectorRegistry:
    """The numbers of all processes that serve, or of this one where it serves alone."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return _own
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    return together
