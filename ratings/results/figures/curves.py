"""Figures of ROC curves, and of changes over the order in which raters rated; lines with a legend for other figures."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import altair as alt

from ratings.results.figures.tables import (
    Document,
    TableRow,
    format_integer,
    format_interval,
    format_percent,
    format_two_decimals,
    get_rows,
    group_rows,
    join_parts,
    wrap_text,
)
from ratings.results.figures.theme import (
    AXIS,
    BARE_AXIS,
    INK,
    PAPER,
    TONES,
    AnyChart,
    Drawing,
    FigureSize,
    layer_charts,
    make_data,
    make_key,
    read_key,
)

HUES = ("blue", "orange", "green", "purple", "olive", "slate")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


class Curve(NamedTuple):
    """One line with markers. `said` is text below its name in the legend; points have x, y and, for a marker, a title."""

    name: str
    said: str
    points: Sequence[Mapping[str, Any]]


def make_share_axis() -> alt.Axis:
    return alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", grid=True, labelOverlap=False, labelFlush=False)


class CurvePlot(NamedTuple):
    """Curves in the given order with a legend in `legend_order` (places of curves), on the right or, if stacked, below.

    `height`: as a part of the width. The combination of hue and shape of a curve occurs again only after thirty curves.
    """

    curves: Sequence[Curve]
    legend_order: Sequence[int]
    x: alt.X
    y: alt.Y
    height: float
    profile: FigureSize

    def draw(self, before: Sequence[alt.Chart] = (), after: Sequence[alt.Chart] = ()) -> alt.LayerChart:
        """Draw lines and markers between other layers."""
        profile, encoding = self.profile, {"x": self.x, "y": self.y}
        points = [
            # The order is stored with the points, because Vega-Lite would otherwise connect them from left to right, which is
            # wrong for the vertical parts of a curve.
            {**point, "curve": key, "place": place}
            for key, curve in zip(self.keys, self.curves, strict=True)
            for place, point in enumerate(curve.points)
            if point["x"] is not None and point["y"] is not None
        ]
        line = alt.Chart(make_data(points)).mark_line(strokeWidth=profile.stroke * 1.2, aria=False)
        marker = alt.Chart(make_data([point for point in points if point["title"]])).mark_point(
            size=profile.point * 1.1, stroke=PAPER.light, strokeWidth=profile.stroke * 0.4, opacity=1
        )
        layers = [
            line.encode(**encoding, order="place:Q", stroke=self.stroke),
            marker.encode(**encoding, **self._marker_channels(), description="title:N"),
        ]
        return layer_charts(*before, *layers, *after, width=self.width, height=self.width * self.height)

    @property
    def width(self) -> float:
        left = self.profile.size * 4.2  # of the vertical axis
        return self.profile.width - left - 8 if self.profile.stacked else self.profile.width * 0.56 - left

    @property
    def keys(self) -> list[str]:
        """The values of the scales of curves, which carry the lines of the legend."""
        profile = self.profile
        beside = 0.0 if profile.stacked else self.width + profile.size * 1.8
        room = profile.width - beside - profile.size * 6.2
        return [
            make_key(
                place,
                [
                    *wrap_text(curve.name, room, profile.size),
                    *filter(None, wrap_text(curve.said, room, profile.size, most=4)),
                ],
            )
            for place, curve in enumerate(self.curves)
        ]

    @property
    def stroke(self) -> alt.Stroke:
        return alt.Stroke("curve:N", scale=self._make_scale([TONES[hue].solid for hue in HUES]), legend=self._legend)

    def _marker_channels(self) -> dict[str, Any]:
        # The shape moves by one after each round of hues, so that the two together repeat as late as possible.
        shapes = [SHAPES[(place + place // len(HUES)) % len(SHAPES)] for place in range(len(self.curves))]
        hues = [TONES[hue].solid for hue in HUES]
        return {
            "fill": alt.Fill("curve:N", scale=self._make_scale(hues), legend=self._legend),
            "shape": alt.Shape("curve:N", scale=self._make_scale(shapes), legend=self._legend),
        }

    @property
    def _legend(self) -> alt.Legend:
        """The legend, which is one for all channels because it is the same for all."""
        size = self.profile.size
        side: Literal["bottom", "right"] = "bottom" if self.profile.stacked else "right"
        return alt.Legend(
            orient=side, direction="vertical", columns=1, offset=size * 1.5, rowPadding=size, labelExpr=read_key()
        )

    def _make_scale(self, values: Sequence[str]) -> alt.Scale:
        keys = self.keys
        return alt.Scale(
            domain=[keys[place] for place in self.legend_order],
            range=[values[place % len(values)] for place in self.legend_order],
        )


def _draw_roc(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a ROC curve for each error source, from (0, 0) to (1, 1), through the points of the table."""
    areas = _list_areas(document)
    curves = [
        Curve(
            source or "All errors", _describe_area(areas.get(source), lines), [_make_roc_point(line) for line in lines]
        )
        for source, lines in group_rows(get_rows(document, "roc"), "source").items()
    ]
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("x:Q", title="False alarms", axis=make_share_axis(), scale=scale)
    y = alt.Y("y:Q", title="Hits", axis=make_share_axis(), scale=scale)
    # The dashed line is not data, so screen readers skip it.
    chance = alt.Chart(make_data([{"x": 0, "y": 0}, {"x": 1, "y": 1}])).mark_line(
        color=AXIS.light, strokeWidth=profile.stroke * 0.8, strokeDash=[4, 4], aria=False
    )
    return CurvePlot(curves, range(len(curves)), x, y, 1.0, profile).draw(before=[chance.encode(x=x, y=y)])


def _list_areas(document: Document) -> dict[str, TableRow]:
    """Return for each source the row of all raters together in the table of detection."""
    # The areas of single raters are left out, because the legend has no room for them.
    return {line.text("source"): line for line in get_rows(document, "detection") if line.text("who") == "all raters"}


def _describe_area(line: TableRow | None, points: Sequence[TableRow]) -> str:
    n = f"{points[0].count('n_error')} ratings with an error and {points[0].count('n_genuine')} without"
    area, low, high = (line or TableRow()).numbers("auc", "auc_low", "auc_high")
    if area is None:
        return n
    ends = f" ({format_interval(low, high, format_two_decimals)})" if low is not None else ""
    return f"mean AUC {format_two_decimals(area)}{ends}, {n}"


def _make_roc_point(line: TableRow) -> dict[str, Any]:
    false_alarms, hits, threshold = line.numbers("false_alarm_rate", "hit_rate", "threshold")
    title = ""  # the curve starts where nothing is rated as an error; this is not a rating, so it has no marker
    if threshold is not None:
        at = f"{threshold:g}".replace("-", "−")
        title = f"{line.text('source')}: errors are ratings up to {at}: {format_percent(hits)} hits, {format_percent(false_alarms)} false alarms"
    return {"x": false_alarms, "y": hits, "title": title}


def _describe_roc(document: Document) -> str:
    areas = _list_areas(document)
    parts = [
        f"{source or 'all errors'} {_describe_area(areas.get(source), lines)}"
        for source, lines in group_rows(get_rows(document, "roc"), "source").items()
    ]
    return f"Outcomes with an error against those without: {join_parts(parts)}."


def _draw_drift(document: Document, profile: FigureSize) -> AnyChart:
    """Draw the share correct and the median seconds by position in the raters' orders."""
    rows = [_make_drift_row(line) for line in get_rows(document, "drift")]
    plots = []
    for field, title, number_format in (
        ("correct", "Correct", ".0%"),
        ("seconds", "Median seconds per item", ",.0f"),
    ):
        if known := _list_known(rows, field):
            # Room for the numbers above the highest point.
            top = 1.08 if field == "correct" else max(row[field] for row in known) * 1.2 or 1.0
            axis = alt.Axis(format=number_format, tickCount=4, **BARE_AXIS, minExtent=profile.size * 3.4)
            scale = alt.Scale(domain=[0, top], nice=False, zero=True)
            y, low = (alt.Y(f"{name}:Q", axis=axis, scale=scale) for name in (field, "low"))
            plots.append(_draw_over_positions(known, [row["places"] for row in rows], y, low, field, title, profile))
    return alt.vconcat(*plots, spacing=profile.size * 1.5)


def _make_drift_row(line: TableRow) -> dict[str, Any]:
    first, last = line.count("from_position"), line.count("to_position")
    places = f"{first}–{last}" if last != first else f"{first}"
    correct, low, high, seconds = line.numbers("correct_share", "low", "high", "median_seconds")
    pace = "" if seconds is None else f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    title = f"Places {places}: {format_percent(correct)} correct, 95% interval: {format_interval(low, high)}, {line.count('n')} ratings"
    title += f", median {pace}" if pace else ""
    return {
        **{"places": places, "correct": correct, "low": low, "high": high, "seconds": seconds, "title": title},
        **{"correct_text": format_percent(correct), "seconds_text": pace},
    }


def _list_known(rows: Sequence[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Return the rows that have a value of this field; none if it is a time and no time reaches one second."""
    known_rows = [row for row in rows if row[field] is not None]
    # Simulated raters take less than a second; a curve of such times would mean nothing.
    return [] if field == "seconds" and all(row[field] < 1 for row in known_rows) else known_rows


def _draw_over_positions(
    rows: Sequence[dict[str, Any]], order: list[str], y: alt.Y, low: alt.Y, field: str, title: str, profile: FigureSize
) -> alt.LayerChart:
    size, blue = profile.size, TONES["blue"].solid
    axis = alt.Axis(
        title="Position in the order", ticks=False, grid=False, labelOverlap=True, labelSeparation=size * 0.6
    )
    # The order of positions, not of their texts: "11–20" is before "2–10" as text.
    x = alt.X("places:N", sort=order, axis=axis, scale=alt.Scale(type="band", domain=order))
    base = alt.Chart(make_data(rows)).encode(x=x, y=y)
    layers = [base.mark_line(color=blue, strokeWidth=profile.stroke, aria=False)]
    if field == "correct":
        whiskers = alt.Chart(make_data([row for row in rows if row["low"] is not None])).encode(x=x, y2="high:Q")
        rule = whiskers.mark_rule(color=INK.light, strokeWidth=profile.stroke, aria=False)
        layers.append(rule.encode(y=low))
    dots = base.mark_point(filled=True, fill=blue, size=profile.point, opacity=1)
    numbers = base.mark_text(
        align="left", baseline="bottom", dx=size * 0.4, dy=-size * 0.3, fontSize=profile.small, aria=False
    )
    layers += [dots.encode(description="title:N"), numbers.encode(text=f"{field}_text:N")]
    heading = alt.TitleParams(title, offset=size * 0.6, fontWeight="normal")
    return layer_charts(*layers, width=profile.width - size * 5.4, height=size * 9, title=heading)


def _describe_drift(document: Document) -> str:
    rows = [_make_drift_row(line) for line in get_rows(document, "drift")]
    parts = []
    for field, name, say in (
        ("correct", "Correct", format_percent),
        ("seconds", "Median seconds per item", format_integer),
    ):
        if known := _list_known(rows, field):
            first, last = known[0], known[-1]
            parts.append(
                f"{name} {say(first[field])} at positions {first['places']}, {say(last[field])} at {last['places']}"
            )
    return f"{join_parts(parts)}." if parts else "The order of the ratings is unknown."


def _has_drift(document: Document) -> bool:
    rows = [_make_drift_row(line) for line in get_rows(document, "drift")]
    return any(_list_known(rows, field) for field in ("correct", "seconds"))


ROC = Drawing(_draw_roc, _describe_roc)
DRIFT = Drawing(_draw_drift, _describe_drift, _has_drift)
