"""Files of one JSON object a line, from anywhere: every line read strictly, or refused by name with its number."""

import json
import math
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from ratings.blinding.naming import visible

MOST_BYTES = 20 * 1024 * 1024
MOST_LINES = 10_000
LONGEST_LINE = 256 * 1024
LONGEST_TEXT = 20_000
_DEEPEST = 24
_DIGITS = 18  # of a whole number
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")


class Problem(NamedTuple):
    """What is wrong, in which line (0: the whole file) and which field of it ("": all of it)."""

    line: int
    field: str
    said: str

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else "file"
        return f"{place}: {self.field}: {self.said}" if self.field else f"{place}: {self.said}"


Note = Callable[[str, str], None]  # field, what is wrong with it


class FileError(ValueError):
    """No further line of the file can be read."""


class Written(float):
    """A number that still knows how it was written: raters see 1.50 and 1e-7 as they stood in the file."""

    text: str

    def __new__(cls, text: str) -> "Written":
        if not math.isfinite(value := float(text)):
            raise ValueError(f"{text[:40]} is too large for a number")
        number = super().__new__(cls, value)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


def raw_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | Problem]]:
    """Every line that is not blank; a Problem for one that is too long. FileError where the file must not go on."""
    number = read = 0
    while raw := stream.readline(LONGEST_LINE + 1):
        number, read = number + 1, read + len(raw)
        if number == 1:
            refuse_unless_text(raw)
            raw = raw.removeprefix(BOM_UTF8)
        if number > MOST_LINES:
            raise FileError(f"more than {MOST_LINES:,} lines")
        yield number, raw if len(raw.rstrip(b"\r\n")) <= LONGEST_LINE else Problem(number, "", _TOO_LONG)
        while len(raw) > LONGEST_LINE and not raw.endswith(b"\n"):
            raw = stream.readline(LONGEST_LINE + 1)
            read += len(raw)
            if read > MOST_BYTES:
                break
        if read > MOST_BYTES:
            raise FileError(f"larger than {MOST_BYTES // 1024**2} MiB")
    if not number:
        raise FileError("the file is empty")


def refuse_unless_text(begin: bytes) -> None:
    """FileError for what by its first bytes is no text in UTF-8: those of packed files, or every other one NUL."""
    if begin.startswith(_PACKED):
        raise FileError("this is a packed file; unpack it first")
    if begin.startswith((BOM_UTF16_BE, BOM_UTF16_LE)) or begin[:1] == b"\0" or begin[1:2] == b"\0":
        raise FileError("not UTF-8 but UTF-16 or UTF-32; save it in UTF-8")


_TOO_LONG = f"longer than {LONGEST_LINE // 1024} KiB"


def objects(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """The JSON object of every line, or why there is none; a problem in line 0 ends the file."""
    found = 0
    try:
        for number, raw in raw_lines(stream):
            if isinstance(raw, Problem) or raw.strip():
                found += 1
                yield number, raw if isinstance(raw, Problem) else _object(number, raw)
    except FileError as problem:
        yield 0, Problem(0, "", str(problem))
    else:
        if not found:
            yield 0, Problem(0, "", "no line holds anything")


def _object(number: int, raw: bytes) -> dict[str, Any] | Problem:
    if b"\0" in raw:
        return Problem(number, "", _unfit_text("\0"))
    try:
        text = raw.decode("utf-8")
        data = json.loads(
            text, parse_constant=_no_constant, parse_float=Written, parse_int=_whole, object_pairs_hook=_once
        )
    except UnicodeDecodeError as problem:
        return Problem(number, "", f"not UTF-8 at byte {problem.start + 1}")
    except RecursionError:
        return Problem(number, "", "nested too deep")
    except json.JSONDecodeError as problem:
        return Problem(number, "", f"not JSON: {problem.msg} at character {problem.pos + 1}")
    except ValueError as problem:
        return Problem(number, "", str(problem)[:200])
    if not isinstance(data, dict):
        return Problem(number, "", "each line must be one JSON object")
    return _unfit(number, data) or data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > _DIGITS:
        raise ValueError(f"a whole number has more than {_DIGITS} digits; write it as text")
    return int(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{shown(next(n for n in names if names.count(n) > 1))} stands twice in one object")
    return found


def _unfit(number: int, data: dict[str, Any]) -> Problem | None:
    """The first text that no database can hold, or that is too long or too deep; walked without recursion."""
    waiting: list[tuple[str, Any, int]] = [("", data, 0)]
    while waiting:
        place, value, depth = waiting.pop()
        if depth > _DEEPEST:
            return Problem(number, place[:80], f"nested deeper than {_DEEPEST}")
        if isinstance(value, str) and (said := _unfit_text(value)):
            return Problem(number, place, said)
        if isinstance(value, dict):
            if said := next(filter(None, map(_unfit_text, value)), ""):
                return Problem(number, place, f"the name of a field: {said}")
            waiting += [(f"{place}.{key}".lstrip("."), inner, depth + 1) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{place}[{at}]", inner, depth + 1) for at, inner in enumerate(value)]
    return None


def _unfit_text(text: str) -> str:
    if _UNSTORABLE.search(text):
        return "holds the character NUL or half a surrogate pair"
    return f"is longer than {LONGEST_TEXT:,} characters" if len(text) > LONGEST_TEXT else ""


def hides(text: str) -> bool:
    """Whether the text holds a line break, or what turns or hides text."""
    return visible(text) != text or any(sign in text for sign in "\n\r\t")


def noting(problems: list[Problem], line: int) -> Note:
    """Takes down problems of this line."""

    def note(field: str, said: str) -> None:
        problems.append(Problem(line, field[:120], said))

    return note


def shown(value: Any) -> str:
    """A value as a problem quotes it: short, on one line."""
    return repr(value)[:60]
