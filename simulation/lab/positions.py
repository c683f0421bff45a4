"""On which line of a data file something stands, so that a problem can be found without counting."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_GAP = re.compile(r"[ \t\n\r,]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER_OR_WORD = re.compile(r"[^\s,\]}]+")
_BREAK = re.compile(r"[.:\[]")
_LONGEST = 1000  # characters of a problem in which its place is looked for


class TwiceError(ValueError):
    """A field stands twice in one object."""


def refuse_constant(name: str) -> Any:
    """Refuse NaN and infinities: `parse_constant` of a strict reader of JSON."""
    raise ValueError(f"{name} is no number")


def take_each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these fields, TwiceError where one stands twice: `object_pairs_hook` of a strict reader."""
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        raise TwiceError(f"the field {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return data


def lines(text: str) -> dict[str, int]:
    """The line, from 1, of everything in a JSON text, by its place: `parameters[3].minimum`. The text must be JSON."""
    json.loads(text)
    found: dict[str, int] = {}
    line, counted = 1, 0
    for place, at in _places(text):
        line, counted = line + text.count("\n", counted, at), at
        found.setdefault(place, line)
    return found


def line_of(problem: str, known: Mapping[str, int]) -> int:
    """The line of the place that a problem begins with, or of the nearest place around it; 1 where there is none.

    Names may hold dots and colons (`contents.Na2CO3: anhydrous.known`), so the longest known place is taken.
    """
    ends = [match.start() for match in _BREAK.finditer(problem[:_LONGEST])]
    return next((known[problem[:end]] for end in reversed(ends) if problem[:end] in known), 1)


def located(path: Path, problems: list[str]) -> list[str]:
    """The problems of a readable JSON file as "path:line: problem", the path as seen from where the command runs."""
    if not problems:
        return []
    known = lines(path.read_text(encoding="utf-8"))
    return [f"{shown(path)}:{line_of(problem, known)}: {problem}" for problem in problems]


def unreadable(path: Path, text: str, error: Exception) -> str:
    """The same for a file that is no JSON; without a line where the error does not know one."""
    if isinstance(error, json.JSONDecodeError):
        return f"{shown(path)}:{error.lineno}: not JSON: {error.msg}, column {error.colno}"
    line = _second_time(text) if isinstance(error, TwiceError) else 0
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
    return f"{shown(path)}:{f'{line}:' if line else ''} not JSON: {error}"


def shown(path: Path) -> str:
    return str(path.resolve().relative_to(Path.cwd()) if path.resolve().is_relative_to(Path.cwd()) else path)


def _second_time(text: str) -> int:
    """The line where a field is given that was given before, in a text that is JSON otherwise."""
    seen: set[str] = set()
    for place, at in _places(text):
        if place in seen:
            return text.count("\n", 0, at) + 1
        seen.add(place)
    return 0


def _places(text: str) -> Iterator[tuple[str, int]]:
    """(place, offset) of every value in the order written; that of a field is where its name stands. No recursion."""
    around: list[tuple[str, int]] = []  # place of each open object or list; index of the next entry, -1 in an object
    place, at, begun = "", _skip(text, 0), -1
    while at < len(text):
        letter = text[at]
        if letter in "]}":
            around.pop()
            at, begun = at + 1, -1
        elif begun < 0 and around and around[-1][1] < 0:  # a field's name
            end = _end(text, at)
            place = f"{around[-1][0]}.{json.loads(text[at:end])}".removeprefix(".")
            begun, at = at, text.index(":", end) + 1
        else:
            if around and around[-1][1] >= 0:
                inside, index = around[-1]
                around[-1] = (inside, index + 1)
                place, begun = f"{inside}[{index}]", at
            yield place, max(begun, 0)
            if letter in "[{":
                around.append((place, 0 if letter == "[" else -1))
            at = _end(text, at)
            begun = -1
        at = _skip(text, at)


def _end(text: str, at: int) -> int:
    """Where the value at `at` ends; of an object or list, just behind its opening bracket."""
    if text[at] in "[{":
        return at + 1
    found = (_STRING if text[at] == '"' else _NUMBER_OR_WORD).match(text, at)
    return found.end() if found else at + 1


def _skip(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return found.end() if found else at
