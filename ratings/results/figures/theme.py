"""The common style: colours with their counterparts in dark mode, sizes, axes and legends, and the finished specification.

A figure is drawn once, in the light colours. static/figures.css replaces each literal in dark mode, so every colour of a figure must be
in `SHADES`. Hues are distinguishable with any colour vision (after Okabe and Ito), and no information is in colour alone. A size
changes dimensions and layout only: the data, marks and words stay the same.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt
from altair.utils.schemapi import debug_mode

from ratings.results.figures.tables import Document, wrap_text

# Bundled with vl-convert, so that every host renders the same; Arial has the same widths on screens.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"

Spec = dict[str, Any]
BARE_AXIS: Spec = {"title": None, "domain": False, "ticks": False}  # for axes with labels only


class Shade(NamedTuple):
    """One colour as #rrggbb: on paper and light screens, and in dark mode."""

    light: str
    dark: str


class Tone(NamedTuple):
    """A hue for data: `solid` for lines, outlines and points, `tint` for areas and backgrounds."""

    solid: str
    tint: str


def _make_ramp(light: tuple[str, str], dark: tuple[str, str], steps: int = 9) -> list[Shade]:
    return [Shade(*(_mix_colours(*ends, step / (steps - 1)) for ends in (light, dark))) for step in range(steps)]


def _mix_colours(first: str, last: str, part: float) -> str:
    """Return the colour `part` (0 to 1) of the way between two."""
    ends = [[int(colour[offset : offset + 2], 16) for offset in (1, 3, 5)] for colour in (first, last)]
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(*ends, strict=True))


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
_BLUES = _make_ramp(("#edf4fb", "#78aee4"), ("#1f2a38", "#2f6299"))
_ORANGES = _make_ramp(("#fae6d6", "#e8965c"), ("#38281f", "#8f4a17"))
BLUES, ORANGES = (tuple(shade.light for shade in ramp) for ramp in (_BLUES, _ORANGES))
SHADES: tuple[Shade, ...] = (
    *(PAPER, INK, MUTED, AXIS, GRID, QUIET),
    *(shade for pair in _TONES.values() for shade in pair),
    *_BLUES,
    *_ORANGES,
)


def colour_step(colours: Sequence[str], part: float) -> str:
    """Return the colour for `part` of the ramp (0 to 1, clipped)."""
    # Rounded to the nearest step, so that the style sheet knows every colour.
    return colours[round(min(1.0, max(0.0, part)) * (len(colours) - 1))]


def build_css() -> str:
    """Return the rules for dark mode, for static/figures.css; print keeps the light colours."""
    lines = ["@media screen and (prefers-color-scheme: dark) {"]
    for light, dark in SHADES:
        lines += [f'  .figure [{what}="{light}"] {{ {what}: {dark}; }}' for what in ("fill", "stroke")]
    return "\n".join([*lines, "}", ""])


@dataclass(frozen=True)
class FigureSize:
    """One size of drawing, in pixels (in print: points, 72 per inch).

    `stacked`: names are above their row, legends below their plot. `titled`: title and note are part of the drawing,
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


class Drawing(NamedTuple):
    """The functions that draw and describe a figure, and whether a document with rows has numbers for it."""

    draw: Callable[[Document, FigureSize], Spec]
    describe: Callable[[Document], str]
    has_values: Callable[[Document], bool] = lambda document: True

    def build_spec(self, document: Document, size: str, title: str, note: str) -> Spec:
        """Return the figure as a finished Vega-Lite specification. Raises KeyError for an unknown size."""
        profile = FIGURE_SIZES[size]
        # Altair would validate every row of data; the tests validate each figure instead.
        with debug_mode(False):  # only while the specification is built, since the setting is global
            return finish_chart(self.draw(document, profile), profile, title, note, self.describe(document))


def finish_chart(chart: Spec, profile: FigureSize, title: str, note: str, summary: str) -> Spec:
    """Return the chart as a Vega-Lite specification with the common style, the summary as description and, in print, its title."""
    if profile.titled:
        # In a chart of its own, because the drawing can have a note as its title.
        chart = {"vconcat": [chart], "title": _make_title(profile, title, note).to_dict()}
    return {
        "$schema": alt.SCHEMA_URL,
        **_insert_rows(chart),
        "description": summary,
        "background": PAPER.light if profile.titled else None,  # on a page the card behind the figure is the background
        "config": _make_config(profile),
        "usermeta": {"width": profile.width},  # render.render_svg makes the drawing at least as wide
    }


def _make_title(profile: FigureSize, title: str, note: str) -> alt.TitleParams:
    return alt.TitleParams(
        wrap_text(title, profile.width, profile.size * 1.2),
        subtitle=wrap_text(note, profile.width, profile.small, most=4) if note else [],
        fontSize=profile.size * 1.2,
        offset=profile.size,
    )


def make_note(text: str, profile: FigureSize) -> alt.TitleParams:
    """Return a note to be drawn below a chart."""
    return alt.TitleParams(
        wrap_text(text, profile.width - 4, profile.size, most=4),
        orient="bottom",
        fontWeight="normal",
        color=MUTED.light,
        offset=profile.size * 0.6,
    )


def _make_config(profile: FigureSize) -> Spec:
    axis = {
        **{"labelFontSize": profile.small, "labelColor": INK.light, "labelPadding": profile.size * 0.3},
        **{"titleFontSize": profile.small, "titleColor": MUTED.light, "titlePadding": profile.size * 0.5},
        **{"titleFontWeight": "normal", "labelAngle": 0, "labelLimit": 0},
        **{"gridColor": GRID.light, "gridWidth": profile.stroke * 0.6},
        **{"domainColor": AXIS.light, "domainWidth": profile.stroke * 0.7},
        **{"tickColor": AXIS.light, "tickWidth": profile.stroke * 0.7, "tickSize": profile.size * 0.3},
        "aria": False,  # axes are repeated in the titles of the marks
    }
    title = {
        **{"anchor": "start", "frame": "bounds", "fontSize": profile.size, "fontWeight": "bold", "color": INK.light},
        **{"subtitleFontSize": profile.small, "subtitleColor": MUTED.light, "limit": 0},
        **{"offset": profile.size * 0.4, "aria": False},  # the page has its own heading
    }
    legend = {
        **{"title": None, "labelFontSize": profile.size, "labelColor": INK.light, "labelLimit": 0},
        **{"symbolSize": profile.size**2 * 0.55, "symbolStrokeWidth": profile.stroke * 0.75},
        **{"columnPadding": profile.size * 1.2, "rowPadding": profile.size * 0.5, "aria": False},
    }
    return {
        "font": FONT,
        "padding": {"left": 0, "right": 0, "top": 4, "bottom": 4},
        "view": {"stroke": None},
        "axis": axis,
        "title": title,
        "legend": legend,
        "text": {"fontSize": profile.size, "color": INK.light},
        "concat": {"spacing": profile.size * 1.2},
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


# Charts are combined as specifications: Altair would copy every part of every chart at each step, which takes longer than drawing.
def layer_charts(*charts: alt.Chart, width: float, height: float, title: alt.TitleParams | None = None) -> Spec:
    """Return charts on top of each other in a plot of this size in pixels."""
    layers = [chart.to_dict(validate=False) for chart in charts]
    for layer in layers:
        # only of the finished specification
        del layer["$schema"], layer["config"]
    # The rows that all layers have in common are stored once.
    common = {"data": layers[0]["data"]} if all(layer.get("data") == layers[0].get("data") for layer in layers) else {}
    for layer in layers if common else []:
        del layer["data"]
    return {**common, "layer": layers, "width": width, "height": height, **_build_title(title)}


def stack_charts(charts: Sequence[Spec], spacing: float, title: alt.TitleParams | None = None) -> Spec:
    """Return charts one below the other, `spacing` pixels apart."""
    return {"vconcat": list(charts), "spacing": spacing, **_build_title(title)}


def arrange_charts(charts: Sequence[Spec], columns: int, spacing: float, title: alt.TitleParams | None = None) -> Spec:
    """Return charts in rows of this many, `spacing` pixels apart."""
    return {"concat": list(charts), "columns": columns, "spacing": spacing, "align": "each", **_build_title(title)}


def _build_title(title: alt.TitleParams | None) -> Spec:
    return {} if title is None else {"title": title.to_dict()}


def share_colours(charts: Spec) -> Spec:
    """Return charts with one legend of their colours."""
    return {**charts, "resolve": {"scale": {"fill": "shared", "stroke": "shared"}}}


def make_key(place: int, *parts: Sequence[str] | float) -> str:
    """Return a value of a discrete scale that is unique by its place and carries the lines of its labels, and offsets."""
    # Tabs and line breaks are safe separators, since labels have no control characters.
    return "\t".join([str(place), *(f"{part:g}" if isinstance(part, float) else "\n".join(part) for part in parts)])


def read_key(part: int = 1) -> str:
    """Return the expression for the lines of a label of `make_key`, for axes and legends."""
    return rf"split(split(datum.value, '\t')[{part}], '\n')"


def read_offset(part: int) -> Spec:
    """Return the pixels by which axis labels are moved, from a part of their keys."""
    return {"condition": {"test": "true", "expr": rf"toNumber(split(datum.value, '\t')[{part}])"}, "value": 0}
