"""Parse files with one JSON object per line from any origin. Every line is either parsed strictly or rejected with its number and the reason."""

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
_DEEPEST = 24  # levels of nesting
_DIGITS = 18  # of a whole number; it then fits into 64 bits, also in other tools
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL stores neither NUL nor lone surrogates
# first bytes of zip (also of workbooks), gzip, bzip2, xz, Zstandard, 7z and RAR files
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")


class Problem(NamedTuple):
    """A problem, with its line (0: the whole file) and field ("": the whole line)."""

    line: int
    field: str
    said: str

    def __str__(self) -> str:
        where = f"line {self.line}" if self.line else "file"
        return f"{where}: {self.field}: {self.said}" if self.field else f"{where}: {self.said}"


Note = Callable[[str, str], None]  # field, message


class FileError(ValueError):
    """The file cannot be parsed any further."""


class Written(float):
    """A number that remembers how the file writes it: raters see 1.50 and 1e-7 unchanged."""

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
    """Yield every line with its number; a Problem for a line that is too long. Raises FileError if the file is too large or not text."""
    number = n_bytes = 0
    # readline with a limit: a file without line breaks must not be loaded as one line
    while raw := stream.readline(LONGEST_LINE + 1):
        number, n_bytes = number + 1, n_bytes + len(raw)
        if number == 1:
            refuse_unless_text(raw)
            raw = raw.removeprefix(BOM_UTF8)
        if number > MOST_LINES:
            raise FileError(f"more than {MOST_LINES:,} lines")
        yield number, raw if len(raw.rstrip(b"\r\n")) <= LONGEST_LINE else Problem(number, "", _TOO_LONG)
        # skip the rest of the line that is too long
        while len(raw) > LONGEST_LINE and not raw.endswith(b"\n"):
            raw = stream.readline(LONGEST_LINE + 1)
            n_bytes += len(raw)
            if n_bytes > MOST_BYTES:
                break
        if n_bytes > MOST_BYTES:
            raise FileError(f"larger than {MOST_BYTES // 1024**2} MiB")
    if not number:
        raise FileError("the file is empty")


def refuse_unless_text(begin: bytes) -> None:
    """Raise FileError if the first bytes are those of a packed file or of UTF-16 or UTF-32 text."""
    if begin.startswith(_PACKED):
        raise FileError("this is a compressed file; unpack it first")
    # without a byte order mark, ASCII text in UTF-16 or UTF-32 has NUL as its first or second byte
    if begin.startswith((BOM_UTF16_BE, BOM_UTF16_LE)) or begin[:1] == b"\0" or begin[1:2] == b"\0":
        raise FileError("not UTF-8 but UTF-16 or UTF-32; save it in UTF-8")


_TOO_LONG = f"longer than {LONGEST_LINE // 1024} KiB"


def objects(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """Yield the JSON object of every line, or its problem. A problem with line 0 ends the file."""
    n_lines = 0
    try:
        for number, raw in raw_lines(stream):
            if isinstance(raw, Problem) or raw.strip():
                n_lines += 1
                yield number, raw if isinstance(raw, Problem) else _object(number, raw)
    except FileError as problem:
        yield 0, Problem(0, "", str(problem))
    else:
        if not n_lines:
            yield 0, Problem(0, "", "all lines are blank")


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
        return Problem(number, "", "nested too deeply")
    except json.JSONDecodeError as problem:
        return Problem(number, "", f"not JSON: {problem.msg} at character {problem.pos + 1}")
    except ValueError as problem:
        return Problem(number, "", str(problem)[:200])
    if not isinstance(data, dict):
        return Problem(number, "", "each line must be one JSON object")
    return _unfit(number, data) or data


def _no_constant(name: str) -> Any:
    # Python's parser accepts NaN and Infinity, which are not JSON
    raise ValueError(f"{name} is not a number")


def _whole(text: str) -> int:
    # also a guard: parsing a very long digit string takes quadratic time
    if len(text.lstrip("-")) > _DIGITS:
        raise ValueError(f"a whole number has more than {_DIGITS} digits; write it as text")
    return int(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # by default the last value would win silently
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{shown(next(n for n in names if names.count(n) > 1))} appears twice in one object")
    return document


def _unfit(number: int, data: dict[str, Any]) -> Problem | None:
    """Return the first text that the database cannot store, or that is too long or nested too deeply."""
    # a stack instead of recursion: the file decides the depth
    pending: list[tuple[str, Any, int]] = [("", data, 0)]
    while pending:
        path, value, depth = pending.pop()
        if depth > _DEEPEST:
            return Problem(number, path[:80], f"nested deeper than {_DEEPEST}")
        if isinstance(value, str) and (message := _unfit_text(value)):
            return Problem(number, path, message)
        if isinstance(value, dict):
            if message := next(filter(None, map(_unfit_text, value)), ""):
                return Problem(number, path, f"the name of a field: {message}")
            pending += [(f"{path}.{key}".lstrip("."), inner, depth + 1) for key, inner in value.items()]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", inner, depth + 1) for index, inner in enumerate(value)]
    return None


def _unfit_text(text: str) -> str:
    if _UNSTORABLE.search(text):
        return "contains the character NUL or half a surrogate pair"
    return f"is longer than {LONGEST_TEXT:,} characters" if len(text) > LONGEST_TEXT else ""


def hides(text: str) -> bool:
    """Return whether the text has a line break or a character that is invisible or changes the text direction."""
    return visible(text) != text or any(character in text for character in "\n\r\t")


def noting(problems: list[Problem], line: int) -> Note:
    """Return a function that records problems of this line."""

    def note(field: str, said: str) -> None:
        problems.append(Problem(line, field[:120], said))

    return note


def shown(value: Any) -> str:
    """Return a value as error messages quote it: short and on one line."""
    return repr(value)[:60]
