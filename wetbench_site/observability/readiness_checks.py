"""The result of a readiness check, and the registry of the checks that apps add to those of the database.

Every process that sets up Django imports this module, so it does not import the Redis client, which takes 90 ms to load
and which only `readiness` needs.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple


class PartState(NamedTuple):
    """The state of one part of the site: ok, degraded (raters are not affected) or failed; and the reason."""

    name: str
    state: str
    message: str


DatabaseCheck = Callable[[], PartState]
_database_checks: list[DatabaseCheck] = []


def register_database_check(check: DatabaseCheck) -> None:
    """Add a check that reads the database. An app's `ready()` calls it.

    The check runs in the thread and on the connection of the database part. It need not catch database
    errors: they make the database part fail.
    """
    if check not in _database_checks:
        _database_checks.append(check)


def run_database_checks() -> Iterator[PartState]:
    """Yield the results of the registered checks, in the order in which they were registered."""
    for check in _database_checks:
        yield check()
