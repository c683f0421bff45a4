"""Keeps the audit's writes away from the live database.

The audit assigns raters' seats to test users, deletes their answers and swaps the sources of items. Every module
that does so calls `require_scratch_copy` first. A process may pass only after `allow_writes`, which looks for a table that
`ratings.studies.blinding_audit.copy.scratch` puts into each copy and that no live database has.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

MARK = "wetbench_scratch_copy"  # the table that only a scratch copy has

_is_allowed = False  # of this process; set by `allow_writes` alone


def allow_writes() -> None:
    """Let this process write to its database. RuntimeError unless that database is marked as a scratch copy."""
    global _is_allowed
    if MARK not in connection.introspection.table_names():
        raise RuntimeError(f"the database {connection.settings_dict['NAME']} is not a scratch copy of a blinding audit")
    _is_allowed = True


def require_scratch_copy() -> None:
    """RuntimeError in every process that does not work on a scratch copy."""
    if not _is_allowed:
        raise RuntimeError(
            "a blinding audit writes to a scratch copy only, and this process works on the live database"
        )


@contextmanager
def rolled_back() -> Iterator[None]:
    """Undo everything that the block writes. RuntimeError in a process that does not work on a scratch copy."""
    require_scratch_copy()
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
