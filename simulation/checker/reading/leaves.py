"""Nested properties as leaves: one value each, with the words of its path and the unit in its key."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from simulation.checker import chemistry
from simulation.checker.reading import units, words
from simulation.checker.reading.units import Amount

_SCALARS = (str, int, float, Decimal)
_LONGEST_CACHED = 200  # characters of a value; bounds the memory
_MAX_DEPTH, _MAX_LEAVES = 8, 400  # limits for hostile input; real properties stay far below both
# camelCase and snake_case: each part of a key may be a unit.
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PARTS = re.compile(r"[_\s-]")
_AMOUNT_AT_END = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?[ _]?[A-Za-zµ%]+$")
# Objects with two states of a material: what it was before is no property that it has now.
BEFORE, AFTER = (
    {"state_before", "before", "before_step", "previous", "old", "vorher", "avant", "antes", "initial", "initial_state", "start"},
    {"state_after", "after", "after_step", "current", "new", "nachher", "après", "apres", "después", "despues", "final", "final_state", "end", "now"},
)  # fmt: skip
_FIRST_UNITS = frozenset(
    [
        "uL",
        "µL",
        "mL",
        "ul",
        "ml",
        "ug",
        "µg",
        "mg",
        "ng",
        "pmol",
        "nmol",
        "umol",
        "µmol",
        "kDa",
        "bp",
        "rpm",
        "hours",
        "days",
        "minutes",
    ]
)
VALUE_KEYS = (
    "value", "magnitude", "number", "amount", "quantity", "val", "v", "wert", "valor", "valeur", "qty", "q", "menge",
)  # fmt: skip
UNIT_KEYS = ("unit", "units", "uom", "u", "einheit", "unidad", "unite", "unité")
# Keys whose text names what the number beside it belongs to: {"name": "Ca", "amount": 4.9, "unit": "mg"}.
_NAME_KEYS = ("name", "analyte", "component", "substance", "species", "parameter")


@dataclass(frozen=True, eq=False)
class Leaf:
    """One value of the properties. `words` are those of the whole path, `own_words` those of the value's own key."""

    key: str
    words: tuple[str, ...]
    own_words: tuple[str, ...]
    value: Any
    unit: str
    _amounts: dict[tuple[str, ...], Amount | None] = field(default_factory=dict, repr=False)

    @cached_property
    def word_set(self) -> frozenset[str]:
        return frozenset(self.words)

    @cached_property
    def path_text(self) -> str:
        """Return the words of the whole path as one text, or the key if they are the same."""
        return (
            self.key if len(self.words) == len(self.own_words) else " ".join(word for word in self.words if word != "#")
        )

    @cached_property
    def value_text(self) -> str:
        return str(self.value)[:400] if isinstance(self.value, _SCALARS) else ""

    def parse_amount(self, *dimensions: str) -> Amount | None:
        """Return the value as an amount of one of these dimensions (any if none is named), or None."""
        if dimensions not in self._amounts:
            amount = units.parse_amount(self.value, self.unit, dimensions)
            is_suitable = amount and (not dimensions or amount.dimension in dimensions)
            self._amounts[dimensions] = amount if is_suitable else None
        return self._amounts[dimensions]


def collect_words(leaves: Iterable[Leaf]) -> frozenset[str]:
    """Return all words of the keys and values."""
    return frozenset(word for leaf in leaves for word in (*leaf.words, *words.tokenize(leaf.value_text)))


def flatten_properties(data: Any) -> tuple[Leaf, ...]:
    """Return the leaves of nested properties, up to a maximum depth and number."""
    leaves: list[Leaf] = []
    _add_leaves(leaves, data, (), "", 0)
    return tuple(leaves)


def _add_leaves(leaves: list[Leaf], data: Any, path: tuple[str, ...], key: str, depth: int) -> None:
    if depth > _MAX_DEPTH or len(leaves) >= _MAX_LEAVES or data is None:
        return
    # Texts first: most values are, and the other questions take longer.
    if isinstance(data, str):
        leaves.append(_make_leaf(key, path, data, find_unit_in_key(key)))
    elif isinstance(data, Mapping):
        # An object like {"value": 1, "unit": "mL"} is one value.
        by_key = {str(name)[:40].lower(): inner for name, inner in data.items()}
        unit = next((by_key[name] for name in UNIT_KEYS if isinstance(by_key.get(name), str)), None)
        value = next((by_key[name] for name in VALUE_KEYS if isinstance(by_key.get(name), (str, int, float))), None)
        if unit is not None and value is not None:
            named = next((by_key[name] for name in _NAME_KEYS if isinstance(by_key.get(name), str)), "")
            # The name replaces the "#" of a list: the item is the only one with this name.
            path = (*(word for word in path if word != "#"), *_key_words(named[:300])) if named else path
            leaves.append(_make_leaf(f"{key} {named[:100]}".strip(), path, value, unit[:40]))
            return
        states = find_states(by_key)
        for name, inner in data.items():
            if states and str(name)[:40].lower() == states[0]:
                continue
            if states and str(name)[:40].lower() == states[1]:
                _add_leaves(leaves, inner, path, key, depth + 1)
                continue
            _add_leaves(leaves, inner, (*path, *_key_words(str(name)[:300])), str(name)[:200], depth + 1)
    # A list of one value is read as that value; only longer lists get the marker "#".
    elif isinstance(data, list | tuple) and len(data) == 1:
        _add_leaves(leaves, data[0], path, key, depth + 1)
    elif isinstance(data, list | tuple):
        for inner in data[:_MAX_LEAVES]:
            # "#" marks a list item: several values share one key, so none of them is the value of the key.
            _add_leaves(leaves, inner, (*path, "#"), key, depth + 1)
    else:
        leaves.append(_make_leaf(key, path, data, find_unit_in_key(key)))


def find_states(by_key: Mapping[str, Any]) -> list[str]:
    """Return the keys of the state before and of the state after, if both are objects, else nothing."""
    firsts, lasts = (
        [key for key, value in by_key.items() if key.replace(" ", "_") in names and isinstance(value, Mapping)]
        for names in (BEFORE, AFTER)
    )
    return [firsts[0], lasts[0]] if len(firsts) == len(lasts) == 1 else []


def _make_leaf(key: str, path: tuple[str, ...], value: Any, unit: str) -> Leaf:
    is_cached = isinstance(value, _SCALARS) and (not isinstance(value, str) or len(value) <= _LONGEST_CACHED)
    return (_get_leaf if is_cached else _get_leaf.__wrapped__)(key, path, value, unit)


# Most properties of a material stay as they were in the step before, and so does what the checks read in them.
@lru_cache(maxsize=8192, typed=True)
def _get_leaf(key: str, path: tuple[str, ...], value: Any, unit: str) -> Leaf:
    return Leaf(key, path, words.tokenize(key), value, unit)


@lru_cache(maxsize=4096)
def _key_words(key: str) -> tuple[str, ...]:
    """Return the words of a key without the unit at its end."""
    key_words = list(words.tokenize(key))
    unit_words = {*words.tokenize(find_unit_in_key(key[:200])), "per"}
    while len(key_words) > 1 and len(unit_words) > 1 and key_words[-1] in unit_words:
        key_words.pop()
    return tuple(key_words)


def drop_unit(key: str) -> str:
    """Return the words of a key without the unit at its end, as one text."""
    return " ".join(_key_words(key[:300]))


@lru_cache(maxsize=4096)
def find_unit_in_key(key: str) -> str:
    """Return the unit at the end of a key: mL in "vol (mL)" and "volume_ml", mg/ml in "conc_mg_per_ml" and "conc_mg_ml"."""
    # "absorbance at 590 nm" ends in an amount.
    if _AMOUNT_AT_END.search(key):
        return ""
    for opened, closed in ("()", "[]"):
        bracket = key.partition(opened)[2].partition(closed)[0].strip()
        if bracket and units.find_dimension(bracket):
            return bracket
    # "KCl" and "NaCl" do not end in centilitres.
    if key.lower() in chemistry.SUBSTANCE_WORDS:
        return ""
    # "titer TU/mL" and "cells/mL" end in a unit that is written with a stroke.
    if "/" in key and units.find_dimension(key.split()[-1] if key.split() else ""):
        return key.split()[-1]
    # "Volume/mL" and "c / mM": a quantity over its unit.
    quantity, stroke, last_unit = key.rpartition("/")
    if (
        stroke
        and units.find_dimension(last_unit.strip())
        and not units.find_dimension(quantity.split()[-1] if quantity.split() else "")
    ):
        return last_unit.strip()
    # "readings_mOsm_per_kg": the parts of a unit may have capitals of their own.
    whole = _PARTS.split(key.strip("_ )]"))
    if len(whole) > 2 and whole[-2].lower() == "per":
        if units.find_dimension(f"{whole[-3]}/{whole[-1]}"):
            return f"{whole[-3]}/{whole[-1]}"
        # "colonies_per_mL": whatever is counted.
        if units.find_dimension(whole[-1]) == "volume":
            return f"1/{whole[-1]}"
    # "mg_per_mL" in the usual spelling of units would be cut in two.
    plain = re.sub(r"(?<=[_ ])([nµum]?)L$", r"\1l", key)
    parts = _PARTS.split(_CAMEL_CASE.sub("_", plain).strip("_ )]"))
    if len(parts) > 2 and parts[-2].lower() == "per" and units.find_dimension(f"{parts[-3]}/{parts[-1]}"):
        return f"{parts[-3]}/{parts[-1]}"
    if len(parts) > 2 and "," not in parts[-2] and units.find_dimension(f"{parts[-2]}/{parts[-1]}"):
        return f"{parts[-2]}/{parts[-1]}"
    last_part = _PARTS.split(key.strip("_ )]"))[-1]
    # "vol_uL" ends in a unit that the camelCase split would cut in two.
    last = last_part if last_part != key and units.find_dimension(last_part) else parts[-1] if len(parts) > 1 else ""
    # "volumeMl": a camelCase key capitalises its unit.
    if last[:1].isupper() and last[1:].islower() and not units.find_dimension(last):
        last = last.lower()
    # "c" alone means °C only in a key with "temp".
    if last.lower() == "c" and "temp" in key.lower():
        return "°C"
    if last == "M" and "conc" in key.lower():
        return "M"
    # A single letter is a unit only if unambiguous; "in" and "at" are prepositions in keys.
    # "uL_as_liquid" begins with its unit.
    first = _PARTS.split(key)[0]
    if first in _FIRST_UNITS and first != key and not units.find_dimension(last):
        return first
    is_long_unit = len(last) > 1 and last not in ("in", "at") and units.find_dimension(last)
    return last if is_long_unit or last in ("s", "h", "g", "L") else ""
