"""Ratings as CSV: the same rows the study's page is computed from, streamed."""

import csv
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from django.contrib.auth.models import User

from ratings import reports, studies
from ratings.models import Study

COLUMNS = (
    "study", "item", "pair", "rater", "verdict", "confidence", "source", "perturbation", "truth", "experiment",
    "action", "opened_at", "submitted_at", "seconds", "position", "simulated",
)  # fmt: skip
SEALED = ("pair", "source", "perturbation", "truth", "experiment", "action")
NUMBERS = ("verdict", "confidence", "truth", "seconds", "position", "simulated")

Cells = Mapping[str, object]


def rows(study: Study, blinded: bool) -> Iterator[Cells]:
    """One row per rating under COLUMNS; truths are 1 and 0. SealedError unless blinded or the study is unblinded."""
    found: Iterable[reports.BlindRow | reports.RatingRow]
    found = reports.blind_rows(study) if blinded else reports.rating_rows(study)
    return (_cells(study, row) for row in found)


def csv_lines(study: Study, blinded: bool, by: User | None = None) -> Iterator[str]:
    """The file line by line, header first, safe to open in a spreadsheet. The export is logged before the first line."""
    cells = rows(study, blinded)
    studies.log(study, "exported", by, "blinded" if blinded else "with sources")
    return _lines(cells)


class _Echo:
    """A file for csv.writer that hands back what is written to it."""

    def write(self, line: str) -> str:
        return line


def _lines(cells: Iterable[Cells]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(COLUMNS)
    for row in cells:
        yield writer.writerow([row[name] if name in NUMBERS else plain(str(row[name])) for name in COLUMNS])


def plain(text: str) -> str:
    """The text with one apostrophe before it if a spreadsheet would take it for a formula."""
    return f"'{text}" if unicodedata.normalize("NFKC", text).lstrip(" ")[:1] in _RISKY else text


_RISKY = ("=", "+", "-", "@", "|", "\0", "\t", "\r", "\n", "'")


def _cells(study: Study, row: reports.BlindRow | reports.RatingRow) -> Cells:
    given = row._asdict()
    sealed = {name: given.get(name, "") for name in SEALED}
    return {
        "study": study.slug,
        "item": row.item,
        "rater": row.rater,
        "verdict": int(row.verdict),
        "confidence": row.confidence,
        **sealed,
        "truth": "" if sealed["truth"] in (None, "") else int(sealed["truth"]),
        "opened_at": row.opened_at.isoformat(),
        "submitted_at": row.submitted_at.isoformat(),
        "seconds": f"{row.seconds:.3f}",
        "position": row.position,
        "simulated": int(row.simulated),
    }
