"""What the threads that answer requests have in common: room for their calls, and turns on SQLite.

**Room.** CPython 3.11 to 3.14 keeps the frames of a thread in chunks of 16 KiB. A chunk is mapped when a call does not fit into the
current one, and unmapped when that call returns. If a loop calls functions at the end of a chunk, each call maps and
unmaps one, which takes about 10 microseconds (CPython issue gh-142183). How often depends on the depth at which the server
calls: counted with strace, a rating took between 1 and 227 such pairs, and takes 1 with the function below at every depth.

The frame of the function below is so large that it gets a chunk of its own, of 256 KiB, and the frames of everything it
calls fit into the rest of it. Only the memory that is used is ever touched.

**Turns.** Each statement of SQLite lets another thread of the process run, for up to a millisecond, and meanwhile the first
one holds the write lock that all others need. With turns, eight raters who save at once get 1.4 times the answers a second.
PostgreSQL has no such lock, and waiting for it costs no processor time.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

MAX_WAIT_SECONDS = 0.05  # for a turn, so that a request that takes long does not delay the others
P = ParamSpec("P")
R = TypeVar("R")

_STACK_SLOTS = 16_000  # of 8 bytes: half of the chunk, whose size is the next power of two


def call_in_large_frame(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the function and return its result."""
    return function(*args, **kwargs)


call_in_large_frame.__code__ = call_in_large_frame.__code__.replace(co_stacksize=_STACK_SLOTS)

_turn = threading.Lock()


@contextmanager
def take_turn() -> Iterator[None]:
    """Wait until no other thread of the process is in such a block, but not longer than `MAX_WAIT_SECONDS`."""
    has_turn = _turn.acquire(timeout=MAX_WAIT_SECONDS)
    try:
        yield
    finally:
        if has_turn:
            _turn.release()
