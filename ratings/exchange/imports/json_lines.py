"""Parse files with one JSON object per line from any origin. Every line is either parsed strictly or rejected with its number and the reason."""

import json
import math
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ratings.blinding.pseudonyms import replace_invisible
from ratings.exchange.rating_tables import PACKED_MAGIC
from wetbench_site.text import UNSTORABLE, reject_constant, reject_duplicates
from wetbench_site.validation import Problem

MAX_LINES = 10_000
MAX_LINE_LENGTH = 256 * 1024  # bytes
MAX_TEXT_LENGTH = 20_000
_LINE_TOO_LONG = f"longer than {MAX_LINE_LENGTH // 1024} KiB, the most that a line may have"
_MAX_DEPTH = 24  # levels of nesting
_MAX_DIGITS = 18  # of a whole number; it then fits into 64 bits, also in other tools


RecordProblem = Callable[[str, str], None]  # field, message


class FileError(ValueError):
    """The file cannot be parsed any further."""


class SourceNumber(float):
    """A number with its text in the file, so that raters see 1.50 and 1e-7 unchanged."""

    text: str

    def __new__(cls, text: str) -> "SourceNumber":
        if not math.isfinite(value := float(text)):
            raise ValueError(f"{text[:40]} is too large for a number")
        number = super().__new__(cls, value)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


def iter_raw_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | Problem]]:
    """Yield (number, bytes) of every line, a Problem for one too long. FileError: too large, or not text."""
    number = n_bytes = 0
    # readline with a limit: a file without line breaks must not be loaded as one line
    while raw := stream.readline(MAX_LINE_LENGTH + 1):
        number, n_bytes = number + 1, n_bytes + len(raw)
        if number == 1:
            check_is_text(raw)
            raw = raw.removeprefix(BOM_UTF8)
        if number > MAX_LINES:
            raise FileError(f"more than {MAX_LINES:,} lines; split the file between two lines")
        yield number, raw if len(raw.rstrip(b"\r\n")) <= MAX_LINE_LENGTH else Problem(number, "", _LINE_TOO_LONG)
        # skip the rest of the line that is too long
        while len(raw) > MAX_LINE_LENGTH and not raw.endswith(b"\n"):
            raw = stream.readline(MAX_LINE_LENGTH + 1)
            n_bytes += len(raw)
            # standard input may never end
            if n_bytes > MAX_LINES * MAX_LINE_LENGTH:
                raise FileError(f"line {number} has no end")
    if not number:
        raise FileError("the file is empty")


def check_is_text(first_bytes: bytes) -> None:
    """Raise FileError if the first bytes are those of a packed file or of UTF-16 or UTF-32 text."""
    if first_bytes.startswith(PACKED_MAGIC):
        raise FileError("this is a compressed file; unpack it first")
    # without a byte order mark, ASCII text in UTF-16 or UTF-32 has NUL as its first or second byte
    if first_bytes.startswith((BOM_UTF16_BE, BOM_UTF16_LE)) or first_bytes[:1] == b"\0" or first_bytes[1:2] == b"\0":
        raise FileError("not UTF-8 but UTF-16 or UTF-32; save it in UTF-8")


def iter_objects(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """Yield the number of every line with its JSON object or its problem. A problem of the file has number 0."""
    n_lines = 0
    try:
        for number, raw in iter_raw_lines(stream):
            if isinstance(raw, Problem) or raw.strip():
                n_lines += 1
                yield number, raw if isinstance(raw, Problem) else _parse_object(number, raw)
    except FileError as problem:
        yield 0, Problem(0, "", str(problem))
    else:
        if not n_lines:
            yield 0, Problem(0, "", "all lines are blank")


def _parse_object(number: int, raw: bytes) -> dict[str, Any] | Problem:
    if b"\0" in raw:
        return Problem(number, "", _describe_unstorable_text("\0"))
    try:
        text = raw.decode("utf-8")
        hooks: dict[str, Any] = {"parse_constant": reject_constant, "object_pairs_hook": reject_duplicates}
        data = json.loads(text, parse_float=SourceNumber, parse_int=_parse_whole_number, **hooks)
    except UnicodeDecodeError as problem:
        return Problem(number, "", f"not UTF-8 at byte {problem.start + 1}")
    except RecursionError:
        return Problem(number, "", "nested too deeply")
    except json.JSONDecodeError as problem:
        return Problem(number, "", f"not JSON: {problem.msg} at character {problem.pos + 1}")
    except ValueError as problem:
        return Problem(number, "", str(problem)[:200])
    if not isinstance(data, dict):
        return Problem(number, "", "each line must be one JSON object")
    return _find_unstorable_value(number, data) or data


def _parse_whole_number(text: str) -> int:
    # also a guard: parsing a very long digit string takes quadratic time
    if len(text.lstrip("-")) > _MAX_DIGITS:
        raise ValueError(f"a whole number has more than {_MAX_DIGITS} digits; write it as text")
    return int(text)


def _find_unstorable_value(number: int, data: dict[str, Any]) -> Problem | None:
    """Return a problem if a text is too long or cannot be stored, or if nesting is too deep, else None."""
    # a stack instead of recursion, because the nesting in the file can have any depth
    pending: list[tuple[str, Any, int]] = [("", data, 0)]
    while pending:
        path, value, depth = pending.pop()
        if depth > _MAX_DEPTH:
            return Problem(number, path[:80], f"nested deeper than {_MAX_DEPTH}")
        if isinstance(value, str) and (message := _describe_unstorable_text(value)):
            return Problem(number, path, message)
        if isinstance(value, dict):
            if message := next(filter(None, map(_describe_unstorable_text, value)), ""):
                return Problem(number, path, f"the name of a field: {message}")
            pending += [(f"{path}.{key}".lstrip("."), inner, depth + 1) for key, inner in value.items()]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", inner, depth + 1) for index, inner in enumerate(value)]
    return None


def _describe_unstorable_text(text: str) -> str:
    if UNSTORABLE.search(text):
        return "contains the character NUL or half a surrogate pair"
    return f"is longer than {MAX_TEXT_LENGTH:,} characters" if len(text) > MAX_TEXT_LENGTH else ""


def has_hidden_characters(text: str) -> bool:
    """Return whether the text has a line break or a character that is invisible or changes the text direction."""
    return replace_invisible(text) != text or any(character in text for character in "\n\r\t")


def create_recorder(problems: list[Problem], line: int) -> RecordProblem:
    """Return a function that records problems of this line."""

    def record_problem(field: str, message: str) -> None:
        problems.append(Problem(line, field[:120], message))

    return record_problem
