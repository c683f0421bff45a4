"""Figures of confidence by source and verdict: histograms, and violins like the paper's Fig. 3."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from ratings.results.figures import legends, tables
from ratings.results.figures.tables import (
    Document,
    TableRow,
    format_percent,
    get_count,
    get_number,
    get_text,
    join_parts,
    wrap_text,
)
from ratings.results.figures.theme import (
    GRID,
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

LEVELS = (1, 2, 3, 4, 5)
BANDWIDTH = 0.4  # bandwidth, in levels of confidence; the note of the figure states it
MAX_PANELS = 12  # most panels: more would make a page too long; the other sources are in the table
_POINTS = 49  # points of a curve; more points make the file larger without a visible difference
MIN_RATINGS = 5  # with fewer ratings, the shape of a density is not meaningful
_MIN_PANEL_WIDTH = {"wide": 210, "narrow": 160, "print": 150}  # in pixels; in narrower panels, labels overlap
_TONES = {1: TONES["blue"], 0: TONES["orange"]}


def compute_density(counts: Mapping[int, int], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Gaussian kernel density at points of [1, 5], shape (points,), of ratings counted by level.

    Density below 1 and above 5 is reflected, so that the area between 1 and 5 is one. It is zero if there are no ratings.
    """
    n = sum(counts.values())
    density = np.zeros_like(at)
    for level, n_level in counts.items():
        # Each level and its mirror images at 1 and 5: without them, half of the density of the extreme levels would be
        # lost.
        for centre in (level, 2 - level, 10 - level):
            density += n_level * np.exp(-0.5 * ((at - centre) / BANDWIDTH) ** 2)
    area = BANDWIDTH * np.sqrt(2 * np.pi) * n
    # Without ratings the area is zero, and the density stays zero.
    return density / area if n else density


def has_confidence(document: Document) -> bool:
    """Return whether any rating has a confidence."""
    return bool(_cells_by_source(document))


def draw_histograms(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a panel per source with pairs of columns, plausible on the left."""
    panels = _cells_by_source(document)
    # One scale for all panels, so that equal columns mean equal shares.
    top = max(share for cells in panels.values() for _, share in cells.values())
    charts = [
        _draw_histogram(source, cells, top, profile, _compute_panel_width(profile, len(panels)), document)
        for source, cells in panels.items()
    ]
    return _add_legend(charts, document, profile)


def draw_violins(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a panel per source: the density of plausible ratings on the left, of the others on the right."""
    panels = _cells_by_source(document)
    spread = {
        (get_text(line, "source"), get_count(line, "verdict")): line for line in tables.get_rows(document, "spread")
    }
    grid = np.linspace(1, 5, _POINTS)
    halves = {
        (source, verdict): compute_density(
            {level: cells[verdict, level][0] for level in LEVELS if (verdict, level) in cells}, grid
        )
        for source, cells in panels.items()
        for verdict in (1, 0)
    }
    # One scale for all halves, so that equal areas mean equal shares; `or 1.0` if all are empty.
    widest = max(float(half.max()) for half in halves.values()) or 1.0
    room = _compute_panel_width(profile, len(panels))
    charts = [
        _draw_violin(
            source,
            [(verdict, halves[source, verdict] / widest, spread.get((source, verdict))) for verdict in (1, 0)],
            profile,
            room,
            document,
        )
        for source in panels
    ]
    return _add_legend(charts, document, profile, -_axis_width(profile))


def describe_histograms(document: Document) -> str:
    yes, no = tables.verdict_words(document)
    parts = []
    for source, cells in _cells_by_source(document).items():
        share_sure = sum(share for (_, level), (_, share) in cells.items() if level >= 4)
        n = sum(many for many, _ in cells.values())
        parts.append(f"{source} {format_percent(share_sure)} of {n}")
    return f"Share of ratings with confidence 4 or 5, {yes} and {no} together: {join_parts(parts)}."


def describe_violins(document: Document) -> str:
    words = dict(zip((1, 0), tables.verdict_words(document), strict=True))
    parts = [
        f"{get_text(line, 'source')}, {words[get_count(line, 'verdict')]}: {_format_level(get_number(line, 'median'))} of {get_count(line, 'n')}"
        for line in tables.get_rows(document, "spread")
        if get_count(line, "n")
    ]
    return f"Median confidence: {join_parts(parts)}."


Cells = Mapping[tuple[int, int], tuple[int, float]]


def _cells_by_source(document: Document) -> dict[str, Cells]:
    """Return by source, for each verdict and confidence, the number of ratings and its share of the source's ratings.

    Only the first twelve sources with ratings are included.
    """
    by_source: dict[str, dict[tuple[int, int], tuple[int, float]]] = {}
    for line in tables.get_rows(document, "confidence"):
        if n := get_count(line, "n"):
            cells = by_source.setdefault(get_text(line, "source"), {})
            cells[get_count(line, "verdict"), get_count(line, "confidence")] = (n, get_number(line, "share") or 0.0)
    return dict(list(by_source.items())[:MAX_PANELS])


def _compute_panel_width(profile: FigureSize, panels: int) -> float:
    columns = _count_columns(profile, panels)
    return (profile.width - (columns - 1) * profile.size * 1.6) / columns


def _count_columns(profile: FigureSize, panels: int) -> int:
    """Return as many panels per row as fit, in rows as even as possible."""
    max_columns = profile.width // _MIN_PANEL_WIDTH[profile.name]
    # Rounded up twice: first the number of rows, then the panels per row, so that the last row is not nearly empty.
    return -(-panels // -(-panels // max_columns))


def _add_legend(
    panels: Sequence[alt.LayerChart], document: Document, profile: FigureSize, left: float = 0.0
) -> AnyChart:
    yes, no = tables.verdict_words(document)
    sources = len(
        tables.list_distinct(
            [line for line in tables.get_rows(document, "confidence") if get_count(line, "n")], "source"
        )
    )
    # The number of omitted panels is stated, because readers would otherwise think that the figure is complete.
    more_text = f"{sources - MAX_PANELS} more sources are in the table." if sources > MAX_PANELS else ""
    entries = [
        legends.LegendEntry(word.capitalize(), _TONES[verdict].tint, _TONES[verdict].solid)
        for verdict, word in ((1, yes), (0, no))
    ]
    grid = alt.concat(
        *panels, columns=_count_columns(profile, len(panels)), spacing=profile.size * 1.6, align="each", bounds="full"
    )
    return alt.vconcat(legends.draw_across(entries, profile, more_text, left), grid, spacing=profile.size)


def _panel_title(source: str, n: int, profile: FigureSize, room: float) -> alt.TitleParams:
    return alt.TitleParams(
        wrap_text(source, room * 0.86, profile.size),  # bold text is wider
        subtitle=f"{n} rating{'s' if n != 1 else ''}",
        anchor="start",
        fontSize=profile.size,
        offset=profile.size * 0.4,
    )


def _draw_histogram(
    source: str, cells: Cells, top: float, profile: FigureSize, room: float, document: Document
) -> alt.LayerChart:
    words = dict(zip((1, 0), tables.verdict_words(document), strict=True))
    rows: list[dict[str, Any]] = []
    for (verdict, level), (n, share) in cells.items():
        title = f"{source}: {words[verdict]}, confidence {level}: {format_percent(share)}, {n} ratings"
        place = level + (-0.21 if verdict else 0.21)  # beside the level, so that the pair of columns is centred on it
        # A share that is rounded to zero would look like no ratings.
        label = f"{share * 100:.0f}" if share >= 0.005 else "<1"
        tone = _TONES[verdict]
        rows.append(
            {"x": place, "share": share, "title": title, "said": label, "fill": tone.tint, "stroke": tone.solid}
        )
    base = alt.Chart(make_data(rows))
    axis = alt.Axis(values=list(LEVELS), format="d", grid=False, ticks=False, title="Confidence")
    x = alt.X("x:Q", axis=axis, scale=alt.Scale(domain=[0.5, 5.5], nice=False, zero=False, padding=0))
    # 16% of room for the numbers above the columns.
    y = alt.Y("share:Q", axis=None, scale=alt.Scale(domain=[0, top * 1.16], nice=False))
    bars = base.mark_bar(size=room / 5 * 0.4, strokeWidth=profile.stroke * 0.75).encode(
        x=x,
        y=y,
        y2=alt.datum(0),
        fill=alt.Fill("fill:N", scale=None),
        stroke=alt.Stroke("stroke:N", scale=None),
        description="title:N",
    )
    numbers = base.mark_text(baseline="bottom", dy=-2, fontSize=profile.small, aria=False).encode(
        x=x, y=y, text="said:N"
    )
    heading = _panel_title(source, sum(n for n, _ in cells.values()), profile, room)
    return layer_charts(make_frame(0, room), bars, numbers, width=room, height=profile.size * 9).properties(
        title=heading
    )


def _draw_violin(
    source: str,
    halves: Sequence[tuple[int, NDArray[np.float64], TableRow | None]],
    profile: FigureSize,
    room: float,
    document: Document,
) -> alt.LayerChart:
    words = dict(zip((1, 0), tables.verdict_words(document), strict=True))
    left, height = _axis_width(profile), profile.size * 11
    x = alt.Scale(domain=[-1.08, 1.08], nice=False, zero=False, padding=0)
    y = alt.Scale(domain=[1, 5], nice=False, zero=False, padding=0)
    axis = alt.Axis(
        # Every level has its label, also in narrow panels.
        values=list(LEVELS),
        format="d",
        grid=True,
        ticks=False,
        domain=False,
        title=None,
        labelOverlap=False,
    )
    layers: list[alt.Chart] = [make_frame(-left, room - left)]
    # An invisible layer that carries the axis: the other layers are missing where a half has no ratings, and the axis
    # with them.
    layers.append(
        alt.Chart(make_data([{"y": 1}, {"y": 5}]))
        .mark_point(opacity=0, aria=False)
        .encode(y=alt.Y("y:Q", scale=y, axis=axis), x=alt.X(datum=0, scale=x, axis=None))
    )
    layers.append(
        alt.Chart(make_data([{}])).mark_rule(color=GRID.light, aria=False).encode(x=alt.X(datum=0, scale=x, axis=None))
    )
    texts: list[dict[str, Any]] = []
    for verdict, half, line in halves:
        n = get_count(line, "n") if line else 0
        side, median = (-1 if verdict else 1), get_number(line, "median") if line else None
        label = [f"n = {n}"] + ([f"median {_format_level(median)}"] if n else [])
        texts += [{"x": side * 0.54, "text": said, "dy": place} for place, said in enumerate(label)]
        if line is None or median is None or not n:
            continue
        lower, upper = get_number(line, "lower"), get_number(line, "upper")
        title = f"{source}: {words[verdict]}, {n} ratings, median {_format_level(median)}"
        title += (
            f", middle half {_format_level(lower)} to {_format_level(upper)}, mean {get_number(line, 'mean') or 0:.2f}"
        )
        # With fewer ratings only the median and the middle half are drawn.
        if n >= MIN_RATINGS:
            layers += _draw_half(half, side, _TONES[verdict], title, profile, x, y)
        layers += _draw_median(median, lower, upper, side, profile, x, y)
    # One layer per line of text, because the vertical offset belongs to the mark and not to the data.
    for place in (0, 1):
        some = [line for line in texts if line["dy"] == place]
        if some:
            word = alt.Chart(make_data(some)).mark_text(
                baseline="top", fontSize=profile.small, color=MUTED.light, aria=False
            )
            layers.append(
                word.encode(
                    x=alt.X("x:Q", scale=x, axis=None),
                    y=alt.value(height + profile.size * (0.5 + 1.2 * place)),
                    text="text:N",
                )
            )
    total = sum(get_count(line, "n") for _, _, line in halves if line)
    heading = _panel_title(source, total, profile, room)
    return layer_charts(*layers, width=room - left, height=height).properties(title=heading)


def _axis_width(profile: FigureSize) -> float:
    """Return the width, in pixels, of the space for the levels on the left of a violin."""
    return profile.size * 1.4


def _draw_half(
    half: NDArray[np.float64], side: int, tone: Any, title: str, profile: FigureSize, x: alt.Scale, y: alt.Scale
) -> list[alt.Chart]:
    grid = np.linspace(1, 5, _POINTS)
    rows = [
        # Rounded, since more digits only make the file larger. 0.02 leaves a gap in the middle of the violin.
        {"y": round(float(at), 3), "x": round(side * (0.02 + float(value)), 4), "x2": side * 0.02, "title": title}
        for at, value in zip(grid, half, strict=True)
    ]
    area = alt.Chart(make_data(rows)).mark_area(orient="horizontal", fill=tone.tint, opacity=1)
    area = area.encode(y=alt.Y("y:Q", scale=y), x=alt.X("x:Q", scale=x, axis=None), x2="x2:Q", description="title:N")
    edge = alt.Chart(make_data(rows)).mark_line(stroke=tone.solid, strokeWidth=profile.stroke * 0.75, aria=False)
    edge = edge.encode(y=alt.Y("y:Q", scale=y), x=alt.X("x:Q", scale=x, axis=None), order="y:Q")
    return [area, edge]


def _draw_median(
    median: float, lower: float | None, upper: float | None, side: int, profile: FigureSize, x: alt.Scale, y: alt.Scale
) -> list[alt.Chart]:
    row = {"x": side * 0.14, "median": median, "lower": lower, "upper": upper}
    base = alt.Chart(make_data([row])).encode(x=alt.X("x:Q", scale=x, axis=None))
    line = base.mark_rule(color=INK.light, strokeWidth=profile.stroke * 1.3, aria=False)
    dot = base.mark_point(
        fill=PAPER.light, stroke=INK.light, strokeWidth=profile.stroke, size=profile.point, opacity=1, aria=False
    )
    return [
        line.encode(y=alt.Y("lower:Q", scale=y), y2="upper:Q"),
        dot.encode(y=alt.Y("median:Q", scale=y)),
    ]


def _format_level(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1f}".removesuffix(".0")
