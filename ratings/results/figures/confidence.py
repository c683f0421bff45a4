"""Figures of confidence by source and verdict: histograms, and violins like the paper's Fig. 3, or dots for few ratings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from numpy.typing import NDArray

from ratings.results.figures import tables, theme
from ratings.results.figures.registry import MIN_DENSITY_RATINGS
from wetbench_site.text import format_count

LEVELS = (1, 2, 3, 4, 5)
BANDWIDTH = 0.4  # bandwidth, in levels of confidence; the note of the figure states it
MAX_PANELS = 12  # most panels: more would make a page too long; the other sources are in the table
_POINTS = 49  # points of a curve; more points make the file larger without a visible difference
_DOTS_FROM = 0.16  # distance of the first dot from the middle, in halves of a panel; the median is between them
_DOT_STEP = 0.1  # distance of two dots of the same confidence, if all of them fit
_MIN_PANEL_WIDTH = {"wide": 210, "narrow": 160, "print": 150}  # in pixels; in narrower panels, labels overlap
_VERDICTS = {1: theme.TONES["blue"], 0: theme.TONES["orange"]}

# By verdict and confidence, the number of ratings and its share of the source's ratings.
Cells = Mapping[tuple[int, int], tuple[int, float]]


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
    return density / area if n else density


def _list_cells(document: tables.Document) -> Mapping[str, Cells]:
    """Return the cells with ratings by source."""
    by_source: dict[str, dict[tuple[int, int], tuple[int, float]]] = {}
    for line in tables.get_rows(document, "confidence"):
        if n := line.count("n"):
            cells = by_source.setdefault(line.text("source"), {})
            cells[line.count("verdict"), line.count("confidence")] = (n, line.number("share") or 0.0)
    return by_source


class _Panels(NamedTuple):
    """What the panels of a figure have in common. `width` is that of a panel, in pixels."""

    cells: Mapping[str, Cells]
    columns: int
    width: float
    words: dict[int, str]
    more: str
    profile: theme.FigureSize

    @classmethod
    def of(cls, document: tables.Document, profile: theme.FigureSize) -> "_Panels":
        all_cells = _list_cells(document)
        cells = dict(list(all_cells.items())[:MAX_PANELS])
        most = profile.width // _MIN_PANEL_WIDTH[profile.name]
        # Rounded up twice: first the number of rows, then the panels per row, so that the last row is not nearly empty.
        columns = -(-len(cells) // -(-len(cells) // most))
        width = (profile.width - (columns - 1) * profile.size * 1.6) / columns
        # The number of omitted panels is stated, because readers would otherwise think that the figure is complete.
        omitted = len(all_cells) - len(cells)
        more = f"{omitted} more sources are in the table." if omitted else ""
        return cls(cells, columns, width, dict(zip((1, 0), tables.verdict_words(document), strict=True)), more, profile)

    @property
    def paint(self) -> dict[str, Any]:
        """The colours by verdict, with their legend."""
        words = [self.words[verdict].capitalize() for verdict in (1, 0)]
        legend = alt.Legend(orient="top", symbolType="square", offset=self.profile.size * 1.2)
        fills = alt.Scale(domain=words, range=[_VERDICTS[verdict].tint for verdict in (1, 0)])
        edges = alt.Scale(domain=words, range=[_VERDICTS[verdict].solid for verdict in (1, 0)])
        return {
            "fill": alt.Fill("verdict:N", scale=fills, legend=legend),
            "stroke": alt.Stroke("verdict:N", scale=edges, legend=legend),
        }

    def make_title(self, source: str) -> alt.TitleParams:
        n = sum(n for n, _ in self.cells[source].values())
        # 0.86: bold text is wider.
        lines = tables.wrap_text(source, self.width * 0.86, self.profile.size)
        return alt.TitleParams(lines, subtitle=f"{n} rating{'s' if n != 1 else ''}")

    def arrange(self, charts: Sequence[theme.Spec]) -> theme.Spec:
        """Return the panels in rows, with one legend for all."""
        title = theme.make_note(self.more, self.profile) if self.more else None
        return theme.share_colours(theme.arrange_charts(charts, self.columns, self.profile.size * 1.6, title))


def _draw_histograms(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    """Draw a panel per source with pairs of columns, plausible on the left."""
    panels = _Panels.of(document, profile)
    # One scale for all panels, so that equal columns mean equal shares; 16% of room for the numbers above the columns.
    top = 1.16 * max(share for cells in panels.cells.values() for _, share in cells.values())
    return panels.arrange([_draw_histogram(panels, source, top) for source in panels.cells])


def _draw_histogram(panels: _Panels, source: str, top: float) -> theme.Spec:
    profile = panels.profile
    rows = [
        {
            "confidence": level,
            "verdict": panels.words[verdict].capitalize(),
            "share": share,
            # A share that is rounded to zero would look like no ratings.
            "number": f"{share * 100:.0f}" if share >= 0.005 else "<1",
            "title": f"{source}: {panels.words[verdict]}, confidence {level}: {tables.format_percent(share)}, {n} ratings",
        }
        for (verdict, level), (n, share) in panels.cells[source].items()
    ]
    axis = alt.Axis(ticks=False, title="Confidence")
    base = alt.Chart(theme.make_data(rows)).encode(
        x=alt.X("confidence:O", axis=axis, scale=alt.Scale(domain=LEVELS, paddingInner=0.2, paddingOuter=0.1)),
        xOffset=alt.XOffset("verdict:N", scale=alt.Scale(domain=[word.capitalize() for word in panels.words.values()])),
        y=alt.Y("share:Q", axis=None, scale=alt.Scale(domain=[0, top], nice=False)),
    )
    bars = base.mark_bar(strokeWidth=profile.stroke * 0.75).encode(**panels.paint, description="title:N")
    numbers = base.mark_text(baseline="bottom", dy=-2, fontSize=profile.small, aria=False).encode(text="number:N")
    title = panels.make_title(source)
    return theme.layer_charts(bars, numbers, width=panels.width, height=profile.size * 9, title=title)


def _describe_histogram(panel: tuple[str, Cells]) -> str:
    source, cells = panel
    share_sure = sum(share for (_, level), (_, share) in cells.items() if level >= 4)
    return f"{source} {tables.format_percent(share_sure)} of {sum(n for n, _ in cells.values())}"


def _draw_violins(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    """Draw a panel per source: the density of plausible ratings on the left, of the others on the right."""
    panels = _Panels.of(document, profile)
    spread = {(line.text("source"), line.count("verdict")): line for line in tables.get_rows(document, "spread")}
    levels = np.linspace(1, 5, _POINTS)
    halves = {
        (source, verdict): compute_density(
            {level: cells[verdict, level][0] for level in LEVELS if (verdict, level) in cells}, levels
        )
        for source, cells in panels.cells.items()
        for verdict in (1, 0)
    }
    # One scale for all halves, so that equal areas mean equal shares. The others are drawn as dots.
    shown = [
        half for key, half in halves.items() if spread.get(key, tables.TableRow()).count("n") >= MIN_DENSITY_RATINGS
    ]
    widest = max((float(half.max()) for half in shown), default=1.0)
    charts = []
    for source in panels.cells:
        lines = {verdict: spread.get((source, verdict), tables.TableRow()) for verdict in (1, 0)}
        curves = {verdict: list(zip(levels, halves[source, verdict] / widest, strict=True)) for verdict in (1, 0)}
        charts.append(_draw_violin(panels, source, lines, curves))
    return panels.arrange(charts)


_Curves = Mapping[int, Sequence[tuple[float, float]]]
_Row = dict[str, Any]


def _draw_violin(panels: _Panels, source: str, lines: Mapping[int, tables.TableRow], halves: _Curves) -> theme.Spec:
    profile = panels.profile
    areas, dots, medians, labels = list[_Row](), list[_Row](), list[_Row](), list[list[str]]()
    for verdict, side in ((1, -1), (0, 1)):
        line, word = lines[verdict], panels.words[verdict]
        n, (median, lower, upper, mean) = line.count("n"), line.numbers("median", "lower", "upper", "mean")
        labels.append([f"n = {n}"] + ([f"median {_format_level(median)}"] if n else []))
        if median is None or not n:
            continue
        title = f"{source}: {word}, {n} ratings, median {_format_level(median)}"
        title += f", middle half {_format_level(lower)} to {_format_level(upper)}, mean {mean or 0:.2f}"
        drawn_as_dots = n < MIN_DENSITY_RATINGS
        offset = side * (0.07 if drawn_as_dots else 0.14)
        medians.append({"x": offset, "median": median, "lower": lower, "upper": upper})
        if drawn_as_dots:
            dots += _place_dots(panels.cells[source], verdict, side, word.capitalize())
        else:
            areas += [
                # Rounded, since more digits only make the file larger. 0.02 leaves a gap in the middle of the violin.
                {
                    **{"y": round(float(level), 3), "x": round(side * (0.02 + float(value)), 4), "x2": side * 0.02},
                    **{"verdict": word.capitalize(), "title": title},
                }
                for level, value in halves[verdict]
            ]
    # The numbers of ratings are the labels of the horizontal axis, one for each half.
    halves_text, bare = f"datum.value < 0 ? {labels[0]} : {labels[1]}", theme.BARE_AXIS
    across = alt.Axis(values=[-0.54, 0.54], labelExpr=halves_text, labelColor=theme.MUTED.light, grid=False, **bare)
    # Every level has its label, also in narrow panels.
    upright = alt.Axis(values=list(LEVELS), format="d", labelOverlap=False, minExtent=profile.size * 1.4, **bare)
    x = alt.X("x:Q", scale=alt.Scale(domain=[-1.08, 1.08], nice=False, zero=False, padding=0), axis=across)
    levels = alt.Scale(domain=[1, 5], nice=False, zero=False, padding=0)
    y, lower_y, median_y = (alt.Y(f"{field}:Q", scale=levels, axis=upright) for field in ("y", "lower", "median"))
    area = alt.Chart(theme.make_data(areas)).mark_area(orient="horizontal", opacity=1, strokeWidth=0)
    edge = alt.Chart(theme.make_data(areas)).mark_line(strokeWidth=profile.stroke * 0.75, aria=False)
    middle = alt.Chart(theme.make_data([{"x": 0}])).mark_rule(color=theme.GRID.light, aria=False)
    look: dict[str, Any] = {"aria": False, "stroke": theme.INK.light}
    spread = alt.Chart(theme.make_data(medians)).mark_rule(strokeWidth=profile.stroke * 1.3, **look)
    dot = alt.Chart(theme.make_data(medians)).mark_point(
        fill=theme.PAPER.light, strokeWidth=profile.stroke, size=profile.point, opacity=1, **look
    )
    # A dot is at most as wide as the distance of two, so that each can be counted.
    width = panels.width - profile.size * 1.4
    step = min((dot["step"] for dot in dots), default=_DOT_STEP) * width / 2.16
    single = alt.Chart(theme.make_data(dots)).mark_point(
        opacity=1, strokeWidth=profile.stroke * 0.5, size=min(profile.point, step**2 * 0.7)
    )
    return theme.layer_charts(
        middle.encode(x=x),
        single.encode(x=x, y=y, **panels.paint, description="title:N"),
        area.encode(x=x, y=y, x2="x2:Q", **panels.paint, description="title:N"),
        edge.encode(x=x, y=y, stroke=panels.paint["stroke"], order="y:Q"),
        spread.encode(x=x, y=lower_y, y2="upper:Q"),
        dot.encode(x=x, y=median_y),
        width=width,
        height=profile.size * 11,
        title=panels.make_title(source),
    )


def _place_dots(cells: Cells, verdict: int, side: int, word: str) -> list[_Row]:
    """Return a row for each rating of the verdict: side by side at its confidence, from the middle outwards."""
    counts = {level: cells[verdict, level][0] for level in LEVELS if (verdict, level) in cells}
    step = min(_DOT_STEP, (1 - _DOTS_FROM) / max(counts.values()))
    return [
        {
            **{"y": level, "x": round(side * (_DOTS_FROM + place * step), 4), "step": step},
            **{"verdict": word, "title": f"{word}, confidence {level}: {format_count(n, 'rating')}"},
        }
        for level, n in counts.items()
        for place in range(n)
    ]


def _describe_violins(document: tables.Document) -> str:
    words = dict(zip((1, 0), tables.verdict_words(document), strict=True))
    parts = [
        f"{line.text('source')}, {words[line.count('verdict')]}: {_format_level(line.number('median'))} of {line.count('n')}"
        for line in tables.get_rows(document, "spread")
        if line.count("n")
    ]
    return f"Median confidence: {tables.join_parts(parts)}."


def _format_level(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1f}".removesuffix(".0")


HISTOGRAMS = theme.Drawing(
    _draw_histograms,
    tables.describe_rows(
        "Share of ratings with confidence 4 or 5, {yes} and {no} together",
        lambda document: list(_list_cells(document).items())[:MAX_PANELS],
        _describe_histogram,
    ),
    lambda document: bool(_list_cells(document)),
)
VIOLINS = theme.Drawing(_draw_violins, _describe_violins, HISTOGRAMS.has_values)
