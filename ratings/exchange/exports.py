"""Ratings as streamed CSV, from the same rows that the study's results are computed from."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Case, F, Func, IntegerField, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, JSONArray
from django.db.models.lookups import Exact

from ratings.exchange.rating_tables import escape_cell
from ratings.models import Study
from ratings.models.study_events import TableExported
from ratings.protocol import reference
from ratings.results.analyses.filters import Filters
from ratings.results.rating_rows import ALL_RATINGS, is_localised, select_ratings
from ratings.studies import SealedError, lifecycle
from wetbench_site.database import read_snapshot


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
    Field("calculations", "count", "calculations made with the calculator of the rating page until the first submission; 0: opened but not used; empty: not opened, not offered by the study (display.calculator), or collected elsewhere"),
)  # fmt: skip
COLUMN_MEANINGS: Mapping[str, str] = {field.name: field.meaning for field in RATING_FIELDS}
COLUMNS = tuple(COLUMN_MEANINGS)
SEALED = tuple(name for name, meaning in COLUMN_MEANINGS.items() if meaning.endswith("(sealed)"))

Cells = Mapping[str, Any]
NO_FILTERS = Filters()
_BLOCK_ROWS = 1000  # rows that are formatted and sent together; larger blocks are no faster
_ASSIGNMENT, _SOURCE = "assignment__", "assignment__item__source__"
# The fields with the values of the columns that do not have the name of a field of Rating.
_FIELD_NAMES: Mapping[str, str] = {
    "item": f"{_ASSIGNMENT}item__code", "rater": f"{_ASSIGNMENT}rater__label", "simulated": f"{_ASSIGNMENT}rater__simulated",
    "context": f"{_ASSIGNMENT}with_context", "source": f"{_SOURCE}label",
    "first_verdict": f"{_ASSIGNMENT}initial_rating__verdict", "first_confidence": f"{_ASSIGNMENT}initial_rating__confidence",
    **{name: f"{_ASSIGNMENT}{name}" for name in ("position", "occasion", "session", "surplus", "layout", "marks")},
    **{name: f"{_SOURCE}{name}" for name in ("pair", "perturbation", "truth", "experiment", "action", "reference")},
}  # fmt: skip
# It is unknown how ratings that were collected elsewhere were displayed and entered. They have the defaults of the database in
# these columns; exporting the defaults would state how items were displayed, which was never recorded.
_UNKNOWN_IF_IMPORTED = ("layout", "layout_shown", "context", "marks", "changes", "guide_version")


class _CodeText(Func):
    """A UUID as text. SQLite stores only its digits."""

    template = "(%(expressions)s)::text"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Insert the dashes."""
        parts = (f"substr(%(expressions)s, {part})" for part in ("1, 8", "9, 4", "13, 4", "17, 4", "21"))
        return self.as_sql(compiler, connection, template=" || '-' || ".join(parts), **context)


class _MomentText(Func):
    """A moment in UTC in the form of `datetime.isoformat`: with six decimals, or none if all are zero."""

    template = "replace(to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), '.000000', '') || '+00:00'"
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Complete the stored text, which has a blank in place of the T and, if Django wrote it, no offset."""
        template = "replace(replace(%(expressions)s, '+00:00', ''), ' ', 'T') || '+00:00'"
        return self.as_sql(compiler, connection, template=template, **context)


class _JoinedCells(Func):
    """Neighbouring cells of a CSV line, with quotation marks and commas between them. Null is an empty cell."""

    function = "CONCAT"
    arg_joiner = ", '\",\"', "
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Use PRINTF, which treats null as CONCAT does on PostgreSQL."""
        cells = '","'.join(["%%%%s"] * len(self.get_source_expressions()))
        return self.as_sql(
            compiler, connection, template=f"PRINTF('{cells}', %(expressions)s)", arg_joiner=", ", **context
        )


def _build_expressions(study: Study, blinded: bool) -> dict[str, Any]:
    """Return what the database reads for each column: the argument of its function in _FORMATTERS, or else the cell itself."""
    by_kind: Mapping[str, Any] = {"flag": partial(Cast, output_field=IntegerField()), "moment": _MomentText}
    cells: dict[str, Any] = {
        name: by_kind.get(kind, F)(_FIELD_NAMES.get(name, name)) for name, kind, _ in RATING_FIELDS
    }
    cells |= {name: _CodeText(cells[name]) for name in ("item", "pair")}
    # An import without times stores 0 seconds, which means that the time is unknown.
    cells["seconds"] = Case(When(imported=True, seconds=0, then=None), default=cells["seconds"])
    is_counted = Q(assignment__occasion=1, assignment__released_at=None, assignment__surplus=False)
    cells["counts"] = Case(When(is_counted, then=1), default=0)
    is_stated = Q((f"{_SOURCE}reference__in", reference.STATED))
    cells["perturbation"] = Case(When(is_stated, then=cells["perturbation"]))
    cells["marked"], target = Cast("marks", TextField()), Cast(f"{_SOURCE}target", TextField())
    known = JSONArray("verdict", f"{_ASSIGNMENT}marks", cells["marked"], target)
    cells["localised"] = Case(When(~Q(Exact(target, Value("[]"))), then=Cast(known, TextField())))
    cells |= {name: Case(When(imported=False, then=cells[name])) for name in _UNKNOWN_IF_IMPORTED}
    empty = Cast(Value(""), TextField())
    if blinded:
        # People who import ratings write the notes and know their own items. A note, or an item code in the row of an
        # imported rating, would let them link codes to sources.
        cells["item"] = Case(When(imported=False, then=cells["item"]))
        cells |= dict.fromkeys((*SEALED, "note"), empty)
    return {**cells, "study": Cast(Value(study.slug), TextField())}


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _format_list(value: str) -> str:
    return value if value == "[]" else json.dumps(json.loads(value), ensure_ascii=False)


def _format_localised(known: str | None) -> str:
    if not known:  # a fast path: the target of most items is not known
        return ""
    verdict, marks, marked, target = json.loads(known)
    is_hit = is_localised(None if verdict is None else bool(verdict), marks, json.loads(marked), json.loads(target))
    return "" if is_hit is None else str(int(is_hit))


@lru_cache(maxsize=1000)
def _make_safe(text: str | None) -> str:
    """Return a text as it is between the quotation marks of a cell, safe to open in a spreadsheet."""
    # Cached because most texts are in many rows.
    return escape_cell(text).replace('"', '""') if text else ""


# Cells that the database does not format: numbers, because SQLite rounds ties up, lists, and texts that may need an apostrophe
# or contain quotation marks. All other texts are codes or have a fixed set of values.
_FORMATTERS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("seconds", "active_seconds", "first_verdict_seconds"), _format_number),
    "marked": _format_list,
    "localised": _format_localised,
}
FREE_TEXTS = ("source", "experiment", "action", "note")
# The functions that are applied to such a cell of the CSV file, one after another.
_CSV_FORMATTERS: Mapping[str, Sequence[Callable[[Any], str]]] = {
    **{name: (function,) for name, function in _FORMATTERS.items()},
    **dict.fromkeys(FREE_TEXTS, (_make_safe,)),
    "marked": (_format_list, _make_safe),
}


def iter_rating_cells(
    study: Study, blinded: bool, within: Q = ALL_RATINGS, limit: int | None = None
) -> Iterator[Cells]:
    """Yield the cells of one row per rating, by the column names in COLUMNS. Flags are 1 and 0, empty cells "".

    `within` is a condition, `limit` the largest number of rows. Raises SealedError unless the rows are blinded or the study is
    unblinded.

    Ratings that are not counted are included: `counts` is 1 if the results include the rating. `cannot_judge` is 1 if
    the rater gave no verdict; no rate includes such a rating.
    """
    expressions = _build_expressions(study, blinded)
    ratings = select_ratings(study, blinded=blinded).filter(within)
    rows = ratings.values_list(*expressions.values())[:limit].iterator(chunk_size=_BLOCK_ROWS)
    return (
        {
            name: _FORMATTERS[name](value) if name in _FORMATTERS else "" if value is None else value
            for name, value in zip(expressions, row, strict=True)
        }
        for row in rows
    )


def export_csv_lines(
    study: Study, blinded: bool, user: User | None = None, filters: Filters = NO_FILTERS
) -> Iterator[str]:
    """Log the export and yield the CSV file in blocks of lines, header first. The text is safe to open in a spreadsheet.

    Raises SealedError unless the file and its filters are blinded or the study is unblinded.
    """
    if blinded and filters.is_sealed:
        raise SealedError(f"{study.name} is {study.status}; its ratings cannot be filtered by their sources")
    lines = iter_rating_lines(study, blinded, filters.build_condition())
    # Log before the first line is sent: a client that disconnects early has still received data.
    # The seal is checked in the line above, so a refused export is not logged.
    lifecycle.log_event(study, TableExported(blinded=blinded, filters=filters.to_dict()), user)
    return lines


def iter_rating_lines(study: Study, blinded: bool, within: Q = ALL_RATINGS) -> Iterator[str]:
    """Yield ratings.csv in blocks of lines, header first. Raises SealedError unless blinded or the study is unblinded."""
    columns: list[tuple[Any, Sequence[Callable[[Any], str]]]] = []
    cells = _build_expressions(study, blinded).items()
    for is_joined, group in groupby(cells, lambda cell: cell[0] not in _CSV_FORMATTERS):
        if is_joined:
            # Reading neighbouring cells as one text takes much less time than reading each.
            columns.append((_JoinedCells(*dict(group).values()), ()))
        else:
            columns += [(expression, _CSV_FORMATTERS[name]) for name, expression in group]
    ratings = select_ratings(study, blinded=blinded).filter(within)
    rows = _read_rows(ratings.values_list(*(expression for expression, _ in columns)))
    return chain(format_table_lines(COLUMNS, ()), _iter_blocks(rows, [functions for _, functions in columns]))


def _read_rows(ratings: QuerySet[Any, tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows in constant memory. Run no other query before the last one: the connection is busy."""
    if connection.vendor != "postgresql":
        yield from ratings.iterator(chunk_size=_BLOCK_ROWS)
        return
    # PostgreSQL computes a cursor's rows in one process, and all of them before it sends the first. A streamed result is
    # computed in parallel, while rows that have arrived are formatted; this halves the time.
    with read_snapshot(), connection.cursor() as cursor:
        yield from cursor.stream(*ratings.query.sql_with_params(), size=_BLOCK_ROWS)


def _iter_blocks(rows: Iterator[tuple[Any, ...]], functions: Sequence[Sequence[Callable[[Any], str]]]) -> Iterator[str]:
    """Yield blocks of lines. `functions` are applied to each value of a column, one after another."""
    # A column of a block is formatted at once, because a loop over the cells of each line takes twice as long.
    while block := list(islice(rows, _BLOCK_ROWS)):
        columns: list[Iterable[str]] = list(zip(*block, strict=True))
        for index, column_functions in enumerate(functions):
            for function in column_functions:
                columns[index] = map(function, columns[index])
        lines = '"\r\n"'.join(map('","'.join, zip(*columns, strict=True)))
        yield f'"{lines}"\r\n'


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


def _format_value(value: Any) -> object:
    format_value = _FORMATTERS_BY_TYPE.get(type(value))
    return format_value(value) if format_value else value


_FORMATTERS_BY_TYPE: Mapping[type, Callable[[Any], object]] = {
    type(None): lambda _: "",
    # exact types, because bool is a subclass of int: a lookup by type does not confuse them
    bool: int,
    float: "{:.3f}".format,
    datetime: datetime.isoformat,
    list: lambda value: json.dumps(value, ensure_ascii=False) if value else "[]",
}
