"""Parse the fields of a transition reply: violations become problems, mere oddities become notes."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulation.llm.replies.cleaning import plain, quoted
from simulation.llm.replies.remarks import Remarks, kind
from simulation.llm.replies.vocabulary import said_by_condition

# A full plate of wells and their remainders: an action may use 96 materials.
MOST_MATERIALS, MOST_OBSERVATIONS = 200, 200
MOST_PROPERTIES, MOST_VALUES, DEEPEST = 40, 1000, 8  # bounds, so that a hostile reply fills neither a page nor a row
LONGEST_NAME, LONGEST_KEY, LONGEST_TEXT, LONGEST_REASONING, LONGEST_TYPE = 200, 100, 4000, 20_000, 60
_EXACT = 10**15  # larger floats are stored as text, because databases return them as integers

Retold = Callable[[str], str]


def text(data: Mapping[str, Any], key: str, place: str, most: int, remarks: Remarks) -> str:
    """Return a required text; "" and a problem if it is missing or empty."""
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        remarks.wrong(f"{place}.{key} must be text that is not empty, not {kind(value)}")
        return ""
    return within(value.strip(), f"{place}.{key}", most, remarks)


def within(said: str, place: str, most: int, remarks: Remarks) -> str:
    """Return the text, or "" and a problem if it is too long."""
    # Names that replace barcodes make a text longer, so the model is asked again instead of truncating.
    if len(said) <= most:
        return said
    remarks.wrong(f"{place} has {len(said)} characters; allowed: {most}")
    return ""


def entries(data: Mapping[str, Any], key: str, most: int, remarks: Remarks) -> list[Mapping[str, Any]]:
    """Return a list of objects; a failed action may omit it."""
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
    """Return the open object of properties, within limits. Values implied by a legacy condition are added."""
    data = entry.get("properties")
    if not isinstance(data, Mapping):
        remarks.wrong(f"{place}.properties must be an object, not {kind(data)}")
        return {}
    if len(data) > MOST_PROPERTIES:
        remarks.wrong(f"{place}.properties has {len(data)} entries; allowed: {MOST_PROPERTIES}")
        return {}
    counter = [0]
    parsed: dict[str, Any] = {}
    for key, value in data.items():
        if value is not None and (name := _key(key, parsed, f"{place}.properties", remarks, retold)):
            parsed[name] = _value(value, f"{place}.properties.{name}", 1, counter, remarks, retold)
    if counter[0] > MOST_VALUES:
        remarks.wrong(f"{place}.properties holds {counter[0]} values; allowed: {MOST_VALUES}")
    for name, value in said_by_condition(entry).items():
        # A condition such as "37C" implies a temperature; a temperature that the model states takes precedence.
        if not any(name.lower() in key.lower() for key in parsed):
            parsed[name] = value
    return parsed


def measurement_type(entry: Mapping[str, Any], place: str, remarks: Remarks) -> str:
    """Return the type, any word or two, in one spelling."""
    raw = text(entry, "measurement_type", place, LONGEST_TYPE, remarks)
    normalised = re.sub(r"[\s_]+", "_", plain(raw).lower())
    if raw and not re.fullmatch(r"[^\W\d_][\w/+.-]*", normalised):
        remarks.wrong(f"{place}.measurement_type must be a word such as visual or quantitative, not {quoted(raw)}")
    return normalised


def value(entry: Mapping[str, Any], place: str, remarks: Remarks) -> str:
    """Return a reading as text; a bare number is used as written."""
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
    """Note fields that were not requested; they are ignored."""
    if unknown_keys := sorted(set(data) - set(known)):
        names = ", ".join(quoted(name, 30) for name in unknown_keys[:5])
        remarks.told(f"{place}: {len(unknown_keys)} unknown left out ({names})")


def _value(written: Any, place: str, depth: int, counter: list[int], remarks: Remarks, retold: Retold) -> Any:
    """Return a property's value: text, number, boolean, or objects and lists of these."""
    counter[0] += 1
    # The count continues beyond the limit for the message, but nothing more is stored.
    if counter[0] > MOST_VALUES:
        return ""
    match written:
        case str():
            said = within(written.strip(), place, LONGEST_TEXT, remarks)
            return within(retold(said), place, LONGEST_TEXT, remarks)
        # Python writes such a float with an exponent, which a database may turn into an integer.
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
    """Return a property's display name; "" and a problem if it is invalid or already used."""
    name = retold(key.strip()) if len(key) <= LONGEST_KEY else ""
    if not 0 < len(name) <= LONGEST_KEY:
        remarks.wrong(f"{place}: {quoted(key)} is no name of a property; allowed: 1 to {LONGEST_KEY} characters")
        return ""
    # A second value of one name would silently replace the first.
    if name in taken:
        remarks.wrong(f"{place}: {quoted(name)} stands there twice")
        return ""
    return name
