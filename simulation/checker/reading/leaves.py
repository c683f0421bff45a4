"""An open dict of properties as a flat list of leaves, each with the words of its key and the unit its key names."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from simulation.checker.reading import units, words

_DEEPEST, _MOST = 8, 400
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PARTS = re.compile(r"[_\s-]")
_VALUE_KEYS = ("value", "magnitude", "number", "amount", "quantity")
_UNIT_KEYS = ("unit", "units", "uom")


class Leaf(NamedTuple):
    """One value of the properties. `words` are those of the whole path, `last` those of its own key."""

    key: str
    words: tuple[str, ...]
    last: tuple[str, ...]
    value: Any
    unit: str

    @property
    def text(self) -> str:
        return str(self.value)[:400] if isinstance(self.value, str | int | float | Decimal) else ""

    def amount(self, *expect: str) -> units.Amount | None:
        """The value as an amount of one of these dimensions (of any, if none is named)."""
        found = units.read(self.value, self.unit, expect)
        return found if found and (not expect or found.dimension in expect) else None


def flatten(data: Any) -> tuple[Leaf, ...]:
    """All leaves of nested properties, as far as anyone would nest them."""
    found = []
    for leaf in _walk(data, (), "", 0):
        found.append(leaf)
        if len(found) >= _MOST:
            break
    return tuple(found)


def _walk(data: Any, path: tuple[str, ...], key: str, depth: int) -> Iterator[Leaf]:
    if depth > _DEEPEST:
        return
    if isinstance(data, Mapping):
        if quantity := _quantity(data):
            yield Leaf(key, path, words.cut(key), *quantity)
            return
        for name, value in data.items():
            yield from _walk(value, (*path, *_key_words(str(name)[:300])), str(name)[:200], depth + 1)
    elif isinstance(data, list | tuple) and len(data) == 1:
        yield from _walk(data[0], path, key, depth + 1)
    elif isinstance(data, list | tuple):
        for value in data[:_MOST]:
            yield from _walk(value, (*path, "#"), key, depth + 1)
    elif data is not None:
        yield Leaf(key, path, words.cut(key), data, unit_of_key(key))


def _quantity(data: Mapping[Any, Any]) -> tuple[Any, str] | None:
    """{"value": 1, "unit": "mL"} as one value and its unit."""
    unit = next((data[key] for key in _UNIT_KEYS if isinstance(data.get(key), str)), None)
    value = next((data[key] for key in _VALUE_KEYS if isinstance(data.get(key), str | int | float)), None)
    return None if unit is None or value is None else (value, unit[:40])


@lru_cache(maxsize=4096)
def _key_words(key: str) -> tuple[str, ...]:
    """The words of a key without those of the unit it ends with."""
    cut = list(words.cut(key))
    unit = {*words.cut(unit_of_key(key)), "per"}
    while len(cut) > 1 and len(unit) > 1 and cut[-1] in unit:
        cut.pop()
    return tuple(cut)


def unit_of_key(key: str) -> str:
    """The unit a key ends with: mL in "vol (mL)" and in "volume_ml", mg/ml in "conc_mg_per_ml" and "conc_mg_ml"."""
    return _unit_of_key(key[:200])


@lru_cache(maxsize=4096)
def _unit_of_key(key: str) -> str:
    for opened, closed in ("()", "[]"):
        bracket = key.partition(opened)[2].partition(closed)[0].strip()
        if bracket and units.unit_of(bracket):
            return bracket
    parts = _PARTS.split(_HUMP.sub("_", key).strip("_ )]"))
    if len(parts) > 3 and parts[-2].lower() == "per" and units.unit_of(f"{parts[-3]}/{parts[-1]}"):
        return f"{parts[-3]}/{parts[-1]}"
    if len(parts) > 2 and units.unit_of(f"{parts[-2]}/{parts[-1]}"):
        return f"{parts[-2]}/{parts[-1]}"
    whole = _PARTS.split(key.strip("_ )]"))[-1]
    # "vol_uL" ends in a unit that the hump would cut in two.
    last = whole if whole != key and units.unit_of(whole) else parts[-1] if len(parts) > 1 else ""
    if last.lower() == "c" and "temp" in key.lower():
        return "°C"
    return (
        last
        if (len(last) > 1 and last not in ("in", "at") and units.unit_of(last)) or last in ("s", "h", "g", "L")
        else ""
    )
