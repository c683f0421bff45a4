"""Probes and meters that leave the sample as it was."""

from collections.abc import Callable

from simulation.offline.job import Job

HANDLERS: dict[str, Callable[[Job], None]] = {}
