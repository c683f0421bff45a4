"""The form that most figures share: one row per name with its bar or point, its interval, and its number in words."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import altair as alt

from ratings.results.figures.palette import AXIS, INK, MUTED, PAPER
from ratings.results.figures.placing import Placed, Row, Section, columns, place, text
from ratings.results.figures.theme import AnyChart, Profile, frame, layered, values
from ratings.results.figures.wording import lines as wrap
from ratings.results.figures.wording import width

# Beyond this a figure is no help; the table has every row.
MOST_ROWS = 60
# From here on rows stand closer.
MANY_ROWS = 16


class Scale(NamedTuple):
    """The horizontal axis: its title, ends, labelled values, and d3's format of them."""

    title: str
    low: float
    high: float
    ticks: Sequence[float]
    format: str


SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def shares(title: str) -> Scale:
    return Scale(title, 0.0, 1.0, SHARES, ".0%")


def spanning(title: str, rows: Sequence[Row], floor: float = 0.0, ceiling: float = 1.0, unit: str = "") -> Scale:
    """A scale that holds floor, ceiling and every end of the rows, with ticks at tidy steps. `unit` stands before numbers."""
    ends = [
        end
        for row in rows
        for end in (row.value, row.low, row.high, row.published, *(row.outer or ()))
        if end is not None
    ]
    low, high = min([floor, *ends]), max([ceiling, *ends])
    step, decimals = tidy_step((high - low) / 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(place * step, decimals) for place in range(first, last + 1)]
    return Scale(title, ticks[0], ticks[-1], ticks, f"{unit},.{decimals}f")


def tidy_step(about: float) -> tuple[float, int]:
    """The least of 1, 2 and 5 times a power of ten that is not below `about`, and the decimals it needs."""
    power = math.floor(math.log10(about))
    factor = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**power >= about * (1 - 1e-9))
    return factor * 10.0**power, max(0, -power - (factor == 10))


def forest(
    sections: Sequence[Section],
    scale: Scale,
    profile: Profile,
    *,
    bars: bool = False,
    beside: Sequence[Row] = (),
    undefined: int = 0,
    more: str = "",
) -> alt.LayerChart:
    """The rows of all sections in their order, at most MOST_ROWS; what is left out is said below.

    `beside`: rows of further plots of the figure, so that all have the same columns. `undefined`: how many more there are
    without a value, which is said below too. `more`: what else is said there.
    """
    kept = _cut(sections)
    rows = [row for section in kept for row in section.rows]
    if len(rows) > MANY_ROWS:
        profile = replace(profile, row=profile.row * 0.74)
    left, right = columns([*rows, *beside], profile)
    placed = place(kept, left, right, profile, bars)
    left_out = sum(len(section.rows) for section in sections) - len(rows)
    texts = list(placed.texts)
    if said := " ".join(filter(None, [more, _left_out(left_out, undefined)])):
        for at, line in enumerate(wrap(said, profile.width - 4, profile.size, most=4)):
            texts.append(text(line, -left, placed.height + profile.size * (4 + 1.3 * at), MUTED.light))
    layers = [
        frame(-left, profile.width - left),
        *_marks(placed, scale, profile, bars),
        _backing(texts, profile),
        *_words(texts, profile),
    ]
    return layered(*layers, width=profile.width - left - right, height=placed.height)


def _left_out(rows: int, undefined: int) -> str:
    """What is in the table alone."""
    more = f"{rows} more {'row is' if rows == 1 else 'rows are'} in the table." if rows else ""
    why = f"{undefined} undefined {'one is' if undefined == 1 else 'ones are'} in the table, with the reason."
    return " ".join(said for said in (more, why if undefined else "") if said)


def stacked(plots: Sequence[tuple[Sequence[Section], Scale]], profile: Profile, *, bars: bool = False) -> AnyChart:
    """Forests below each other with the same columns, each with its own scale."""
    rows = [row for sections, _ in plots for section in sections for row in section.rows]
    made = [forest(sections, scale, profile, bars=bars, beside=rows) for sections, scale in plots]
    return alt.vconcat(*made, spacing=profile.size * (4.5 if plots[0][1].title else 3.2), bounds="flush")


def share_rows(sizes: Sequence[int], room: int = MOST_ROWS) -> list[int]:
    """Return how many rows each section gets of the room: all it has, or the same as every other that has more."""
    given = [0] * len(sizes)
    waiting = len(sizes)
    for at in sorted(range(len(sizes)), key=lambda at: sizes[at]):
        given[at] = min(sizes[at], (room - sum(given)) // waiting)
        waiting -= 1
    return given


def _cut(sections: Sequence[Section]) -> list[Section]:
    room, kept = MOST_ROWS, []
    for section in sections:
        if rows := section.rows[:room]:
            kept.append(Section(section.heading, rows))
            room -= len(rows)
    return kept


class _Drawer(NamedTuple):
    """Where marks go: their rows, and the scale and axis all of them share."""

    marks: Sequence[dict[str, Any]]
    scale: Scale
    profile: Profile

    def x(self, field: str = "", datum: float = 0.0) -> alt.X:
        """A field of the marks on the axis; the datum without one."""
        ticks, stacked = list(self.scale.ticks), self.profile.stacked
        axis = alt.Axis(
            values=ticks, format=self.scale.format, domain=False, grid=True, labelFlush=stacked, labelOverlap=False
        )
        scale = alt.Scale(domain=[self.scale.low, self.scale.high], nice=False, zero=False)
        title = self.scale.title or None
        if not field:
            return alt.X(datum=datum, scale=scale, axis=axis, title=title)
        return alt.X(f"{field}:Q", scale=scale, axis=axis, title=title)

    def having(self, field: str) -> alt.Chart:
        """The marks where the field is defined, each at its height."""
        known = [mark for mark in self.marks if mark[field] is not None]
        return alt.Chart(values(known)).encode(y=alt.Y("y:Q", axis=None, scale=None))


def _marks(placed: Placed, scale: Scale, profile: Profile, bars: bool) -> list[alt.Chart]:
    """From the back: the line where bars begin, but for headings, bars, intervals, values, what others published."""
    drawer = _Drawer(placed.marks, scale, profile)
    start = min(max(0.0, scale.low), scale.high)
    spans = values([{"top": round(top, 2), "bottom": round(bottom, 2)} for top, bottom in placed.spans])
    base = alt.Chart(spans).mark_rule(color=AXIS.light, strokeWidth=profile.stroke * 0.75, aria=False)
    y = alt.Y("top:Q", axis=None, scale=None)
    layers = [base.encode(x=drawer.x(datum=start), y=y, y2="bottom:Q")]
    if bars:
        bar = drawer.having("value").mark_bar(
            size=min(profile.size * 1.35, profile.row * 0.66), strokeWidth=profile.stroke * 0.75
        )
        fill, edge = alt.Fill("tint:N", scale=None), alt.Stroke("solid:N", scale=None)
        layers.append(
            bar.encode(x=drawer.x("value"), x2=alt.datum(start), fill=fill, stroke=edge, description="title:N")
        )
    return [*layers, *_intervals(drawer), *_points(drawer, bars)]


def _intervals(drawer: _Drawer) -> list[alt.Chart]:
    thin, thick = drawer.profile.stroke * 0.75, drawer.profile.stroke * 1.3
    wide = drawer.having("outer_low").mark_rule(color=INK.light, strokeWidth=thin, aria=False)
    cap = drawer.having("outer_low").mark_tick(
        orient="vertical", size=drawer.profile.size * 0.7, thickness=thin, color=INK.light, opacity=1, aria=False
    )
    own = drawer.having("low").mark_rule(color=INK.light, strokeWidth=thick, aria=False)
    return [
        wide.encode(x=drawer.x("outer_low"), x2="outer_high:Q"),
        *(cap.encode(x=drawer.x(field)) for field in ("outer_low", "outer_high")),
        own.encode(x=drawer.x("low"), x2="high:Q"),
    ]


def _points(drawer: _Drawer, bars: bool) -> list[alt.Chart]:
    size = drawer.profile.point
    dot = drawer.having("value").mark_point(filled=True, size=size, opacity=1, strokeWidth=0)
    colour = alt.value(INK.light) if bars else alt.Fill("solid:N", scale=None)
    diamond = drawer.having("published").mark_point(shape="diamond", size=size * 1.9, opacity=1, aria=False)
    edge = alt.value(drawer.profile.stroke * 0.9)
    return [
        dot.encode(x=drawer.x("value"), fill=colour, description="title:N"),
        diamond.encode(
            x=drawer.x("published"), fill=alt.value(PAPER.light), stroke=alt.value(INK.light), strokeWidth=edge
        ),
    ]


def _backing(texts: Sequence[dict[str, Any]], profile: Profile) -> alt.Chart:
    """Paper behind headings, and behind names and numbers where they stand over the plot, so that no line crosses them."""
    boxes = []
    for one in texts:
        if one["bold"] or profile.stacked:
            room = width(one["text"], profile.size) * 0.9
            start = one["x"] - room if one["align"] == "right" else one["x"]
            half = profile.size * 0.6
            boxes.append({"x": start, "x2": start + room, "y": one["y"] - half, "y2": one["y"] + half})
    mark = alt.Chart(values(boxes)).mark_rect(fill=PAPER.light, aria=False)
    drawn: alt.Chart = mark.encode(
        x=alt.X("x:Q", scale=None, axis=None), x2="x2:Q", y=alt.Y("y:Q", scale=None, axis=None), y2="y2:Q"
    )
    return drawn


def _words(texts: Sequence[dict[str, Any]], profile: Profile) -> list[alt.Chart]:
    """One layer for each kind of alignment: Vega-Lite takes it from the mark, not from the data."""
    made = []
    kinds: tuple[tuple[Literal["left", "right"], bool], ...] = (("left", False), ("right", False), ("left", True))
    for align, bold in kinds:
        some = [text for text in texts if (text["align"], text["bold"]) == (align, bold)]
        if some:
            made.append(written(some, profile, align=align, bold=bold))
    return made


def written(
    texts: Sequence[dict[str, Any]],
    profile: Profile,
    *,
    align: Literal["left", "center", "right"] = "left",
    bold: bool = False,
    size: float | None = None,
) -> alt.Chart:
    """Text at pixels x, y from the plot's upper left corner, in its colour."""
    mark = alt.Chart(values(texts)).mark_text(
        align=align,
        baseline="middle",
        fontSize=size or profile.size,
        fontWeight="bold" if bold else "normal",
        aria=False,
    )
    placed: alt.Chart = mark.encode(
        x=alt.X("x:Q", scale=None, axis=None),
        y=alt.Y("y:Q", scale=None, axis=None),
        text="text:N",
        fill=alt.Fill("colour:N", scale=None),
    )
    return placed
