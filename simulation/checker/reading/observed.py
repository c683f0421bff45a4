"""Bring observations into one layout: every number of a value with its name and unit, wherever the record states them.

A record may have the unit in `measurement_type` ("Ca_mg_per_L"), the names of its numbers there or in the description ("mode;max",
"wells C1,C2") and the numbers in a list. All of them become a value like "mode: 14.8 µm; max: 75.2 µm".
"""

import re
from collections.abc import Mapping
from typing import Any

from simulation.checker.reading import leaves, units, words
from simulation.lab.outcomes import MEASUREMENT_TYPES, NOTE

_MAX_TEXT, _MAX_NUMBERS = 2000, 60
# Types that say how something was observed and not what.
_GENERAL = words.word_set(
    "measurement reading numeric numerical number data result note observation text value instrument photo photograph image picture state account "
    "description remark comment log list table record of and appearance raw calculated derived computed output readout"
) | {*MEASUREMENT_TYPES, NOTE}
_BARE = r"[~≈<>]?\s?[+-]?[0-9]{1,15}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,2})?"
_BARE_NUMBER = re.compile(_BARE, re.IGNORECASE)
_LAST_NUMBER = re.compile(rf"({_BARE})\s?([A-Za-zµ%°][^0-9,;|]{{0,30}})?", re.IGNORECASE)
_BETWEEN = re.compile(r"\s?[,;/|]\s?")
_BRACKET = re.compile(r"^(.{0,80}?)[(\[]([^()\[\]]{1,80})[)\]]\s*$")
_NAME_BREAK = re.compile(r"\s?[;|]\s?|\s?,\s?|\s/\s|\s(?:and|vs\.?|then|und|et|y)\s")
_REPEATS = words.word_set("r n m inj injection rep repl replicate run reading read no trial measurement x")
# Short names between commas or strokes; two of them only if they have numbers: "A1/A2", but not "and/or".
_NAMES = re.compile(
    r"(?<![\w,])(?:[A-Za-z][A-Za-z0-9_.+#-]{0,20}\s?[,;/|]\s?){2,59}[A-Za-z][A-Za-z0-9_.+#-]{0,20}(?![\w,])"
)
_TWO_NAMES = re.compile(r"(?<![\w,])[A-Za-z]{1,6}[0-9]{1,3}\s?[,;/|]\s?[A-Za-z]{1,6}[0-9]{1,3}(?![\w,])")
_LAST_KEY = re.compile(
    r"(?:^|[\s,;:])([A-Za-zµ][A-Za-z0-9]{0,20}(?:_[A-Za-zµ0-9]{1,10}){1,4}|[A-Za-z ]{1,30}[\[(][A-Za-zµ%/·]{1,12}[\])])\s*$"
)


def arrange_observations(entries: Any) -> Any:
    """Return observations whose descriptions and values have what only their `measurement_type` states."""
    if not isinstance(entries, list):
        return entries
    return [_arrange(entry) if isinstance(entry, Mapping) else entry for entry in entries]


def _arrange(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    kind, description = entry.get("measurement_type"), entry.get("description")
    kind = kind[:200] if isinstance(kind, str) else ""
    description = description if isinstance(description, str) else ""
    result = dict(entry)
    # A type of general words does not name a quantity.
    if set(words.tokenize(kind)) <= _GENERAL:
        kind = ""
    plain = " ".join(kind.replace("_", " ").split())
    if plain and plain.lower() not in description.lower() and len(description) < _MAX_TEXT:
        result["description"] = f"{description}, {plain}" if description else plain
    if (numbers := _read_numbers(entry.get("value"))) is not None:
        listed, unit = numbers
        unit = unit or _find_unit(kind) or _find_unit(match[1] if (match := _LAST_KEY.search(description)) else "")
        names = _find_names(kind, description, len(listed)) if len(listed) > 1 else []
        amounts = [f"{number} {unit}".strip() for number in listed]
        if names:
            result["value"] = "; ".join(f"{name}: {amount}" for name, amount in zip(names, amounts, strict=True))
        elif unit or len(listed) > 1:
            result["value"] = ", ".join(amounts)
    return result


def _read_numbers(value: Any) -> tuple[list[str], str] | None:
    """Return (numbers, the unit behind the last of them or "") of a value that is a number or a list of numbers, else None."""
    if isinstance(value, list) and 1 <= len(value) <= _MAX_NUMBERS:
        texts = [str(item) for item in value if isinstance(item, int | float | str) and not isinstance(item, bool)]
        text = "; ".join(texts) if len(texts) == len(value) else ""
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**15:
        text = str(value)
    else:
        text = value if isinstance(value, str) and len(value) < _MAX_TEXT else ""
    parts = [part.strip() for part in _BETWEEN.split(text.strip(" []()")[:600])]
    match = _LAST_NUMBER.fullmatch(parts[-1])
    if match is None or len(parts) > _MAX_NUMBERS or not all(map(_BARE_NUMBER.fullmatch, parts[:-1])):
        return None
    numbers, rest = [*parts[:-1], match[1]], (match[2] or "").strip()
    # "412; 1071 arbitrary units" and "1.2; 1.4 (n = 2)": what is no unit stays where it is.
    if rest and (len(numbers) == 1 or "/" in text):
        return None
    return numbers, rest


def _find_unit(key: str) -> str:
    unit = leaves.find_unit_in_key(key.strip())
    if not unit and key.strip().lower().split("_")[-1] in ("pct", "percent", "%"):
        return "%"
    # "AU", "V" or "g" alone may be a symbol.
    return unit if unit and units.find_dimension(unit) else ""


def _find_names(kind: str, description: str, count: int) -> list[str]:
    """Return the names of a list of numbers in the order of the list, or nothing if no list of names has its length."""
    bracket = _BRACKET.match(kind.replace("_", " "))
    for text, quantity in ((bracket[2], bracket[1]) if bracket else ("", ""), (kind.replace("_", " "), "")):
        names = [name.strip() for name in _NAME_BREAK.split(text)]
        if len(names) == count and all(re.search("[A-Za-z]", name) for name in names):
            return [f"{quantity.strip()} {name}".strip() for name in names]
    # "wells C1,C2,C3": a list of short names in the description.
    for match in (_NAMES if count > 2 else _TWO_NAMES).finditer(description[:600]):
        names = [name.strip() for name in _BETWEEN.split(match[0])]
        # "r1,r2" only numbers the readings.
        stems = {re.sub(r"[0-9]+$", "", name).lower() for name in names}
        if len(names) == count == len(set(names)) and not (len(stems) == 1 and stems <= _REPEATS):
            return names
    return []
