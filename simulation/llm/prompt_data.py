"""The data in prompts: histories, records and transition questions, as JSON between marks that its author cannot predict."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from simulation.lab import rendering
from simulation.lab.actions import Action
from simulation.lab.bench import Step
from simulation.lab.errors import LabError
from simulation.lab.materials import Material
from simulation.lab.rendering import format_clock
from simulation.lab.roles import Situation, TranscriptStep
from simulation.llm.conversation import clean_text
from simulation.llm.lineage import Inputs, make_alias
from wetbench_site.text import hash_text

HISTORY_KINDS = ("full", "window", "summary")
MAX_HISTORY_STEPS = 100
_MAX_OBSERVATIONS_LENGTH = 40_000  # characters of earlier observations; the oldest are omitted first
_STATE = ("name", "properties", "available_for_use", "material_type", "environmental_condition")
# Text in the data could otherwise look like a mark or a tag of the prompt, and be followed as an instruction.
_TAG = re.compile("<(?=[A-Za-z/!?<])")  # possible start of a tag, of the prompt set or ours


def delimit_json(label: str, data: Any) -> str:
    """Return the data as indented JSON between marks. Keys are sorted, because a database may not keep their order."""
    return _delimit(label, json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1))


def delimit_lines(label: str, entries: Iterable[Any]) -> str:
    """Return each entry as one line of JSON, between marks."""
    return _delimit(label, "\n".join(map(_format_line, entries)))


def _format_line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def _delimit(label: str, content: str) -> str:
    """Return the content between marks with a hash of the content, so it cannot contain its own mark and a replay is identical."""
    # The content is JSON, so the first character of a possible tag can be written as a JSON escape.
    content = _TAG.sub(r"\\u003c", clean_text(content))
    digest = hash_text(f"{label}\n{content}")[:16]
    return f"<<<{label} {digest}\n{content}\n{label} {digest}>>>"


class History(NamedTuple):
    """What an agent reads of its steps.

    `full`: every step. `window`: the last `k` in full, one line for each older one. `summary`: see `count_summarised`.
    """

    kind: str = "full"
    k: int = 0

    def count_summarised(self, done: int) -> int:
        """Return how many steps the summary covers after `done` steps. It is renewed every k steps, so k to 2k-1 stay in full."""
        return max(0, (done // self.k - 1) * self.k) if self.kind == "summary" else 0


def parse_history(data: Mapping[str, Any]) -> History:
    """Return the history that a cast defines. Raises LabError if it is invalid."""
    kind, k = data.get("kind", "full"), data.get("k", 0)
    if kind not in HISTORY_KINDS:
        raise LabError(f"history.kind is {kind!r}; allowed: {', '.join(HISTORY_KINDS)}")
    # Booleans are integers in Python.
    if kind != "full" and not (isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= MAX_HISTORY_STEPS):
        raise LabError(f"history.k is {k!r}; it must be a whole number from 1 to {MAX_HISTORY_STEPS}")
    return History(kind, 0 if kind == "full" else k)


def render_history(history: History, steps: Sequence[Step], thoughts: Mapping[str, str], summary: str = "") -> str:
    """Return the history as the agent reads it; `summary` describes the summarised steps."""
    if not steps:
        return "Nothing has been done yet."
    parts = []
    if history.kind == "window":
        if older := steps[: -history.k]:
            parts.append("\n".join(map(rendering.render_brief, older)))
        steps = steps[-history.k :]
    elif n_summarised := history.count_summarised(len(steps)):
        parts.append(f"STEPS 1 TO {n_summarised}, SUMMARISED\n{summary}")
        steps = steps[n_summarised:]
    return "\n\n".join([*parts, render_steps(steps, thoughts)])


def render_steps(steps: Sequence[Step], thoughts: Mapping[str, str]) -> str:
    """Return one paragraph per step. It begins with the agent's thought before that step, if there is one."""
    paragraphs = []
    for step in steps:
        thought = thoughts.get(str(step.number), "")
        lead = f"(thought before step {step.number}: {rendering.join_lines(thought)})\n" if thought else ""
        paragraphs.append(lead + rendering.render_step(step))
    return "\n\n".join(paragraphs)


def render_record(transcript: Sequence[TranscriptStep]) -> str:
    """Return the record of an episode as a classifier reads it: one line of JSON per step, between marks.

    An input that is unchanged since it was last shown appears by name only: repeating it would make long records exceed
    the context.
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
        code, state = material["barcode"], {name: material[name] for name in _STATE}
        # Compare states, not times: a material that was used without being changed need not be repeated.
        is_known = last_states.get(code) == state
        inputs.append({"barcode": code, "name": material["name"]} if is_known else {"barcode": code, **state})
        last_states[code] = state
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
        code, state = material["barcode"], {name: material[name] for name in _STATE}
        origin = {name: material[name] for name in ("derived_from", "taken") if material.get(name)}
        outputs.append({"barcode": code, **state, **origin})
        last_states[code] = state
    return {**entry, "outputs": outputs, "observations": [dict(observation) for observation in step.observations]}


class TransitionQuestion(NamedTuple):
    """An action, the inputs that a reply's aliases refer to, and the values of a transition prompt's placeholders."""

    action: Action
    inputs: Inputs
    values: Mapping[str, str]


def build_question(action: Action, situation: Situation) -> TransitionQuestion:
    """Return the question for an action that the catalogue accepts. The same situation gives the same bytes."""
    # Only materials of the action: the model must not use others that happen to be on the bench.
    materials = tuple(situation.inventory[code] for code in action.materials)
    labels = [action.to_json()["parameters"], [[m.name, dict(m.properties)] for m in materials]]
    values = {
        "materials": delimit_json(
            "MATERIALS", [_material_entry(material, at, situation.elapsed) for at, material in enumerate(materials)]
        ),
        "observations": _render_observations(situation.history, materials),
        "action": delimit_json("ACTION", _action_entry(action, situation)),
    }
    return TransitionQuestion(action, Inputs.from_materials(materials, json.dumps(labels, ensure_ascii=False)), values)


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


def _render_observations(history: Sequence[Step], inputs: Sequence[Material]) -> str:
    """Return every step with observations, one line each, without any reasoning."""
    # Aliases only for the inputs of this action; older materials appear by name.
    aliases = {material.barcode: {"alias": make_alias(at)} for at, material in enumerate(inputs)}
    entries = [
        {
            "step": step.number,
            "time": format_clock(step.ended_at),
            "action": step.action.name,
            "on": [{"name": material.name} | aliases.get(material.barcode, {}) for material in step.inputs],
            "seen": [observation.to_json() for observation in step.outcome.new_observations],
        }
        for step in history
        if step.outcome.success and step.outcome.new_observations
    ]
    # From the newest to the oldest, so that the oldest are left out first.
    n_recent, length = 0, 0
    for entry in reversed(entries):
        length += len(_format_line(entry))
        if length > _MAX_OBSERVATIONS_LENGTH:
            break
        n_recent += 1
    left_out = len(entries) - n_recent
    note = [{"left_out": f"the observations of {left_out} earlier steps"}] if left_out else []
    return delimit_lines("OBSERVATIONS", [*note, *entries[left_out:]] or ["none yet"])
