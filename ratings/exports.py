"""Ratings as CSV: the same rows the study's page is computed from, streamed."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User

from ratings import studies
from ratings.analyses.filters import Filters
from ratings.codebook import MEANINGS
from ratings.models import Study
from ratings.rows import BlindRow, blind_rows, rating_rows
from ratings.stats.cells import plain

COLUMNS = tuple(MEANINGS)
SEALED = ("pair", "source", "perturbation", "truth", "experiment", "action", "localised")

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
    return ({**_cells(study, row), **(_withheld(row.imported) if blinded else {})} for row in found)


def csv_lines(study: Study, blinded: bool, by: User | None = None, filters: Filters = ALL) -> Iterator[str]:
    """The file line by line, header first, safe to open in a spreadsheet. The export is logged before the first line."""
    cells = rows(study, blinded, filters)
    studies.log(study, "exported", by, f"{'blinded' if blinded else 'with sources'}. {filters.said}".rstrip(". ")[:300])
    return _lines(cells)


class _Echo:
    """A file for csv.writer that hands back what is written to it."""

    def write(self, line: str) -> str:
        return line


def table_lines(columns: Sequence[str], cells: Iterable[Iterable[Any]], *, exact: bool = False) -> Iterator[str]:
    """Any table line by line, header first, in the same writing: text made safe, truths as 1 and 0.

    Numbers have three decimals, or with `exact` as many as give the same number again.
    """
    writer = csv.writer(_Echo())
    yield writer.writerow(columns)
    for row in cells:
        told = (cell if exact and isinstance(cell, float) else _cell(cell) for cell in row)
        yield writer.writerow([plain(cell) if isinstance(cell, str) else cell for cell in told])


def _lines(cells: Iterable[Cells]) -> Iterator[str]:
    return table_lines(COLUMNS, ([row[name] for name in COLUMNS] for row in cells))


def _cells(study: Study, row: BlindRow) -> Cells:
    plain_ones = {name: _cell(getattr(row, name, "")) for name in COLUMNS if name != "study"}
    elsewhere = dict.fromkeys(_UNKNOWN_ELSEWHERE, "") if row.imported else {}
    seconds = "" if row.imported and not row.seconds else f"{row.seconds:.3f}"
    return {"study": study.slug, **plain_ones, **elsewhere, "seconds": seconds}


def _withheld(imported: bool) -> Cells:
    return {"note": "", "item": ""} if imported else {"note": ""}


# How ratings that were collected elsewhere were shown and taken is not known.
_UNKNOWN_ELSEWHERE = ("layout", "layout_shown", "context", "marks", "changes", "guide_version")


def _cell(value: Any) -> object:
    """A value as a cell holds it: truths as 1 and 0, unknown as nothing, a list in JSON."""
    match value:
        case None:
            return ""
        case bool():
            return int(value)
        case float():
            return f"{value:.3f}"
        case datetime():
            return value.isoformat()
        case list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return value
