"""Django's SQLite, whose writers queue within a process instead of asking again and again.

SQLite has one writer at a time, and whoever comes second sleeps and asks again, for longer each time: of eight raters who save at
once the unlucky one waits half a second for a lock that was free ten times meanwhile. The threads of a process can wait in
line. Between processes SQLite's own lock stays the only one, and it is always taken: the line is for comfort.
"""

import threading
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

_turn = threading.Lock()


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that waits for its turn before it begins a transaction. What it overrides is missing in the stubs."""

    _has_turn = False

    def _start_transaction_under_autocommit(self) -> None:
        if self.transaction_mode == "IMMEDIATE" and not self.is_in_memory_db():
            if not _turn.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5)):
                raise OperationalError(
                    "database is locked: another thread of this process has been writing all the time"
                )
            self._has_turn = True
        try:
            super()._start_transaction_under_autocommit()
        except BaseException:
            self._leave()
            raise

    def _commit(self) -> Any:
        try:
            return super()._commit()
        finally:
            self._leave()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()
        finally:
            self._leave()

    def _close(self) -> Any:
        try:
            return super()._close()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._has_turn:
            self._has_turn = False
            _turn.release()
