"""Microscopes and plate readers that add, stimulate and record over time."""

from collections.abc import Callable

from simulation.offline.job import Job

HANDLERS: dict[str, Callable[[Job], None]] = {}
