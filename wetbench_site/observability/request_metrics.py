"""Number and duration of requests: the only metrics that the database does not have.

Each gunicorn process writes its numbers to a file that the others read (wetbench_site/gunicorn_conf.py), so a scrape of
one process returns the sum over all.
"""

import os

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

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
