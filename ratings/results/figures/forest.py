"""The layout of most figures: one row per name with its bar or point, its interval, and its number as text."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import altair as alt

from ratings.results.figures import theme
from ratings.results.figures.tables import text_width, wrap_text

# With more rows a figure is not readable; the table has every row.
MAX_ROWS = 60
# From this number on, rows are closer together.
DENSE_ROWS = 16


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


class AxisScale(NamedTuple):
    """The horizontal axis: its title, ends, labelled values, and their d3 format."""

    title: str
    low: float
    high: float
    ticks: Sequence[float]
    format: str


def make_share_scale(title: str) -> AxisScale:
    return AxisScale(title, 0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), ".0%")


def make_scale(
    title: str, rows: Sequence[ForestRow], floor: float = 0.0, ceiling: float = 1.0, unit: str = ""
) -> AxisScale:
    """Return a scale with round ticks, in `unit`, from `floor` to `ceiling` and all values and intervals."""
    numbers = [(row.value, row.low, row.high, row.published, *(row.outer or ())) for row in rows]
    ends = [floor, ceiling, *(end for some in numbers for end in some if end is not None)]
    step, decimals = _round_step((max(ends) - min(ends)) / 5)
    # Small tolerances: 0.3 / 0.1 is slightly less than 3 in floating point, which would add a step.
    first, last = math.floor(min(ends) / step + 1e-9), math.ceil(max(ends) / step - 1e-9)
    ticks = [round(place * step, decimals) for place in range(first, last + 1)]
    return AxisScale(title, ticks[0], ticks[-1], ticks, f"{unit},.{decimals}f")


def _round_step(about: float) -> tuple[float, int]:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least `about`, and its number of decimals."""
    power = math.floor(math.log10(about))
    factor = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**power >= about * (1 - 1e-9))
    return factor * 10.0**power, max(0, -power - (factor == 10))


def share_rows(sizes: Sequence[int], room: int = MAX_ROWS) -> list[int]:
    """Return the number of rows to draw per section: all of small sections, and the same number of all larger ones."""
    n_rows = [0] * len(sizes)
    n_open = len(sizes)
    # The smallest sections first: what they do not need is distributed among the larger ones.
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at]):
        n_rows[at] = min(sizes[at], (room - sum(n_rows)) // n_open)
        n_open -= 1
    return n_rows


def draw_forest(
    sections: Sequence[ForestSection],
    scale: AxisScale,
    profile: theme.FigureSize,
    *,
    bars: bool = False,
    undefined: int = 0,
    more: str = "",
) -> theme.Spec:
    """Draw the rows of all sections in order, at most MAX_ROWS; the number of omitted rows is stated below.

    `undefined`: the number of rows without a value, also stated below. `more`: further text there.
    """
    room, shown = MAX_ROWS, list[ForestSection]()
    for section in sections:
        if rows := section.rows[:room]:
            shown.append(ForestSection(section.heading, rows))
            room -= len(rows)
    omitted = sum(len(section.rows) for section in sections) - (MAX_ROWS - room)
    # Undefined rows are announced as well, so that nothing seems to be missing without reason.
    notes = [
        more,
        f"{omitted} more {'row is' if omitted == 1 else 'rows are'} in the table." if omitted else "",
        f"{undefined} undefined {'one is' if undefined == 1 else 'ones are'} in the table, with the reason."
        if undefined
        else "",
    ]
    return stack_forests([(shown, scale)], profile, bars=bars, note=" ".join(filter(None, notes)))


def stack_forests(
    plots: Sequence[tuple[Sequence[ForestSection], AxisScale]],
    profile: theme.FigureSize,
    *,
    bars: bool = False,
    note: str = "",
) -> theme.Spec:
    """Draw forests one below the other with the same columns, each with its own scale, and a note below all."""
    rows = [row for sections, _ in plots for section in sections for row in section.rows]
    if max(sum(len(section.rows) for section in sections) for sections, _ in plots) > DENSE_ROWS:
        profile = replace(profile, row=profile.row * 0.74)  # still more than a line of text
    columns = _compute_columns(rows, profile)
    charts = [
        _draw_section(section, scale, profile, columns, bars, has_axis=section is sections[-1])
        for sections, scale in plots
        for section in sections
    ]
    title = theme.make_note(note, profile) if note else None
    return theme.stack_charts(charts, profile.size, title)


def _compute_columns(rows: Sequence[ForestRow], profile: theme.FigureSize) -> tuple[float, float]:
    """Return the widths, in pixels, of the columns for names (left of the plot) and for numbers (right of it)."""
    if profile.stacked:
        return 0.0, 0.0
    gap, least = profile.size * 0.9, profile.size * 2  # the axis labels at the ends of the plot need this width
    names, numbers = (
        max(text_width(text, profile.size) for text in texts)
        for texts in ([row.label for row in rows], [row.value_text for row in rows])
    )
    # At most 36% for names and 30% for numbers, so that a third of the width remains for the plot.
    return max(least, min(names, profile.width * 0.36) + gap), max(least, min(numbers, profile.width * 0.3) + gap)


def _draw_section(
    section: ForestSection,
    scale: AxisScale,
    profile: theme.FigureSize,
    columns: tuple[float, float],
    bars: bool,
    has_axis: bool,
) -> theme.Spec:
    """Draw the rows of a section under its heading, with the labels of the horizontal axis if `has_axis`."""
    size, (left, right) = profile.size, columns
    labels = [_wrap_row(row, profile, columns) for row in section.rows]
    lines = max(max(len(name) + lines_below, len(number)) for name, number, lines_below in labels)
    # Names and numbers of a stacked plot are above the marks, on a background without grid lines.
    text_height = (lines * 1.25 + 0.2) * size if profile.stacked else 0.0
    step = (
        text_height + (1.9 if bars else 1.5) * size
        if profile.stacked
        else max(profile.row, (1.1 * lines + 0.35) * size)
    )

    def place_label(n_lines: int) -> float:
        """Return the distance of the first of some lines from the middle of the row."""
        return (
            (lines - n_lines) * 1.25 * size + 0.8 * size - step / 2 if profile.stacked else (1 - n_lines) * 0.55 * size
        )

    keys = [
        theme.make_key(
            *(place, name, place_label(len(name) + lines_below), number, place_label(len(number))),
            ["undefined"] if row.value is None else [],
        )
        for place, (row, (name, number, lines_below)) in enumerate(zip(section.rows, labels, strict=True))
    ]
    heading = wrap_text(section.heading, profile.width - 4, size)
    marks = [
        {"key": key, **row._asdict(), **theme.TONES[row.tone]._asdict()}
        | dict(zip(("outer_low", "outer_high"), row.outer or (None, None), strict=True))
        for key, row in zip(keys, section.rows, strict=True)
    ]
    drawer = _SectionDrawer(keys, marks, scale, profile, text_height / 2, has_axis)
    chart = theme.layer_charts(
        drawer.draw_baseline(),
        *([drawer.draw_background(text_height, step)] if profile.stacked else []),
        *([drawer.draw_bars()] if bars else []),
        *drawer.draw_intervals(),
        *drawer.draw_points(bars),
        drawer.draw_labels("left", left),
        drawer.draw_labels("right", right),
        width=profile.width - left - right - (2 if profile.stacked else 0),
        height=step * len(keys),
        title=alt.TitleParams(heading, offset=0) if section.heading else None,
    )
    return {**chart, "resolve": {"axis": {"y": "independent"}}}


def _wrap_row(
    row: ForestRow, profile: theme.FigureSize, columns: tuple[float, float]
) -> tuple[list[str], list[str], int]:
    """Return the lines of the name and of the number of a row, and how many lines are below the name."""
    size = profile.size
    if not profile.stacked:
        left, right = (column - size * 0.9 + 1 for column in columns)
        return wrap_text(row.label, left, size), wrap_text(row.value_text, right, size), 0
    room = profile.width - 4.0
    if text_width(row.label, size) + text_width(row.value_text, size) + size < room:
        return [row.label], [row.value_text], 0
    # A number that does not fit beside its name is below it.
    number = wrap_text(row.value_text, room, size)
    return wrap_text(row.label, room, size), number, len(number)


class _SectionDrawer(NamedTuple):
    """The layers of a section. `shift`: the distance of the marks from the middles of their rows, in pixels."""

    keys: Sequence[str]
    marks: Sequence[dict[str, Any]]
    scale: AxisScale
    profile: theme.FigureSize
    shift: float
    has_axis: bool

    def draw_background(self, height: float, step: float) -> alt.Chart:
        """Cover the grid and the baseline behind names and numbers, so that no line crosses them."""
        mark = alt.Chart(theme.make_data(self.marks)).encode(y=self._y())
        drawn: alt.Chart = mark.mark_rect(
            height=height, yOffset=(height - step) / 2, fill=theme.PAPER.light, aria=False
        )
        return drawn

    def draw_baseline(self) -> alt.Chart:
        mark = alt.Chart(theme.make_data([{}])).encode(x=self._x(datum=self._start))
        drawn: alt.Chart = mark.mark_rule(color=theme.AXIS.light, strokeWidth=self.profile.stroke * 0.75, aria=False)
        return drawn

    def draw_bars(self) -> alt.Chart:
        profile = self.profile
        bar = self._chart_of("value").mark_bar(
            size=min(profile.size * 1.35, profile.row * 0.66), strokeWidth=profile.stroke * 0.75, yOffset=self.shift
        )
        # Colours are data here: the scale is None, so that Vega-Lite draws them as they are.
        fill, edge = alt.Fill("tint:N", scale=None), alt.Stroke("solid:N", scale=None)
        drawn: alt.Chart = bar.encode(
            x=self._x("value:Q"), x2=alt.datum(self._start), fill=fill, stroke=edge, description="title:N"
        )
        return drawn

    def draw_intervals(self) -> list[alt.Chart]:
        thin, thick, size = self.profile.stroke * 0.75, self.profile.stroke * 1.3, self.profile.size
        look: dict[str, Any] = {"color": theme.INK.light, "aria": False, "yOffset": self.shift}
        outer, inner = self._chart_of("outer_low"), self._chart_of("low")
        cap = outer.mark_tick(orient="vertical", size=size * 0.7, thickness=thin, opacity=1, **look)
        return [
            outer.mark_rule(strokeWidth=thin, **look).encode(x=self._x("outer_low:Q"), x2="outer_high:Q"),
            *(cap.encode(x=self._x(f"{field}:Q")) for field in ("outer_low", "outer_high")),
            inner.mark_rule(strokeWidth=thick, **look).encode(x=self._x("low:Q"), x2="high:Q"),
        ]

    def draw_points(self, bars: bool) -> list[alt.Chart]:
        """Draw the values, and published values as diamonds."""
        profile = self.profile
        dot = self._chart_of("value").mark_point(
            filled=True, size=profile.point, opacity=1, strokeWidth=0, yOffset=self.shift
        )
        diamond = self._chart_of("published").mark_point(
            shape="diamond",
            size=profile.point * 1.9,
            opacity=1,
            aria=False,
            yOffset=self.shift,
            fill=theme.PAPER.light,
            stroke=theme.INK.light,
            strokeWidth=profile.stroke * 0.9,
        )
        colour = alt.value(theme.INK.light) if bars else alt.Fill("solid:N", scale=None)
        return [
            dot.encode(x=self._x("value:Q"), fill=colour, description="title:N"),
            diamond.encode(x=self._x("published:Q")),
        ]

    def draw_labels(self, side: Literal["left", "right"], width: float) -> alt.Chart:
        """Draw the names as the left axis or the numbers as the right axis, `width` pixels wide or, if stacked, inside."""
        profile, part = self.profile, 1 if side == "left" else 3
        # An undefined value is printed muted, so that it is not taken for a number.
        muted = {"test": r"split(datum.value, '\t')[5]", "value": theme.MUTED.light}
        axis = alt.Axis(
            orient=side,
            labelAlign=side if profile.stacked else alt.Undefined,
            labelPadding=0 if profile.stacked else profile.size * 0.7,
            labelOffset=theme.read_offset(part + 1),
            minExtent=width,
            maxExtent=width,
            labelExpr=theme.read_key(part),
            labelFontSize=profile.size,
            labelLineHeight=profile.size * (1.25 if profile.stacked else 1.1),
            labelColor=theme.INK.light if side == "left" else {"condition": muted, "value": theme.INK.light},
            zindex=1,  # above the background
            **theme.BARE_AXIS,
        )
        drawn: alt.Chart = alt.Chart(theme.make_data([{}])).encode(y=self._y(axis)).mark_text(text="", aria=False)
        return drawn

    @property
    def _start(self) -> float:
        """Bars start at zero, or at the end of the scale that is nearest to it."""
        return min(max(0.0, self.scale.low), self.scale.high)

    def _chart_of(self, field: str) -> alt.Chart:
        """Return a chart of the marks in which the field is defined; a mark without a value would be drawn at zero."""
        defined = [mark for mark in self.marks if mark[field] is not None]
        chart: alt.Chart = alt.Chart(theme.make_data(defined)).encode(y=self._y())
        return chart

    def _y(self, axis: alt.Axis | None = None) -> alt.Y:
        return alt.Y("key:N", scale=alt.Scale(type="band", domain=self.keys, padding=0), axis=axis)

    def _x(self, field: str = "", datum: float = 0.0) -> alt.X:
        """Return the horizontal channel for a field of the marks, or for a constant if `field` is ""."""
        axis = alt.Axis(
            # Every tick is labelled, as the numbers are few.
            values=list(self.scale.ticks),
            format=self.scale.format,
            domain=False,
            grid=True,
            labelFlush=self.profile.stacked,
            labelOverlap=False,
            labels=self.has_axis,
            ticks=self.has_axis,
        )
        scale = alt.Scale(domain=[self.scale.low, self.scale.high], nice=False, zero=False)
        what: dict[str, Any] = {"shorthand": field} if field else {"datum": datum}
        return alt.X(**what, scale=scale, axis=axis, title=(self.scale.title or None) if self.has_axis else None)
