"""Sizes and the common style. A size changes dimensions and layout only: the data, marks and words stay the same."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from ratings.results.figures.palette import AXIS, GRID, INK, MUTED, PAPER
from ratings.results.figures.text_metrics import wrap_text

# Bundled with vl-convert, so that every host renders the same; Arial has the same widths on screens.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"

Spec = dict[str, Any]
AnyChart = alt.Chart | alt.LayerChart | alt.ConcatChart | alt.VConcatChart | alt.HConcatChart


@dataclass(frozen=True)
class FigureSize:
    """One size of drawing, in pixels (in print: points, 72 per inch).

    `stacked`: names are above their row, panels below each other. `titled`: title and note are part of the drawing,
    because there is no page around it.
    """

    name: str
    width: int
    size: float
    small: float
    row: float
    stroke: float
    point: float
    stacked: bool = False
    titled: bool = False


FIGURE_SIZES: Mapping[str, FigureSize] = {
    "wide": FigureSize("wide", 700, size=12.5, small=11.5, row=28, stroke=1.5, point=42),
    "narrow": FigureSize("narrow", 340, size=12.5, small=11.5, row=44, stroke=1.5, point=42, stacked=True),
    "print": FigureSize("print", 486, size=8, small=7, row=17, stroke=0.9, point=16, titled=True),
}


def finish_chart(chart: AnyChart, profile: FigureSize, title: str, note: str, summary: str) -> Spec:
    """Return the chart as a Vega-Lite specification with the common style, the summary as description and, in print, its title."""
    if profile.titled:
        chart = chart.properties(title=_make_title(profile, title, note))
    # The tests validate each figure; here it would only repeat that for every row of data.
    spec: Spec = _insert_rows(chart.to_dict(validate=False))
    return {
        **spec,
        "description": summary,
        "background": PAPER.light if profile.titled else None,  # on a page the card behind the figure is the background
        "config": _common_style(profile),
    }


def _make_title(profile: FigureSize, title: str, note: str) -> alt.TitleParams:
    subtitle_lines = wrap_text(note, profile.width, profile.small, most=4) if note else []
    return alt.TitleParams(
        wrap_text(title, profile.width, profile.size * 1.2, most=2),
        subtitle=subtitle_lines,
        anchor="start",
        frame="bounds",
        fontSize=profile.size * 1.2,
        fontWeight="bold",
        subtitleFontSize=profile.small,
        subtitleColor=MUTED.light,
        offset=profile.size,
        color=INK.light,
    )


def _common_style(profile: FigureSize) -> Spec:
    axis = {
        "labelFontSize": profile.small,
        "titleFontSize": profile.small,
        "titleFontWeight": "normal",
        "labelColor": INK.light,
        "titleColor": MUTED.light,
        "gridColor": GRID.light,
        "gridWidth": profile.stroke * 0.6,
        "domainColor": AXIS.light,
        "domainWidth": profile.stroke * 0.7,
        "tickColor": AXIS.light,
        "tickWidth": profile.stroke * 0.7,
        "tickSize": profile.size * 0.3,
        "labelPadding": profile.size * 0.3,
        "titlePadding": profile.size * 0.5,
        "labelAngle": 0,
        "aria": False,  # axes are repeated in the titles of the marks
    }
    title = {"fontSize": profile.size, "fontWeight": "bold", "color": INK.light, "subtitleColor": MUTED.light}
    return {
        "font": FONT,
        "padding": {"left": 0, "right": 0, "top": 4, "bottom": 4},
        "view": {"stroke": None},
        "axis": axis,
        "title": {**title, "subtitleFontSize": profile.small, "aria": False},  # the page has its own heading
        "text": {"fontSize": profile.size, "color": INK.light},
        "concat": {"spacing": profile.size * 1.6},
    }


def make_data(rows: Sequence[Mapping[str, Any]]) -> alt.NamedData:
    """Return rows as chart data. Their JSON is stored as the name of the data until `finish_chart` inserts the rows."""
    # Altair copies inline data at every step, which is slow for thousands of rows.
    return alt.NamedData(name=json.dumps([dict(row) for row in rows]))


def _insert_rows(spec: Any) -> Any:
    """Return the specification with the rows that `make_data` stored as names."""
    if isinstance(spec, list):
        return [_insert_rows(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        name: {"values": json.loads(part["name"])} if name == "data" and "name" in part else _insert_rows(part)
        for name, part in spec.items()
    }


def layer_charts(*charts: alt.Chart | alt.LayerChart, width: float, height: float) -> alt.LayerChart:
    """Return charts on top of each other in a plot of this size in pixels."""
    chart = alt.layer(*charts).properties(width=width, height=height)
    if not isinstance(chart, alt.LayerChart):
        raise TypeError("layers of a figure are charts without facets")
    return chart


def make_frame(left: float, right: float) -> alt.Chart:
    """Return an invisible mark that makes a plot occupy `left` to `right` (pixels from the plot's left edge) with any font."""
    # Without it, the size of a plot would depend on the text that the renderer measures, and plots of one figure would
    # not align.
    mark = alt.Chart(make_data([{}])).mark_rect(opacity=0, aria=False)
    # An opacity of 0 is removed when the SVG is cleaned.
    edges: alt.Chart = mark.encode(x=alt.value(left), x2=alt.value(right), y=alt.value(0), y2=alt.value(1))
    return edges
