"""What a transcript holds as evidence: which step was done to which material, where that came from, what was read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from simulation.lab.roles import TranscriptStep

_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Reading:
    """One material in one accepted step. `origins` are names of initial materials, `ancestors` barcodes, itself included."""

    step: int
    action: str
    parameters: Mapping[str, Any]
    barcode: str
    origins: frozenset[str]
    ancestors: frozenset[str]
    properties: Mapping[str, Any]
    values: tuple[str, ...]

    @property
    def signal(self) -> Decimal | None:
        """The first number among what was read off; None if there is none."""
        found = next((match for value in self.values if (match := _NUMBER.search(value))), None)
        return Decimal(found[0]) if found else None


@dataclass(frozen=True)
class _Lineage:
    origins: frozenset[str]
    ancestors: frozenset[str]


def readings(transcript: Sequence[TranscriptStep]) -> list[Reading]:
    """Every material of every accepted step, in order; lineage is followed through `replaces` and `derived_from`."""
    known: dict[str, _Lineage] = {}
    found: list[Reading] = []
    for step in transcript:
        if not step.rejected:
            found += _read(step, known)
    return found


def _read(step: TranscriptStep, known: dict[str, _Lineage]) -> Iterator[Reading]:
    for material in step.inputs:
        known.setdefault(material["barcode"], _first_seen(material))
    before = dict(known)
    for output in step.outputs:
        known[output["barcode"]] = _descent(output, before)
    shown = {material["barcode"]: material for material in step.outputs}
    shown |= {material["barcode"]: material for material in step.inputs}
    for code, material in shown.items():
        yield Reading(
            step=step.number,
            action=step.action,
            parameters=step.parameters,
            barcode=code,
            origins=known[code].origins,
            ancestors=known[code].ancestors,
            properties=material["properties"],
            values=tuple(str(seen["value"]) for seen in _observations(step, material) if seen["value"]),
        )


def _first_seen(material: Mapping[str, Any]) -> _Lineage:
    """A material that was there at the start is its own origin; one that came from nowhere has none."""
    names = {material["name"]} if material["created_at"] == 0 else set()
    return _Lineage(frozenset(names), frozenset({material["barcode"]}))


def _descent(output: Mapping[str, Any], before: Mapping[str, _Lineage]) -> _Lineage:
    sources = [code for code in (output["replaces"], *output["derived_from"]) if code in before]
    return _Lineage(
        frozenset().union(*(before[code].origins for code in sources)),
        frozenset({output["barcode"]}).union(*(before[code].ancestors for code in sources)),
    )


def _observations(step: TranscriptStep, material: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those of this material: by its name in the description where that tells, else by its place among the inputs."""
    names = [other["name"] for other in step.inputs]
    codes = [other["barcode"] for other in step.inputs]
    if material["barcode"] not in codes:
        return []
    if names.count(material["name"]) == 1:
        named = [seen for seen in step.observations if _names(seen["description"], material["name"], names)]
        if named:
            return named
    if len(step.observations) == len(codes):
        return [step.observations[codes.index(material["barcode"])]]
    return list(step.observations) if len(codes) == 1 else []


def _names(description: str, name: str, others: Sequence[str]) -> bool:
    """Whether the description names this material, and not only one whose longer name holds this one's."""
    for other in others:
        if name != other and name in other:
            description = description.replace(other, "")
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", description) is not None
