"""Taking the liquid off and leaving what was dissolved in it."""

from collections.abc import Callable

from simulation.offline.job import Job

HANDLERS: dict[str, Callable[[Job], None]] = {}
