"""The rule-based checker as a rater: it reads the blinded payload and nothing else. No Django.

The payload has letters instead of barcodes, headings instead of keys, words instead of codes, and no times or material
types. The checker's input is put together again from that alone, so it knows no more than the people who rate.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ratings.blinding.lanes import Payload, facts
from ratings.blinding.marking import REJECTED, mark_keys, seen_key
from ratings.blinding.naming import AVAILABILITY, CONDITIONS
from simulation import checker
from simulation.checker import Finding

NAME = "WetBench checker"
UNDECIDABLE = "undecidable"
_PLACES = {said: code for code, said in CONDITIONS.items()}
_SUPPLY = {said: code for code, said in AVAILABILITY.items()}
_SEEN = re.compile(r"new_observations\[(\d{1,4})\]")
_MADE = re.compile(r"new_materials\[(\d{1,4})\]")
# What a code is about: a word in the heading of the rows that it finds wrong, or the row itself.
_ABOUT: Mapping[str, tuple[str, ...]] = {
    "L02": ("volume",), "L05": ("volume",), "L07": ("volume",), "L03": ("concentration", "density"),
    "L04": ("concentration", "mass", "weight"), "L08": ("/availability",), "L09": ("/availability",), "L14": ("/place",),
}  # fmt: skip


class Checked(NamedTuple):
    """What the rules say. `verdict` None: no amount could be compared, and nothing was found wrong."""

    verdict: bool | None
    marks: tuple[str, ...]
    reason: str


def rate(payload: Payload) -> Checked:
    """The checker's verdict on one transition. It gives no confidence: it computes none."""
    report = checker.check(transition(payload))
    marks = [key for finding in report.errors for key in _marks(finding, payload)]
    reason = "\n".join(f"{finding.code}: {finding.text}" for finding in report.errors)
    verdict = {"ok": True, "error": False}.get(report.verdict)
    valid = set(mark_keys(payload))
    return Checked(verdict, tuple(key for key in dict.fromkeys(marks) if key in valid), reason)


def transition(payload: Payload) -> dict[str, Any]:
    """The payload of a step as a line that the checker reads."""
    rejected = payload["rejected"]
    return {
        "input_materials": [_material(material) for material in payload["before"]],
        "action": {
            "name": payload["action"]["name"],
            "parameters": _unlike(payload["action"]["parameters"]),
            "materials": [material["ref"] for material in payload["before"]],
        },
        "outcome": {
            "new_materials": [{**_material(made), "replaces": made["continues"]} for made in payload["after"]],
            "new_observations": [_observation(seen) for seen in payload["observations"]],
            "success": not rejected,
            "failure_reason": rejected,
        },
    }


def _material(material: Payload) -> dict[str, Any]:
    known = {
        "barcode": material["ref"],
        "name": material["name"],
        "properties": _unlike(material["properties"]),
        "environmental_condition": _PLACES.get(material["condition"]),
        "available_for_use": _SUPPLY.get(material["availability"]),
    }
    return {name: value for name, value in known.items() if value is not None}


def _observation(seen: Payload) -> dict[str, str]:
    return {"measurement_type": seen["type"], "description": seen["description"], "value": seen["value"]}


def _unlike(pairs: list[list[str]]) -> dict[str, str]:
    """Labels with their values, two of one label told apart."""
    found: dict[str, str] = {}
    for label, value in pairs:
        name, number = label, 1
        while name in found:
            number += 1
            name = f"{label} ({number})"
        found[name] = value
    return found


def _marks(finding: Finding, payload: Payload) -> Iterator[str]:
    """The rows a finding speaks of. One that names a material, but no row of it, marks none."""
    if seen := _SEEN.match(finding.subject):
        yield seen_key(int(seen[1]) + 1)
    elif finding.subject in ("failure_reason", "success"):
        yield REJECTED
    else:
        for material in _named(finding, payload):
            for key, (label, _) in facts(material).items():
                if any(word == key or word in label.casefold() for word in _ABOUT.get(finding.code, ())):
                    yield f"{material['ref']}{key}"


def _named(finding: Finding, payload: Payload) -> list[Payload]:
    """The material that the finding's subject is: by its place, or by a name that only one has, afterwards first."""
    after: list[Payload] = payload["after"]
    if made := _MADE.match(finding.subject):
        return after[int(made[1]) : int(made[1]) + 1]
    for side in (after, payload["before"]):
        found = [material for material in side if material["name"] == finding.subject]
        if found:
            return found if len(found) == 1 else []
    return []
