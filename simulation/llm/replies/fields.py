"""Fields of a transition reply, one kind each: what is not as agreed becomes a problem, what is only odd a note."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulation.llm.replies.cleaning import plain, quoted
from simulation.llm.replies.remarks import Remarks, kind
from simulation.llm.replies.vocabulary import said_by_condition

# As many wells as a plate has, and their remainders: an action may name 96 materials.
MOST_MATERIALS, MOST_OBSERVATIONS = 200, 200
MOST_PROPERTIES, MOST_VALUES, DEEPEST = 40, 1000, 8
LONGEST_NAME, LONGEST_KEY, LONGEST_TEXT, LONGEST_REASONING, LONGEST_TYPE = 200, 100, 4000, 20_000, 60
_EXACT = 10**15  # larger floats are written as text: databases give them back as whole numbers

Retold = Callable[[str], str]


def text(data: Mapping[str, Any], key: str, place: str, most: int, remarks: Remarks) -> str:
    """A text that must be there and say something; "" where it does not."""
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        remarks.wrong(f"{place}.{key} must be text that is not empty, not {kind(value)}")
        return ""
    return within(value.strip(), f"{place}.{key}", most, remarks)


def within(said: str, place: str, most: int, remarks: Remarks) -> str:
    """The text, or "" and a problem where it is too long. Names in the place of codes make a text longer: ask again then."""
    if len(said) <= most:
        return said
    remarks.wrong(f"{place} has {len(said)} characters; allowed: {most}")
    return ""


def entries(data: Mapping[str, Any], key: str, most: int, remarks: Remarks) -> list[Mapping[str, Any]]:
    """A list of objects; an action that failed may leave it out."""
    value = data.get(key)
    if value is None and data.get("success") is False:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        remarks.wrong(f"{key} must be a list of objects, not {kind(value)}")
        return []
    if len(value) > most:
        remarks.wrong(f"{key} has {len(value)} entries; allowed: {most}")
        return []
    return value


def properties(entry: Mapping[str, Any], place: str, remarks: Remarks, retold: Retold) -> dict[str, Any]:
    """The open object of properties, within bounds. What an older condition said by its name is written into it."""
    written = entry.get("properties")
    if not isinstance(written, Mapping):
        remarks.wrong(f"{place}.properties must be an object, not {kind(written)}")
        return {}
    if len(written) > MOST_PROPERTIES:
        remarks.wrong(f"{place}.properties has {len(written)} entries; allowed: {MOST_PROPERTIES}")
        return {}
    counter = [0]
    found: dict[str, Any] = {}
    for key, value in written.items():
        if value is not None and (name := _key(key, found, f"{place}.properties", remarks, retold)):
            found[name] = _value(value, f"{place}.properties.{name}", 1, counter, remarks, retold)
    if counter[0] > MOST_VALUES:
        remarks.wrong(f"{place}.properties holds {counter[0]} values; allowed: {MOST_VALUES}")
    for name, value in said_by_condition(entry).items():
        if not any(name.lower() in key.lower() for key in found):
            found[name] = value
    return found


def measurement_type(entry: Mapping[str, Any], place: str, remarks: Remarks) -> str:
    """An open list: any word or two, in one spelling."""
    written = text(entry, "measurement_type", place, LONGEST_TYPE, remarks)
    found = re.sub(r"[\s_]+", "_", plain(written).lower())
    if written and not re.fullmatch(r"[^\W\d_][\w/+.-]*", found):
        remarks.wrong(f"{place}.measurement_type must be a word such as visual or quantitative, not {quoted(written)}")
    return found


def value(entry: Mapping[str, Any], place: str, remarks: Remarks) -> str:
    """What was read off, as text; a bare number is taken as it is written."""
    match entry.get("value"):
        case None:
            return ""
        case bool(said):
            return "yes" if said else "no"
        case int(number) | float(number):
            return str(number)
        case str(written):
            return within(written.strip(), f"{place}.value", LONGEST_TEXT, remarks)
        case other:
            remarks.wrong(f"{place}.value must be text, not {kind(other)}")
    return ""


def unknown(data: Mapping[str, Any], known: Sequence[str], place: str, remarks: Remarks) -> None:
    """Fields nobody asked for are left out, and that is told."""
    if strange := sorted(set(data) - set(known)):
        names = ", ".join(quoted(name, 30) for name in strange[:5])
        remarks.told(f"{place}: {len(strange)} unknown left out ({names})")


def _value(written: Any, place: str, depth: int, counter: list[int], remarks: Remarks, retold: Retold) -> Any:
    """A property's value: text, number, true or false, or objects and lists of these."""
    counter[0] += 1
    if counter[0] > MOST_VALUES:
        return ""
    match written:
        case str():
            said = within(written.strip(), place, LONGEST_TEXT, remarks)
            return within(retold(said), place, LONGEST_TEXT, remarks)
        case float() if abs(written) >= _EXACT:
            return repr(written)
        case bool() | int() | float():
            return written
        case Mapping() | list() if depth >= DEEPEST:
            remarks.wrong(f"{place} is nested deeper than {DEEPEST} levels")
        case Mapping():
            inside: dict[str, Any] = {}
            for key, part in written.items():
                if part is not None and (name := _key(key, inside, place, remarks, retold)):
                    inside[name] = _value(part, place, depth + 1, counter, remarks, retold)
            return inside
        case list():
            parts = (part for part in written if part is not None)
            return [_value(part, place, depth + 1, counter, remarks, retold) for part in parts]
    return ""


def _key(key: str, taken: Mapping[str, Any], place: str, remarks: Remarks, retold: Retold) -> str:
    """A property's name as people read it; "" and a problem where it is none, or is there already."""
    name = retold(key.strip()) if len(key) <= LONGEST_KEY else ""
    if not 0 < len(name) <= LONGEST_KEY:
        remarks.wrong(f"{place}: {quoted(key)} is no name of a property; allowed: 1 to {LONGEST_KEY} characters")
        return ""
    if name in taken:
        remarks.wrong(f"{place}: {quoted(name)} stands there twice")
        return ""
    return name
