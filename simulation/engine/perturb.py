"""Create a twin: the same inventory and action with another outcome, either with a planted error or from another model."""

from typing import Any

from simulation.engine import role_sets
from simulation.lab.bench import Step, step_from_json
from simulation.lab.differences import find_differences
from simulation.lab.errors import NoErrorFits
from simulation.lab.outcomes import PerturbedOutcome
from simulation.leases import Lease, unit_outcomes
from simulation.llm.errors import UnusableTwin
from simulation.models import Twin
from simulation.runs import benches, transition_checks


def run_twin_unit(lease: Lease[Twin]) -> bool:
    """Perturb the transition's outcome once. Return True if the result is committed."""
    return unit_outcomes.run_unit(lease, lambda: _perturb_outcome(lease))


def _perturb_outcome(lease: Lease[Twin]) -> bool:
    twin = lease.row
    step = step_from_json(twin.transition.step)
    bench = benches.build_bench(twin.transition.episode, before=twin.transition.number)
    try:
        perturbed = role_sets.build_perturber(lease).perturb_outcome(step.action, bench.get_situation(), step.outcome)
        bench.record_outcome(step.action, perturbed.outcome)  # raises LabError if no bench can be in that state
    except NoErrorFits as error:
        return lease.finish_row("unsuited", error=str(error))
    except UnusableTwin as error:
        return lease.finish_row("unusable", error=str(error))
    return lease.finish_row("done", **_columns_of_twin(step, perturbed))


def _columns_of_twin(step: Step, perturbed: PerturbedOutcome) -> dict[str, Any]:
    changes = find_differences(step.outcome, perturbed.outcome)
    return {
        "outcome": perturbed.outcome.to_json(),
        "kind": perturbed.kind,
        "rule": perturbed.rule,
        "field": perturbed.field[:200],
        "explanation": perturbed.explanation,
        "diff": [difference._asdict() for difference in changes],
        "findings": transition_checks.compute_findings(step, perturbed.outcome),
    }
