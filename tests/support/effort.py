"""Measure effort in a way that a busy machine cannot distort."""

import gc
import time
from collections.abc import Callable


def measure_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of this thread alone, without garbage collection of objects of other tests."""
    gc.disable()
    try:
        start = time.thread_time()
        work()
        return time.thread_time() - start
    finally:
        gc.enable()


def takes_under(limit: float, work: Callable[[], object], tries: int = 4) -> bool:
    """Return whether one of several tries is fast enough. Other work on the machine may spoil one try, hardly four; work that is too slow is slow each time."""
    return any(measure_seconds(work) < limit for _ in range(tries))


def grows_at_most(small: Callable[[], object], large: Callable[[], object], times: float, tries: int = 6) -> bool:
    """Return whether `large` takes at most `times` as long as `small`. 5 ms are added to hide the resolution of the clock."""
    return any(measure_seconds(large) < times * measure_seconds(small) + 0.005 for _ in range(tries))
