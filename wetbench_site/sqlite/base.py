"""Django's SQLite backend, with a queue of the writers within one process.

SQLite allows one writer at a time; the others sleep and retry, with growing intervals. If eight raters save at once, the
last one can wait half a second although the lock was free ten times. The threads of one process can queue instead.
SQLite's own lock is still always taken and is the only one between processes: the queue just makes waiting shorter.
"""

import threading
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

_write_queue = threading.Lock()


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that waits in the queue before it begins a write transaction. The stubs lack the methods that it overrides."""

    _holds_queue = False

    def _start_transaction_under_autocommit(self) -> None:
        # No queue for deferred transactions, which only read, or for a database in memory, which has one connection.
        if self.transaction_mode == "IMMEDIATE" and not self.is_in_memory_db():
            if not _write_queue.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5)):
                raise OperationalError(
                    "database is locked: other threads of this process were writing during the whole timeout"
                )
            self._holds_queue = True
        try:
            super()._start_transaction_under_autocommit()
        # An exception such as KeyboardInterrupt must not leave the queue locked for ever.
        except BaseException:
            self._leave_queue()
            raise

    def _commit(self) -> Any:
        try:
            return super()._commit()
        finally:
            self._leave_queue()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()
        finally:
            self._leave_queue()

    def _close(self) -> Any:
        try:
            return super()._close()
        finally:
            self._leave_queue()

    def _leave_queue(self) -> None:
        if self._holds_queue:
            self._holds_queue = False
            _write_queue.release()
