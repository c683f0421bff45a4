"""Prevent the audit from writing to the live database.

The audit gives raters' places to test users, deletes their answers and swaps the sources of items. Every module that
does so calls `require_scratch_copy` first. `require_scratch_copy` raises RuntimeError in any process that has not
called `allow_writes`, which checks for a table that `ratings.studies.blinding_audit.copy.scratch` creates in each
copy and that no live database has.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

MARKER_TABLE = "wetbench_scratch_copy"  # the table that only a scratch copy has

_is_allowed = False  # of this process; set by `allow_writes` alone


def allow_writes() -> None:
    """Allow this process to write to its database. Raises RuntimeError unless that database is marked as a scratch
    copy.
    """
    global _is_allowed
    if MARKER_TABLE not in connection.introspection.table_names():
        raise RuntimeError(f"the database {connection.settings_dict['NAME']} is not a scratch copy of a blinding audit")
    _is_allowed = True


def require_scratch_copy() -> None:
    """Raise RuntimeError in every process that does not work on a scratch copy."""
    if not _is_allowed:
        raise RuntimeError(
            "a blinding audit writes to a scratch copy only, and this process works on the live database"
        )


@contextmanager
def roll_back_changes() -> Iterator[None]:
    """Undo everything that the block writes. Raises RuntimeError in a process that does not work on a scratch copy."""
    require_scratch_copy()
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
