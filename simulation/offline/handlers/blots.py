"""Gels, capillaries and antibodies."""

from collections.abc import Callable

from simulation.offline.job import Job

HANDLERS: dict[str, Callable[[Job], None]] = {}
