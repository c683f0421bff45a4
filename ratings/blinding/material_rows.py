"""Put each material before an action beside what it became, row by row, from the blinded payload alone.

A row's `key` is its name within its material: ":Volume" for a property, "/name", "/place" and "/availability" for the
rest. Prefixed with the material's letter, it is the stored key of a rater's mark (see `mark_keys`).
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from ratings.blinding.pseudonyms import AVAILABILITY, UNLIMITED

Payload = dict[str, Any]

MAX_KEY_LABEL = 48  # characters; keys are stored in every mark
NAME, PLACE, AVAILABLE = "/name", "/place", "/availability"
_SUPERSCRIPTS = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
# A number, optionally with a power of ten and a unit.
# All repetitions are bounded, so that a hostile text cannot make the match slow.
_QUANTITY = re.compile(
    r"([+-]?[0-9]{1,15}(?:\.[0-9]{1,12})?)"
    rf"(\s?[×x]\s?10(?:\^[-−]?[0-9]{{1,2}}|[{_SUPERSCRIPTS}]{{1,3}})|[eE][+-]?[0-9]{{1,2}})?"
    r"\s?(%|(?![eE][0-9])[A-Za-zµμ°][A-Za-z0-9µμ°/%·^-]{0,15}(?: g)?)?"
)


class PropertyRow(NamedTuple):
    """One property before and after an action; "" if there is no value.

    `difference` is set only if both values are numbers with the same unit.
    """

    label: str
    before: str
    after: str
    changed: bool
    difference: str
    key: str = ""


class MaterialRow(NamedTuple):
    """One material before and after an action. `before` or `after` is None if missing.

    `gone`: an output that continues this material was expected and is missing.
    """

    ref: str
    before: Payload | None
    after: Payload | None
    rows: tuple[PropertyRow, ...]
    gone: bool

    @property
    def name(self) -> str:
        """The name after the action, or before it if there is no material after it."""
        return str((self.after or self.before or {}).get("name", ""))

    @property
    def is_name_in_heading(self) -> bool:
        """Whether the name is only in the heading, and not in a row because it changed."""
        return not any(row.key == NAME for row in self.rows)


def align_materials(payload: Payload) -> list[MaterialRow]:
    """Return each material before the action beside what it became, in order; then the new materials."""
    continued = {material["continues"]: material for material in payload["after"] if material["continues"]}
    aligned = [_build_material_row(material, continued.get(material["ref"]), payload) for material in payload["before"]]
    new = [material for material in payload["after"] if not material["continues"]]
    return aligned + [
        MaterialRow(material["ref"], None, material, _build_rows(None, material), False) for material in new
    ]


def list_separately(payload: Payload) -> list[MaterialRow]:
    """Return the materials before the action, then those after it, without pairing them. For items with unknown
    lineage.
    """
    before = [
        MaterialRow(material["ref"], material, None, _build_rows(material, material), False)
        for material in payload["before"]
    ]
    return before + [
        MaterialRow(material["ref"], None, material, _build_rows(None, material), False)
        for material in payload["after"]
    ]


def rows_by_key(material: Payload | None) -> dict[str, tuple[str, str]]:
    """Return the label and value of each row of a material, by row key: properties first, with unique keys for equal
    labels.
    """
    if material is None:
        return {}
    rows: dict[str, tuple[str, str]] = {}
    for label, value in material["properties"]:
        # Whitespace is folded and the length limited: the key is stored with every mark and must not depend on line
        # breaks.
        rows[_unique_key(f":{' '.join(label.split())[:MAX_KEY_LABEL]}", rows)] = (label, value)
    return {
        **rows,
        NAME: ("Name", material["name"]),
        PLACE: ("Kept at", material["condition"]),
        AVAILABLE: ("Availability", material["availability"]),
    }


def format_difference(before: str, after: str) -> str:
    """Return after minus before, with its sign, if both are plain numbers with the same unit; else "".

    The difference of two percentages is given in points.
    """
    old, new = _QUANTITY.fullmatch(before.strip()), _QUANTITY.fullmatch(after.strip())
    if old is None or new is None or _parse_unit(old) != _parse_unit(new):
        return ""
    change = Decimal(new[1]) - Decimal(old[1])
    sign = "+" if change > 0 else "−" if change < 0 else ""
    size = f"{abs(change):f}"  # fixed-point, since Decimal would print small numbers as 1E-7
    size = size.rstrip("0").rstrip(".") if "." in size else size
    power, unit = _parse_unit(new)
    return f"{sign}{size}{power} {'points' if unit == '%' else unit}".strip()


def _parse_unit(match: re.Match[str]) -> tuple[str, str]:
    return match[2] or "", (match[3] or "").strip()


def _build_material_row(before: Payload, after: Payload | None, payload: Payload) -> MaterialRow:
    # Nothing happens to an unlimited supply or after a rejection, so a missing output is no loss.
    is_unchanged = before["availability"] == AVAILABILITY[UNLIMITED] or bool(payload["rejected"])
    rows = _build_rows(before, before if after is None and is_unchanged else after)
    return MaterialRow(before["ref"], before, after, rows, gone=after is None and not is_unchanged)


def _build_rows(before: Payload | None, after: Payload | None) -> tuple[PropertyRow, ...]:
    return tuple(_pair_rows(rows_by_key(before), rows_by_key(after)))


def _pair_rows(old: dict[str, tuple[str, str]], new: dict[str, tuple[str, str]]) -> Iterator[PropertyRow]:
    # Properties first, in the order before the action; new ones after them, so that rows do not move.
    for key in [
        *(k for k in old if k[0] == ":"),
        *(k for k in new if k[0] == ":" and k not in old),
        NAME,
        PLACE,
        AVAILABLE,
    ]:
        label, before = old.get(key, ("", ""))
        new_label, after = new.get(key, ("", ""))
        changed = before != after
        yield PropertyRow(
            label or new_label, before, after, changed, format_difference(before, after) if changed else "", key
        )


def _unique_key(key: str, taken: dict[str, tuple[str, str]]) -> str:
    """Return the key, with a number appended if another property has the same key."""
    number, candidate = 1, key
    while candidate in taken:
        number += 1
        candidate = f"{key} ({number})"
    return candidate
