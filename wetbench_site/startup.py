"""Checks at the start of a server or worker. It exits with a list of problems if the site is not usable."""

import logging

from django.core.checks import CheckMessage, run_checks
from django.db import DatabaseError, InterfaceError, connection

from wetbench_site import checks
from wetbench_site.environment import InvalidConfiguration

log = logging.getLogger("wetbench.starting")


def check_site() -> None:
    """Raise InvalidConfiguration with every problem found. Servers and workers call it; commands do not."""
    errors = [*run_checks(tags=["wetbench"]), *_check_database()]
    if errors:
        problems = "\n".join(f"- {fault.msg} {fault.hint or ''}".rstrip() for fault in errors)
        raise InvalidConfiguration(f"WetBench cannot start:\n{problems}")


def _check_database() -> list[CheckMessage]:
    """Return the errors of the database; none if it is not available."""
    try:
        return [*checks.check_durability(databases=["default"]), *checks.check_migrations()]
    # A database that is down can come back without a restart of the site; /readyz reports it until then.
    except (DatabaseError, InterfaceError) as error:
        log.warning("the database did not answer at the start and was not checked: %s", error)
        return []
    finally:
        if not connection.in_atomic_block:
            connection.close()
