"""Layout of a forest's rows: names, marks and numbers side by side, or names above the plot if the size stacks."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ratings.results.figures.palette import INK, MUTED, TONES
from ratings.results.figures.theme import Profile
from ratings.results.figures.wording import lines, widest, width


class Row(NamedTuple):
    """One name. `said` is beside it, `title` describes its mark; `low` to `high` is the interval.

    `outer` is a second, wider interval (thin, with caps); `published` is a published value (a diamond).
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    said: str
    title: str
    tone: str = "blue"
    outer: tuple[float, float] | None = None
    published: float | None = None


class Section(NamedTuple):
    """Rows under a heading; "" for none."""

    heading: str
    rows: Sequence[Row]


class Placed(NamedTuple):
    """Marks and texts in pixels from the plot's upper left corner, and the total height. `spans`: top and bottom of each
    section's rows, without its heading.
    """

    marks: list[dict[str, Any]]
    texts: list[dict[str, Any]]
    height: float
    spans: list[tuple[float, float]]


def columns(rows: Sequence[Row], profile: Profile) -> tuple[float, float]:
    """Return the pixels left of the plot for names, and right of it for numbers."""
    if profile.stacked:
        return 2.0, 6.0
    gap = profile.size * 0.9
    # At most 36 % for names and 30 % for numbers, so that a third of the width remains for the plot.
    left = min(widest([row.label for row in rows], profile.size), profile.width * 0.36) + gap
    right = min(widest([row.said for row in rows], profile.size), profile.width * 0.3) + gap
    return left, right


def place(sections: Sequence[Section], left: float, right: float, profile: Profile, bars: bool) -> Placed:
    """Lay out all rows below each other with their headings; `left` and `right` are the widths beside the plot."""
    placer = _Placer(left, right, profile, bars, [], [])
    top, spans = 0.0, []
    for section in sections:
        top += placer.heading(section.heading, top) if section.heading else 0.0
        first = top
        for row in section.rows:
            top += placer.stacked(row, top) if profile.stacked else placer.beside(row, top)
        spans.append((first, top))
    return Placed(placer.marks, placer.texts, top, spans)


class _Placer(NamedTuple):
    left: float
    right: float
    profile: Profile
    bars: bool
    marks: list[dict[str, Any]]
    texts: list[dict[str, Any]]

    def heading(self, said: str, top: float) -> float:
        """Add a heading and return its height, like the next two methods."""
        size = self.profile.size
        height = size * 0.6 if top else 0.0
        for line in lines(said, self.profile.width - 4, size):
            self.texts.append(text(line, -self.left, top + height + size * 0.8, INK.light, bold=True))
            height += size * 1.35
        return height

    def beside(self, row: Row, top: float) -> float:
        """Add name, plot and number in one line."""
        size = self.profile.size
        gap, pitch, plot = size * 0.9, size * 1.2, self.profile.width - self.left - self.right
        label = lines(row.label, self.left - gap + 1, size)
        value_lines = lines(row.said, self.right - gap + 1, size)
        height = max(self.profile.row, pitch * max(len(label), len(value_lines)) + size * 0.4)
        middle = top + height / 2
        # Names right-aligned beside the plot, numbers left-aligned on its other side.
        for part, x, align in ((label, -gap, "right"), (value_lines, plot + gap * 0.8, "left")):
            for place, line in enumerate(part):
                y = middle + (place - (len(part) - 1) / 2) * pitch
                # An undefined value is printed muted, so that it is not taken for a number.
                colour = MUTED.light if align == "left" and row.value is None else INK.light
                self.texts.append(text(line, x, y, colour, align=align))
        self.marks.append(_mark(row, middle))
        return height

    def stacked(self, row: Row, top: float) -> float:
        """Add name and number above the plot, below each other if they do not fit side by side."""
        size, room = self.profile.size, self.profile.width - 4.0
        pitch = size * 1.25
        one_line = width(row.label, size) + width(row.said, size) + size < room
        value_lines = [row.said] if one_line else lines(row.said, room, size)
        y = top + size * 0.8
        for line in lines(row.label, room, size):
            self.texts.append(text(line, -self.left, y, INK.light))
            y += pitch
        # With both in one line, the number continues on the line of the name.
        y -= pitch if one_line else 0.0
        x, align = (room - self.left, "right") if one_line else (-self.left, "left")
        for line in value_lines:
            colour = MUTED.light if row.value is None or not one_line else INK.light
            self.texts.append(text(line, x, y, colour, align=align))
            y += pitch
        middle = y + size * 0.2
        self.marks.append(_mark(row, middle))
        return middle + size * (1.1 if self.bars else 0.7) - top


def _mark(row: Row, middle: float) -> dict[str, Any]:
    tone, outer = TONES[row.tone], row.outer or (None, None)
    return {
        **{"y": round(middle, 2), "value": row.value, "low": row.low, "high": row.high, "title": row.title},
        **{"outer_low": outer[0], "outer_high": outer[1], "published": row.published},
        **{"solid": tone.solid, "tint": tone.tint},
    }


def text(line: str, x: float, y: float, colour: str, *, align: str = "left", bold: bool = False) -> dict[str, Any]:
    return {"text": line, "x": round(x, 2), "y": round(y, 2), "colour": colour, "align": align, "bold": bold}
