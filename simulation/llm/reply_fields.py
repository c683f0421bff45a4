"""Parse the fields of a transition reply: violations are recorded as problems, harmless deviations as notes."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.lab.materials import AVAILABILITY, AVAILABLE, CONDITIONS, MATERIAL_TYPES, NOT_AVAILABLE
from simulation.llm.reply_text import normalise_text, quote_short

# An action may use 96 materials, for example all wells of a plate, and return each with its remainder.
MOST_MATERIALS, MOST_OBSERVATIONS = 200, 200
MOST_PROPERTIES, MOST_VALUES, DEEPEST = 40, 1000, 8  # bounds, so that a hostile reply fills neither a page nor a row
LONGEST_NAME, LONGEST_KEY, LONGEST_TEXT, LONGEST_REASONING, LONGEST_TYPE = 200, 100, 4000, 20_000, 60
_EXACT = 10**15  # larger floats are stored as text, because databases return them as integers

# Fields with closed lists of values: the list, the names in the paper's older prompt, and the value of an invalid field.
_CHOICES: Mapping[str, tuple[tuple[str, ...], Mapping[str, str], str]] = {
    "available_for_use": (AVAILABILITY, {"consumable": AVAILABLE, "consumed": NOT_AVAILABLE}, AVAILABLE),
    "material_type": (MATERIAL_TYPES, {}, MATERIAL_TYPES[0]),
    "environmental_condition": (
        CONDITIONS,
        {
            "37c": "incubating_conditions",
            "37c5%co2": "cell_culture_conditions",
            "incubator": "incubating_conditions",
            "freezer": "-20C",
        },
        CONDITIONS[0],
    ),
}
# Properties that an older name of a condition implies.
_IMPLIED_PROPERTIES = {"37c": {"temperature": "37 °C"}, "37c5%co2": {"temperature": "37 °C", "CO2": "5%"}}

ReplaceCodes = Callable[[str], str]


@dataclass
class ParseNotes:
    """Problems of a reply, and notes on values that were interpreted."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_problem(self, problem: str) -> None:
        self.problems.append(problem)

    def add_note(self, note: str) -> None:
        self.notes.append(note)


def describe_kind(value: object) -> str:
    """Return the kind of value that was found instead, for a message."""
    match value:
        case None:
            return "missing"
        case str():
            return quote_short(value)
        case bool() | int() | float():
            return str(value).lower()
        case Mapping():
            return "an object"
    return "a list"


def parse_text(data: Mapping[str, Any], key: str, place: str, most: int, remarks: ParseNotes) -> str:
    """Return a required text. If it is missing or empty, record a problem and return ""."""
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        remarks.add_problem(f"{place}.{key} must be text that is not empty, not {describe_kind(value)}")
        return ""
    return limit_length(value.strip(), f"{place}.{key}", most, remarks)


def limit_length(text: str, place: str, most: int, remarks: ParseNotes) -> str:
    """Return the text. If it is too long, record a problem and return ""."""
    # Names that replace barcodes make a text longer, so the model is asked again instead of truncating.
    if len(text) <= most:
        return text
    remarks.add_problem(f"{place} has {len(text)} characters; allowed: {most}")
    return ""


def parse_entries(data: Mapping[str, Any], key: str, most: int, remarks: ParseNotes) -> list[Mapping[str, Any]]:
    """Return a list of objects; a failed action may omit it."""
    value = data.get(key)
    if value is None and data.get("success") is False:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        remarks.add_problem(f"{key} must be a list of objects, not {describe_kind(value)}")
    elif len(value) > most:
        remarks.add_problem(f"{key} has {len(value)} entries; allowed: {most}")
    else:
        return value
    return []


def note_unknown_fields(data: Mapping[str, Any], known: Sequence[str], place: str, remarks: ParseNotes) -> None:
    """Note fields that were not requested; they are ignored."""
    if unknown_keys := sorted(set(data) - set(known)):
        names = ", ".join(quote_short(name, 30) for name in unknown_keys[:5])
        remarks.add_note(f"{place}: {len(unknown_keys)} unknown left out ({names})")


def parse_choice(entry: Mapping[str, Any], key: str, place: str, remarks: ParseNotes) -> str:
    """Return the value of a field with a closed list. `supply` is an older name of `available_for_use`."""
    allowed, legacy, default = _CHOICES[key]
    if key == "available_for_use" and key not in entry and "supply" in entry:
        key = "supply"
    raw = entry.get(key)
    word = _normalise_word(raw)
    found = next((member for member in allowed if _normalise_word(member) == word), "") or legacy.get(word, "")
    if not found:
        remarks.add_problem(f"{place}.{key} must be one of {', '.join(allowed)}, not {describe_kind(raw)}")
    elif raw != found or key == "supply":
        remarks.add_note(f"{place}.{key} {quote_short(raw)} read as {found}")
    return found or default


def _normalise_word(written: Any) -> str:
    """Return a word for comparison: in lower case, without spaces, underscores, hyphens and degree signs."""
    if not isinstance(written, str) or len(written) > 100:
        return ""
    return re.sub(r"[\s_°]|-(?!\d)", "", normalise_text(written).replace("−", "-").lower())


def parse_measurement_type(entry: Mapping[str, Any], place: str, remarks: ParseNotes) -> str:
    """Return the measurement type in lower case, with underscores instead of spaces. Any words are allowed."""
    raw = parse_text(entry, "measurement_type", place, LONGEST_TYPE, remarks)
    normalised = re.sub(r"[\s_]+", "_", normalise_text(raw).lower())
    if raw and not re.fullmatch(r"[^\W\d_][\w/+.-]*", normalised):
        remarks.add_problem(
            f"{place}.measurement_type must be a word such as visual or quantitative, not {quote_short(raw)}"
        )
    return normalised


def parse_value(entry: Mapping[str, Any], place: str, remarks: ParseNotes) -> str:
    """Return an observed value as text. A number is converted to text, a boolean to yes or no."""
    match entry.get("value"):
        case None:
            return ""
        case bool(is_true):
            return "yes" if is_true else "no"
        case int(number) | float(number):
            return str(number)
        case str(written):
            return limit_length(written.strip(), f"{place}.value", LONGEST_TEXT, remarks)
        case other:
            remarks.add_problem(f"{place}.value must be text, not {describe_kind(other)}")
    return ""


def parse_properties(
    entry: Mapping[str, Any], place: str, remarks: ParseNotes, replace_codes: ReplaceCodes
) -> dict[str, Any]:
    """Return the properties, whose names are free, within limits. Properties that a legacy condition implies are added."""
    data, place = entry.get("properties"), f"{place}.properties"
    if not isinstance(data, Mapping):
        remarks.add_problem(f"{place} must be an object, not {describe_kind(data)}")
        return {}
    if len(data) > MOST_PROPERTIES:
        remarks.add_problem(f"{place} has {len(data)} entries; allowed: {MOST_PROPERTIES}")
        return {}
    parser = _PropertyParser(remarks, replace_codes)
    parsed = {name: parser.parse_value(value, f"{place}.{name}", 1) for name, value in parser.iter_fields(data, place)}
    if parser.n_values > MOST_VALUES:
        remarks.add_problem(f"{place} holds {parser.n_values} values; allowed: {MOST_VALUES}")
    for name, value in _IMPLIED_PROPERTIES.get(_normalise_word(entry.get("environmental_condition")), {}).items():
        # A condition such as "37C" implies a temperature; a temperature that the model states takes precedence.
        if not any(name.lower() in key.lower() for key in parsed):
            parsed[name] = value
    return parsed


@dataclass
class _PropertyParser:
    """Parses nested properties and counts their values."""

    remarks: ParseNotes
    replace_codes: ReplaceCodes
    n_values: int = 0

    def parse_value(self, written: Any, place: str, depth: int) -> Any:
        """Return a property's value: text, number, boolean, or objects and lists of these."""
        self.n_values += 1
        # The count continues beyond the limit for the message, but nothing more is stored.
        if self.n_values > MOST_VALUES:
            return ""
        match written:
            case str():
                text = limit_length(written.strip(), place, LONGEST_TEXT, self.remarks)
                return limit_length(self.replace_codes(text), place, LONGEST_TEXT, self.remarks)
            # Python writes such a float with an exponent, which a database may turn into an integer.
            case float() if abs(written) >= _EXACT:
                return repr(written)
            case bool() | int() | float():
                return written
            case Mapping() | list() if depth >= DEEPEST:
                self.remarks.add_problem(f"{place} is nested deeper than {DEEPEST} levels")
            case Mapping():
                return {
                    name: self.parse_value(part, place, depth + 1) for name, part in self.iter_fields(written, place)
                }
            case list():
                return [self.parse_value(part, place, depth + 1) for part in written if part is not None]
        return ""

    def iter_fields(self, data: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
        """Yield display name and value of every field that is not null. An invalid or repeated name is a problem."""
        names: set[str] = set()
        for key, value in data.items():
            if value is None:
                continue
            name = self.replace_codes(key.strip()) if len(key) <= LONGEST_KEY else ""
            if not 0 < len(name) <= LONGEST_KEY:
                self.remarks.add_problem(
                    f"{place}: {quote_short(key)} is not a property name; allowed: 1 to {LONGEST_KEY} characters"
                )
            # A second value of one name would silently replace the first.
            elif name in names:
                self.remarks.add_problem(f"{place}: {quote_short(name)} occurs there twice")
            else:
                names.add(name)
                yield name, value
