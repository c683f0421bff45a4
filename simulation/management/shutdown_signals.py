"""Turn Ctrl-C and SIGTERM into an event, after which units under way are finished and no new ones start."""

import signal
import threading
from types import FrameType


def stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        # In a thread: a second signal during `set` would wait for ever for the lock that the first one holds.
        threading.Thread(target=stop.set).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, set_stop)
    return stop
