"""Lay out the rows of a forest plot: names, marks and numbers side by side, or names above marks in stacked sizes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ratings.results.figures.palette import INK, MUTED, TONES
from ratings.results.figures.text_metrics import text_width, widest_text, wrap_text
from ratings.results.figures.theme import FigureSize


class ForestRow(NamedTuple):
    """One row of a forest plot. `value_text` is printed beside the mark, and `title` describes the mark.

    `low` to `high` is the interval, `outer` a second, wider interval (thin, with caps), `published` a published value (diamond).
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    value_text: str
    title: str
    tone: str = "blue"
    outer: tuple[float, float] | None = None
    published: float | None = None


class ForestSection(NamedTuple):
    """Rows under a heading; "" for none."""

    heading: str
    rows: Sequence[ForestRow]


class ForestLayout(NamedTuple):
    """Marks and texts in pixels from the plot's upper left corner, and the total height. `spans`: top and bottom of each
    section's rows, without its heading.
    """

    marks: list[dict[str, Any]]
    texts: list[dict[str, Any]]
    height: float
    spans: list[tuple[float, float]]


def compute_columns(rows: Sequence[ForestRow], profile: FigureSize) -> tuple[float, float]:
    """Return the widths, in pixels, of the columns for names (left of the plot) and for numbers (right of it)."""
    if profile.stacked:
        return 2.0, 6.0
    gap = profile.size * 0.9
    # At most 36% for names and 30% for numbers, so that a third of the width remains for the plot.
    left = min(widest_text([row.label for row in rows], profile.size), profile.width * 0.36) + gap
    right = min(widest_text([row.value_text for row in rows], profile.size), profile.width * 0.3) + gap
    return left, right


def layout_rows(
    sections: Sequence[ForestSection], left: float, right: float, profile: FigureSize, bars: bool
) -> ForestLayout:
    """Lay out all rows below each other with their headings; `left` and `right` are the widths beside the plot."""
    placer = _LayoutBuilder(left, right, profile, bars, [], [])
    top, spans = 0.0, []
    for section in sections:
        top += placer.add_heading(section.heading, top) if section.heading else 0.0
        first = top
        for row in section.rows:
            top += placer.add_stacked_row(row, top) if profile.stacked else placer.add_row(row, top)
        spans.append((first, top))
    return ForestLayout(placer.marks, placer.texts, top, spans)


class _LayoutBuilder(NamedTuple):
    left: float
    right: float
    profile: FigureSize
    bars: bool
    marks: list[dict[str, Any]]
    texts: list[dict[str, Any]]

    def add_heading(self, text: str, top: float) -> float:
        """Add a heading and return its height."""
        size = self.profile.size
        height = size * 0.6 if top else 0.0
        for line in wrap_text(text, self.profile.width - 4, size):
            self.texts.append(make_text(line, -self.left, top + height + size * 0.8, INK.light, bold=True))
            height += size * 1.35
        return height

    def add_row(self, row: ForestRow, top: float) -> float:
        """Add a row with its name, plot and number in one line, and return its height."""
        size = self.profile.size
        gap, pitch, plot = size * 0.9, size * 1.2, self.profile.width - self.left - self.right
        label = wrap_text(row.label, self.left - gap + 1, size)
        value_lines = wrap_text(row.value_text, self.right - gap + 1, size)
        height = max(self.profile.row, pitch * max(len(label), len(value_lines)) + size * 0.4)
        middle = top + height / 2
        # Names right-aligned beside the plot, numbers left-aligned on its other side.
        for part, x, align in ((label, -gap, "right"), (value_lines, plot + gap * 0.8, "left")):
            for place, line in enumerate(part):
                y = middle + (place - (len(part) - 1) / 2) * pitch
                # An undefined value is printed muted, so that it is not taken for a number.
                colour = MUTED.light if align == "left" and row.value is None else INK.light
                self.texts.append(make_text(line, x, y, colour, align=align))
        self.marks.append(_make_mark(row, middle))
        return height

    def add_stacked_row(self, row: ForestRow, top: float) -> float:
        """Add a row with its name and number above the plot, in two lines if they do not fit in one.

        Return its height.
        """
        size, room = self.profile.size, self.profile.width - 4.0
        pitch = size * 1.25
        one_line = text_width(row.label, size) + text_width(row.value_text, size) + size < room
        value_lines = [row.value_text] if one_line else wrap_text(row.value_text, room, size)
        y = top + size * 0.8
        for line in wrap_text(row.label, room, size):
            self.texts.append(make_text(line, -self.left, y, INK.light))
            y += pitch
        # With both in one line, the number continues on the line of the name.
        y -= pitch if one_line else 0.0
        x, align = (room - self.left, "right") if one_line else (-self.left, "left")
        for line in value_lines:
            colour = MUTED.light if row.value is None or not one_line else INK.light
            self.texts.append(make_text(line, x, y, colour, align=align))
            y += pitch
        middle = y + size * 0.2
        self.marks.append(_make_mark(row, middle))
        return middle + size * (1.1 if self.bars else 0.7) - top


def _make_mark(row: ForestRow, middle: float) -> dict[str, Any]:
    tone, outer = TONES[row.tone], row.outer or (None, None)
    return {
        **{"y": round(middle, 2), "value": row.value, "low": row.low, "high": row.high, "title": row.title},
        **{"outer_low": outer[0], "outer_high": outer[1], "published": row.published},
        **{"solid": tone.solid, "tint": tone.tint},
    }


def make_text(line: str, x: float, y: float, colour: str, *, align: str = "left", bold: bool = False) -> dict[str, Any]:
    return {"text": line, "x": round(x, 2), "y": round(y, 2), "colour": colour, "align": align, "bold": bold}
