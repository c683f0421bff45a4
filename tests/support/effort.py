"""Whether something is little work, told in a way that a busy machine cannot spoil."""

import gc
import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread alone, with the garbage of all other tests left where it is."""
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        gc.enable()


def takes_under(limit: float, work: Callable[[], object], tries: int = 4) -> bool:
    """A machine that other work disturbs may spoil one try, hardly four; work that is too much is so each time."""
    return any(seconds(work) < limit for _ in range(tries))


def grows_with(small: Callable[[], object], large: Callable[[], object], times: float, tries: int = 6) -> bool:
    """Whether `large` takes at most `times` as long as `small`, but for 5 ms that hide the clock's own noise."""
    return any(seconds(large) < times * seconds(small) + 0.005 for _ in range(tries))
