"""The start of a server or worker: it asks once whether the site is fit, and ends with all that is wrong if it is not."""

import logging

from django.core.checks import CheckMessage, run_checks
from django.db import DatabaseError, InterfaceError, connection

from wetbench_site import refusals
from wetbench_site.environment import Unusable

log = logging.getLogger("wetbench.starting")


def refuse_unfit() -> None:
    """Raises Unusable, which names everything at once. For those who serve or play, not for commands."""
    faults = [*run_checks(tags=["wetbench"]), *_of_database()]
    if faults:
        told = "\n".join(f"- {fault.msg} {fault.hint or ''}".rstrip() for fault in faults)
        raise Unusable(f"WetBench will not start like this:\n{told}")


def _of_database() -> list[CheckMessage]:
    """A database that is away is no fault of the site's: it comes back, and /readyz tells of it until then."""
    try:
        return [*refusals.durability(databases=["default"]), *refusals.pending_migrations()]
    except (DatabaseError, InterfaceError) as error:
        log.warning("the database did not answer at the start, so it was not checked: %s", error)
        return []
    finally:
        if not connection.in_atomic_block:
            connection.close()
