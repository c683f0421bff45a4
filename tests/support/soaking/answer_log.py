"""A log of the answers that raters sent and of those that were confirmed as saved, written to disk before anything else happens."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SENT, CONFIRMED = "sent", "confirmed"


class LogEntry(NamedTuple):
    """An answer to one assignment: as it was sent, or as a response with status 2xx confirmed it."""

    state: str
    place: str
    submission: str
    verdict: bool
    confidence: int


class AnswerLog:
    """One line per entry, on disk before the call returns: whatever is killed, the confirmed answers are known."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def append_entry(self, entry: LogEntry) -> None:
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def iter_entries(self) -> Iterator[LogEntry]:
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                yield LogEntry(*json.loads(line))
