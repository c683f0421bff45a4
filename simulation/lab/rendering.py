"""Render the bench as text: what an agent reads, and the record of an episode for people."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.bench import Step
from simulation.lab.materials import Inventory, Material
from simulation.lab.name_ranges import format_count
from simulation.lab.roles import Situation

WIRE_FORM = (
    "ACTION: the name of one action\n"
    "MATERIALS: the barcodes it uses, changes or consumes, divided by commas\n"
    "PARAMETERS: name=value, name=value; lists divided by commas, objects as {key:value,key:value}"
)

_LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def render_situation(situation: Situation) -> str:
    """Return an agent's view of an episode as text: goal, protocol if there is one, clock, the last step and all usable materials."""
    parts = [
        f"GOAL: {situation.goal}",
        *([f"PROTOCOL\n{situation.protocol}"] if situation.protocol else []),
        f"TIME: {format_clock(situation.elapsed)} since the start; {format_count(situation.steps_left, 'step')} left",
    ]
    if situation.history:
        parts.append("LAST STEP\n" + render_step(situation.history[-1]))
    return "\n\n".join([*parts, "MATERIALS\n" + render_materials(situation.inventory)])


def render_materials(inventory: Inventory) -> str:
    # Materials that are used up are left out; they would only lengthen the prompt.
    return "\n".join(
        _render_material(m, f"changed at {format_clock(m.last_modified)}") for m in inventory.list_usable()
    )


def render_ages(inventory: Inventory, now: int) -> str:
    """Return a line for every usable material with its condition, age, and time since its last change."""
    ages = [(m, format_clock(now - m.created_at), format_clock(now - m.last_modified)) for m in inventory.list_usable()]
    return "\n".join(_render_material(m, f"{age} old, unchanged for {unchanged}") for m, age, unchanged in ages)


def render_instructions(catalogue: Catalogue) -> str:
    """Return the answer format and every action with its parameters as text. It is the same throughout an episode."""
    return "\n".join(["ANSWER WITH", WIRE_FORM, "", "ACTIONS", *map(render_action, catalogue.types.values())])


def render_action(kind: ActionType) -> str:
    """Return the text of an action type: its description, inputs, outputs and parameters."""
    lines = [f"{kind.name} ({kind.kind}): {kind.description} In: {kind.inputs}. Out: {kind.outputs}."]
    for p in kind.parameters:
        default = "optional" if p.default is None else f"default {_format_value(p.default)}"
        need = "required" if p.required else default
        lines.append(f"  {p.name} ({p.type}, {need}): {p.description}; {p.describe_allowed()}")
    return "\n".join(lines)


def render_transcript(goal: str, steps: Iterable[Step], ending: str = "") -> str:
    """Return a full episode as text with one paragraph per step."""
    return "\n\n".join([f"GOAL: {goal}", *map(render_step, steps), *([f"ENDED: {ending}"] if ending else [])])


def render_step(done: Step) -> str:
    """Return one attempted action and its outcome as text."""
    if "full" not in done.texts:
        done.texts["full"] = "\n".join(map(join_lines, _render_step_lines(done)))
    return done.texts["full"]


def render_step_changes(done: Step, shown: dict[str, Mapping[str, Any]]) -> str:
    """Return a step as `render_step` does, but only the changed properties of a material that is in `shown`.

    `shown` maps barcodes to the properties that were last shown. It is updated by this step.
    """
    return "\n".join(map(join_lines, _render_step_lines(done, shown)))


def render_brief(done: Step) -> str:
    """Return an attempted action as one line of text: its materials and, if it was rejected, the reason."""
    used = ", ".join(f"{material.barcode} {material.name}" for material in done.inputs)
    text = f"{done.number}. {done.action.name} at {format_clock(done.started_at)}" + (f" on {used}" if used else "")
    return join_lines(text if done.outcome.success else f"{text} (refused: {done.outcome.failure_reason})")


def join_lines(text: str) -> str:
    """Replace line breaks in a text, so that a name or reading cannot look like a separate line."""
    return _LINE_BREAKS.sub(" / ", text)


def format_clock(seconds: int) -> str:
    """Return seconds as days, hours, minutes and seconds; zero parts are omitted."""
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts) or "0 s"


def _render_material(material: Material, times: str) -> str:
    state = f"{material.available_for_use}, {material.material_type}, {material.environmental_condition}; {times}"
    return join_lines(f"{material.barcode} {material.name} [{state}]{_render_properties(material.properties)}")


def _render_step_lines(step: Step, shown: dict[str, Mapping[str, Any]] | None = None) -> Iterator[str]:
    """Yield the lines of a step. With `shown`, a material that is in it is rendered by its changes."""
    used = ", ".join(f"{material.barcode} {material.name}" for material in step.inputs)
    yield f"{step.number}. {step.action.name} at {format_clock(step.started_at)}" + (f" on {used}" if used else "")
    if step.action.parameters:
        yield "   with " + ", ".join(
            f"{name}={_format_value(value)}" for name, value in _sort_by_name(step.action.parameters)
        )
    if not step.outcome.success:
        yield f"   refused by {step.outcome.rejected_by or 'nobody'}: {step.outcome.failure_reason}"
        return
    if step.outcome.fidelity:
        yield f"   done, {step.outcome.fidelity}"
    for code, draft in zip(step.barcodes, step.outcome.new_materials, strict=True):
        mark, before = "" if draft.replaces else "new ", None if shown is None else shown.get(code)
        properties = (
            _render_properties(draft.properties) if before is None else _render_changes(before, draft.properties)
        )
        yield f"   -> {mark}{code} {draft.name} [{draft.environmental_condition}]{properties}"
        if shown is not None:
            shown[code] = draft.properties
    for observation in step.outcome.new_observations:
        yield f"   saw ({observation.measurement_type}) {observation.description}" + (
            f": {observation.value}" if observation.value else ""
        )


def _render_properties(properties: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}: {_format_value(value)}" for name, value in _sort_by_name(properties))
    return f" {text}" if text else ""


def _render_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the properties that differ from those shown before, then the names of those that are gone."""
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    gone = ", ".join(sorted(set(before) - set(after)))
    changes = _render_properties(changed) + (f" (no longer: {gone})" if gone else "")
    return f" changed:{changes}" if changes else " unchanged"


def _sort_by_name(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    # A database need not keep the order of keys, and the same bench must always give the same text.
    return sorted(values.items())


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
