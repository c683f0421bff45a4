"""Figures of ROC curves, and of changes over the order in which raters rated; lines with a legend for other figures."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import altair as alt

from ratings.results.figures import tables, theme

HUES = ("blue", "orange", "green", "purple", "olive", "slate")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_PACE = "Median seconds per item"


class Curve(NamedTuple):
    """One line with markers. `said` is text below its name in the legend; points have x, y and, for a marker, a title.

    No line leads to points with `alone`.
    """

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
    profile: theme.FigureSize

    def draw(self, before: Sequence[alt.Chart] = (), after: Sequence[alt.Chart] = ()) -> theme.Spec:
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
        joined = [point for point in points if not point.get("alone")]
        line = alt.Chart(theme.make_data(joined)).mark_line(strokeWidth=profile.stroke * 1.2, aria=False)
        marker = alt.Chart(theme.make_data([point for point in points if point["title"]])).mark_point(
            size=profile.point * 1.1, stroke=theme.PAPER.light, strokeWidth=profile.stroke * 0.4, opacity=1
        )
        layers = [
            line.encode(**encoding, order="place:Q", stroke=self.stroke),
            marker.encode(**encoding, **self._marker_channels(), description="title:N"),
        ]
        return theme.layer_charts(*before, *layers, *after, width=self.width, height=self.width * self.height)

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
        keys = []
        for place, curve in enumerate(self.curves):
            said = filter(None, tables.wrap_text(curve.said, room, profile.size, most=4))
            keys.append(theme.make_key(place, [*tables.wrap_text(curve.name, room, profile.size), *said]))
        return keys

    @property
    def stroke(self) -> alt.Stroke:
        return alt.Stroke(**self._channel([theme.TONES[hue].solid for hue in HUES]))

    def _marker_channels(self) -> dict[str, Any]:
        # The shape moves by one after each round of hues, so that the two together repeat as late as possible.
        shapes = [SHAPES[(place + place // len(HUES)) % len(SHAPES)] for place in range(len(self.curves))]
        hues = [theme.TONES[hue].solid for hue in HUES]
        return {"fill": alt.Fill(**self._channel(hues)), "shape": alt.Shape(**self._channel(shapes))}

    def _channel(self, values: Sequence[str]) -> dict[str, Any]:
        """Return the field, scale and legend of a channel. The legend is the same for all, so that they share one."""
        size, keys = self.profile.size, self.keys
        domain = [keys[place] for place in self.legend_order]
        scale = alt.Scale(domain=domain, range=[values[place % len(values)] for place in self.legend_order])
        side: Literal["bottom", "right"] = "bottom" if self.profile.stacked else "right"
        legend = alt.Legend(
            orient=side, direction="vertical", columns=1, offset=size * 1.5, rowPadding=size, labelExpr=theme.read_key()
        )
        return {"shorthand": "curve:N", "scale": scale, "legend": legend}


def _draw_roc(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    """Draw a ROC curve for each error source, from (0, 0) to (1, 1), through the points of the table."""
    curves = _list_curves(document)
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = alt.X("x:Q", title="False alarms", axis=make_share_axis(), scale=scale)
    y = alt.Y("y:Q", title="Hits", axis=make_share_axis(), scale=scale)
    # The dashed line is not data, so screen readers skip it.
    chance = alt.Chart(theme.make_data([{"x": 0, "y": 0}, {"x": 1, "y": 1}])).mark_line(
        color=theme.AXIS.light, strokeWidth=profile.stroke * 0.8, strokeDash=[4, 4], aria=False
    )
    return CurvePlot(curves, range(len(curves)), x, y, 1.0, profile).draw(before=[chance.encode(x=x, y=y)])


def _list_curves(document: tables.Document) -> list[Curve]:
    # The areas of single raters are left out, because the legend has no room for them.
    detection = [line for line in tables.get_rows(document, "detection") if line.text("who") == "all raters"]
    areas = {line.text("source"): line for line in detection}
    groups = tables.group_rows(tables.get_rows(document, "roc"), "source")
    return [
        Curve(source or "All errors", _describe_area(areas.get(source), lines), list(map(_make_roc_point, lines)))
        for source, lines in groups.items()
    ]


def _describe_area(line: tables.TableRow | None, points: Sequence[tables.TableRow]) -> str:
    n = f"{points[0].count('n_error')} ratings with an error and {points[0].count('n_genuine')} without"
    area, low, high = (line or tables.TableRow()).numbers("auc", "auc_low", "auc_high")
    if area is None:
        return n
    ends = f" ({tables.format_interval(low, high, tables.format_two_decimals)})" if low is not None else ""
    return f"mean AUC {tables.format_two_decimals(area)}{ends}, {n}"


def _make_roc_point(line: tables.TableRow) -> dict[str, Any]:
    false_alarms, hits, threshold = line.numbers("false_alarm_rate", "hit_rate", "threshold")
    title = ""  # the curve starts where nothing is rated as an error; this is not a rating, so it has no marker
    if threshold is not None:
        at = f"{threshold:g}".replace("-", "−")
        title = f"{line.text('source')}: errors are ratings up to {at}: {tables.format_percent(hits)} hits, {tables.format_percent(false_alarms)} false alarms"
    return {"x": false_alarms, "y": hits, "title": title}


def _describe_curve(curve: Curve) -> str:
    return f"{'all errors' if curve.name == 'All errors' else curve.name} {curve.said}"


def _draw_drift(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    """Draw the share correct and the median seconds by position in the raters' orders."""
    rows = [_make_drift_row(line) for line in tables.get_rows(document, "drift")]
    plots = []
    for field, title, number_format in (("correct", "Correct", ".0%"), ("seconds", _PACE, ",.0f")):
        if known := _list_known(rows, field):
            # Room for the numbers above the highest point.
            top = 1.08 if field == "correct" else max(row[field] for row in known) * 1.2 or 1.0
            axis = alt.Axis(format=number_format, tickCount=4, **theme.BARE_AXIS, minExtent=profile.size * 3.4)
            scale = alt.Scale(domain=[0, top], nice=False, zero=True)
            y, low = (alt.Y(f"{name}:Q", axis=axis, scale=scale) for name in (field, "low"))
            plots.append(_draw_over_positions(known, [row["places"] for row in rows], y, low, field, title, profile))
    return theme.stack_charts(plots, profile.size * 1.5)


def _make_drift_row(line: tables.TableRow) -> dict[str, Any]:
    first, last = line.count("from_position"), line.count("to_position")
    places = f"{first}–{last}" if last != first else f"{first}"
    correct, low, high, seconds = line.numbers("correct_share", "low", "high", "median_seconds")
    pace = "" if seconds is None else f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    title = f"Places {places}: {tables.format_percent(correct)} correct, 95% interval: {tables.format_interval(low, high)}, {line.count('n')} ratings"
    title += f", median {pace}" if pace else ""
    return {
        **{"places": places, "correct": correct, "low": low, "high": high, "seconds": seconds, "title": title},
        **{"correct_text": tables.format_percent(correct), "seconds_text": pace},
    }


def _list_known(rows: Sequence[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Return the rows that have a value of this field; none if it is a time and no time reaches one second."""
    known_rows = [row for row in rows if row[field] is not None]
    # Simulated raters take less than a second; a curve of such times would mean nothing.
    return [] if field == "seconds" and all(row[field] < 1 for row in known_rows) else known_rows


def _draw_over_positions(
    rows: Sequence[dict[str, Any]],
    order: list[str],
    y: alt.Y,
    low: alt.Y,
    field: str,
    title: str,
    profile: theme.FigureSize,
) -> theme.Spec:
    size, blue = profile.size, theme.TONES["blue"].solid
    axis = alt.Axis(
        title="Position in the order", ticks=False, grid=False, labelOverlap=True, labelSeparation=size * 0.6
    )
    # The order of positions, not of their texts: "11–20" is before "2–10" as text.
    x = alt.X("places:N", sort=order, axis=axis, scale=alt.Scale(type="band", domain=order))
    base = alt.Chart(theme.make_data(rows)).encode(x=x, y=y)
    layers = [base.mark_line(color=blue, strokeWidth=profile.stroke, aria=False)]
    if field == "correct":
        whiskers = alt.Chart(theme.make_data([row for row in rows if row["low"] is not None])).encode(x=x, y2="high:Q")
        rule = whiskers.mark_rule(color=theme.INK.light, strokeWidth=profile.stroke, aria=False)
        layers.append(rule.encode(y=low))
    dots = base.mark_point(filled=True, fill=blue, size=profile.point, opacity=1)
    numbers = base.mark_text(
        align="left", baseline="bottom", dx=size * 0.4, dy=-size * 0.3, fontSize=profile.small, aria=False
    )
    layers += [dots.encode(description="title:N"), numbers.encode(text=f"{field}_text:N")]
    heading = alt.TitleParams(title, offset=size * 0.6, fontWeight="normal")
    return theme.layer_charts(*layers, width=profile.width - size * 5.4, height=size * 9, title=heading)


def _describe_drift(document: tables.Document) -> str:
    rows = [_make_drift_row(line) for line in tables.get_rows(document, "drift")]
    parts = []
    for field, name, say in (("correct", "Correct", tables.format_percent), ("seconds", _PACE, tables.format_integer)):
        if known := _list_known(rows, field):
            first, last = known[0], known[-1]
            parts.append(
                f"{name} {say(first[field])} at positions {first['places']}, {say(last[field])} at {last['places']}"
            )
    return f"{tables.join_parts(parts)}." if parts else "The order of the ratings is unknown."


def _has_drift(document: tables.Document) -> bool:
    rows = [_make_drift_row(line) for line in tables.get_rows(document, "drift")]
    return any(_list_known(rows, field) for field in ("correct", "seconds"))


_DESCRIBE_ROC = tables.describe_rows("Outcomes with an error against those without", _list_curves, _describe_curve)
ROC = theme.Drawing(_draw_roc, _DESCRIBE_ROC)
DRIFT = theme.Drawing(_draw_drift, _describe_drift, _has_drift)
