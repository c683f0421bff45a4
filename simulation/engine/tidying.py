"""What has run out and is removed once an hour, by the workers; other apps name theirs as they start."""

import time
from collections.abc import Callable

EVERY_SECONDS = 3600
_work: list[Callable[[], object]] = []
_next = [0.0]  # by this process's own clock


def also(work: Callable[[], object]) -> None:
    """Something more to remove; safe to do twice, by two workers at once."""
    if work not in _work:
        _work.append(work)


def tidy() -> bool:
    """Remove it all, if an hour has passed in this process."""
    if time.monotonic() < _next[0]:
        return False
    for work in _work:
        work()
    _next[0] = time.monotonic() + EVERY_SECONDS
    return True
