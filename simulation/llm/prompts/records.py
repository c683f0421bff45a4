"""The record of an attempt as a classifier reads it: a line of JSON for each step, in order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulation.lab.roles import TranscriptStep
from simulation.lab.telling import clock
from simulation.llm.prompts.framing import framed_lines, line

_STATE = ("name", "properties", "available_for_use", "material_type", "environmental_condition")


def record(transcript: Sequence[TranscriptStep]) -> str:
    """All steps in one frame. An input that is as it was last shown is named only."""
    shown: dict[str, Mapping[str, Any]] = {}
    return framed_lines("RECORD", [line(_step(step, shown)) for step in transcript] or [line("nothing was done")])


def parts(transcript: Sequence[TranscriptStep], most: int) -> list[str]:
    """The same in pieces of at most `most` UTF-8 bytes, each readable by itself; a longer step is a piece of its own."""
    lines: list[str] = []
    pieces: list[list[str]] = []
    size = most
    for step in transcript:
        told = line(_step(step, {}))
        length = len(told.encode()) + 1
        if not pieces or size + length > most:
            lines, size = [], 0
            pieces.append(lines)
        lines.append(told)
        size += length
    return [framed_lines("RECORD", piece) for piece in pieces]


def _step(step: TranscriptStep, shown: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What was done to what, when, and what came of it. `shown` remembers the state in which each material was told."""
    told: dict[str, Any] = {
        "step": step.number,
        "time": f"{clock(step.started_at)} to {clock(step.ended_at)}",
        "action": step.action,
        "parameters": dict(step.parameters),
        "inputs": [_input(material, shown) for material in step.inputs],
    }
    if step.rejected:
        return {**told, "rejected": step.rejected}
    return {
        **told,
        "outputs": [_output(material, shown) for material in step.outputs],
        "observations": [dict(observation) for observation in step.observations],
    }


def _input(material: Mapping[str, Any], shown: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    code, state = material["barcode"], _state(material)
    if shown.get(code) == state:
        return {"barcode": code, "name": material["name"]}
    shown[code] = state
    return {"barcode": code, **state}


def _output(material: Mapping[str, Any], shown: dict[str, Mapping[str, Any]]) -> dict[str, Any]:
    code, state = material["barcode"], _state(material)
    shown[code] = state
    return {"barcode": code, **state, **dict(_origin(material))}


def _state(material: Mapping[str, Any]) -> dict[str, Any]:
    return {name: material[name] for name in _STATE}


def _origin(material: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Where it came from, and how much of each where that is known."""
    for name in ("derived_from", "taken"):
        if material.get(name):
            yield name, material[name]
