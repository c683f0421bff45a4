"""The data in prompts: histories, records and transition questions, as JSON between marks that its author cannot predict."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from simulation.lab import rendering
from simulation.lab.actions import Action
from simulation.lab.bench import Step
from simulation.lab.materials import Material
from simulation.lab.rendering import format_clock
from simulation.lab.roles import Situation, TranscriptStep
from simulation.llm import histories
from simulation.llm.conversation import clean_text
from simulation.llm.histories import GrowingText, History, count_left_out
from simulation.llm.lineage import Inputs, make_alias
from wetbench_site.text import hash_text

_MAX_OBSERVATIONS_LENGTH = 40_000  # characters of earlier observations; the oldest are omitted first
_KEPT_OBSERVATIONS_LENGTH = 30_000  # characters that remain when some are omitted
_STATE = ("name", "properties", "available_for_use", "material_type", "environmental_condition")
# Text in the data could otherwise look like a mark or a tag of the prompt, and be followed as an instruction.
_TAG = re.compile("<(?=[A-Za-z/!?<])")  # possible start of a tag, of the prompt set or ours


def delimit_json(label: str, data: Any) -> str:
    """Return the data as indented JSON between marks. Keys are sorted, because a database may not keep their order."""
    return _delimit(label, json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1))


def delimit_lines(label: str, entries: Iterable[Any]) -> str:
    """Return each entry as one line of JSON, between marks."""
    return _delimit(label, "\n".join(map(_format_line, entries)))


def delimit_growing_lines(label: str, entries: Sequence[Any]) -> GrowingText:
    """Return the entries as `delimit_lines` does, with a mark that stays the same when entries are added at the end."""
    lines = [_escape(_format_line(entry)) for entry in entries]
    code = _choose_code(label, lines[0], "\n".join(lines))
    return GrowingText.join([f"<<<{label} {code}\n{lines[0]}", *lines[1:]], "\n").with_rest(f"\n{label} {code}>>>")


def delimit_text(label: str, text: str) -> str:
    """Return a text between marks, line by line as it is, for code and outputs that an escape would change."""
    content = clean_text(text)
    code = _choose_code(label, content, content)
    return f"<<<{label} {code}\n{content}\n{label} {code}>>>"


def _format_line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def _delimit(label: str, content: str) -> str:
    """Return the content between marks with a hash of the content, so it cannot contain its own mark and a replay is identical."""
    content = _escape(content)
    code = _choose_code(label, content, content)
    return f"<<<{label} {code}\n{content}\n{label} {code}>>>"


def _escape(content: str) -> str:
    # The content is JSON, so the first character of a possible tag can be written as a JSON escape.
    return _TAG.sub(r"\\u003c", clean_text(content))


def _choose_code(label: str, start: str, content: str) -> str:
    """Return the code of a block's marks: a hash of the label and of the block's start, which the content does not contain."""
    code = hash_text(f"{label}\n{start}")[:16]
    # Whoever wrote a later line may have seen the code of the first one, in an earlier prompt.
    while code in content:
        code = hash_text(code)[:16]
    return code


def render_history(
    history: History, steps: Sequence[Step], thoughts: Mapping[str, str], summary: str = ""
) -> GrowingText:
    """Return the history as the agent reads it; `summary` describes the summarised steps."""
    return histories.render_history(
        history, steps, lambda shown: _render_paragraphs(shown, thoughts), rendering.render_brief, summary
    )


def render_steps(steps: Sequence[Step], thoughts: Mapping[str, str]) -> str:
    """Return one paragraph per step. It begins with the agent's thought before that step, if there is one."""
    return "\n\n".join(_render_paragraphs(steps, thoughts))


def _render_paragraphs(steps: Sequence[Step], thoughts: Mapping[str, str]) -> list[str]:
    """Return a paragraph for each step. A material is shown in full by the first of these steps that returns it, then by its changes."""
    paragraphs = []
    shown: dict[str, Mapping[str, Any]] = {}
    for step in steps:
        thought = thoughts.get(str(step.number), "")
        lead = f"(thought before step {step.number}: {rendering.join_lines(thought)})\n" if thought else ""
        paragraphs.append(lead + rendering.render_step_changes(step, shown))
    return paragraphs


def render_record(transcript: Sequence[TranscriptStep]) -> str:
    """Return the record of an episode as a classifier reads it: one line of JSON per step, between marks.

    A material that was shown before appears by its name and what has changed since: repeating the rest would make long
    records exceed the context.
    """
    last_states: dict[str, Mapping[str, Any]] = {}
    return delimit_lines("RECORD", [_step_entry(step, last_states) for step in transcript] or ["nothing was done"])


def split_record(transcript: Sequence[TranscriptStep], most: int) -> list[str]:
    """Return the record in parts of at most `most` UTF-8 bytes, each complete in itself. A longer step is a separate part."""
    pieces: list[list[Any]] = []
    size = most
    for step in transcript:
        # An empty state for each part, because every part is read by itself.
        entry = _step_entry(step, {})
        length = len(_format_line(entry).encode()) + 1  # one byte for the line end
        if not pieces or size + length > most:
            pieces.append([])
            size = 0
        pieces[-1].append(entry)
        size += length
    return [delimit_lines("RECORD", piece) for piece in pieces]


def _step_entry(step: TranscriptStep, last_states: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a step's action, times and results. `last_states` stores the last displayed state of each material."""
    inputs, outputs = [], []
    for material in step.inputs:
        inputs.append(_describe_state(material, last_states))
    entry: dict[str, Any] = {
        "step": step.number,
        "time": f"{format_clock(step.started_at)} to {format_clock(step.ended_at)}",
        "action": step.action,
        "parameters": dict(step.parameters),
        "inputs": inputs,
    }
    if step.rejected:
        return {**entry, "rejected": step.rejected}
    for material in step.outputs:
        origin = {name: material[name] for name in ("derived_from", "taken") if material.get(name)}
        outputs.append({**_describe_state(material, last_states), **origin})
    return {**entry, "outputs": outputs, "observations": [dict(observation) for observation in step.observations]}


def _describe_state(material: Mapping[str, Any], last_states: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a material's state, or what has changed since it was last shown. Store the state as the last one."""
    code, state = material["barcode"], {name: material[name] for name in _STATE}
    before, last_states[code] = last_states.get(code), state
    # Compare states, not times: a material that was used without being changed need not be repeated.
    if before is None:
        return {"barcode": code, **state}
    entry: dict[str, Any] = {"barcode": code, "name": state["name"]}
    old, new = before["properties"], state["properties"]
    changed = {name: state[name] for name in _STATE[2:] if state[name] != before[name]}
    if properties := {name: value for name, value in new.items() if name not in old or old[name] != value}:
        changed["properties"] = properties
    gone = sorted(set(old) - set(new))
    return {**entry, **({"changed": changed} if changed else {}), **({"no_longer_has": gone} if gone else {})}


class TransitionQuestion(NamedTuple):
    """An action, the inputs that a reply's aliases refer to, and the values of a transition prompt's placeholders.

    `observations` is one of the values, with its ends.
    """

    action: Action
    inputs: Inputs
    values: Mapping[str, str]
    observations: GrowingText


def build_question(action: Action, situation: Situation) -> TransitionQuestion:
    """Return the question for an action that the catalogue accepts. The same situation gives the same bytes."""
    # Only materials of the action: the model must not use others that happen to be on the bench.
    materials = tuple(situation.inventory[code] for code in action.materials)
    labels = [action.to_json()["parameters"], [[m.name, dict(m.properties)] for m in materials]]
    observations = _render_observations(situation.history)
    values = {
        "materials": delimit_json(
            "MATERIALS", [_material_entry(material, at, situation.elapsed) for at, material in enumerate(materials)]
        ),
        "observations": observations.text,
        "action": delimit_json("ACTION", _action_entry(action, situation)),
    }
    inputs = Inputs.from_materials(materials, json.dumps(labels, ensure_ascii=False))
    return TransitionQuestion(action, inputs, values, observations)


def _material_entry(material: Material, place: int, now: int) -> dict[str, Any]:
    entry = material.to_visible()
    # Replaced by durations: the model has no clock to compare with.
    del entry["created_at"], entry["last_modified"]
    age, unchanged = (format_clock(now - moment) for moment in (material.created_at, material.last_modified))
    return {"alias": make_alias(place), **entry, "on_the_bench_for": age, "last_changed": f"{unchanged} ago"}


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
    described = {"does": kind.description, "kind": kind.kind, "takes_in": kind.inputs, "gives_out": kind.outputs}
    parameters, takes = {**defaults, **entry["parameters"]}, format_clock(kind.compute_seconds(action))
    return {**entry, "parameters": parameters, "catalogue_entry": described, "takes": takes}


def _render_observations(history: Sequence[Step]) -> GrowingText:
    """Return every step with observations, one line each, without any reasoning."""
    entries = [
        {
            "step": step.number,
            "time": format_clock(step.ended_at),
            "action": step.action.name,
            # Barcodes and not aliases, which differ from action to action: lines that stay the same can be cached.
            "on": [{"name": material.name, "barcode": material.barcode} for material in step.inputs],
            "seen": [observation.to_json() for observation in step.outcome.new_observations],
        }
        for step in history
        if step.outcome.success and step.outcome.new_observations
    ]
    left_out = count_left_out(
        [len(_format_line(entry)) for entry in entries], _MAX_OBSERVATIONS_LENGTH, _KEPT_OBSERVATIONS_LENGTH
    )
    note = [{"left_out": f"the observations of {left_out} earlier steps"}] if left_out else []
    return delimit_growing_lines("OBSERVATIONS", [*note, *entries[left_out:]] or ["none yet"])
