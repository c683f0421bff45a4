"""Read the tables of an analysis document: rows as dictionaries, typed cells."""

from collections.abc import Mapping, Sequence
from typing import Any

from ratings.results.figures import text_metrics

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
    return "" if value is None else text_metrics.clean_label(value, most)


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
