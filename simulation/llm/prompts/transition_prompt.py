"""The data of a transition prompt: the materials of the action under aliases, earlier observations, the action."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from simulation.lab.actions import Action
from simulation.lab.bench import Step
from simulation.lab.materials import Material
from simulation.lab.rendering import format_clock
from simulation.lab.roles import Situation
from simulation.llm.prompts.delimiters import delimit_json, delimit_lines, format_json_line
from simulation.llm.replies.lineage import Inputs, make_alias

_MAX_OBSERVATIONS_LENGTH = 40_000  # characters of earlier observations; the oldest are omitted first


class TransitionQuestion(NamedTuple):
    """The three values of a transition prompt, and the inputs that a reply's aliases refer to."""

    materials: str
    observations: str
    action: str
    inputs: Inputs

    def placeholder_values(self) -> dict[str, str]:
        return {"materials": self.materials, "observations": self.observations, "action": self.action}


def build_question(action: Action, situation: Situation) -> TransitionQuestion:
    """Return the question for an action that the catalogue accepts. The same situation gives the same bytes."""
    # Only materials of the action: the model must not use others that happen to be on the bench.
    inputs = tuple(situation.inventory[code] for code in action.materials)
    written = json.dumps(
        [action.to_json()["parameters"], [[m.name, dict(m.properties)] for m in inputs]], ensure_ascii=False
    )
    return TransitionQuestion(
        delimit_json("MATERIALS", [_material_entry(m, at, situation.elapsed) for at, m in enumerate(inputs)]),
        _render_observations(situation.history, inputs),
        delimit_json("ACTION", _action_entry(action, situation)),
        Inputs.from_materials(inputs, written),
    )


def _material_entry(material: Material, place: int, now: int) -> dict[str, Any]:
    entry = material.to_visible()
    # Replaced by durations: the model has no clock to compare with.
    del entry["created_at"], entry["last_modified"]
    return {
        "alias": make_alias(place),
        **entry,
        "on_the_bench_for": format_clock(now - material.created_at),
        "last_changed": f"{format_clock(now - material.last_modified)} ago",
    }


def _action_entry(action: Action, situation: Situation) -> dict[str, Any]:
    """Return the action with the defaults of omitted parameters and its description in the catalogue."""
    entry: dict[str, Any] = {
        "name": action.name,
        "materials": [{"alias": make_alias(at), "barcode": code} for at, code in enumerate(action.materials)],
        "parameters": dict(action.parameters),
    }
    if (kind := situation.catalogue.find_type(action.name)) is None:
        return entry
    defaults = {p.name: p.default for p in kind.parameters if p.default is not None}
    catalogue = {"does": kind.description, "kind": kind.kind, "takes_in": kind.inputs, "gives_out": kind.outputs}
    return {
        **entry,
        "parameters": {**defaults, **entry["parameters"]},
        "catalogue_entry": catalogue,
        "takes": format_clock(kind.compute_seconds(action)),
    }


def _render_observations(history: Sequence[Step], inputs: Sequence[Material]) -> str:
    """Return every step with observations, one line each, without any reasoning."""
    # Aliases only for the inputs of this action; older materials appear by name.
    aliases = {material.barcode: make_alias(at) for at, material in enumerate(inputs)}
    lines = [
        format_json_line(_observation_entry(step, aliases))
        for step in history
        if step.outcome.success and step.outcome.new_observations
    ]
    recent: list[str] = []
    for told in reversed(lines):
        # From the newest to the oldest, so that the oldest are left out first.
        if sum(map(len, recent)) + len(told) > _MAX_OBSERVATIONS_LENGTH:
            break
        recent.append(told)
    left_out = len(lines) - len(recent)
    note = [format_json_line({"left_out": f"the observations of {left_out} earlier steps"})] if left_out else []
    return delimit_lines("OBSERVATIONS", [*note, *reversed(recent)] or [format_json_line("none yet")])


def _observation_entry(step: Step, aliases: dict[str, str]) -> dict[str, Any]:
    return {
        "step": step.number,
        "time": format_clock(step.ended_at),
        "action": step.action.name,
        "on": [
            {"name": material.name} | ({"alias": aliases[material.barcode]} if material.barcode in aliases else {})
            for material in step.inputs
        ],
        "seen": [observation.to_json() for observation in step.outcome.new_observations],
    }
