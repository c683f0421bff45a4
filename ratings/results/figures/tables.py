"""Reading the tables of an analysis document: rows as dictionaries, cells by kind."""

from collections.abc import Mapping, Sequence
from typing import Any

from ratings.results.figures import wording

# The JSON of an analysis (ratings.results.analyses): its tables are {"columns": [{"name": ...}], "rows": [[...]]}.
Document = Mapping[str, Any]
Line = Mapping[str, object]


# Kinds of those in a table who are no raters.
PLANTED = ("obvious", "subtle")  # in the column `error`; other words say that nothing was planted, or that nobody knows
MACHINES = ("machine", "classifier", "checker", "ensemble")


def rows(document: Document, name: str) -> list[Line]:
    """The rows of a table by the names of its columns; none where the document has no such table."""
    table = document.get("tables", {}).get(name)
    if not table:
        return []
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def notes(document: Document, name: str) -> list[str]:
    """What stands below a table; nothing where the document has no such table."""
    return list(document.get("tables", {}).get(name, {}).get("notes", ()))


def number(row: Line, name: str) -> float | None:
    """A number; None for an empty cell. ValueError for a text: then the document is not of this form."""
    found = row.get(name)
    if found is None or found == "":
        return None
    if isinstance(found, bool | int | float):
        return float(found)
    raise ValueError(f"{name} is {found!r}; a figure needs a number there")


def count(row: Line, name: str) -> int:
    """A count; 0 for an empty cell."""
    return int(number(row, name) or 0)


def text(row: Line, name: str, most: int = 300) -> str:
    """A name, cleaned for drawing; "" for an empty cell."""
    found = row.get(name)
    return "" if found is None else wording.plain(found, most)


def first_seen(lines: Sequence[Line], name: str) -> list[str]:
    """The different texts of a column in the order of the table."""
    return list(dict.fromkeys(text(line, name) for line in lines))


_WORDS: Mapping[str, tuple[str, str]] = {"evidence_sufficiency": ("sufficient", "not sufficient")}


def verdict_words(document: Document) -> tuple[str, str]:
    """What yes and no are called for this kind of study, or in a benchmark, whose classifiers judge evidence ("plausible",
    "not plausible" where it is not known)."""
    subject = document.get("subject", {})
    kind = "evidence_sufficiency" if "benchmark" in subject else subject.get("kind", "")
    return _WORDS.get(kind, ("plausible", "not plausible"))


def words(line: Line, name: str) -> str:
    """A name of our own making, such as a kind of error, with spaces for its underscores."""
    return text(line, name).replace("_", " ")
