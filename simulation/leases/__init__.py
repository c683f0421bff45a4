"""Leases: which worker may write to a row, and what happens to the row when its unit of work fails.

A claim raises the row's fence, and every commit requires that fence, so a worker that was presumed dead writes nothing.
A unit can stop early in several ways; `run_unit` turns each of them into a state of the row.

May import: simulation.casts, simulation.lab, simulation.llm, simulation.models.
"""

from simulation.leases.leases import Blocked, Lease, LeaseLost, RetriesExhausted, RetryLater

__all__ = ["Blocked", "Lease", "LeaseLost", "RetriesExhausted", "RetryLater"]
