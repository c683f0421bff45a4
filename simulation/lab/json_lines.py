"""Find the line of a JSON file on which a value is written, so that a problem can be located."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_GAP = re.compile(r"[ \t\n\r,]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER_OR_WORD = re.compile(r"[^\s,\]}]+")
_BREAK = re.compile(r"[.:\[]")
_MAX_SEARCHED = 1000  # characters of a problem that are searched for its path


class DuplicateFieldError(ValueError):
    """Raised if a field occurs twice in one object."""


def reject_constant(name: str) -> Any:
    """Raise ValueError for NaN and infinities. For use as `parse_constant` of a JSON parser."""
    raise ValueError(f"{name} is not a number")


def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields as a dict, or raise DuplicateFieldError. For use as `object_pairs_hook` of a JSON parser."""
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        raise DuplicateFieldError(f"the field {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return data


def map_lines(text: str) -> dict[str, int]:
    """Return {path: line} of every value in a JSON text. Lines count from 1; a path is like `parameters[3].minimum`."""
    json.loads(text)
    line_of_path: dict[str, int] = {}
    line, counted_to = 1, 0
    for path, offset in _iter_paths(text):
        # Counted from the previous value: counting from the beginning each time would take quadratic time.
        line, counted_to = line + text.count("\n", counted_to, offset), offset
        # The first occurrence counts; a duplicate is reported separately.
        line_of_path.setdefault(path, line)
    return line_of_path


def find_line(problem: str, line_of_path: Mapping[str, int]) -> int:
    """Return the line of the path at the start of a problem text, or of the nearest enclosing path; 1 if there is none.

    Names may contain dots and colons (`contents.Na2CO3: anhydrous.known`), so the longest known path is used.
    """
    ends = [match.start() for match in _BREAK.finditer(problem[:_MAX_SEARCHED])]
    # The longest known path, because names may contain the separators.
    return next((line_of_path[problem[:end]] for end in reversed(ends) if problem[:end] in line_of_path), 1)


def locate_problems(path: Path, problems: list[str]) -> list[str]:
    """Return the problems of a valid JSON file as "path:line: problem", with the path relative to the working directory."""
    if not problems:
        return []
    line_of_path = map_lines(path.read_text(encoding="utf-8"))
    return [f"{format_path(path)}:{find_line(problem, line_of_path)}: {problem}" for problem in problems]


def describe_invalid_json(path: Path, text: str, error: Exception) -> str:
    """Return "path:line: not JSON: reason" for an invalid JSON file, without the line if it is unknown."""
    if isinstance(error, json.JSONDecodeError):
        return f"{format_path(path)}:{error.lineno}: not JSON: {error.msg}, column {error.colno}"
    line = _find_duplicate_line(text) if isinstance(error, DuplicateFieldError) else 0
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
    return f"{format_path(path)}:{f'{line}:' if line else ''} not JSON: {error}"


def format_path(path: Path) -> str:
    # Relative to the working directory, so that an editor or a terminal can open it.
    return str(path.resolve().relative_to(Path.cwd()) if path.resolve().is_relative_to(Path.cwd()) else path)


def _find_duplicate_line(text: str) -> int:
    """Return the line of the first repeated field in a text that is otherwise valid JSON, or 0 if there is none."""
    paths: set[str] = set()
    for path, offset in _iter_paths(text):
        if path in paths:
            return text.count("\n", 0, offset) + 1
        paths.add(path)
    return 0


def _iter_paths(text: str) -> Iterator[tuple[str, int]]:
    """Yield (path, offset) of every value in order. The offset of a field's value is that of the field's name."""
    # No recursion: a hostile file may nest deeper than Python's stack.
    open_containers: list[
        tuple[str, int]
    ] = []  # path of each open object or list; index of the next entry, -1 in an object
    path, offset, field_start = "", _skip_gap(text, 0), -1
    while offset < len(text):
        letter = text[offset]
        if letter in "]}":
            open_containers.pop()
            offset, field_start = offset + 1, -1
        elif field_start < 0 and open_containers and open_containers[-1][1] < 0:  # a field's name
            end = _find_end(text, offset)
            path = f"{open_containers[-1][0]}.{json.loads(text[offset:end])}".removeprefix(".")
            field_start, offset = offset, text.index(":", end) + 1
        else:
            if open_containers and open_containers[-1][1] >= 0:
                inside, index = open_containers[-1]
                open_containers[-1] = (inside, index + 1)
                path, field_start = f"{inside}[{index}]", offset
            yield path, max(field_start, 0)
            if letter in "[{":
                open_containers.append((path, 0 if letter == "[" else -1))
            offset = _find_end(text, offset)
            field_start = -1
        offset = _skip_gap(text, offset)


def _find_end(text: str, offset: int) -> int:
    """Return the offset just after the value at `offset`; for an object or list, just after its opening bracket."""
    if text[offset] in "[{":
        return offset + 1
    match = (_STRING if text[offset] == '"' else _NUMBER_OR_WORD).match(text, offset)
    return match.end() if match else offset + 1


def _skip_gap(text: str, offset: int) -> int:
    match = _GAP.match(text, offset)
    return match.end() if match else offset
