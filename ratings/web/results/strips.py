"""Ratings and ticks as strips: cells that say their number, and are the stronger tinted the more there is of it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ratings.blinding.comparing import Line
from ratings.results import RatingRow

STEPS = 5


class Cell(NamedTuple):
    """One rating. `side` is "yes", "no" or "none" (cannot judge), `text` what stands in the cell, `said` all of it."""

    side: str
    strength: int
    text: str
    said: str


class Heat(NamedTuple):
    """One row of the item, ticked by so many raters. `strength` is 0 to 5."""

    said: str
    ticked: int
    strength: int
    planted: bool


def strip(given: Iterable[RatingRow], answers: tuple[str, str]) -> list[Cell]:
    """The ratings that count, from the most certain yes to the most certain no; who could not judge comes last."""
    counting = sorted((row for row in given if row.counts), key=_order)
    return [_cell(row, answers) for row in counting]


def heat(lines: Sequence[Line], could: int) -> list[Heat]:
    """Every row of an item in order, with the share of those who could tick it that did."""
    return [
        Heat(_named(line), line.ticked, -(-STEPS * min(line.ticked, could) // could), line.planted) for line in lines
    ]


def _order(row: RatingRow) -> tuple[bool, int, int]:
    signed = (row.confidence or 0) * (1 if row.verdict else -1)
    return row.verdict is None, -signed, row.number


def _cell(row: RatingRow, answers: tuple[str, str]) -> Cell:
    if row.verdict is None:
        return Cell("none", 0, "?", f"{row.rater}: cannot judge")
    said = f"{row.rater}: {answers[0 if row.verdict else 1].lower()}, confidence {row.confidence}"
    sign = "+" if row.verdict else "\N{MINUS SIGN}"
    return Cell("yes" if row.verdict else "no", row.confidence or 0, f"{sign}{row.confidence}", said)


def _named(line: Line) -> str:
    return f"{line.where}, {line.label}" if line.where else line.label
