"""Ratings as streamed CSV, from the same rows that the study's results are computed from."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from django.contrib.auth.models import User

from ratings.exchange.rating_tables import escape_cell
from ratings.models import Study
from ratings.models.study_events import TableExported
from ratings.protocol.reference import public_perturbation
from ratings.results import BlindRow, RatingRow, iter_blind_rows, iter_rating_rows
from ratings.results.analyses.filters import Filters
from ratings.studies import lifecycle


class Field(NamedTuple):
    """A column. `kind` is text, count, number, flag (1 or 0), moment (UTC) or list (JSON). An empty cell means none or unknown."""

    name: str
    kind: str
    meaning: str


# In the order of the columns in ratings.csv. Add new columns at the end: programs may rely on positions.
# Columns whose meaning ends in (sealed) are empty before unblinding.
RATING_FIELDS = (
    Field("study", "text", "short name of the study"),
    Field("item", "text", "code of the item; it is random and does not reveal where the item came from; empty before unblinding if imported is 1"),
    Field("pair", "text", "shared by all versions of one transition: an original and its twins (sealed)"),
    Field("rater", "text", "the rater's code in this study"),
    Field("verdict", "flag", "1 plausible or sufficient, 0 not; empty: the rater could not judge"),
    Field("confidence", "count", "1 to 5"),
    Field("source", "text", "what generated the item (sealed)"),
    Field("perturbation", "text", "planted error: none, obvious or subtle; empty: not stated in an import, or an evidence item (sealed)"),
    Field("truth", "flag", "1 correct, 0 wrong; known for rule-based items and for imports that declare it; empty: not known (sealed)"),
    Field("experiment", "text", "the experiment that the item comes from (sealed)"),
    Field("action", "text", "the laboratory action (sealed)"),
    Field("opened_at", "moment", "time at which the item was first shown, UTC"),
    Field("submitted_at", "moment", "time of the first answer, UTC"),
    Field("seconds", "number", "seconds between opened_at and submitted_at by the server's clock; empty: not known"),
    Field("position", "count", "position in this rater's own order, counted from 1"),
    Field("simulated", "flag", "1: a simulated rater, including imported ones"),
    Field("occasion", "count", "1: counts; 2: the same item shown to the same rater again, used only for test-retest agreement"),
    Field("session", "count", "crossover studies: 1 or 2, separated by the washout; 1 in all other studies"),
    Field("surplus", "flag", "1: submitted after the item had been reassigned to another rater; not counted"),
    Field("cannot_judge", "flag", "1: the rater could not judge; excluded from rates and agreement"),
    Field("layout", "text", "display arm: plain, aligned, balance or confirm; empty: rating collected elsewhere"),
    Field("layout_shown", "text", "layout that was shown: plain if it was unclear which output continues which input"),
    Field("context", "flag", "1: the goal and earlier steps were shown"),
    Field("marks", "text", "whether the rater could mark rows: off, if_not_plausible or always"),
    Field("marked", "list", "keys of the marked rows, a JSON list"),
    Field("localised", "flag", "1: a marked row contains the planted error; 0: no marked row does, or the verdict was that nothing is wrong; empty: the location of the error is not known, or rows could not be marked (sealed)"),
    Field("first_verdict", "flag", "confirm arm: the verdict before the balance sheet was shown"),
    Field("first_confidence", "count", "confirm arm: the confidence before the balance sheet was shown"),
    Field("revision", "count", "number of versions of the answer; this row shows the last one, versions.csv lists all"),
    Field("active_seconds", "number", "seconds during which the page was visible and the rater active, measured by the browser"),
    Field("first_verdict_seconds", "number", "active seconds until the first choice of a verdict"),
    Field("changes", "count", "number of changes of the verdict before the first submission"),
    Field("hand", "text", "input used: keys, pointer or both; empty: not known"),
    Field("viewport", "text", "page width x height in CSS pixels"),
    Field("guide_version", "count", "version of the instructions that the rater had read"),
    Field("interface_version", "text", "version of the rating screen; empty: rating collected elsewhere"),
    Field("imported", "flag", "1: collected elsewhere and imported"),
    Field("note", "text", "the rater's note; empty before unblinding"),
    Field("counts", "flag", "1: included in the results (occasion 1, not surplus, not reassigned); ratings of dropped raters are not in this file"),
    Field("reference", "text", "what verdicts are compared with: planted or unperturbed, otherwise declared wrong or declared right by an import; empty: not known (sealed)"),
)  # fmt: skip
COLUMN_MEANINGS: Mapping[str, str] = {field.name: field.meaning for field in RATING_FIELDS}
COLUMNS = tuple(COLUMN_MEANINGS)
SEALED = tuple(name for name, meaning in COLUMN_MEANINGS.items() if meaning.endswith("(sealed)"))

Cells = Mapping[str, object]
NO_FILTERS = Filters()
# It is unknown how ratings that were collected elsewhere were displayed and entered.
_UNKNOWN_IF_IMPORTED = ("layout", "layout_shown", "context", "marks", "changes", "guide_version")


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
    if blinded:
        # People who import ratings write the notes and know their own items. A note, or an item code in the row of an
        # imported rating, would let them link codes to sources.
        cells |= {"note": "", "item": ""} if row.imported else {"note": ""}
    return cells


def export_csv_lines(
    study: Study, blinded: bool, user: User | None = None, filters: Filters = NO_FILTERS
) -> Iterator[str]:
    """Log the export and yield the CSV file line by line, header first. The text is safe to open in a spreadsheet."""
    cells = iter_rating_cells(study, blinded, filters)
    # Log before the first line is sent: a client that disconnects early has still received data.
    # The seal is checked in the line above, so a refused export is not logged.
    lifecycle.log_event(study, TableExported(blinded=blinded, filters=filters.to_dict()), user)
    return format_table_lines(COLUMNS, ([row[name] for name in COLUMNS] for row in cells))


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


@cache
def _get_column_reader(row_class: type[BlindRow]) -> tuple[tuple[str, ...], Callable[[BlindRow], tuple[Any, ...]]]:
    """Return the columns that rows of this class have, and a function that reads all of them at once."""
    # One attrgetter reads a row much faster than a getattr per column.
    column_names = tuple(name for name in COLUMNS if hasattr(row_class, name))
    return column_names, attrgetter(*column_names)


def _format_value(value: Any) -> object:
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
