"""Ratings and marks as strips of cells: each cell shows its number and has a stronger tint for larger values."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ratings.blinding.item_diff import DiffLine
from ratings.results import RatingRow

TINT_STEPS = 5


class StripCell(NamedTuple):
    """One rating. `side` is "yes", "no" or "none" (cannot judge), `text` is displayed, `full_text` explains it."""

    side: str
    strength: int
    text: str
    full_text: str


class HeatCell(NamedTuple):
    """One row of the item and how many raters marked it. `strength` is 0 to 5."""

    label: str
    ticked: int
    strength: int
    planted: bool


def build_strip(ratings: Iterable[RatingRow], answers: tuple[str, str]) -> list[StripCell]:
    """Return the ratings that count, from the most certain yes to the most certain no, then those without a verdict."""
    counting = sorted((row for row in ratings if row.counts), key=_sort_key)
    return [_make_cell(row, answers) for row in counting]


def build_heat(lines: Sequence[DiffLine], could: int) -> list[HeatCell]:
    """Return every row of an item in order, tinted by the share of the `could` raters who marked it."""
    return [
        # Never above the scale, even if there are more marks than raters who could mark.
        # Rounded up, so that a single mark is visible.
        HeatCell(_label_line(line), line.ticked, -(-TINT_STEPS * min(line.ticked, could) // could), line.planted)
        for line in lines
    ]


def _sort_key(row: RatingRow) -> tuple[bool, int, int]:
    signed = (row.confidence or 0) * (1 if row.verdict else -1)
    # Certain yes first, certain no last; the rater's number makes the order the same each time.
    return row.verdict is None, -signed, row.number


def _make_cell(row: RatingRow, answers: tuple[str, str]) -> StripCell:
    if row.verdict is None:
        return StripCell("none", 0, "?", f"{row.rater}: cannot judge")
    full_text = f"{row.rater}: {answers[0 if row.verdict else 1].lower()}, confidence {row.confidence}"
    sign = "+" if row.verdict else "\N{MINUS SIGN}"
    return StripCell("yes" if row.verdict else "no", row.confidence or 0, f"{sign}{row.confidence}", full_text)


def _label_line(line: DiffLine) -> str:
    return f"{line.material}, {line.label}" if line.material else line.label
