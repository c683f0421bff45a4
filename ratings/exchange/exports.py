"""Ratings as streamed CSV, from the same rows that the study's results are computed from."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from django.contrib.auth.models import User

from ratings.exchange.codebook import MEANINGS
from ratings.exchange.tables.cells import plain
from ratings.models import Study
from ratings.models.study_events import TableExported
from ratings.protocol.reference import show_perturbation
from ratings.results import BlindRow, RatingRow, blind_rows, rating_rows
from ratings.results.analyses.filters import Filters
from ratings.studies import lifecycle

COLUMNS = tuple(MEANINGS)
SEALED = ("pair", "source", "perturbation", "truth", "experiment", "action", "localised", "reference")

Cells = Mapping[str, object]
ALL = Filters()


def rows(study: Study, blinded: bool, filters: Filters = ALL) -> Iterator[Cells]:
    """Yield one row per rating, keyed by COLUMNS. Booleans become 1 and 0.

    Raises SealedError unless the rows are blinded or the study is unblinded.

    Ratings that are not counted are included: `counts` is 1 if the results include the rating, `cannot_judge` is 1 if
    no rate does. Filters on sealed columns work only on unblinded rows.
    """
    # Before unblinding, rows come from a query that does not read the item sources at all.
    matches: Iterable[BlindRow] = filters.kept(blind_rows(study) if blinded else rating_rows(study))
    return (told(study, row, blinded) for row in matches)


def told(study: Study, row: BlindRow, blinded: bool) -> Cells:
    """Return one rating as cells keyed by COLUMNS."""
    return {**_cells(study, row), **(_withheld(row.imported) if blinded else {})}


def csv_lines(study: Study, blinded: bool, by: User | None = None, filters: Filters = ALL) -> Iterator[str]:
    """Log the export and yield the CSV file line by line, header first. The text is safe to open in a spreadsheet."""
    cells = rows(study, blinded, filters)
    # Log before the first line is sent: a client that disconnects early has still received data.
    # The seal is checked in the line above, so a refused export is not logged.
    lifecycle.log(study, TableExported(blinded=blinded, filters=filters.to_json()), by)
    return _lines(cells)


class _Echo:
    """A file for csv.writer whose write() returns the formatted line instead of storing it."""

    def write(self, line: str) -> str:
        return line


def table_lines(columns: Sequence[str], cells: Iterable[Iterable[Any]], *, exact: bool = False) -> Iterator[str]:
    """Yield any table as CSV lines, header first. Quote every cell, make text safe for spreadsheets, write booleans as 1 and 0.

    Numbers have three decimals, or with `exact` as many as needed to restore the same number. A spreadsheet reads no
    cell as a formula.
    """
    writer = csv.writer(_Echo(), quoting=csv.QUOTE_ALL)
    yield writer.writerow(map(plain, columns))
    for row in cells:
        yield writer.writerow([
            (plain(cell) if cell else "") if (kind := type(cell)) is str else cell if kind is int else _said(cell, exact)
            for cell in row
        ])  # fmt: skip


def for_spreadsheets(lines: Iterable[str]) -> Iterator[str]:
    """Yield a byte order mark and then the lines, so that spreadsheets read the file as UTF-8."""
    # Only for downloads from pages: the command line and archives write plain UTF-8, which scripts expect.
    yield "\ufeff"
    yield from lines


def _said(value: Any, exact: bool) -> object:
    if isinstance(value, int | float | None):
        return value if exact and isinstance(value, float) else _cell(value)
    # str subclasses, such as the choices of a model field, also end here and are made safe
    return plain(str(_cell(value)))


def _lines(cells: Iterable[Cells]) -> Iterator[str]:
    return table_lines(COLUMNS, ([row[name] for name in COLUMNS] for row in cells))


def _cells(study: Study, row: BlindRow) -> Cells:
    cells: dict[str, object] = {**dict.fromkeys(COLUMNS, ""), "study": study.slug}
    column_names, read_columns = _reading(type(row))  # type: ignore[arg-type]  # mypy takes a class for one of its rows
    for name, value in zip(column_names, read_columns(row), strict=True):
        format_value = _TOLD.get(type(value))
        cells[name] = format_value(value) if format_value else value
    # Imported ratings have model defaults in these columns; exporting them would
    # claim a display that was never recorded.
    if row.imported:
        cells |= dict.fromkeys(_UNKNOWN_ELSEWHERE, "")
    if isinstance(row, RatingRow):
        cells["perturbation"] = _cell(show_perturbation(row.perturbation, row.reference))
    # An import without times stores 0 seconds, which is unknown and not instantaneous.
    cells["seconds"] = "" if row.imported and not row.seconds else f"{row.seconds:.3f}"
    return cells


@cache
def _reading(kind: type[BlindRow]) -> tuple[tuple[str, ...], Callable[[BlindRow], tuple[Any, ...]]]:
    """Return the columns that rows of this class have, and a function that reads all of them at once."""
    # The row classes have attributes named like the CSV columns. One attrgetter reads a row much faster than
    # a getattr per column, and the columns of a class never change, so the result is cached.
    column_names = tuple(name for name in COLUMNS if hasattr(kind, name))
    return column_names, attrgetter(*column_names)


def _withheld(imported: bool) -> Cells:
    # Before unblinding: people who import ratings choose the texts of notes and know their own items. A note, or
    # the row of an imported rating beside an item code, would let them link codes to sources.
    return {"note": "", "item": ""} if imported else {"note": ""}


# It is unknown how ratings that were collected elsewhere were displayed and entered.
_UNKNOWN_ELSEWHERE = ("layout", "layout_shown", "context", "marks", "changes", "guide_version")


def _cell(value: Any) -> object:
    """Return a value as its cell: booleans as 1 and 0, unknown as empty, a list as JSON."""
    format_value = _TOLD.get(type(value))
    return format_value(value) if format_value else value


_TOLD: Mapping[type, Callable[[Any], object]] = {
    type(None): lambda _: "",
    # exact types, because bool is a subclass of int: a lookup by type does not confuse them
    bool: int,
    float: "{:.3f}".format,
    datetime: datetime.isoformat,
    list: lambda value: json.dumps(value, ensure_ascii=False) if value else "[]",
}
