"""Django's PostgreSQL backend, without a round trip for every connection that is taken from the pool.

Django can check a pooled connection with an empty query. A worker takes one from the pool for every call of a model, and a
web process for every request. A connection that the server has closed is readable, which the operating system reports
without asking the server.
"""

import select
from typing import Any

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that discards pooled ones that the server has closed."""

    pool: Any  # missing in the stubs

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        while self.pool and _is_readable(connection.fileno()):
            connection.close()
            self.pool.putconn(connection)  # replaced by a new one
            connection = super().get_new_connection(conn_params)
        return connection


def _is_readable(file: int) -> bool:
    """Return whether the server has closed an idle connection, or sent anything else on it."""
    poll = select.poll()  # select.select takes no file numbers above 1023
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
