"""Read the tables of an analysis document: typed cells, and numbers and names as text for figures. Without the plotting libraries."""

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wetbench_site.text import INVISIBLE

# The JSON of an analysis (ratings.results.analyses): its tables are {"columns": [{"name": ...}], "rows": [[...]]}.
Document = Mapping[str, Any]
# A function that formats a number.
FormatFunction = Callable[[float | None], str]

# Values that occur in tables.
PLANTED = ("obvious", "subtle")  # in the column `error`; other values mean not planted, or unknown
MACHINES = ("machine", "classifier", "checker", "ensemble")
POOLED = "all sources"  # in place of a source in rows for all sources together

_UNREADABLE = re.compile(f"{INVISIBLE.pattern}|[\ufffe\uffff]")
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]/ -"), frozenset("mwMWQOGD%@=+−±<>~#&…")
_VERDICT_WORDS: Mapping[str, tuple[str, str]] = {"evidence_sufficiency": ("sufficient", "not sufficient")}


class TableRow(dict[str, object]):
    """A row of a table: its cells by column name, with types."""

    def number(self, name: str) -> float | None:
        """Return the number in a cell; None if the cell is empty. Raises ValueError for a text."""
        value = self.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, bool | int | float):
            return float(value)
        # A text in place of a number means that the document has another format. If it were read as 0, it would be drawn as data.
        raise ValueError(f"{name} is {value!r}; a figure needs a number there")

    def numbers(self, *names: str) -> list[float | None]:
        """Return the numbers in several cells."""
        return [self.number(name) for name in names]

    def count(self, name: str) -> int:
        """Return a count; 0 for an empty cell."""
        return int(self.number(name) or 0)

    def text(self, name: str) -> str:
        """Return a name, cleaned for drawing; "" for an empty cell."""
        value = self.get(name)
        return "" if value is None else clean_label(value)

    def words(self, name: str) -> str:
        """Return a name from a closed list, such as a kind of error, with spaces instead of underscores."""
        return self.text(name).replace("_", " ")


def get_rows(document: Document, name: str) -> list[TableRow]:
    """Return the rows of a table by column name; none if the document has no such table."""
    table = document.get("tables", {}).get(name)
    if not table:
        return []
    names = [column["name"] for column in table["columns"]]
    return [TableRow(zip(names, row, strict=True)) for row in table["rows"]]


def get_notes(document: Document, name: str) -> list[str]:
    """Return the notes below a table; none if the document has no such table."""
    return list(document.get("tables", {}).get(name, {}).get("notes", ()))


def list_distinct(rows: Sequence[TableRow], name: str) -> list[str]:
    """Return the distinct texts of a column in the order of the table."""
    return list(dict.fromkeys(row.text(name) for row in rows))


def group_rows(rows: Sequence[TableRow], key: Callable[[TableRow], str] | str) -> dict[str, list[TableRow]]:
    """Return the rows by the text of a column, or by a function of the row, in the order of the table."""
    groups: dict[str, list[TableRow]] = {}
    for row in rows:
        groups.setdefault(row.text(key) if isinstance(key, str) else key(row), []).append(row)
    return groups


def has_number(document: Document, table: str, *names: str) -> bool:
    """Return whether any of these columns has a number in any row of the table."""
    return any(row.number(name) is not None for row in get_rows(document, table) for name in names)


def verdict_words(document: Document) -> tuple[str, str]:
    """Return the words for yes and no in this kind of study or benchmark; those for plausibility if it is unknown."""
    subject = document.get("subject", {})
    # A benchmark has no kind of its own.
    kind = "evidence_sufficiency" if "benchmark" in subject else subject.get("kind", "")
    return _VERDICT_WORDS.get(kind, ("plausible", "not plausible"))


def clean_label(text: object, most: int = 300) -> str:
    """Return a name for a figure: one line, every character visible, at most `most` characters."""
    # Replaced, not removed: two names that differ only in such a character must stay different.
    cleaned = " ".join(_UNREADABLE.sub("\ufffd", re.sub(r"\s+", " ", str(text))).split())
    return cleaned if len(cleaned) <= most else cleaned[: most - 1] + "…"


def format_percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.0%}"


def format_two_decimals(number: float | None) -> str:
    """Return two decimals, with a minus sign as wide as a plus."""
    # "-0.00" would suggest a direction.
    return "undefined" if number is None else f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")


def format_signed(number: float | None) -> str:
    """Return two decimals with the sign of a difference: +0.12, −0.05, 0.00."""
    text = format_two_decimals(number)
    return f"+{text}" if number is not None and number > 0 and text != "0.00" else text


def format_integer(number: float | None) -> str:
    return "undefined" if number is None else f"{number:,.0f}"


def format_interval(low: float | None, high: float | None, say: FormatFunction = format_percent) -> str:
    """Return "81% to 91%", or "no interval"."""
    return "no interval" if low is None or high is None else f"{say(low)} to {say(high)}"


def format_ends(low: float | None, high: float | None, say: FormatFunction = format_percent) -> str:
    """Return " (81% to 91%)" for use after an estimate, or "" without an interval."""
    return "" if low is None or high is None else f" ({format_interval(low, high, say)})"


def join_parts(parts: Iterable[str], most: int = 6) -> str:
    """Return the first `most` parts of a sentence, joined by semicolons, and the number of parts that were left out."""
    all_parts = list(parts)
    more = [f"and {len(all_parts) - most} more in the table"] if len(all_parts) > most else []
    return "; ".join([*all_parts[:most], *more])


def describe_rows(
    lead: str, rows: str | Callable[[Document], Iterable[Any]], say: Callable[[Any], str], most: int = 6
) -> Callable[[Document], str]:
    """Return a function that describes a document as "lead: part; part." `rows`: a table, or a function that lists rows.

    "{yes}" and "{no}" in the lead are the words for verdicts.
    """

    def describe(document: Document) -> str:
        yes, no = verdict_words(document)
        lines = get_rows(document, rows) if isinstance(rows, str) else rows(document)
        return f"{lead.format(yes=yes, no=no)}: {join_parts(map(say, lines), most)}."

    return describe


def text_width(text: str, size: float) -> float:
    """Return the width of a line of text in pixels, in a wide sans-serif font: readers' fonts may be wide."""
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
    label = clean_label(text)
    width = text_width(label, size)
    if width <= room:
        return [label]
    letters = max(1, int(len(label) * room / width))
    return textwrap.wrap(label, letters, max_lines=most, placeholder="…", break_on_hyphens=False)
