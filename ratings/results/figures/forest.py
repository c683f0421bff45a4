"""The layout of most figures: one row per name with its bar or point, its interval, and its number as text."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import altair as alt

from ratings.results.figures.tables import text_width, widest_text, wrap_text
from ratings.results.figures.tables import wrap_text as wrap
from ratings.results.figures.theme import (
    AXIS,
    INK,
    MUTED,
    PAPER,
    TONES,
    AnyChart,
    FigureSize,
    layer_charts,
    make_data,
    make_frame,
)


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


# With more rows a figure is not readable; the table has every row.
MAX_ROWS = 60
# From this number on, rows are closer together.
DENSE_ROWS = 16


class AxisScale(NamedTuple):
    """The horizontal axis: its title, ends, labelled values, and their d3 format."""

    title: str
    low: float
    high: float
    ticks: Sequence[float]
    format: str


SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def make_share_scale(title: str) -> AxisScale:
    return AxisScale(title, 0.0, 1.0, SHARES, ".0%")


def make_scale(
    title: str, rows: Sequence[ForestRow], floor: float = 0.0, ceiling: float = 1.0, unit: str = ""
) -> AxisScale:
    """Return a scale with round ticks that includes `floor`, `ceiling` and all values and intervals of the rows.

    `unit` is written before each number.
    """
    ends = [
        end
        for row in rows
        for end in (row.value, row.low, row.high, row.published, *(row.outer or ()))
        if end is not None
    ]
    low, high = min([floor, *ends]), max([ceiling, *ends])
    step, decimals = round_step((high - low) / 5)
    # Small tolerances: 0.3 / 0.1 is slightly less than 3 in floating point, which would add a step.
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(place * step, decimals) for place in range(first, last + 1)]
    return AxisScale(title, ticks[0], ticks[-1], ticks, f"{unit},.{decimals}f")


def round_step(about: float) -> tuple[float, int]:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least `about`, and its number of decimals."""
    power = math.floor(math.log10(about))
    factor = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**power >= about * (1 - 1e-9))
    return factor * 10.0**power, max(0, -power - (factor == 10))


def draw_forest(
    sections: Sequence[ForestSection],
    scale: AxisScale,
    profile: FigureSize,
    *,
    bars: bool = False,
    beside: Sequence[ForestRow] = (),
    undefined: int = 0,
    more: str = "",
) -> alt.LayerChart:
    """Draw the rows of all sections in order, at most MAX_ROWS; the number of omitted rows is stated below.

    `beside`: rows of other plots of the figure, so that all have the same columns. `undefined`: the number of rows
    without a value, also stated below. `more`: further text there.
    """
    shown_sections = _limit_rows(sections)
    rows = [row for section in shown_sections for row in section.rows]
    if len(rows) > DENSE_ROWS:
        # 0.74: still more than a line of text.
        profile = replace(profile, row=profile.row * 0.74)
    left, right = compute_columns([*rows, *beside], profile)
    placed = layout_rows(shown_sections, left, right, profile, bars)
    left_out = sum(len(section.rows) for section in sections) - len(rows)
    texts = list(placed.texts)
    # Undefined rows are announced as well, so that nothing seems to be missing without reason.
    if note := " ".join(filter(None, [more, _describe_omitted(left_out, undefined)])):
        for at, line in enumerate(wrap(note, profile.width - 4, profile.size, most=4)):
            texts.append(make_text(line, -left, placed.height + profile.size * (4 + 1.3 * at), MUTED.light))
    layers = [
        make_frame(-left, profile.width - left),
        *_draw_marks(placed, scale, profile, bars),
        _draw_backing(texts, profile),
        *_draw_texts(texts, profile),
    ]
    return layer_charts(*layers, width=profile.width - left - right, height=placed.height)


def _describe_omitted(rows: int, undefined: int) -> str:
    """Return a note on the numbers of rows that are in the table but not in the figure."""
    omitted = f"{rows} more {'row is' if rows == 1 else 'rows are'} in the table." if rows else ""
    undefined_text = (
        f"{undefined} undefined {'one is' if undefined == 1 else 'ones are'} in the table, with the reason."
    )
    return " ".join(said for said in (omitted, undefined_text if undefined else "") if said)


def stack_forests(
    plots: Sequence[tuple[Sequence[ForestSection], AxisScale]], profile: FigureSize, *, bars: bool = False
) -> AnyChart:
    """Draw forests one below the other with the same columns, each with its own scale."""
    rows = [row for sections, _ in plots for section in sections for row in section.rows]
    charts = [draw_forest(sections, scale, profile, bars=bars, beside=rows) for sections, scale in plots]
    # Less distance without an axis title.
    return alt.vconcat(*charts, spacing=profile.size * (4.5 if plots[0][1].title else 3.2), bounds="flush")


def share_rows(sizes: Sequence[int], room: int = MAX_ROWS) -> list[int]:
    """Return the number of rows to draw per section: all of a small section, and the same number for all larger
    ones.
    """
    n_rows = [0] * len(sizes)
    n_open = len(sizes)
    # The smallest sections first: what they do not need is distributed among the larger ones.
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at]):
        n_rows[at] = min(sizes[at], (room - sum(n_rows)) // n_open)
        n_open -= 1
    return n_rows


def _limit_rows(sections: Sequence[ForestSection]) -> list[ForestSection]:
    room, limited = MAX_ROWS, []
    for section in sections:
        if rows := section.rows[:room]:
            limited.append(ForestSection(section.heading, rows))
            room -= len(rows)
    return limited


class _MarkDrawer(NamedTuple):
    """Draw the marks of rows that share a scale and an axis."""

    marks: Sequence[dict[str, Any]]
    scale: AxisScale
    profile: FigureSize

    def x_channel(self, field: str = "", datum: float = 0.0) -> alt.X:
        """Return the horizontal channel for a field of the marks, or for the constant `datum` if `field` is ""."""
        ticks, stacked = list(self.scale.ticks), self.profile.stacked
        axis = alt.Axis(
            # Every tick is labelled, as the numbers are few.
            values=ticks,
            format=self.scale.format,
            domain=False,
            grid=True,
            labelFlush=stacked,
            labelOverlap=False,
        )
        scale = alt.Scale(domain=[self.scale.low, self.scale.high], nice=False, zero=False)
        title = self.scale.title or None
        if not field:
            return alt.X(datum=datum, scale=scale, axis=axis, title=title)
        return alt.X(f"{field}:Q", scale=scale, axis=axis, title=title)

    def chart_of(self, field: str) -> alt.Chart:
        """Return a chart of the marks in which the field is defined, at their vertical positions."""
        # A mark without a value would be drawn at zero.
        defined = [mark for mark in self.marks if mark[field] is not None]
        return alt.Chart(make_data(defined)).encode(y=alt.Y("y:Q", axis=None, scale=None))


def _draw_marks(placed: ForestLayout, scale: AxisScale, profile: FigureSize, bars: bool) -> list[alt.Chart]:
    """Draw, from back to front, the baseline of bars (interrupted at headings), bars, intervals, values and
    published values.
    """
    drawer = _MarkDrawer(placed.marks, scale, profile)
    # Bars start at zero, or at the end of the scale that is nearest to it.
    start = min(max(0.0, scale.low), scale.high)
    spans = make_data([{"top": round(top, 2), "bottom": round(bottom, 2)} for top, bottom in placed.spans])
    base = alt.Chart(spans).mark_rule(color=AXIS.light, strokeWidth=profile.stroke * 0.75, aria=False)
    y = alt.Y("top:Q", axis=None, scale=None)
    layers = [base.encode(x=drawer.x_channel(datum=start), y=y, y2="bottom:Q")]
    if bars:
        bar = drawer.chart_of("value").mark_bar(
            size=min(profile.size * 1.35, profile.row * 0.66), strokeWidth=profile.stroke * 0.75
        )
        # Colours are data here: the scale is None, so that Vega-Lite draws them as they are.
        fill, edge = alt.Fill("tint:N", scale=None), alt.Stroke("solid:N", scale=None)
        layers.append(
            bar.encode(x=drawer.x_channel("value"), x2=alt.datum(start), fill=fill, stroke=edge, description="title:N")
        )
    return [*layers, *_draw_intervals(drawer), *_draw_points(drawer, bars)]


def _draw_intervals(drawer: _MarkDrawer) -> list[alt.Chart]:
    thin, thick = drawer.profile.stroke * 0.75, drawer.profile.stroke * 1.3
    wide = drawer.chart_of("outer_low").mark_rule(color=INK.light, strokeWidth=thin, aria=False)
    cap = drawer.chart_of("outer_low").mark_tick(
        orient="vertical", size=drawer.profile.size * 0.7, thickness=thin, color=INK.light, opacity=1, aria=False
    )
    inner = drawer.chart_of("low").mark_rule(color=INK.light, strokeWidth=thick, aria=False)
    return [
        wide.encode(x=drawer.x_channel("outer_low"), x2="outer_high:Q"),
        *(cap.encode(x=drawer.x_channel(field)) for field in ("outer_low", "outer_high")),
        inner.encode(x=drawer.x_channel("low"), x2="high:Q"),
    ]


def _draw_points(drawer: _MarkDrawer, bars: bool) -> list[alt.Chart]:
    size = drawer.profile.point
    dot = drawer.chart_of("value").mark_point(filled=True, size=size, opacity=1, strokeWidth=0)
    colour = alt.value(INK.light) if bars else alt.Fill("solid:N", scale=None)
    diamond = drawer.chart_of("published").mark_point(shape="diamond", size=size * 1.9, opacity=1, aria=False)
    edge = alt.value(drawer.profile.stroke * 0.9)
    return [
        dot.encode(x=drawer.x_channel("value"), fill=colour, description="title:N"),
        diamond.encode(
            x=drawer.x_channel("published"), fill=alt.value(PAPER.light), stroke=alt.value(INK.light), strokeWidth=edge
        ),
    ]


def _draw_backing(texts: Sequence[dict[str, Any]], profile: FigureSize) -> alt.Chart:
    """Draw a background behind headings, and behind names and numbers over the plot, so that no line crosses them."""
    boxes = []
    for one in texts:
        if one["bold"] or profile.stacked:
            # The estimate is for wide fonts; a smaller background leaves more of the plot visible.
            room = text_width(one["text"], profile.size) * 0.9
            start = one["x"] - room if one["align"] == "right" else one["x"]
            half = profile.size * 0.6
            boxes.append({"x": start, "x2": start + room, "y": one["y"] - half, "y2": one["y"] + half})
    mark = alt.Chart(make_data(boxes)).mark_rect(fill=PAPER.light, aria=False)
    drawn: alt.Chart = mark.encode(
        x=alt.X("x:Q", scale=None, axis=None), x2="x2:Q", y=alt.Y("y:Q", scale=None, axis=None), y2="y2:Q"
    )
    return drawn


def _draw_texts(texts: Sequence[dict[str, Any]], profile: FigureSize) -> list[alt.Chart]:
    """Draw one layer of texts per alignment, because in Vega-Lite the alignment belongs to the mark, not to the
    data.
    """
    layers_ = []
    # Three layers, for the combinations that occur.
    kinds: tuple[tuple[Literal["left", "right"], bool], ...] = (("left", False), ("right", False), ("left", True))
    for align, bold in kinds:
        some = [text for text in texts if (text["align"], text["bold"]) == (align, bold)]
        if some:
            layers_.append(draw_text(some, profile, align=align, bold=bold))
    return layers_


def draw_text(
    texts: Sequence[dict[str, Any]],
    profile: FigureSize,
    *,
    align: Literal["left", "center", "right"] = "left",
    bold: bool = False,
    size: float | None = None,
) -> alt.Chart:
    """Draw text at pixels x, y from the plot's upper left corner, in its colour."""
    mark = alt.Chart(make_data(texts)).mark_text(
        align=align,
        baseline="middle",
        fontSize=size or profile.size,
        fontWeight="bold" if bold else "normal",
        aria=False,  # text in a figure is repeated in the titles of marks, so screen readers skip it
    )
    placed: alt.Chart = mark.encode(
        x=alt.X("x:Q", scale=None, axis=None),
        y=alt.Y("y:Q", scale=None, axis=None),
        text="text:N",
        fill=alt.Fill("colour:N", scale=None),
    )
    return placed
