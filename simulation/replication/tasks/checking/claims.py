"""Compare results that the source of an imported task states with those that its reference code computes here. They are not graded."""

from collections.abc import Iterator, Mapping

from simulation.replication.comparing import PAPER_REL, is_near
from simulation.replication.tasks.checking.proofs import ClaimProof
from simulation.replication.tasks.running import CaseOutcome, Run
from simulation.replication.values import BASE_VARIANT, Metric, Task


def compare_claims(task: Task, gold: Mapping[Run, CaseOutcome]) -> Iterator[ClaimProof]:
    """Yield each claim of the task with the base value of the reference code. `gold` has the outcome of every test case."""
    for case, claims in task.origin.claims.items() if task.origin else ():
        values = gold[Run(0, BASE_VARIANT, case)].values or {}
        for name, claimed in claims.items():
            computed = values.get(name)
            yield ClaimProof(case, name, claimed, computed, is_near(Metric(name, rel=PAPER_REL), claimed, computed))
