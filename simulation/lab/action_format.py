"""The format in which an agent writes an action: three labelled lines, or the same as an object.

    ACTION: Transfer
    MATERIALS: MAT-A1B2C3D4, MAT-E5F6G7H8
    PARAMETERS: source=MAT-A1B2C3D4, amount=50 µL, voltages={FSC:400 V,SSC:500 V}

Prose is allowed before ACTION and, after an empty line, after PARAMETERS, which may be empty. Every parser reads its text once, from left to
right, because an agent's text is hostile until parsed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulation.lab.actions import Action
from simulation.lab.errors import LabError
from wetbench_site.text import is_storable

MAX_LENGTH = 50_000  # maximum number of characters in an agent's answer
# Limits on one answer, because everything in it is stored and shown.
_MOST_MATERIALS, _MOST_PARAMETERS, _LONGEST_NAME, _DEEPEST = 1000, 200, 200, 3
_LARGEST = 10**18  # Python raises ValueError when converting an integer of thousands of digits to text
_LABELS = ("ACTION", "MATERIALS", "PARAMETERS")
_NOTHING = ("", "none", "n/a", "-", "[]", "{}")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
_PARAMETER_LINE = re.compile(r"[ \t*`-]*[A-Za-z][A-Za-z0-9_]{0,99}[ \t*`]*=")
_OPEN, _CLOSE = "{[(", "}])"


class ActionFormatError(LabError):
    """Raised if an agent's answer is not an action. The message states the expected format."""


def parse_action(written: Any) -> Action:
    """Return the action given as text or as {"name", "materials", "parameters"}. Raises ActionFormatError."""
    if isinstance(written, str):
        return parse_action_text(written)
    if isinstance(written, Mapping):
        return parse_action_object(written)
    raise ActionFormatError("An action is text or an object with name, materials and parameters")


def parse_action_text(text: str) -> Action:
    """Parse an action written as text. Parameter values stay text, because the catalogue defines their types."""
    # Checked first, so that no other check reads an answer of megabytes.
    if len(text) > MAX_LENGTH:
        raise ActionFormatError(f"The answer has {len(text)} characters; {MAX_LENGTH} are read")
    _check_storable(text)
    parts = _split_labels(text)
    if "ACTION" not in parts:
        raise ActionFormatError("There is no line ACTION: with the name of one action, then MATERIALS: and PARAMETERS:")
    name = parts["ACTION"].strip(" \t*`")  # emphasis that models like to add
    if not name or len(name) > _LONGEST_NAME:
        raise ActionFormatError("ACTION: needs the name of one action")
    return Action(name, parse_materials(parts.get("MATERIALS", "")), parse_parameter_text(parts.get("PARAMETERS", "")))


def parse_action_object(data: Mapping[str, Any]) -> Action:
    """Parse an action given as an object. Parameter values are text, numbers, booleans, lists or objects of these."""
    if unknown_keys := set(data) - {"name", "materials", "parameters"}:
        others = sorted(key[:60] for key in unknown_keys if isinstance(key, str)) or ["something that is not text"]
        raise ActionFormatError(f"An action has name, materials and parameters, not {others[0]!r}")
    name, materials, parameters = data.get("name"), data.get("materials", ()), data.get("parameters", {})
    if not isinstance(name, str) or not 0 < len(name.strip()) <= _LONGEST_NAME:
        raise ActionFormatError("name must be the name of one action")
    _check_storable(name)
    if isinstance(materials, str):
        materials = parse_materials(materials)
    if not isinstance(materials, Sequence) or not all(isinstance(code, str) for code in materials):
        raise ActionFormatError("materials must be a list of barcodes")
    if not isinstance(parameters, Mapping) or not all(isinstance(key, str) for key in parameters):
        raise ActionFormatError("parameters must be an object of values by name")
    _check_counts(materials, parameters)
    # Joined, so that one pass over the text checks all names.
    _check_storable("".join([*materials, *parameters]))
    return Action(name.strip(), tuple(materials), {key: _copy_value(value, 0) for key, value in parameters.items()})


def parse_materials(written: str) -> tuple[str, ...]:
    """Return the barcodes in a text, separated by commas or line ends. Empty text and words like "none" give none."""
    if written.strip().lower() in _NOTHING:
        return ()
    codes = written.replace("\n", ",").strip(" \t,[]").split(",")
    barcodes = tuple(code for part in codes if (code := part.strip(" \t`*\"'")))
    _check_counts(barcodes, {})
    return barcodes


def parse_parameter_text(written: str) -> dict[str, str]:
    """Return the `name=value` pairs in a text. Commas and line ends separate pairs, except inside brackets and quotes.

    A part that does not begin with `name=` belongs to the value before it, so that a list (`channels=GFP,RFP`) and a
    sentence with a comma remain one value.
    """
    if written.strip().lower() in _NOTHING:
        return {}
    spans: dict[str, tuple[int, int]] = {}
    last = ""
    for start, end in _split_parameters(written):
        text = written[start:end]
        key, equals, _ = text.partition("=")
        # Markdown list markers before a name are ignored.
        key = key.strip(" \t-*`")
        if equals and _KEY.fullmatch(key):
            if key in spans:
                raise ActionFormatError(f"PARAMETERS: {key} occurs twice")
            spans[key], last = (start + text.index("=") + 1, end), key
        elif last and text.strip():
            # The separator belonged to the previous value, so that value is extended to the end of this part.
            spans[last] = (spans[last][0], end)
        elif text.strip():
            raise ActionFormatError(f"PARAMETERS: {text.strip()[:60]!r} is not written as name=value")
    _check_counts((), spans)
    return {key: _strip_quotes(" ".join(written[start:end].split())) for key, (start, end) in spans.items()}


def _split_parameters(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the parts between commas and line ends outside brackets and quotes. A quote opens only after `=`.

    Raises ActionFormatError if a bracket or quote is never closed.
    """
    start, open_brackets, in_quotes, before = 0, [], False, ""
    for index, letter in enumerate(text):
        if in_quotes:
            in_quotes = letter != '"'
        # A quote inside a value is an ordinary character, such as the inch sign.
        elif letter == '"' and before == "=":
            in_quotes = True
        elif letter in _OPEN:
            open_brackets.append(_CLOSE[_OPEN.index(letter)])
        elif open_brackets and letter == open_brackets[-1]:
            open_brackets.pop()
        elif not open_brackets and letter in ",\n":
            yield start, index
            start = index + 1
        if not letter.isspace():
            before = letter
    if open_brackets or in_quotes:
        missing = '"' if in_quotes else open_brackets[-1]
        raise ActionFormatError(f"PARAMETERS: something is opened and never closed; {missing!r} is missing")
    yield start, len(text)


def _split_labels(text: str) -> dict[str, str]:
    """Return the text that follows each label, up to the next label, Markdown code fence or empty line.

    Raises ActionFormatError if a label occurs twice.
    """
    parts: dict[str, list[str]] = {}
    current: list[str] | None = None
    has_gap = False
    for line in text.splitlines():
        label, rest = _parse_label(line)
        if label in parts:
            raise ActionFormatError(f"{label}: occurs twice; choose one action at a time")
        if label:
            current = parts[label] = [rest]
            has_gap = False
        elif current is None:
            continue
        elif not line.strip() or line.strip().startswith("```"):
            # An empty line ends the section once it has any content; prose may follow.
            has_gap = True
            current = None if any(part.strip() for part in current) else current
        elif has_gap and current is parts.get("PARAMETERS") and not _PARAMETER_LINE.match(line):
            # Prose after an empty list. Parameters may begin after the empty line, so their form decides.
            current = None
        else:
            current.append(line)
            has_gap = False
    return {label: "\n".join(lines).strip() for label, lines in parts.items()}


def _parse_label(line: str) -> tuple[str, str]:
    """Return (label, text after it) of a line that begins with a label, else ("", ""). Markdown emphasis is ignored."""
    bare = line.lstrip(" \t*#>`")  # Markdown emphasis, headings and quotation marks
    for label in _LABELS:
        if bare[: len(label)].upper() == label:
            rest = bare[len(label) :].lstrip(" \t*`")
            if rest.startswith(":"):
                return label, rest[1:].lstrip(" \t*`")
    return "", ""


def _copy_value(value: Any, depth: int) -> Any:
    """Return a copy of a parameter value: text, number, boolean, list or object. Raises ActionFormatError otherwise."""
    if depth > _DEEPEST:
        raise ActionFormatError("A parameter's value is nested too deeply")
    if isinstance(value, str):
        _check_storable(value)
        return value
    if isinstance(value, bool | int | float):
        # `not <` also rejects NaN, which is neither smaller nor larger.
        if not abs(value) < _LARGEST:
            raise ActionFormatError(f"A parameter cannot be {type(value).__name__} of that size")
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value) and len(value) <= _MOST_PARAMETERS:
        return {key: _copy_value(part, depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple) and len(value) <= _MOST_MATERIALS:
        return [_copy_value(part, depth + 1) for part in value]
    raise ActionFormatError(f"A parameter cannot be {type(value).__name__}")


def _strip_quotes(text: str) -> str:
    is_quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    return text[1:-1] if is_quoted else text


def _check_storable(text: str) -> None:
    """Raise ActionFormatError if the text is too long, or has NUL or unpaired surrogates, which databases reject."""
    if len(text) > MAX_LENGTH or not is_storable(text):
        raise ActionFormatError("The answer holds characters that are not text")


def _check_counts(materials: Sequence[str], parameters: Mapping[str, Any]) -> None:
    if len(materials) > _MOST_MATERIALS or len(parameters) > _MOST_PARAMETERS:
        raise ActionFormatError(f"At most {_MOST_MATERIALS} materials and {_MOST_PARAMETERS} parameters are read")
