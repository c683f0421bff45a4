"""Ratings and marks as strips of cells: each cell shows its number and has a stronger tint for larger values."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ratings.blinding.comparing import Line
from ratings.results import RatingRow

STEPS = 5


class Cell(NamedTuple):
    """One rating. `side` is "yes", "no" or "none" (cannot judge), `text` is displayed, `said` is the full text."""

    side: str
    strength: int
    text: str
    said: str


class Heat(NamedTuple):
    """One row of the item and how many raters marked it. `strength` is 0 to 5."""

    said: str
    ticked: int
    strength: int
    planted: bool


def strip(given: Iterable[RatingRow], answers: tuple[str, str]) -> list[Cell]:
    """Return the ratings that count, from the most certain yes to the most certain no, then those without a verdict."""
    counting = sorted((row for row in given if row.counts), key=_order)
    return [_cell(row, answers) for row in counting]


def heat(lines: Sequence[Line], could: int) -> list[Heat]:
    """Return every row of an item in order, tinted by the share of raters who marked it."""
    return [
        # Never above the scale, even if more rows are marked than could be.
        # Rounded up, so that a single mark is visible.
        Heat(_named(line), line.ticked, -(-STEPS * min(line.ticked, could) // could), line.planted)
        for line in lines
    ]


def _order(row: RatingRow) -> tuple[bool, int, int]:
    signed = (row.confidence or 0) * (1 if row.verdict else -1)
    # Certain yes first, certain no last; the rater's number makes the order the same each time.
    return row.verdict is None, -signed, row.number


def _cell(row: RatingRow, answers: tuple[str, str]) -> Cell:
    if row.verdict is None:
        return Cell("none", 0, "?", f"{row.rater}: cannot judge")
    full_text = f"{row.rater}: {answers[0 if row.verdict else 1].lower()}, confidence {row.confidence}"
    sign = "+" if row.verdict else "\N{MINUS SIGN}"
    return Cell("yes" if row.verdict else "no", row.confidence or 0, f"{sign}{row.confidence}", full_text)


def _named(line: Line) -> str:
    return f"{line.where}, {line.label}" if line.where else line.label
