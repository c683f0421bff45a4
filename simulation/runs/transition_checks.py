"""Run the checker on steps and twins. Its findings are stored with the row and shown to staff, never to raters."""

import logging
from collections.abc import Mapping
from typing import Any

from simulation import checker
from simulation.lab.bench import Step
from simulation.lab.outcomes import Outcome

log = logging.getLogger("wetbench.checking")


def compute_findings(step: Step, outcome: Outcome | None = None) -> dict[str, Any] | None:
    """Return the report on a step, or on another outcome of the same action. Return None if the checker failed."""
    try:
        return checker.check_transition(build_checker_line(step, outcome or step.outcome)).to_json()
    except Exception:  # a bug in the checker must not lose a step that may have been paid for
        log.exception("the checker failed on step %s, %s", step.number, step.action.name)
        return None


def build_checker_line(step: Step, outcome: Outcome) -> dict[str, Any]:
    """Return the step as a line of `check_transitions`: only what everybody may see, without the ledger."""
    return {
        "input_materials": [material.to_visible() for material in step.inputs],
        "action": step.action.to_json(),
        "outcome": {
            "new_materials": [_remove_ledger(draft.to_json()) for draft in outcome.new_materials],
            "new_observations": [observation.to_json() for observation in outcome.new_observations],
            "success": outcome.success,
            "failure_reason": outcome.failure_reason,
        },
    }


def _remove_ledger(material: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in material.items() if key != "ledger"}
