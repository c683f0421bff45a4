"""A line of progress for commands that take a while."""

import sys
import time
from typing import TextIO

from simulation.runs import RunProgress


class ProgressLine:
    """Rewrite one line on a terminal; elsewhere, print a line at most every two seconds."""

    def __init__(self, label: str, out: TextIO | None = None) -> None:
        self.label, self.out, self.last, self.printed_at = label, out or sys.stderr, "", 0.0

    def __call__(self, now: RunProgress) -> None:
        counts = ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in sorted(now.by_status.items()))
        self.show_progress(f"{self.label}: {now.ended} of {now.total} ended ({counts})", last=now.is_finished)

    def show_progress(self, text: str, last: bool = False) -> None:
        if text == self.last and not last:
            return
        if self.out.isatty():
            # return to the start of the line and erase it
            self.out.write(f"\r\x1b[K{text}" + ("\n" if last else ""))
        elif last or time.monotonic() - self.printed_at > 2:
            self.out.write(f"{text}\n")
            self.printed_at = time.monotonic()
        self.last = text
        self.out.flush()
