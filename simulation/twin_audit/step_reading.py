"""What a program without knowledge of a laboratory can read of a step: rows before and after, replicates and numbers."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.twin_audit.pairs import ShownStep

_FIELDS = ("available_for_use", "environmental_condition")  # of a material, beside its properties
NUMBER = re.compile(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?")
_AMOUNT = re.compile(r"(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?) (?P<unit>[^\s,;()]+)")
LAST_NUMBER = re.compile(r"[0-9]+(?=\D*$)")
# Bulk amounts are what can be added up without any knowledge of what they are amounts of.
_ADDED = ("volume", "mass")


class Row(NamedTuple):
    """One material of the outcome: its name, its texts before the step (empty if it is new) and after it."""

    name: str
    before: Mapping[str, str]
    after: Mapping[str, str]


class Statement(NamedTuple):
    """A text of a group of replicates, with what was the case before, so that only like is compared with like."""

    before: str
    after: str


def list_rows(step: ShownStep) -> list[Row]:
    """Return the materials of the outcome, each with its state before the step."""
    inputs = {material["barcode"]: material for material in step.inputs}
    return [
        Row(material["name"], list_texts(inputs.get(material.get("replaces", ""))), list_texts(material))
        for material in step.materials
    ]


def list_texts(material: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the properties of a material and what else is displayed of it, as texts by name."""
    if material is None:
        return {}
    texts = {name: str(value) for name, value in material["properties"].items()}
    return texts | {name: str(material[name]) for name in _FIELDS}


def group_replicates(step: ShownStep) -> list[list[Statement]]:
    """Return the texts that replicates have in common: materials, or records of them, whose names differ in one number."""
    groups: dict[tuple[str, ...], list[Statement]] = defaultdict(list)
    for row in list_rows(step):
        base = LAST_NUMBER.sub("#", row.name)
        for name, text in row.after.items():
            groups["material", base, name, row.before.get(name, "")].append(Statement(row.before.get(name, ""), text))
    names = sorted({str(material["name"]) for material in (*step.materials, *step.inputs)}, key=len, reverse=True)
    for record in step.observations:
        description = str(record["description"])
        subject = next((name for name in names if name in description), "")
        base = description.replace(subject, LAST_NUMBER.sub("#", subject)) if subject else description
        groups["record", base].append(Statement("", str(record["value"])))
        # Several readings of one sample stand in one text: "1.02, 1.04, 1.03 AU".
        parts = str(record["value"]).split(", ")
        groups["readings", description, str(len(groups))] += [Statement("", part) for part in parts]
    return [group for group in groups.values() if len(group) > 1]


@lru_cache(maxsize=100_000)
def read_numbers(text: str) -> tuple[float, ...]:
    """Return every number of a text."""
    return tuple(map(float, NUMBER.findall(text)))


@lru_cache(maxsize=100_000)
def read_amounts(text: str) -> tuple[tuple[str, float], ...]:
    """Return (dimension, value in its base unit) of every number with a unit of volume, mass, time or temperature."""
    amounts = []
    for match in _AMOUNT.finditer(text):
        quantity = quantities.find_quantity(match[0], "volume", "mass", "duration", "temperature")
        if quantity:
            amounts.append((quantity.dimension, float(quantity.value)))
    return tuple(amounts)


def read_bulk(texts: Mapping[str, str]) -> dict[str, float]:
    """Return the volume and the mass that a material displays, in their base units."""
    amounts = {name: read_amounts(texts.get(name, "")) for name in _ADDED}
    return {name: found[0][1] for name, found in amounts.items() if found and found[0][0] == name}


def iter_parameter_texts(step: ShownStep) -> Iterator[tuple[str, str]]:
    """Yield (name with spaces, value) of each parameter of the action; a list gives one text for each element."""
    for name, value in step.action["parameters"].items():
        for text in value if isinstance(value, Sequence) and not isinstance(value, str) else (value,):
            yield name.replace("_", " "), str(text)


def iter_texts(step: ShownStep) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every text of the outcome. Places are names of properties and fields, not positions."""
    for row in list_rows(step):
        yield from row.after.items()
    for record in step.observations:
        yield f"record, {record['measurement_type']}", str(record["value"])
