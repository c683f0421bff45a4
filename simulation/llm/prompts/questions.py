"""The data of a transition prompt: the materials of the action under aliases, earlier observations, the action."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from simulation.lab.actions import Action
from simulation.lab.bench import Step
from simulation.lab.materials import Material
from simulation.lab.roles import Situation
from simulation.lab.telling import clock
from simulation.llm.prompts.framing import framed, framed_lines, line
from simulation.llm.replies.lineage import Inputs, alias

_MOST_SEEN = 40_000  # characters of earlier observations; the oldest are omitted first


class Question(NamedTuple):
    """The three values of a transition prompt, and the inputs that a reply's aliases refer to."""

    materials: str
    observations: str
    action: str
    inputs: Inputs

    def values(self) -> dict[str, str]:
        return {"materials": self.materials, "observations": self.observations, "action": self.action}


def question(action: Action, situation: Situation) -> Question:
    """Return the question for an action that the catalogue accepts. The same situation gives the same bytes."""
    # Only materials of the action: the model must not use others that happen to be on the bench.
    inputs = tuple(situation.inventory[code] for code in action.materials)
    written = json.dumps(
        [action.to_json()["parameters"], [[m.name, dict(m.properties)] for m in inputs]], ensure_ascii=False
    )
    return Question(
        framed("MATERIALS", [_material(m, at, situation.elapsed) for at, m in enumerate(inputs)]),
        _observations(situation.history, inputs),
        framed("ACTION", _action(action, situation)),
        Inputs.of(inputs, written),
    )


def _material(material: Material, place: int, now: int) -> dict[str, Any]:
    entry = material.seen()
    # Replaced by durations: the model has no clock to compare with.
    del entry["created_at"], entry["last_modified"]
    return {
        "alias": alias(place),
        **entry,
        "on_the_bench_for": clock(now - material.created_at),
        "last_changed": f"{clock(now - material.last_modified)} ago",
    }


def _action(action: Action, situation: Situation) -> dict[str, Any]:
    """Return the action with the defaults of omitted parameters and its description in the catalogue."""
    entry: dict[str, Any] = {
        "name": action.name,
        "materials": [{"alias": alias(at), "barcode": code} for at, code in enumerate(action.materials)],
        "parameters": dict(action.parameters),
    }
    if (kind := situation.catalogue.find(action.name)) is None:
        return entry
    defaults = {p.name: p.default for p in kind.parameters if p.default is not None}
    catalogue = {"does": kind.description, "kind": kind.kind, "takes_in": kind.inputs, "gives_out": kind.outputs}
    return {
        **entry,
        "parameters": {**defaults, **entry["parameters"]},
        "catalogue_entry": catalogue,
        "takes": clock(kind.seconds(action)),
    }


def _observations(history: Sequence[Step], inputs: Sequence[Material]) -> str:
    """Return every step with observations, one line each, without any reasoning."""
    # Aliases only for the inputs of this action; older materials appear by name.
    aliases = {material.barcode: alias(at) for at, material in enumerate(inputs)}
    lines = [line(_seen(step, aliases)) for step in history if step.outcome.success and step.outcome.new_observations]
    recent: list[str] = []
    for told in reversed(lines):
        # At least the newest observation is always tried, the oldest is left out first.
        if sum(map(len, recent)) + len(told) > _MOST_SEEN:
            break
        recent.append(told)
    left_out = len(lines) - len(recent)
    note = [line({"left_out": f"the observations of {left_out} earlier steps"})] if left_out else []
    return framed_lines("OBSERVATIONS", [*note, *reversed(recent)] or [line("none yet")])


def _seen(step: Step, aliases: dict[str, str]) -> dict[str, Any]:
    return {
        "step": step.number,
        "time": clock(step.ended_at),
        "action": step.action.name,
        "on": [
            {"name": material.name} | ({"alias": aliases[material.barcode]} if material.barcode in aliases else {})
            for material in step.inputs
        ],
        "seen": [observation.to_json() for observation in step.outcome.new_observations],
    }
