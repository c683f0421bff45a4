"""Remove what has expired, once an hour, in the workers. Other apps register their work when they start."""

import time
from collections.abc import Callable

EVERY_SECONDS = 3600
_work: list[Callable[[], object]] = []
_next = [0.0]  # monotonic seconds of this process


def also(work: Callable[[], object]) -> None:
    """Register a function that removes something."""
    # Every process keeps its own time, so functions must be safe to run twice and in two workers at once.
    if work not in _work:
        _work.append(work)


def tidy() -> bool:
    """Run all registered functions if an hour has passed in this process. Return whether they ran."""
    if time.monotonic() < _next[0]:
        return False
    for task in _work:
        task()
    _next[0] = time.monotonic() + EVERY_SECONDS
    return True
