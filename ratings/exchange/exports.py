"""Ratings as streamed CSV, from the same rows that the study's results are computed from."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from django.contrib.auth.models import User

from ratings.exchange.codebook import COLUMN_MEANINGS
from ratings.exchange.tables.spreadsheet_safe import escape_cell
from ratings.models import Study
from ratings.models.study_events import TableExported
from ratings.protocol.reference import public_perturbation
from ratings.results import BlindRow, RatingRow, iter_blind_rows, iter_rating_rows
from ratings.results.analyses.filters import Filters
from ratings.studies import lifecycle

COLUMNS = tuple(COLUMN_MEANINGS)
SEALED = ("pair", "source", "perturbation", "truth", "experiment", "action", "localised", "reference")

Cells = Mapping[str, object]
NO_FILTERS = Filters()


def iter_rating_cells(study: Study, blinded: bool, filters: Filters = NO_FILTERS) -> Iterator[Cells]:
    """Yield the cells of one row per rating, by the column names in COLUMNS. Booleans become 1 and 0.

    Raises SealedError unless the rows are blinded or the study is unblinded.

    Ratings that are not counted are included: `counts` is 1 if the results include the rating. `cannot_judge` is 1 if
    the rater gave no verdict; no rate includes such a rating. Filters on sealed columns work only on unblinded rows.
    """
    # Before unblinding, rows come from a query that does not read the item sources at all.
    matches: Iterable[BlindRow] = filters.select_rows(iter_blind_rows(study) if blinded else iter_rating_rows(study))
    return (format_rating_cells(study, row, blinded) for row in matches)


def format_rating_cells(study: Study, row: BlindRow, blinded: bool) -> Cells:
    """Return the cells of one rating by the column names in COLUMNS."""
    return {**_fill_rating_cells(study, row), **(_get_withheld_cells(row.imported) if blinded else {})}


def export_csv_lines(
    study: Study, blinded: bool, user: User | None = None, filters: Filters = NO_FILTERS
) -> Iterator[str]:
    """Log the export and yield the CSV file line by line, header first. The text is safe to open in a spreadsheet."""
    cells = iter_rating_cells(study, blinded, filters)
    # Log before the first line is sent: a client that disconnects early has still received data.
    # The seal is checked in the line above, so a refused export is not logged.
    lifecycle.log_event(study, TableExported(blinded=blinded, filters=filters.to_dict()), user)
    return _format_rating_lines(cells)


class _LineBuffer:
    """A file for csv.writer whose write() returns the formatted line instead of storing it."""

    def write(self, line: str) -> str:
        return line


def format_table_lines(
    columns: Sequence[str], table_rows: Iterable[Iterable[Any]], *, exact: bool = False
) -> Iterator[str]:
    """Yield any table as CSV lines, header first. Quote every cell, make text safe for spreadsheets, write booleans as 1 and 0.

    Numbers have three decimals, or with `exact` as many as needed to restore the same number. A spreadsheet reads no
    cell as a formula.
    """
    writer = csv.writer(_LineBuffer(), quoting=csv.QUOTE_ALL)
    yield writer.writerow(map(escape_cell, columns))
    for row in table_rows:
        yield writer.writerow([
            (escape_cell(cell) if cell else "") if (kind := type(cell)) is str else cell if kind is int else _format_safe_cell(cell, exact)
            for cell in row
        ])  # fmt: skip


def prepend_byte_order_mark(lines: Iterable[str]) -> Iterator[str]:
    """Yield a byte order mark and then the lines, so that spreadsheets read the file as UTF-8."""
    # Only for downloads from pages: the command line and archives write plain UTF-8, which scripts expect.
    yield "\ufeff"
    yield from lines


def _format_safe_cell(value: Any, exact: bool) -> object:
    if isinstance(value, int | float | None):
        return value if exact and isinstance(value, float) else _format_value(value)
    # str subclasses, such as the choices of a model field, also end here and are made safe
    return escape_cell(str(_format_value(value)))


def _format_rating_lines(rating_cells: Iterable[Cells]) -> Iterator[str]:
    return format_table_lines(COLUMNS, ([row[name] for name in COLUMNS] for row in rating_cells))


def _fill_rating_cells(study: Study, row: BlindRow) -> Cells:
    cells: dict[str, object] = {**dict.fromkeys(COLUMNS, ""), "study": study.slug}
    column_names, read_columns = _get_column_reader(type(row))  # type: ignore[arg-type]  # mypy takes a class for one of its rows
    for name, value in zip(column_names, read_columns(row), strict=True):
        format_value = _FORMATTERS.get(type(value))
        cells[name] = format_value(value) if format_value else value
    # Imported ratings have the defaults of the database in these columns. Exporting the defaults would
    # state how items were displayed, which was never recorded.
    if row.imported:
        cells |= dict.fromkeys(_UNKNOWN_IF_IMPORTED, "")
    if isinstance(row, RatingRow):
        cells["perturbation"] = _format_value(public_perturbation(row.perturbation, row.reference))
    # An import without times stores 0 seconds, which means that the time is unknown.
    cells["seconds"] = "" if row.imported and not row.seconds else f"{row.seconds:.3f}"
    return cells


@cache
def _get_column_reader(row_class: type[BlindRow]) -> tuple[tuple[str, ...], Callable[[BlindRow], tuple[Any, ...]]]:
    """Return the columns that rows of this class have, and a function that reads all of them at once."""
    # The row classes have attributes named like the CSV columns. One attrgetter reads a row much faster than
    # a getattr per column, and the columns of a class never change, so the result is cached.
    column_names = tuple(name for name in COLUMNS if hasattr(row_class, name))
    return column_names, attrgetter(*column_names)


def _get_withheld_cells(imported: bool) -> Cells:
    # Withheld before unblinding: people who import ratings write the notes and know their own items. A note, or an
    # item code in the row of an imported rating, would let them link codes to sources.
    return {"note": "", "item": ""} if imported else {"note": ""}


# It is unknown how ratings that were collected elsewhere were displayed and entered.
_UNKNOWN_IF_IMPORTED = ("layout", "layout_shown", "context", "marks", "changes", "guide_version")


def _format_value(value: Any) -> object:
    """Return a value as its cell: booleans as 1 and 0, unknown as empty, a list as JSON."""
    format_value = _FORMATTERS.get(type(value))
    return format_value(value) if format_value else value


_FORMATTERS: Mapping[type, Callable[[Any], object]] = {
    type(None): lambda _: "",
    # exact types, because bool is a subclass of int: a lookup by type does not confuse them
    bool: int,
    float: "{:.3f}".format,
    datetime: datetime.isoformat,
    list: lambda value: json.dumps(value, ensure_ascii=False) if value else "[]",
}
