"""Sizes and the common style. A size changes dimensions and layout only: the data, marks and words stay the same."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt

from ratings.results.figures.tables import wrap_text


class Shade(NamedTuple):
    """One colour as #rrggbb: on paper and light screens, and in dark mode."""

    light: str
    dark: str


class Tone(NamedTuple):
    """A hue for data: `solid` for lines, outlines and points, `tint` for areas and backgrounds."""

    solid: str
    tint: str


def _mix_colours(first: str, last: str, part: float) -> str:
    """Return the colour `part` (0 to 1) of the way between two."""
    ends = [[int(colour[offset : offset + 2], 16) for offset in (1, 3, 5)] for colour in (first, last)]
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(*ends, strict=True))


def _make_ramp(light: tuple[str, str], dark: tuple[str, str], steps: int) -> list[Shade]:
    parts = [step / (steps - 1) for step in range(steps)]
    return [Shade(_mix_colours(*light, part), _mix_colours(*dark, part)) for part in parts]


# The background: the card of a page, a sheet of paper.
PAPER = Shade("#ffffff", "#19202a")
INK, MUTED = Shade("#16202c", "#e9eef4"), Shade("#596676", "#a1aebd")
AXIS, GRID, QUIET = Shade("#7d8997", "#8593a5"), Shade("#dbe1e8", "#323d4c"), Shade("#eef1f4", "#242d39")

# solid, then tint
_TONES: Mapping[str, tuple[Shade, Shade]] = {
    "blue": (Shade("#0b5cad", "#6aaef2"), Shade("#cfe0f3", "#22405f")),
    "orange": (Shade("#b5480b", "#f0975a"), Shade("#f6dcc9", "#4d2f1a")),
    "green": (Shade("#00745c", "#4cc3a5"), Shade("#cdeae2", "#17433a")),
    "purple": (Shade("#8a3a86", "#d492d0"), Shade("#eed8ec", "#472846")),
    "olive": (Shade("#6b5900", "#cdb44c"), Shade("#ece3bd", "#423912")),
    "slate": (Shade("#3d4653", "#aab6c4"), Shade("#dfe3e8", "#364252")),
}
TONES: Mapping[str, Tone] = {name: Tone(solid.light, tint.light) for name, (solid, tint) in _TONES.items()}

# One ink is readable on every step, from the palest to the strongest.
_BLUES = _make_ramp(("#edf4fb", "#78aee4"), ("#1f2a38", "#2f6299"), 9)
_ORANGES = _make_ramp(("#fae6d6", "#e8965c"), ("#38281f", "#8f4a17"), 9)
BLUES = tuple(shade.light for shade in _BLUES)
ORANGES = tuple(shade.light for shade in _ORANGES)

SHADES: tuple[Shade, ...] = (
    *(PAPER, INK, MUTED, AXIS, GRID, QUIET),
    *(shade for pair in _TONES.values() for shade in pair),
    *_BLUES,
    *_ORANGES,
)


def colour_step(colours: tuple[str, ...], part: float) -> str:
    """Return the colour for `part` of the ramp (0 to 1, clipped)."""
    # Rounded to the nearest step, so that the style sheet knows every colour.
    return colours[round(min(1.0, max(0.0, part)) * (len(colours) - 1))]


def build_css() -> str:
    """Return the rules for dark mode, for static/figures.css; print keeps the light colours."""
    lines = ["@media screen and (prefers-color-scheme: dark) {"]
    for light, dark in SHADES:
        lines += [f'  .figure [{what}="{light}"] {{ {what}: {dark}; }}' for what in ("fill", "stroke")]
    return "\n".join([*lines, "}", ""])


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
