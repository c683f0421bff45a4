"""Draw legends: the meaning of colours and shapes, with numbers that do not fit beside a curve."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt

from ratings.results.figures.forest import draw_text
from ratings.results.figures.tables import text_width, wrap_text
from ratings.results.figures.theme import INK, MUTED, AnyChart, FigureSize, layer_charts, make_data, make_frame

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
HUES = ("blue", "orange", "green", "purple", "olive", "slate")


class LegendEntry(NamedTuple):
    """One entry of a legend: a name, fill and stroke colours, a shape, and numbers as text below the name."""

    name: str
    fill: str
    stroke: str
    shape: str = "square"
    said: str = ""


def draw_across(
    entries: Sequence[LegendEntry], profile: FigureSize, more: str = "", left: float = 0.0
) -> alt.LayerChart:
    """Draw entries side by side from `left`, in as many lines as needed; `more` is a sentence below them."""
    symbols, texts = list[dict[str, Any]](), list[dict[str, Any]]()
    x, y, pitch = 0.0, profile.size * 0.7, profile.size * 1.5
    for entry in entries:
        entry_width = text_width(entry.name, profile.size) + profile.size * 2.6
        if x and x + entry_width > profile.width:
            x, y = 0.0, y + pitch
        symbols.append(_make_symbol(entry, left + x + profile.size * 0.5, y))
        texts.append({"text": entry.name, "x": left + x + profile.size * 1.4, "y": y, "colour": INK.light})
        x += entry_width
    for line in wrap_text(more, profile.width, profile.size) if more else ():
        y += pitch
        texts.append({"text": line, "x": left, "y": y, "colour": INK.light})
    return _draw_legend(symbols, texts, profile, (left, left + profile.width), y + pitch * 0.6)


def draw_down(entries: Sequence[LegendEntry], profile: FigureSize, room: float, left: float = 0.0) -> alt.LayerChart:
    """Draw entries below each other in `room` pixels from `left`, with names in up to two lines."""
    symbols, texts = list[dict[str, Any]](), list[dict[str, Any]]()
    y, pitch = profile.size * 0.7, profile.size * 1.3
    for entry in entries:
        symbols.append(_make_symbol(entry, left + profile.size * 0.5, y))
        inside = room - profile.size * 2
        name = [(line, INK.light) for line in wrap_text(entry.name, inside, profile.size)]
        number_lines = [(line, MUTED.light) for line in wrap_text(entry.said, inside, profile.size, most=4) if line]
        for line, colour in [*name, *number_lines]:
            texts.append({"text": line, "x": left + profile.size * 1.5, "y": y, "colour": colour})
            y += pitch
        y += profile.size * 0.5
    return _draw_legend(symbols, texts, profile, (left, left + room), y)


def draw_beside(
    plot: alt.LayerChart, entries: Sequence[LegendEntry], profile: FigureSize, room: float, left: float
) -> AnyChart:
    """Draw a plot with its legend on the right, `room` pixels wide; in stacked sizes, draw the legend below the
    plot.
    """
    if profile.stacked:
        return alt.vconcat(plot, draw_down(entries, profile, profile.width, left), spacing=profile.size)
    return alt.hconcat(plot, draw_down(entries, profile, room), spacing=profile.size * 1.5)


def _make_symbol(entry: LegendEntry, x: float, y: float) -> dict[str, Any]:
    return {"x": x, "y": y, "fill": entry.fill, "stroke": entry.stroke, "shape": entry.shape}


def _draw_legend(
    symbols: list[dict[str, Any]],
    texts: list[dict[str, Any]],
    profile: FigureSize,
    edges: tuple[float, float],
    height: float,
) -> alt.LayerChart:
    mark = alt.Chart(make_data(symbols)).mark_point(
        size=profile.size**2 * 0.55, strokeWidth=profile.stroke * 0.75, opacity=1, aria=False
    )
    symbol_chart = mark.encode(
        x=alt.X("x:Q", scale=None, axis=None),
        y=alt.Y("y:Q", scale=None, axis=None),
        fill=alt.Fill("fill:N", scale=None),
        stroke=alt.Stroke("stroke:N", scale=None),
        shape=alt.Shape("shape:N", scale=None),
    )
    # The legend is at least one pixel wide, for any edges.
    room = max(1.0, edges[1])
    return layer_charts(make_frame(*edges), symbol_chart, draw_text(texts, profile), width=room, height=height)
