"""Flatten nested properties to a list of leaves, each with the words of its key and the unit in its key."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from simulation.checker.reading import units, words

_MAX_DEPTH, _MAX_LEAVES = 8, 400  # limits for hostile input; real properties stay far below both
# camelCase and snake_case: each part of a key may be a unit.
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PARTS = re.compile(r"[_\s-]")
_VALUE_KEYS = ("value", "magnitude", "number", "amount", "quantity")
_UNIT_KEYS = ("unit", "units", "uom")


class Leaf(NamedTuple):
    """One value of the properties. `words` are those of the whole path, `own_words` those of the value's own key."""

    key: str
    words: tuple[str, ...]
    own_words: tuple[str, ...]
    value: Any
    unit: str

    @property
    def value_text(self) -> str:
        return str(self.value)[:400] if isinstance(self.value, str | int | float | Decimal) else ""

    def parse_amount(self, *dimensions: str) -> units.Amount | None:
        """Return the value as an amount of one of these dimensions (any if none is named), or None."""
        amount = units.parse_amount(self.value, self.unit, dimensions)
        return amount if amount and (not dimensions or amount.dimension in dimensions) else None


def flatten_properties(data: Any) -> tuple[Leaf, ...]:
    """Return the leaves of nested properties, up to a maximum depth and number."""
    leaves = []
    for leaf in _iter_leaves(data, (), "", 0):
        leaves.append(leaf)
        if len(leaves) >= _MAX_LEAVES:
            break
    return tuple(leaves)


def _iter_leaves(data: Any, path: tuple[str, ...], key: str, depth: int) -> Iterator[Leaf]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(data, Mapping):
        if quantity := _find_quantity(data):
            yield Leaf(key, path, words.tokenize(key), *quantity)
            return
        for name, value in data.items():
            yield from _iter_leaves(value, (*path, *_key_words(str(name)[:300])), str(name)[:200], depth + 1)
    # A list of one value is read as that value; only longer lists get the marker "#".
    elif isinstance(data, list | tuple) and len(data) == 1:
        yield from _iter_leaves(data[0], path, key, depth + 1)
    elif isinstance(data, list | tuple):
        for value in data[:_MAX_LEAVES]:
            # "#" marks a list item: several values share one key, so none of them is the value of the key.
            yield from _iter_leaves(value, (*path, "#"), key, depth + 1)
    elif data is not None:
        yield Leaf(key, path, words.tokenize(key), data, find_unit_in_key(key))


def _find_quantity(data: Mapping[Any, Any]) -> tuple[Any, str] | None:
    """Return (value, unit) of an object like {"value": 1, "unit": "mL"}, or None for any other object."""
    unit = next((data[key] for key in _UNIT_KEYS if isinstance(data.get(key), str)), None)
    value = next((data[key] for key in _VALUE_KEYS if isinstance(data.get(key), str | int | float)), None)
    return None if unit is None or value is None else (value, unit[:40])


@lru_cache(maxsize=4096)
def _key_words(key: str) -> tuple[str, ...]:
    """Return the words of a key without the unit at its end."""
    key_words = list(words.tokenize(key))
    unit_words = {*words.tokenize(find_unit_in_key(key)), "per"}
    while len(key_words) > 1 and len(unit_words) > 1 and key_words[-1] in unit_words:
        key_words.pop()
    return tuple(key_words)


def find_unit_in_key(key: str) -> str:
    """Return the unit at the end of a key: mL in "vol (mL)" and "volume_ml", mg/ml in "conc_mg_per_ml" and "conc_mg_ml"."""
    # Shortened first, because the cache would otherwise keep keys of any length.
    return _find_unit_in_key(key[:200])


@lru_cache(maxsize=4096)
def _find_unit_in_key(key: str) -> str:
    for opened, closed in ("()", "[]"):
        bracket = key.partition(opened)[2].partition(closed)[0].strip()
        if bracket and units.find_dimension(bracket):
            return bracket
    parts = _PARTS.split(_CAMEL_CASE.sub("_", key).strip("_ )]"))
    if len(parts) > 3 and parts[-2].lower() == "per" and units.find_dimension(f"{parts[-3]}/{parts[-1]}"):
        return f"{parts[-3]}/{parts[-1]}"
    if len(parts) > 2 and units.find_dimension(f"{parts[-2]}/{parts[-1]}"):
        return f"{parts[-2]}/{parts[-1]}"
    last_part = _PARTS.split(key.strip("_ )]"))[-1]
    # "vol_uL" ends in a unit that the camelCase split would cut in two.
    last = last_part if last_part != key and units.find_dimension(last_part) else parts[-1] if len(parts) > 1 else ""
    # "c" alone means °C only in a key with "temp".
    if last.lower() == "c" and "temp" in key.lower():
        return "°C"
    return (
        last
        # A single letter is a unit only if unambiguous; "in" and "at" are prepositions in keys.
        if (len(last) > 1 and last not in ("in", "at") and units.find_dimension(last)) or last in ("s", "h", "g", "L")
        else ""
    )
