"""The data in prompts: histories, records and transition questions, as JSON between marks that its author cannot predict."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from simulation.lab import rendering
from simulation.lab.actions import Action
from simulation.lab.bench import Step
from simulation.lab.errors import LabError
from simulation.lab.materials import Material
from simulation.lab.rendering import format_clock
from simulation.lab.roles import Situation, TranscriptStep
from simulation.llm.lineage import Inputs, make_alias
from simulation.llm.reply_text import clean_text

# Text in the data could otherwise look like a mark or a tag of the prompt, and be followed as an instruction.
_TAG = re.compile("<(?=[A-Za-z/!?<])")  # possible start of a tag, of the prompt set or ours


def delimit_json(label: str, data: Any) -> str:
    """Return the data as indented JSON between marks. Keys are sorted, because a database may not keep their order."""
    return _delimit(label, json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1))


def delimit_lines(label: str, lines: Iterable[str]) -> str:
    """Return lines of JSON between marks."""
    return _delimit(label, "\n".join(lines))


def format_json_line(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def _delimit(label: str, content: str) -> str:
    """Return the content between marks with a hash of the content, so it cannot contain its own mark and a replay is identical."""
    # The content is JSON, so the first character of a possible tag can be written as a JSON escape.
    content = _TAG.sub(r"\\u003c", clean_text(content))
    # A hash instead of a random mark: the same prompt must have the same bytes when it is replayed.
    digest = hashlib.sha256(f"{label}\n{content}".encode()).hexdigest()[:16]
    return f"<<<{label} {digest}\n{content}\n{label} {digest}>>>"


KINDS = ("full", "window", "summary")
MAX_STEPS = 100


class History(NamedTuple):
    """`full`: every step. `window`: the last `k` in full, one line for each older one. `summary`: see `count_summarised`."""

    kind: str = "full"
    k: int = 0

    def count_summarised(self, done: int) -> int:
        """Return how many steps the summary covers after `done` steps.

        It is renewed every k steps, so k to 2k-1 steps stay in full.
        """
        # The last k steps always stay in full, because the summary is renewed with a delay of one window.
        return max(0, (done // self.k - 1) * self.k) if self.kind == "summary" else 0


def parse_history(data: Mapping[str, Any]) -> History:
    """Return the history that a cast defines. Raises LabError if it is invalid."""
    kind, k = data.get("kind", "full"), data.get("k", 0)
    if kind not in KINDS:
        raise LabError(f"history.kind is {kind!r}; allowed: {', '.join(KINDS)}")
    # Booleans are integers in Python.
    if kind != "full" and not (isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= MAX_STEPS):
        raise LabError(f"history.k is {k!r}; it must be a whole number from 1 to {MAX_STEPS}")
    return History(kind, 0 if kind == "full" else k)


def render_history(history: History, steps: Sequence[Step], thoughts: Mapping[str, str], summary: str = "") -> str:
    """Return the history as the agent reads it; `summary` describes the summarised steps."""
    if not steps:
        return "Nothing has been done yet."
    if history.kind == "window":
        older, recent = steps[: -history.k], steps[-history.k :]
        return "\n\n".join(
            [*(["\n".join(map(rendering.render_brief, older))] if older else []), render_steps(recent, thoughts)]
        )
    if n_summarised := history.count_summarised(len(steps)):
        return f"STEPS 1 TO {n_summarised}, SUMMARISED\n{summary}\n\n{render_steps(steps[n_summarised:], thoughts)}"
    return render_steps(steps, thoughts)


def render_steps(steps: Sequence[Step], thoughts: Mapping[str, str]) -> str:
    """Return one paragraph per step. It begins with the agent's thought before that step, if there is one."""
    return "\n\n".join(_render_paragraph(step, thoughts.get(str(step.number), "")) for step in steps)


def _render_paragraph(step: Step, thought: str) -> str:
    text = rendering.render_step(step)
    return f"(thought before step {step.number}: {rendering.join_lines(thought)})\n{text}" if thought else text


_STATE = ("name", "properties", "available_for_use", "material_type", "environmental_condition")


def render_record(transcript: Sequence[TranscriptStep]) -> str:
    """Return all steps between marks. An input that is unchanged since it was last shown appears by name only."""
    # Repeating unchanged materials would make long records exceed the context.
    last_states: dict[str, Mapping[str, Any]] = {}
    return delimit_lines(
        "RECORD",
        [format_json_line(_step_entry(step, last_states)) for step in transcript]
        or [format_json_line("nothing was done")],
    )


def split_record(transcript: Sequence[TranscriptStep], most: int) -> list[str]:
    """Return the record in parts of at most `most` UTF-8 bytes, each complete in itself.

    A longer step is a separate part.
    """
    lines: list[str] = []
    pieces: list[list[str]] = []
    size = most
    for step in transcript:
        # An empty state for each part, because every part is read by itself.
        step_line = format_json_line(_step_entry(step, {}))
        length = len(step_line.encode()) + 1  # one byte for the line end
        if not pieces or size + length > most:
            lines, size = [], 0
            pieces.append(lines)
        lines.append(step_line)
        size += length
    return [delimit_lines("RECORD", piece) for piece in pieces]


def _step_entry(step: TranscriptStep, shown: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a step's action, times and results. `shown` stores the last displayed state of each material."""
    entry: dict[str, Any] = {
        "step": step.number,
        "time": f"{format_clock(step.started_at)} to {format_clock(step.ended_at)}",
        "action": step.action,
        "parameters": dict(step.parameters),
        "inputs": [_input_entry(material, shown) for material in step.inputs],
    }
    if step.rejected:
        return {**entry, "rejected": step.rejected}
    return {
        **entry,
        "outputs": [_output_entry(material, shown) for material in step.outputs],
        "observations": [dict(observation) for observation in step.observations],
    }


def _input_entry(material: Mapping[str, Any], shown: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    code, state = material["barcode"], _visible_state(material)
    # Compare states, not times: a material that was used without being changed need not be repeated.
    if shown.get(code) == state:
        return {"barcode": code, "name": material["name"]}
    shown[code] = state
    return {"barcode": code, **state}


def _output_entry(material: Mapping[str, Any], shown: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    code, state = material["barcode"], _visible_state(material)
    shown[code] = state
    return {"barcode": code, **state, **dict(_iter_origin(material))}


def _visible_state(material: Mapping[str, Any]) -> dict[str, Any]:
    return {name: material[name] for name in _STATE}


def _iter_origin(material: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parents of a material, and how much was taken of each if known."""
    for name in ("derived_from", "taken"):
        if material.get(name):
            yield name, material[name]


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
