"""The checker on stored steps and twins. What it finds is kept beside the row and shown to staff, never to raters."""

import logging
from collections.abc import Mapping
from typing import Any

from simulation import checker
from simulation.lab.bench import Step
from simulation.lab.outcomes import Outcome

log = logging.getLogger("wetbench.checking")


def findings(step: Step, outcome: Outcome | None = None) -> dict[str, Any] | None:
    """The report on a step, or on another outcome of the same action; None if the checker itself failed.

    A fault of the checker must not cost a step that was played and perhaps paid for.
    """
    try:
        return checker.check(transition(step, outcome or step.outcome)).to_json()
    except Exception:  # a fault of ours here must not cost a step that was played and perhaps paid for
        log.exception("the checker failed on step %s, %s", step.number, step.action.name)
        return None


def transition(step: Step, outcome: Outcome) -> dict[str, Any]:
    """The step as a line of `check_transitions`: what anyone may see of it, nothing of a ledger."""
    return {
        "input_materials": [material.seen() for material in step.inputs],
        "action": step.action.to_json(),
        "outcome": {
            "new_materials": [_seen(draft.to_json()) for draft in outcome.new_materials],
            "new_observations": [observation.to_json() for observation in outcome.new_observations],
            "success": outcome.success,
            "failure_reason": outcome.failure_reason,
        },
    }


def _seen(draft: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in draft.items() if key != "ledger"}
