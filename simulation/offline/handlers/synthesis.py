"""Sequences made from nothing but reagents the instrument holds."""

from collections.abc import Callable

from simulation.offline.job import Job

HANDLERS: dict[str, Callable[[Job], None]] = {}
