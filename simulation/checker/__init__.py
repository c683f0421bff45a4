"""Conservation lint for any transition, from any simulator: checks L01 to L24. No Django; the lab's quantities only."""

from simulation.checker.checks import check
from simulation.checker.findings import CODES, Finding, Report
from simulation.checker.reading.transition import TransitionError

__all__ = ["CODES", "Finding", "Report", "TransitionError", "check"]
