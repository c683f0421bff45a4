"""Each material before an action beside what it became, row by row. Reads nothing but the blinded payload. No Django.

A row's `key` is its name within its material: ":Volume" for a property, "/name", "/place" and "/availability" for the
rest. With the material's letter before it, it is what a rater's mark is stored as (see `marking`).
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from ratings.blinding.naming import AVAILABILITY, UNLIMITED

Payload = dict[str, Any]

KEPT_OF_A_LABEL = 48
NAME, PLACE, AVAILABLE = "/name", "/place", "/availability"
_SUPERSCRIPTS = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
# A number, a power of ten if it is written with one, and a unit.
_QUANTITY = re.compile(
    r"([+-]?[0-9]{1,15}(?:\.[0-9]{1,12})?)"
    rf"(\s?[×x]\s?10(?:\^[-−]?[0-9]{{1,2}}|[{_SUPERSCRIPTS}]{{1,3}})|[eE][+-]?[0-9]{{1,2}})?"
    r"\s?(%|(?![eE][0-9])[A-Za-zµμ°][A-Za-z0-9µμ°/%·^-]{0,15}(?: g)?)?"
)


class Row(NamedTuple):
    """One property before and after; "" where there is none. `difference` only where both are numbers of one unit."""

    label: str
    before: str
    after: str
    changed: bool
    difference: str
    key: str = ""


class Lane(NamedTuple):
    """One material across the action. `before` or `after` is None where there is none; `gone`: it had to come back."""

    ref: str
    before: Payload | None
    after: Payload | None
    rows: tuple[Row, ...]
    gone: bool

    @property
    def name(self) -> str:
        """What it is called afterwards, or was called if there is no afterwards."""
        return str((self.after or self.before or {}).get("name", ""))

    @property
    def named(self) -> bool:
        """Whether its name stands in its heading alone, and not in a row of its own because it changed."""
        return not any(row.key == NAME for row in self.rows)


def lanes(payload: Payload) -> list[Lane]:
    """Each material before the action beside what it became, in order; then the new ones."""
    continued = {material["continues"]: material for material in payload["after"] if material["continues"]}
    found = [_lane(material, continued.get(material["ref"]), payload) for material in payload["before"]]
    new = [material for material in payload["after"] if not material["continues"]]
    return found + [Lane(material["ref"], None, material, _rows(None, material), False) for material in new]


def apart(payload: Payload) -> list[Lane]:
    """What was before and what is afterwards, none beside another: where nobody knows what became of what."""
    before = [Lane(material["ref"], material, None, _rows(material, material), False) for material in payload["before"]]
    return before + [
        Lane(material["ref"], None, material, _rows(None, material), False) for material in payload["after"]
    ]


def facts(material: Payload | None) -> dict[str, tuple[str, str]]:
    """A material's rows by key, each with its label and value: properties first, two of one label told apart."""
    if material is None:
        return {}
    found: dict[str, tuple[str, str]] = {}
    for label, value in material["properties"]:
        found[_free(f":{' '.join(label.split())[:KEPT_OF_A_LABEL]}", found)] = (label, value)
    return {
        **found,
        NAME: ("Name", material["name"]),
        PLACE: ("Kept at", material["condition"]),
        AVAILABLE: ("Availability", material["availability"]),
    }


def difference(before: str, after: str) -> str:
    """After minus before, signed, if both are a plain number with the same unit; else "". Per cents differ by points."""
    old, new = _QUANTITY.fullmatch(before.strip()), _QUANTITY.fullmatch(after.strip())
    if old is None or new is None or _unit(old) != _unit(new):
        return ""
    change = Decimal(new[1]) - Decimal(old[1])
    sign = "+" if change > 0 else "−" if change < 0 else ""
    size = f"{abs(change):f}"
    size = size.rstrip("0").rstrip(".") if "." in size else size
    power, unit = _unit(new)
    return f"{sign}{size}{power} {'points' if unit == '%' else unit}".strip()


def _unit(found: re.Match[str]) -> tuple[str, str]:
    return found[2] or "", (found[3] or "").strip()


def _lane(before: Payload, after: Payload | None, payload: Payload) -> Lane:
    stays = before["availability"] == AVAILABILITY[UNLIMITED] or bool(payload["rejected"])
    rows = _rows(before, before if after is None and stays else after)
    return Lane(before["ref"], before, after, rows, gone=after is None and not stays)


def _rows(before: Payload | None, after: Payload | None) -> tuple[Row, ...]:
    return tuple(_paired(facts(before), facts(after)))


def _paired(old: dict[str, tuple[str, str]], new: dict[str, tuple[str, str]]) -> Iterator[Row]:
    for key in [
        *(k for k in old if k[0] == ":"),
        *(k for k in new if k[0] == ":" and k not in old),
        NAME,
        PLACE,
        AVAILABLE,
    ]:
        label, before = old.get(key, ("", ""))
        said, after = new.get(key, ("", ""))
        changed = before != after
        yield Row(label or said, before, after, changed, difference(before, after) if changed else "", key)


def _free(key: str, taken: dict[str, tuple[str, str]]) -> str:
    """The key, with a number behind it if another property reads the same."""
    number, free = 1, key
    while free in taken:
        number += 1
        free = f"{key} ({number})"
    return free
