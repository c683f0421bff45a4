"""Remove expired data once an hour, in the workers. Other apps register their cleanup functions when they start."""

import time
from collections.abc import Callable

INTERVAL_SECONDS = 3600
_tasks: list[Callable[[], object]] = []
_next_at = [0.0]  # monotonic seconds of this process


def register_cleanup(task: Callable[[], object]) -> None:
    """Register a function that removes expired data."""
    # Every process has its own timer, so functions must be safe to run twice and in two workers at once.
    if task not in _tasks:
        _tasks.append(task)


def run_due_cleanup() -> bool:
    """Run all registered functions if an hour has passed in this process. Return whether they ran."""
    if time.monotonic() < _next_at[0]:
        return False
    for task in _tasks:
        task()
    _next_at[0] = time.monotonic() + INTERVAL_SECONDS
    return True
