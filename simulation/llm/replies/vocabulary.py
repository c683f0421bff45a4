"""Parse fields of a material with closed lists of values. Older names from the paper's legacy prompt are accepted."""

import re
from collections.abc import Mapping
from typing import Any

from simulation.lab.materials import AVAILABILITY, AVAILABLE, CONDITIONS, MATERIAL_TYPES, NOT_AVAILABLE
from simulation.llm.replies.cleaning import normalise_text, quote_short
from simulation.llm.replies.parse_notes import ParseNotes, describe_kind

# Names in the paper's older prompt, and the properties that these names imply.
_LEGACY_AVAILABILITY = {"consumable": AVAILABLE, "consumed": NOT_AVAILABLE}
_LEGACY_CONDITIONS = {
    "37c": "incubating_conditions", "37c5%co2": "cell_culture_conditions", "incubator": "incubating_conditions", "freezer": "-20C",
}  # fmt: skip
_IMPLIED_PROPERTIES = {"37c": {"temperature": "37 °C"}, "37c5%co2": {"temperature": "37 °C", "CO2": "5%"}}


def parse_availability(entry: Mapping[str, Any], place: str, remarks: ParseNotes) -> str:
    """Return the availability, one of three words. `supply` is the older name of the field."""
    key = "supply" if "available_for_use" not in entry and "supply" in entry else "available_for_use"
    member = _find_member(entry.get(key), AVAILABILITY, _LEGACY_AVAILABILITY)
    _note_member(entry, key, member, AVAILABILITY, place, remarks)
    return member or AVAILABLE


def parse_material_type(entry: Mapping[str, Any], place: str, remarks: ParseNotes) -> str:
    member = _find_member(entry.get("material_type"), MATERIAL_TYPES, {})
    _note_member(entry, "material_type", member, MATERIAL_TYPES, place, remarks)
    return member or MATERIAL_TYPES[0]


def parse_condition(entry: Mapping[str, Any], place: str, remarks: ParseNotes) -> str:
    member = _find_member(entry.get("environmental_condition"), CONDITIONS, _LEGACY_CONDITIONS)
    _note_member(entry, "environmental_condition", member, CONDITIONS, place, remarks)
    return member or CONDITIONS[0]


def implied_properties(entry: Mapping[str, Any]) -> Mapping[str, str]:
    """Return properties that an older name of a condition implies."""
    return _IMPLIED_PROPERTIES.get(_normalise_word(entry.get("environmental_condition")), {})


def _find_member(written: Any, allowed: tuple[str, ...], legacy: Mapping[str, str]) -> str:
    normalised = _normalise_word(written)
    return next((word for word in allowed if _normalise_word(word) == normalised), "") or legacy.get(normalised, "")


def _note_member(
    entry: Mapping[str, Any], key: str, found: str, allowed: tuple[str, ...], place: str, remarks: ParseNotes
) -> None:
    raw = entry.get(key)
    if not found:
        remarks.add_problem(f"{place}.{key} must be one of {', '.join(allowed)}, not {describe_kind(raw)}")
    elif raw != found or key == "supply":
        remarks.add_note(f"{place}.{key} {quote_short(raw)} read as {found}")


def _normalise_word(written: Any) -> str:
    """Return a word for comparison: in lower case, without spaces, underscores, hyphens and degree signs."""
    if not isinstance(written, str) or len(written) > 100:
        return ""
    return re.sub(r"[\s_°]|-(?!\d)", "", normalise_text(written).replace("−", "-").lower())
