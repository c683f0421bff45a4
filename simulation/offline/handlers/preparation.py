"""Bringing a sample to a state: a pH, a size of grain, a filled electrode."""

from collections.abc import Callable

from simulation.offline.job import Job

HANDLERS: dict[str, Callable[[Job], None]] = {}
