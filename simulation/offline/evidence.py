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
_ROUNDING = Decimal("0.002")  # volumes are shown rounded
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Reading:
    """One material in one accepted step.

    `origins` are names of initial materials, `ancestors` barcodes, itself included; `shares` the v/v share of each initial
    material in it, where that can be followed. Times are seconds since the start.
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
        kept = [seen for seen in self.observations if any(word.lower() in " ".join(seen).lower() for word in words)]
        return replace(self, observations=tuple(kept))

    @property
    def signal(self) -> Decimal | None:
        """The first number among what was read off; None if there is none."""
        found = next((match for value in self.values if (match := _NUMBER.search(value))), None)
        return Decimal(found[0]) if found else None


@dataclass(frozen=True)
class _Lineage:
    origins: frozenset[str]
    ancestors: frozenset[str]
    shares: Mapping[str, Decimal]


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
        known[output["barcode"]] = _descent(step.action, output, before)
    shown = {material["barcode"]: material for material in step.outputs}
    shown |= {material["barcode"]: material for material in step.inputs}
    for code, material in shown.items():
        yield Reading(
            step=step.number,
            started_at=step.started_at,
            action=step.action,
            parameters=step.parameters,
            barcode=code,
            origins=known[code].origins,
            ancestors=known[code].ancestors,
            shares=known[code].shares,
            properties=material["properties"],
            observations=tuple((seen["description"], str(seen["value"])) for seen in _observations(step, material)),
        )


def _first_seen(material: Mapping[str, Any]) -> _Lineage:
    """A material that was there at the start is its own origin; one that came from nowhere has none."""
    names = {material["name"]} if material["created_at"] == 0 else set()
    return _Lineage(frozenset(names), frozenset({material["barcode"]}), dict.fromkeys(names, Decimal(1)))


def _descent(action: str, output: Mapping[str, Any], before: Mapping[str, _Lineage]) -> _Lineage:
    sources = [code for code in (output["replaces"], *output["derived_from"]) if code in before]
    return _Lineage(
        frozenset().union(*(before[code].origins for code in sources)),
        frozenset({output["barcode"]}).union(*(before[code].ancestors for code in sources)),
        _shares(output, before) if action not in _CONCENTRATING else {},
    )


def _shares(output: Mapping[str, Any], before: Mapping[str, _Lineage]) -> dict[str, Decimal]:
    """The v/v share of each initial material: what was taken of each source, and for the rest what it was before.

    Empty where a volume is not shown or does not add up.
    """
    taken = {code: _volume(text) for code, text in output.get("taken", {}).items()}
    if set(output["derived_from"]) - set(taken) or None in taken.values():
        return {}
    poured = {code: volume for code, volume in taken.items() if volume}
    total = _volume(output["properties"].get("volume"))
    if not poured:
        return dict(before[output["replaces"]].shares) if output["replaces"] in before else {}
    if total is None:
        return {}
    own = total - sum(poured.values(), Decimal(0))
    if abs(own) <= total * _ROUNDING:
        own = Decimal(0)
    if own < 0 or (own and output["replaces"] not in before):
        return {}
    parts = [(before[code], volume / total) for code, volume in poured.items() if code in before]
    parts += [(before[output["replaces"]], own / total)] if own else []
    if any(not lineage.shares for lineage, _ in parts):
        return {}
    found: dict[str, Decimal] = {}
    for lineage, part in parts:
        for name, share in lineage.shares.items():
            found[name] = found.get(name, Decimal(0)) + share * part
    return found


def _volume(text: Any) -> Decimal | None:
    try:
        return quantities.parse(text, "volume").value
    except quantities.QuantityError:
        return None


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
