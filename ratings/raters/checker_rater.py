"""The rule-based checker as a rater, which reads the blinded payload and nothing else.

The payload has letters instead of barcodes, labels instead of keys, words instead of codes, and no times or material
types. The checker's input is reconstructed from that alone, so it receives no more information than human raters.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ratings.blinding.material_rows import REJECTED, Payload, list_mark_keys, rows_by_key
from ratings.blinding.pseudonyms import AVAILABILITY
from simulation import checker
from simulation.checker import Finding
from simulation.lab.materials import CONDITION_NAMES
from simulation.lab.observation_tables import observation_key

# The payload has the display texts; the checker needs the codes of the laboratory.
_CONDITION_CODES = {said: code for code, said in CONDITION_NAMES.items()}
_AVAILABILITY_CODES = {said: code for code, said in AVAILABILITY.items()}
_OBSERVATION_PATH = re.compile(r"new_observations\[(\d{1,4})\]")
_MATERIAL_PATH = re.compile(r"new_materials\[(\d{1,4})\]")
# The rows that a check refers to: a word in their label, or the key of the row.
_ROWS_OF_CHECK: Mapping[str, tuple[str, ...]] = {
    "L02": ("volume",), "L05": ("volume",), "L07": ("volume",), "L03": ("concentration", "density"),
    "L04": ("concentration", "mass", "weight"), "L08": ("/availability",), "L09": ("/availability",), "L14": ("/place",),
}  # fmt: skip


class CheckerVerdict(NamedTuple):
    """The checker's verdict. It is None if no amount could be compared and nothing was found wrong."""

    verdict: bool | None
    marks: tuple[str, ...]
    reason: str


def rate_payload(payload: Payload) -> CheckerVerdict:
    """Return the checker's verdict on one transition, without a confidence, which it does not compute."""
    report = checker.check_transition(payload_to_transition(payload))
    marks = [key for finding in report.error_findings for key in _find_marked_rows(finding, payload)]
    reason = "\n".join(f"{finding.code}: {finding.text}" for finding in report.error_findings)
    # Any other verdict is undecidable, and then the answer has none instead of a guess.
    verdict = {"ok": True, "error": False}.get(report.verdict)
    # A finding can refer to a row that the page does not offer; people could not mark it either.
    valid_keys = set(list_mark_keys(payload))
    return CheckerVerdict(verdict, tuple(key for key in dict.fromkeys(marks) if key in valid_keys), reason)


def payload_to_transition(payload: Payload) -> dict[str, Any]:
    """Return the payload of a step as input of the checker."""
    rejected = payload["rejected"]
    return {
        "input_materials": [_to_material(material) for material in payload["before"]],
        "action": {
            "name": payload["action"]["name"],
            "parameters": _unique_labels(payload["action"]["parameters"]),
            "materials": [material["ref"] for material in payload["before"]],
        },
        "outcome": {
            # `continues` is the letter of the input, and letters serve as barcodes here, so lineage is what raters see.
            "new_materials": [{**_to_material(made), "replaces": made["continues"]} for made in payload["after"]],
            "new_observations": [
                {"measurement_type": seen["type"], "description": seen["description"], "value": seen["value"]}
                for seen in payload["observations"]
            ],
            # Success is reconstructed from the reason, because the payload has no other field for it.
            "success": not rejected,
            "failure_reason": rejected,
        },
    }


def _to_material(material: Payload) -> dict[str, Any]:
    fields = {
        "barcode": material["ref"],
        "name": material["name"],
        "properties": _unique_labels(material["properties"]),
        "environmental_condition": _CONDITION_CODES.get(material["condition"]),
        "available_for_use": _AVAILABILITY_CODES.get(material["availability"]),
    }
    # An unknown condition is left out: the checker reads a missing field as "not stated".
    return {name: value for name, value in fields.items() if value is not None}


def _unique_labels(pairs: list[list[str]]) -> dict[str, str]:
    """Return values by label; equal labels are numbered."""
    values: dict[str, str] = {}
    for label, value in pairs:
        # People see both of two equal labels; a plain dictionary would lose the first.
        name, number = label, 1
        while name in values:
            number += 1
            name = f"{label} ({number})"
        values[name] = value
    return values


def _find_marked_rows(finding: Finding, payload: Payload) -> Iterator[str]:
    """Yield the rows that a finding refers to; none if it concerns a material but no row of it."""
    if match := _OBSERVATION_PATH.match(finding.subject):
        yield observation_key(int(match[1]) + 1)
    elif finding.subject in ("failure_reason", "success"):
        yield REJECTED
    else:
        for material in _find_subject(finding, payload):
            for key, (label, _) in rows_by_key(material).items():
                if any(word == key or word in label.casefold() for word in _ROWS_OF_CHECK.get(finding.code, ())):
                    yield f"{material['ref']}{key}"


def _find_subject(finding: Finding, payload: Payload) -> list[Payload]:
    """Return the material that a finding concerns: by its index, else by a unique name, outputs first; [] if none."""
    after: list[Payload] = payload["after"]
    if match := _MATERIAL_PATH.match(finding.subject):
        return after[int(match[1]) : int(match[1]) + 1]
    # Outputs first: an error is usually in what the step produced.
    for side in (after, payload["before"]):
        if matches := [material for material in side if material["name"] == finding.subject]:
            # Two materials of one name: marking either would be a guess.
            return matches if len(matches) == 1 else []
    return []
