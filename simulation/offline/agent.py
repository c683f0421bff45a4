"""The rule-based agent. It decides from the situation alone, so that another process can continue its episode."""

from collections.abc import Mapping
from typing import Any

from simulation.lab.actions import SUBMIT, Action, Catalogue
from simulation.lab.experiment_checks import find_references
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.roles import Situation
from simulation.offline.careless_agent import plan_careless_protocol


class ProtocolAgent:
    """An agent that tries each step of the reference protocol once and submits. `lapses` adds seeded mistakes."""

    def __init__(self, spec: ExperimentSpec, seed: int, lapses: bool = False) -> None:
        self.keys = tuple(key for key, _ in spec.materials)
        self.steps = plan_careless_protocol(spec, seed)[0] if lapses else spec.protocol

    def choose_action(self, situation: Situation) -> Action:
        """Return the first planned step that was not tried yet. Steps whose materials were never made are skipped."""
        # The last step is used for the submission.
        if situation.steps_left <= 1:
            return Action(SUBMIT)
        materials = situation.inventory.materials
        barcodes = {key: material.barcode for key, material in zip(self.keys, materials, strict=False)}
        # The agent keeps no state: it repeats its own choices along the history to find the barcodes that each step
        # produced.
        tried = iter(situation.history)
        for step in self.steps:
            action = _resolve_step(step, barcodes, situation.catalogue)
            if action is None:
                continue
            done = next(tried, None)
            if done is None:
                return action
            if done.outcome.success:
                yields = step.get("yields", {}).items()
                barcodes |= {label: done.barcodes[index] for label, index in yields if index < len(done.barcodes)}
        return Action(SUBMIT)


def _resolve_step(step: Mapping[str, Any], barcodes: Mapping[str, str], catalogue: Catalogue) -> Action | None:
    """Return the step with barcodes in place of names, or None if it needs a material that is missing.

    A missing material is left out if enough others remain and no parameter refers to it. But if the step yields
    materials, the result is None, because its new materials would no longer be in the planned order.
    """
    missing = [reference for reference in step["materials"] if reference not in barcodes]
    parameters = step.get("parameters", {})
    references_in_parameters = [reference for value in parameters.values() for reference in find_references(value)]
    action_type = catalogue.find_type(step["action"])
    fewest = action_type.min_materials if action_type else 0
    if missing and (step.get("yields") or len(step["materials"]) - len(missing) < max(1, fewest)):
        return None
    if any(reference not in barcodes for reference in references_in_parameters):
        return None
    chosen = tuple(barcodes[reference] for reference in step["materials"] if reference not in missing)
    return Action(
        step["action"], chosen, {name: _fill_references(value, barcodes) for name, value in parameters.items()}
    )


def _fill_references(value: Any, barcodes: Mapping[str, str]) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return barcodes[value[1:]]
    return [_fill_references(part, barcodes) for part in value] if isinstance(value, list | tuple) else value
