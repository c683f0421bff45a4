"""The closed lists of a material, and their older names in the paper's legacy prompt."""

import re
from collections.abc import Mapping
from typing import Any

from simulation.lab.materials import AVAILABILITY, AVAILABLE, CONDITIONS, MATERIAL_TYPES, NOT_AVAILABLE
from simulation.llm.replies.cleaning import plain, quoted
from simulation.llm.replies.remarks import Remarks, kind

# Names in the paper's older prompt, and the properties that these names imply.
_LEGACY_AVAILABILITY = {"consumable": AVAILABLE, "consumed": NOT_AVAILABLE}
_LEGACY_CONDITIONS = {
    "37c": "incubating_conditions", "37c5%co2": "cell_culture_conditions", "incubator": "incubating_conditions", "freezer": "-20C",
}  # fmt: skip
_SAID_BY_NAME = {"37c": {"temperature": "37 °C"}, "37c5%co2": {"temperature": "37 °C", "CO2": "5%"}}


def availability(entry: Mapping[str, Any], place: str, remarks: Remarks) -> str:
    """Return one of the three words; `supply` is the older name of the field."""
    key = "supply" if "available_for_use" not in entry and "supply" in entry else "available_for_use"
    member = _member(entry.get(key), AVAILABILITY, _LEGACY_AVAILABILITY)
    _say_member(entry, key, member, AVAILABILITY, place, remarks)
    return member or AVAILABLE


def material_type(entry: Mapping[str, Any], place: str, remarks: Remarks) -> str:
    member = _member(entry.get("material_type"), MATERIAL_TYPES, {})
    _say_member(entry, "material_type", member, MATERIAL_TYPES, place, remarks)
    return member or MATERIAL_TYPES[0]


def condition(entry: Mapping[str, Any], place: str, remarks: Remarks) -> str:
    member = _member(entry.get("environmental_condition"), CONDITIONS, _LEGACY_CONDITIONS)
    _say_member(entry, "environmental_condition", member, CONDITIONS, place, remarks)
    return member or CONDITIONS[0]


def said_by_condition(entry: Mapping[str, Any]) -> Mapping[str, str]:
    """Return properties that an older name of a condition implies."""
    return _SAID_BY_NAME.get(_bare(entry.get("environmental_condition")), {})


def _member(written: Any, allowed: tuple[str, ...], legacy: Mapping[str, str]) -> str:
    normalised = _bare(written)
    return next((word for word in allowed if _bare(word) == normalised), "") or legacy.get(normalised, "")


def _say_member(
    entry: Mapping[str, Any], key: str, found: str, allowed: tuple[str, ...], place: str, remarks: Remarks
) -> None:
    raw = entry.get(key)
    if not found:
        remarks.wrong(f"{place}.{key} must be one of {', '.join(allowed)}, not {kind(raw)}")
    elif raw != found or key == "supply":
        remarks.told(f"{place}.{key} {quoted(raw)} read as {found}")


def _bare(written: Any) -> str:
    """Return a word of a closed list without differences in capitals, spaces and the degree sign."""
    if not isinstance(written, str) or len(written) > 100:
        return ""
    return re.sub(r"[\s_°]|-(?!\d)", "", plain(written).replace("−", "-").lower())
