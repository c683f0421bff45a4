"""Create a twin: the same inventory and action with another outcome, either with a planted error or from another model."""

from typing import Any

from simulation.engine import players
from simulation.lab.bench import Step, step_from_json
from simulation.lab.differences import differences
from simulation.lab.errors import NoErrorFits
from simulation.lab.outcomes import PerturbedOutcome
from simulation.leases import Lease, units
from simulation.llm.errors import Unusable
from simulation.models import Twin
from simulation.runs import checking, laboratory


def advance(lease: Lease[Twin]) -> bool:
    """Perturb the transition's outcome once. Return True if the result is committed."""
    return units.played(lease, lambda: _play(lease))


def _play(lease: Lease[Twin]) -> bool:
    twin = lease.row
    step = step_from_json(twin.transition.step)
    bench = laboratory.bench(twin.transition.episode, before=twin.transition.number)
    try:
        perturbed = players.of_twin(lease).perturb(step.action, bench.situation(), step.outcome)
        bench.record(step.action, perturbed.outcome)  # raises LabError if no bench can be in that state
    except NoErrorFits as error:
        return lease.finish("unsuited", error=str(error))
    except Unusable as error:
        return lease.finish("unusable", error=str(error))
    return lease.finish("done", **_columns(step, perturbed))


def _columns(step: Step, made: PerturbedOutcome) -> dict[str, Any]:
    changes = differences(step.outcome, made.outcome)
    return {
        "outcome": made.outcome.to_json(),
        "kind": made.kind,
        "rule": made.rule,
        "field": made.field[:200],
        "why": made.why,
        "diff": [difference._asdict() for difference in changes],
        "findings": checking.findings(step, made.outcome),
    }
