"""What a transcript holds as evidence: which step was done to which material, where that came from, what was read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.roles import TranscriptStep

# What comes out of these is another liquid than what went in: shares by volume say nothing of it.
_CONCENTRATING = (
    "Evaporate", "Lyophilize", "DryingOven", "Desiccate", "Dialysis", "SolidPhaseExtraction", "AttemptDNAExtraction",
)  # fmt: skip
_APART = "SeparateWells"  # each well is an origin of its own
_ROUNDING = Decimal("0.002")  # volumes are shown rounded
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Reading:
    """One material in one accepted step.

    `origins` are names of initial materials and of wells, `ancestors` barcodes, itself included; `shares` the v/v share in it
    of each initial material by name, and of each material it came from by barcode, where that can be followed. A material
    that the step changed shows its properties after it. Times are seconds since the start.
    """

    step: int
    started_at: int
    action: str
    parameters: Mapping[str, Any]
    barcode: str
    origins: frozenset[str]
    ancestors: frozenset[str]
    shares: Mapping[str, Decimal]
    properties: Mapping[str, Any]
    observations: tuple[tuple[str, str], ...]  # description and value

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(value for _, value in self.observations if value)

    def about(self, words: Sequence[str]) -> "Reading":
        """The same with only the observations that hold one of these words."""
        matching = [
            observation
            for observation in self.observations
            if any(word.lower() in " ".join(observation).lower() for word in words)
        ]
        return replace(self, observations=tuple(matching))

    @property
    def signal(self) -> Decimal | None:
        """The first number among what was read off; None if there is none."""
        match = next((match for value in self.values if (match := _NUMBER.search(value))), None)
        return Decimal(match[0]) if match else None


@dataclass(frozen=True)
class _Lineage:
    origins: frozenset[str]
    ancestors: frozenset[str]
    shares: Mapping[str, Decimal]
    known: bool  # whether the shares of initial materials are complete


def readings(transcript: Sequence[TranscriptStep]) -> list[Reading]:
    """Every material of every accepted step, in order; lineage is followed through `replaces` and `derived_from`."""
    known: dict[str, _Lineage] = {}
    collected: list[Reading] = []
    for step in transcript:
        if not step.rejected:
            collected += _read(step, known)
    return collected


def _read(step: TranscriptStep, lineages: dict[str, _Lineage]) -> Iterator[Reading]:
    for material in step.inputs:
        lineages.setdefault(material["barcode"], _first_seen(material))
    before = dict(lineages)
    for output in step.outputs:
        lineages[output["barcode"]] = _descent(step.action, output, before)
    materials = {material["barcode"]: material for material in step.outputs}
    materials |= {material["barcode"]: material for material in step.inputs}
    after = {material["barcode"]: material["properties"] for material in step.outputs}
    for code, material in materials.items():
        yield Reading(
            step=step.number,
            started_at=step.started_at,
            action=step.action,
            parameters=step.parameters,
            barcode=code,
            origins=lineages[code].origins,
            ancestors=lineages[code].ancestors,
            shares=lineages[code].shares,
            properties={**material["properties"], **after.get(code, {})},
            observations=tuple(
                (observation["description"], str(observation["value"])) for observation in _observations(step, material)
            ),
        )


def _first_seen(material: Mapping[str, Any]) -> _Lineage:
    """A material that was there at the start is its own origin; one that came from nowhere has none."""
    names = {material["name"]} if material["created_at"] == 0 else set()
    return _Lineage(frozenset(names), frozenset({material["barcode"]}), dict.fromkeys(names, Decimal(1)), True)


def _descent(action: str, output: Mapping[str, Any], before: Mapping[str, _Lineage]) -> _Lineage:
    sources = [code for code in (output["replaces"], *output["derived_from"]) if code in before]
    origins = frozenset[str]().union(*(before[code].origins for code in sources))
    ancestors = frozenset({output["barcode"]}).union(*(before[code].ancestors for code in sources))
    if action == _APART:
        return _Lineage(origins | {output["name"]}, ancestors, {output["name"]: Decimal(1)}, True)
    if action in _CONCENTRATING:
        return _Lineage(origins, ancestors, {}, False)
    return _Lineage(origins, ancestors, *_shares(output, before))


def _shares(output: Mapping[str, Any], before: Mapping[str, _Lineage]) -> tuple[dict[str, Decimal], bool]:
    """(v/v shares, whether those of initial materials are known): of what was taken of each source, and for the rest of
    what it was before. Nothing is known where a volume is not shown or does not add up."""
    own_code = output["replaces"]
    volumes_taken = {code: _volume(text) for code, text in output.get("taken", {}).items()}
    if set(output["derived_from"]) - set(volumes_taken) or None in volumes_taken.values():
        return {}, False
    poured = {code: volume for code, volume in volumes_taken.items() if volume}
    if not poured:
        return (dict(before[own_code].shares), before[own_code].known) if own_code in before else ({}, False)
    total = _volume(output["properties"].get("volume"))
    own_volume = None if total is None else _rest(total, sum(poured.values(), Decimal(0)))
    if not total or own_volume is None or (own_volume and own_code not in before) or not before.keys() >= poured.keys():
        return {}, False
    parts = {code: volume / total for code, volume in poured.items()}
    if own_volume:
        parts[own_code] = parts.get(own_code, Decimal(0)) + own_volume / total
    shares: dict[str, Decimal] = {}
    for code, part in parts.items():
        for name, share in {code: Decimal(1), **before[code].shares}.items():
            shares[name] = shares.get(name, Decimal(0)) + share * part
    if all(before[code].known for code in parts):
        return shares, True
    return {name: share for name, share in shares.items() if name in before}, False


def _rest(total: Decimal, poured: Decimal) -> Decimal | None:
    """What was there before; None where more was poured in than is there now."""
    remainder = total - poured
    return Decimal(0) if abs(remainder) <= total * _ROUNDING else remainder if remainder > 0 else None


def _volume(text: Any) -> Decimal | None:
    """A volume in µL; none at all for what was weighed."""
    for dimension, factor in (("volume", 1), ("mass", 0)):
        try:
            return quantities.parse(text, dimension).value * factor
        except quantities.QuantityError:
            continue
    return None


def _observations(step: TranscriptStep, material: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those of this material: by its name in the description where that tells, else by its place among the inputs."""
    names = [other["name"] for other in step.inputs]
    codes = [other["barcode"] for other in step.inputs]
    if material["barcode"] not in codes:
        return []
    if names.count(material["name"]) == 1:
        mentioning = [
            observation
            for observation in step.observations
            if _names(observation["description"], material["name"], names)
        ]
        if mentioning:
            return mentioning
    if len(step.observations) == len(codes):
        return [step.observations[codes.index(material["barcode"])]]
    return list(step.observations) if len(codes) == 1 else []


def _names(description: str, name: str, others: Sequence[str]) -> bool:
    """Whether the description names this material, and not only one whose longer name holds this one's."""
    for other in others:
        if name != other and name in other:
            description = description.replace(other, "")
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", description) is not None
