"""Ratings as CSV: the same rows the study's page is computed from, streamed."""

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
    """One row per rating under COLUMNS; truths are 1 and 0. SealedError unless blinded or the study is unblinded.

    Blinded ones have no note, and of imported ratings no item: who imported them by a name of their own could tell
    its code by either.

    Those that count nowhere are there too: `counts` is 1 where the reports have it, `cannot_judge` 1 where no rate does.
    Sealed columns can filter only what is unblinded.
    """
    found: Iterable[BlindRow] = filters.kept(blind_rows(study) if blinded else rating_rows(study))
    return (told(study, row, blinded) for row in found)


def told(study: Study, row: BlindRow, blinded: bool) -> Cells:
    """One rating under COLUMNS."""
    return {**_cells(study, row), **(_withheld(row.imported) if blinded else {})}


def csv_lines(study: Study, blinded: bool, by: User | None = None, filters: Filters = ALL) -> Iterator[str]:
    """The file line by line, header first, safe to open in a spreadsheet. The export is logged before the first line."""
    cells = rows(study, blinded, filters)
    lifecycle.log(study, TableExported(blinded=blinded, filters=filters.to_json()), by)
    return _lines(cells)


class _Echo:
    """A file for csv.writer that hands back what is written to it."""

    def write(self, line: str) -> str:
        return line


def table_lines(columns: Sequence[str], cells: Iterable[Iterable[Any]], *, exact: bool = False) -> Iterator[str]:
    """Any table line by line, header first: every cell quoted, text made safe, truths as 1 and 0.

    Numbers have three decimals, or with `exact` as many as give the same number again; none is taken for a formula.
    """
    writer = csv.writer(_Echo(), quoting=csv.QUOTE_ALL)
    yield writer.writerow(map(plain, columns))
    for row in cells:
        yield writer.writerow([
            (plain(cell) if cell else "") if (kind := type(cell)) is str else cell if kind is int else _said(cell, exact)
            for cell in row
        ])  # fmt: skip


def for_spreadsheets(lines: Iterable[str]) -> Iterator[str]:
    """The lines behind the mark by which spreadsheets know UTF-8, for files that pages hand out."""
    yield "\ufeff"
    yield from lines


def _said(value: Any, exact: bool) -> object:
    if isinstance(value, int | float | None):
        return value if exact and isinstance(value, float) else _cell(value)
    return plain(str(_cell(value)))  # text of a class of its own too, as choices of a field are


def _lines(cells: Iterable[Cells]) -> Iterator[str]:
    return table_lines(COLUMNS, ([row[name] for name in COLUMNS] for row in cells))


def _cells(study: Study, row: BlindRow) -> Cells:
    cells: dict[str, object] = {**dict.fromkeys(COLUMNS, ""), "study": study.slug}
    known, read = _reading(type(row))  # type: ignore[arg-type]  # mypy takes a class for one of its rows
    for name, value in zip(known, read(row), strict=True):
        tell = _TOLD.get(type(value))
        cells[name] = tell(value) if tell else value
    if row.imported:
        cells |= dict.fromkeys(_UNKNOWN_ELSEWHERE, "")
    if isinstance(row, RatingRow):
        cells["perturbation"] = _cell(show_perturbation(row.perturbation, row.reference))
    cells["seconds"] = "" if row.imported and not row.seconds else f"{row.seconds:.3f}"
    return cells


@cache
def _reading(kind: type[BlindRow]) -> tuple[tuple[str, ...], Callable[[BlindRow], tuple[Any, ...]]]:
    """The columns that rows of this kind have, and how all of them are read at once."""
    known = tuple(name for name in COLUMNS if hasattr(kind, name))
    return known, attrgetter(*known)


def _withheld(imported: bool) -> Cells:
    return {"note": "", "item": ""} if imported else {"note": ""}


# How ratings that were collected elsewhere were shown and taken is not known.
_UNKNOWN_ELSEWHERE = ("layout", "layout_shown", "context", "marks", "changes", "guide_version")


def _cell(value: Any) -> object:
    """A value as a cell holds it: truths as 1 and 0, unknown as nothing, a list in JSON."""
    tell = _TOLD.get(type(value))
    return tell(value) if tell else value


_TOLD: Mapping[type, Callable[[Any], object]] = {
    type(None): lambda _: "",
    bool: int,
    float: "{:.3f}".format,
    datetime: datetime.isoformat,
    list: lambda value: json.dumps(value, ensure_ascii=False) if value else "[]",
}
