"""Ctrl-C and SIGTERM as an event: what is under way is finished, nothing new is begun."""

import signal
import threading
from types import FrameType


def stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, set_stop)
    return stop
