"""Parse the fields of a transition reply: violations are recorded as problems, harmless deviations as notes."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from simulation.checker import TransitionError, values
from simulation.checker.findings import Decided
from simulation.checker.reading import transition
from simulation.lab import materials
from simulation.lab.actions import Action
from simulation.lab.outcomes import Outcome
from simulation.lab.planted_errors import revealing_words
from simulation.llm.conversation import normalise_text, quote_short
from simulation.llm.reply_schemas import PROPERTY

# An action may use 96 materials, for example all wells of a plate, and return each with its remainder.
MOST_MATERIALS, MOST_OBSERVATIONS = 200, 200
MOST_PROPERTIES, MOST_VALUES, DEEPEST = 40, 1000, 8  # bounds, so that a hostile reply fills neither a page nor a row
LONGEST_NAME, LONGEST_KEY, LONGEST_TEXT, LONGEST_REASONING, LONGEST_TYPE = 200, 100, 4000, 20_000, 60
_EXACT = 10**15  # larger floats are stored as text, because databases return them as integers

# Fields with closed lists of values: the list, the names in the paper's older prompt, and the value of an invalid field.
_CHOICES: Mapping[str, tuple[tuple[str, ...], Mapping[str, str], str]] = {
    "available_for_use": (
        materials.AVAILABILITY,
        {"consumable": materials.AVAILABLE, "consumed": materials.NOT_AVAILABLE},
        materials.AVAILABLE,
    ),
    "material_type": (materials.MATERIAL_TYPES, {}, materials.MATERIAL_TYPES[0]),
    "environmental_condition": (
        materials.CONDITIONS,
        {
            "37c": "incubating_conditions",
            "37c5%co2": "cell_culture_conditions",
            "incubator": "incubating_conditions",
            "freezer": "-20C",
        },
        materials.CONDITIONS[0],
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
    if isinstance(data, list):
        data = _pair_properties(data, place, remarks)
        if data is None:
            return {}
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


def _pair_properties(entries: list[Any], place: str, remarks: ParseNotes) -> dict[str, Any] | None:
    """Return the values by name of a list of names and values, the form of the JSON schema. None, with a problem, for another list."""
    if not all(_is_pair(entry) for entry in entries):
        remarks.add_problem(f"{place} must be an object, not a list, unless each part of the list has name and value")
        return None
    values: dict[str, Any] = {}
    for entry in entries:
        name, value = entry["name"], entry["value"]
        if name in values:
            remarks.add_problem(f"{place}: {quote_short(name)} occurs there twice")
        # A value with parts has the same form, one level deeper.
        if isinstance(value, list) and value and all(_is_pair(part) for part in value):
            value = _pair_properties(value, f"{place}.{name[:LONGEST_KEY]}", remarks)
        values[name] = value
    return values


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, Mapping) and set(entry) == set(PROPERTY["properties"]) and isinstance(entry["name"], str)


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


class FormatProblems(NamedTuple):
    """Format errors (`form`), and text from a prompt that raters would read in the outcome (`leaks`)."""

    form: tuple[str, ...]
    leaks: tuple[str, ...] = ()


def find_problems(
    action: Action, inputs: Sequence[materials.Material], outcome: Outcome, example: str = ""
) -> FormatProblems:
    """Return the findings L11 (fields, closed lists), L22 (consistency) and L24 (prompt text where raters read).

    `example` is the worked example of the prompt, from which nothing may be copied.
    L10 cannot occur, because parsing has replaced or dropped every barcode; all other codes concern physics.
    """
    data = {
        "input_materials": [material.to_visible() for material in inputs],
        "action": action.to_json(),
        "outcome": outcome.to_json(),
    }
    # Nothing has to be returned by an action on unlimited materials, because they stay as they are.
    is_unlimited = bool(inputs) and all(material.available_for_use == materials.UNLIMITED for material in inputs)
    try:
        read = transition.parse_transition(data)
        form = tuple(
            finding.text
            for check in (values.check_enumerations, values.check_coherence)
            for finding in check(read)
            if not isinstance(finding, Decided)
            and finding.severity == "error"
            and not (is_unlimited and finding.code == "L22" and finding.subject == action.name)
        )
        found = [(place, values.find_prompt_phrases(text)) for place, text in values.iter_visible_texts(read)]
        # Almost no outcome has any, so that the inputs need not be searched.
        known = values.find_prompt_phrases(_text_of_inputs(action, inputs)) if any(words for _, words in found) else ()
        leaks = tuple(
            f"text of a prompt or of a planted error occurs in {place}: {', '.join(map(repr, new[:3]))}"
            for place, words in found
            if (new := sorted(words.difference(known)))
        )
    except TransitionError as error:
        return FormatProblems((str(error),))
    return FormatProblems(form, (*leaks, *_find_copies(action, inputs, outcome, example)))


def _find_copies(action: Action, inputs: Sequence[materials.Material], outcome: Outcome, example: str) -> Iterator[str]:
    """Yield where the outcome has a name or six consecutive words of the example that its inputs do not have."""
    names, runs = _list_example_texts(example)
    if not runs:
        return
    known: str | None = None
    for place, text in _list_texts(outcome):
        shared = [name for name in names if name in revealing_words.fold_text(text)] or [
            " ".join(run) for run in sorted(revealing_words.word_runs(text) & runs)
        ]
        # Almost no outcome shares anything, so that the inputs need not be searched.
        if shared and known is None:
            known = " ".join(revealing_words.fold_text(_text_of_inputs(action, inputs)).split())
        if new := [words for words in shared if known is not None and words not in known]:
            yield f"{place} has {quote_short(new[0])} from the worked example; describe the materials of this action"


@lru_cache(maxsize=16)
def _list_example_texts(example: str) -> tuple[tuple[str, ...], frozenset[tuple[str, ...]]]:
    """Return the names of the materials in a worked example, and its runs of six words."""
    answer = example[example.find("{") :] if "{" in example else ""
    names = {revealing_words.fold_text(name) for name in re.findall(r'"name": "([^"]+)"', answer)}
    texts = re.findall(r'"description": "([^"]+)"', answer)
    return tuple(sorted(names)), frozenset(revealing_words.word_runs(*texts))


def _text_of_inputs(action: Action, inputs: Sequence[materials.Material]) -> str:
    """Return the action and the inputs' names and properties as text. An outcome may repeat this text."""
    return json.dumps([action.to_json(), [[m.name, m.properties] for m in inputs]], ensure_ascii=False)


def find_twin_problems(
    action: Action, inputs: Sequence[materials.Material], original: Outcome, twin: Outcome, secret: str
) -> tuple[str, ...]:
    """Return what must be corrected before the twin may be shown: its success, or wording that reveals the error.

    Wording of labels, of the action or of the original may be repeated, and the explanation may quote the outcome.
    """
    before = [_text_of_inputs(action, inputs), *(text for _, text in _list_texts(original))]
    known_hints = {hint for text in before for hint in revealing_words.find_revealing_words(text)}
    # Sequences of words that occurred before the step are not copied from the explanation.
    runs = revealing_words.unquoted_runs(secret) - revealing_words.word_runs(*before)
    problems = []
    if twin.success != original.success:
        now = "true: the action is carried out" if original.success else "false: the action cannot be begun"
        problems.append(f"success must be {now}, and the mistake must be in the reported outcome")
    for place, text in _list_texts(twin):
        if hints := sorted(set(revealing_words.find_revealing_words(text)) - known_hints):
            problems.append(
                f"{place} reveals the mistake by the word {quote_short(hints[0])}; describe only what is seen"
            )
        if shared := sorted(revealing_words.word_runs(text) & runs):
            said = quote_short(" ".join(shared[0]))
            problems.append(
                f"{place} and what follows SECRET: both contain {said}; put one of them in other words or in quotes"
            )
    return tuple(problems)


def _list_texts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield every text that raters read, with its path."""
    for index, draft in enumerate(outcome.new_materials):
        yield f"new_materials[{index}].name", draft.name
        yield f"new_materials[{index}].properties", json.dumps(draft.properties, ensure_ascii=False)
    for index, observation in enumerate(outcome.new_observations):
        yield f"new_observations[{index}].description", observation.description
        yield f"new_observations[{index}].measurement_type", observation.measurement_type
        yield f"new_observations[{index}].value", observation.value
    yield "failure_reason", outcome.failure_reason
