"""Leases: which worker may write to a row, and what happens to the row when its unit of work fails.

A claim raises the row's fence, and every commit requires that fence, so a worker that was presumed dead writes nothing.
`unit_outcomes` lists the ways in which a unit can stop early, and turns each of them into a state of the row.

May import: simulation.casts, simulation.lab, simulation.llm, simulation.models.
"""

from simulation.leases.leases import Lease
from simulation.leases.unit_outcomes import Blocked, LeaseLost, RetriesExhausted, RetryLater

__all__ = ["Blocked", "Lease", "LeaseLost", "RetriesExhausted", "RetryLater"]
