"""Read the tables of an analysis document: rows as dictionaries, typed cells."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

# Control characters, unpaired surrogates, and characters that reverse or hide text.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
# A function that formats a number.
FormatFunction = Callable[[float | None], str]

_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]/ -"), frozenset("mwMWQOGD%@=+−±<>~#&…")


def clean_label(text: object, most: int = 300) -> str:
    """Return a name for a figure: one line, every character visible, at most `most` characters."""
    # Replaced, not removed: two names that differ only in such a character must stay different.
    cleaned = " ".join(_INVISIBLE.sub("\ufffd", re.sub(r"\s+", " ", str(text))).split())
    return cleaned if len(cleaned) <= most else cleaned[: most - 1] + "…"


def format_percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.0%}"


def format_two_decimals(number: float | None) -> str:
    """Return two decimals, with a minus sign as wide as a plus."""
    # "-0.00" would suggest a direction.
    return "undefined" if number is None else f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")


def format_signed(number: float | None) -> str:
    """Return two decimals with the sign of a difference: +0.12, −0.05, 0.00."""
    text_value = format_two_decimals(number)
    return f"+{text_value}" if number is not None and number > 0 and text_value != "0.00" else text_value


def format_integer(number: float | None) -> str:
    return "undefined" if number is None else f"{number:,.0f}"


def format_interval(low: float | None, high: float | None, say: FormatFunction = format_percent) -> str:
    """Return "81% to 91%", or "no interval"."""
    return "no interval" if low is None or high is None else f"{say(low)} to {say(high)}"


def few_items_note(reason: str) -> str:
    """Return the note on an estimate from few shared items if the reason in its table row requires it, else ""."""
    return " (few items)" if reason.startswith("few items") else ""


def join_parts(parts: Iterable[str], most: int = 6) -> str:
    """Return the first `most` parts of a sentence, joined by semicolons, and the number of parts that were left out."""
    all_parts = list(parts)
    more = [f"and {len(all_parts) - most} more in the table"] if len(all_parts) > most else []
    return "; ".join([*all_parts[:most], *more])


def text_width(text: str, size: float) -> float:
    """Return the width, in pixels, of a line of text in a wide sans-serif font.

    Readers' fonts can be wider than the renderer's.
    """
    return sum(_letter_width(letter) for letter in text) * size


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0  # combining characters are drawn over the letter before them
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.9
    if unicodedata.east_asian_width(letter) in "WF":  # "W" and "F": a full square in East Asian fonts
        return 1.05
    return 0.68 if letter.isupper() else 0.61


def wrap_text(text: str, room: float, size: float, most: int = 2) -> list[str]:
    """Return the text in at most `most` lines of `room` pixels, broken between words, ending in "…" if truncated."""
    remaining, wrapped = clean_label(text), list[str]()
    while remaining and len(wrapped) < most:
        line, remaining = _break_line(remaining, room, size)
        wrapped.append(line)
    if remaining:
        last = wrapped[-1]
        # Letters are removed until the ellipsis fits as well.
        while last and text_width(last + "…", size) > room:
            last = last[:-1]
        wrapped[-1] = last + "…"
    return wrapped or [""]


def _break_line(text: str, room: float, size: float) -> tuple[str, str]:
    """Return the part that fits on a line, and the rest."""
    fits = len(text)
    # At least one letter per line, or a very narrow column would never end.
    while fits > 1 and text_width(text[:fits], size) > room:
        fits -= 1
    if fits == len(text):
        return text, ""
    space = text.rfind(" ", 0, fits + 1)
    # If the last space is in the first third of a line, the word is broken, because that wastes less room.
    if space > fits / 3:
        return text[:space], text[space + 1 :]
    return text[:fits], text[fits:]


def widest_text(texts: Sequence[str], size: float) -> float:
    return max((text_width(text, size) for text in texts), default=0.0)


# The JSON of an analysis (ratings.results.analyses): its tables are {"columns": [{"name": ...}], "rows": [[...]]}.
Document = Mapping[str, Any]
TableRow = Mapping[str, object]


# Values that occur in tables.
PLANTED = ("obvious", "subtle")  # in the column `error`; other values mean not planted, or unknown
MACHINES = ("machine", "classifier", "checker", "ensemble")


def get_rows(document: Document, name: str) -> list[TableRow]:
    """Return the rows of a table by column name; none if the document has no such table."""
    table = document.get("tables", {}).get(name)
    if not table:
        return []
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def get_notes(document: Document, name: str) -> list[str]:
    """Return the notes below a table; none if the document has no such table."""
    return list(document.get("tables", {}).get(name, {}).get("notes", ()))


def get_number(row: TableRow, name: str) -> float | None:
    """Return the number in a cell; None if the cell is empty.

    Raises ValueError for a text, which has no place there.
    """
    value = row.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool | int | float):
        return float(value)
    # A text in place of a number means that the document has another format. If it were read as 0, it would be drawn as data.
    raise ValueError(f"{name} is {value!r}; a figure needs a number there")


def get_count(row: TableRow, name: str) -> int:
    """Return a count; 0 for an empty cell."""
    return int(get_number(row, name) or 0)


def get_text(row: TableRow, name: str, most: int = 300) -> str:
    """Return a name, cleaned for drawing; "" for an empty cell."""
    value = row.get(name)
    return "" if value is None else clean_label(value, most)


def list_distinct(lines: Sequence[TableRow], name: str) -> list[str]:
    """Return the distinct texts of a column in the order of the table."""
    return list(dict.fromkeys(get_text(line, name) for line in lines))


_VERDICT_WORDS: Mapping[str, tuple[str, str]] = {"evidence_sufficiency": ("sufficient", "not sufficient")}


def verdict_words(document: Document) -> tuple[str, str]:
    """Return the words for yes and no in this kind of study or benchmark; "plausible", "not plausible" if the kind
    is unknown.
    """
    subject = document.get("subject", {})
    # A benchmark has no kind of its own.
    kind = "evidence_sufficiency" if "benchmark" in subject else subject.get("kind", "")
    return _VERDICT_WORDS.get(kind, ("plausible", "not plausible"))


def get_spaced(line: TableRow, name: str) -> str:
    """Return a name from a closed list, such as a kind of error, with spaces instead of underscores."""
    return get_text(line, name).replace("_", " ")
