"""The record of an episode as a classifier reads it: one line of JSON per step, in order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulation.lab.rendering import format_clock
from simulation.lab.roles import TranscriptStep
from simulation.llm.prompts.delimiters import delimit_lines, format_json_line

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
