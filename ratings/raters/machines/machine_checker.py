"""The rule-based checker as a rater, which reads the blinded payload and nothing else.

The payload has letters instead of barcodes, labels instead of keys, words instead of codes, and no times or material
types. The checker's input is reconstructed from that alone, so it knows no more than the human raters.
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
# The payload has the display texts; the checker needs the codes of the laboratory.
_PLACES = {said: code for code, said in CONDITIONS.items()}
_SUPPLY = {said: code for code, said in AVAILABILITY.items()}
_SEEN = re.compile(r"new_observations\[(\d{1,4})\]")
_MADE = re.compile(r"new_materials\[(\d{1,4})\]")
# The rows that a check refers to: a word in their label, or the key of the row.
_ABOUT: Mapping[str, tuple[str, ...]] = {
    "L02": ("volume",), "L05": ("volume",), "L07": ("volume",), "L03": ("concentration", "density"),
    "L04": ("concentration", "mass", "weight"), "L08": ("/availability",), "L09": ("/availability",), "L14": ("/place",),
}  # fmt: skip


class Checked(NamedTuple):
    """The checker's verdict. None: no amount could be compared, and nothing was found wrong."""

    verdict: bool | None
    marks: tuple[str, ...]
    reason: str


def rate(payload: Payload) -> Checked:
    """Return the checker's verdict on one transition, without a confidence, which it does not compute."""
    report = checker.check(transition(payload))
    marks = [key for finding in report.errors for key in _marks(finding, payload)]
    reason = "\n".join(f"{finding.code}: {finding.text}" for finding in report.errors)
    # Any other verdict is undecidable, and then the answer has none instead of a guess.
    verdict = {"ok": True, "error": False}.get(report.verdict)
    # A finding can refer to a row that the page does not offer; people could not mark it either.
    valid_keys = set(mark_keys(payload))
    return Checked(verdict, tuple(key for key in dict.fromkeys(marks) if key in valid_keys), reason)


def transition(payload: Payload) -> dict[str, Any]:
    """Return the payload of a step as input of the checker."""
    rejected = payload["rejected"]
    return {
        "input_materials": [_material(material) for material in payload["before"]],
        "action": {
            "name": payload["action"]["name"],
            "parameters": _unlike(payload["action"]["parameters"]),
            "materials": [material["ref"] for material in payload["before"]],
        },
        "outcome": {
            # `continues` is the letter of the input, and letters serve as barcodes here, so lineage is what raters see.
            "new_materials": [{**_material(made), "replaces": made["continues"]} for made in payload["after"]],
            "new_observations": [_observation(seen) for seen in payload["observations"]],
            # Success is reconstructed from the reason, because the payload has no other field for it.
            "success": not rejected,
            "failure_reason": rejected,
        },
    }


def _material(material: Payload) -> dict[str, Any]:
    fields = {
        "barcode": material["ref"],
        "name": material["name"],
        "properties": _unlike(material["properties"]),
        "environmental_condition": _PLACES.get(material["condition"]),
        "available_for_use": _SUPPLY.get(material["availability"]),
    }
    # An unknown condition is left out: the checker reads a missing field as "not stated".
    return {name: value for name, value in fields.items() if value is not None}


def _observation(seen: Payload) -> dict[str, str]:
    return {"measurement_type": seen["type"], "description": seen["description"], "value": seen["value"]}


def _unlike(pairs: list[list[str]]) -> dict[str, str]:
    """Return values by label; equal labels are numbered."""
    values: dict[str, str] = {}
    for label, value in pairs:
        # A dictionary would lose the first of two equal labels, which people see both.
        name, number = label, 1
        while name in values:
            number += 1
            name = f"{label} ({number})"
        values[name] = value
    return values


def _marks(finding: Finding, payload: Payload) -> Iterator[str]:
    """Yield the rows that a finding refers to. A finding about a material but none of its rows marks nothing."""
    if match := _SEEN.match(finding.subject):
        yield seen_key(int(match[1]) + 1)
    elif finding.subject in ("failure_reason", "success"):
        yield REJECTED
    else:
        for material in _named(finding, payload):
            for key, (label, _) in facts(material).items():
                if any(word == key or word in label.casefold() for word in _ABOUT.get(finding.code, ())):
                    yield f"{material['ref']}{key}"


def _named(finding: Finding, payload: Payload) -> list[Payload]:
    """Return the material of the finding: by its index, or by a unique name, outputs first."""
    after: list[Payload] = payload["after"]
    if match := _MADE.match(finding.subject):
        return after[int(match[1]) : int(match[1]) + 1]
    # Outputs first: an error is usually in what the step produced.
    for side in (after, payload["before"]):
        matches = [material for material in side if material["name"] == finding.subject]
        if matches:
            # Two materials of one name: marking either would be a guess.
            return matches if len(matches) == 1 else []
    return []
