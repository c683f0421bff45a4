"""Figures of ROC curves, of pass@k, and of changes over the order in which raters rated."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from ratings.results.figures import legends, tables
from ratings.results.figures.tables import (
    Document,
    TableRow,
    format_integer,
    format_interval,
    format_percent,
    format_two_decimals,
    get_count,
    get_number,
    get_text,
    join_parts,
)
from ratings.results.figures.theme import (
    AXIS,
    INK,
    PAPER,
    TONES,
    AnyChart,
    FigureSize,
    layer_charts,
    make_data,
    make_frame,
)


def _curve_style(place: int) -> tuple[str, str]:
    """Return the hue and shape of a curve by its index. The same combination occurs again only after thirty curves."""
    # The shape moves by one after each round of hues, so that the two together repeat as late as possible.
    return legends.HUES[place % len(legends.HUES)], legends.SHAPES[
        (place + place // len(legends.HUES)) % len(legends.SHAPES)
    ]


def draw_roc(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a ROC curve for each error source, from (0, 0) to (1, 1), through the points of the table."""
    lines = tables.get_rows(document, "roc")
    areas = _areas_by_source(document)
    points, entries = list[dict[str, Any]](), list[legends.LegendEntry]()
    for place, source in enumerate(tables.list_distinct(lines, "source")):
        hue, shape = _curve_style(place)
        some = [line for line in lines if get_text(line, "source") == source]
        points += [_make_roc_point(line, source, TONES[hue].solid, shape) for line in some]
        area_text = _describe_area(areas.get(source), some)
        entries.append(
            legends.LegendEntry(source or "All errors", TONES[hue].solid, TONES[hue].solid, shape, area_text)
        )
    left = profile.size * 4.2
    # The plot is beside the legend if there is room; otherwise it has the full width.
    side = profile.width - left - 8 if profile.stacked else profile.width * 0.56 - left
    x = alt.X("x:Q", title="False alarms", axis=_make_share_axis(), scale=alt.Scale(domain=[0, 1], nice=False))
    y = alt.Y("y:Q", title="Hits", axis=_make_share_axis(), scale=alt.Scale(domain=[0, 1], nice=False))
    # The dashed line is not data, so screen readers skip it.
    chance = alt.Chart(make_data([{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
    dashed = chance.mark_line(color=AXIS.light, strokeWidth=profile.stroke * 0.8, strokeDash=[4, 4], aria=False)
    steps = _draw_lines(points, profile, x, y)
    plot = layer_charts(make_frame(-left, side + 6), dashed.encode(x=x, y=y), *steps, width=side, height=side)
    return legends.draw_beside(plot, entries, profile, profile.width - left - side - 6 - profile.size * 1.5, -left)


def _areas_by_source(document: Document) -> dict[str, TableRow]:
    """Return for each source the row of all raters together in the table of detection."""
    some = tables.get_rows(document, "detection")
    # The areas of single raters are left out, because the legend has no room for them.
    return {get_text(line, "source"): line for line in some if get_text(line, "who") == "all raters"}


def _describe_area(line: TableRow | None, points: Sequence[TableRow]) -> str:
    n = f"{get_count(points[0], 'n_error')} ratings with an error and {get_count(points[0], 'n_genuine')} without"
    if line is None or get_number(line, "auc") is None:
        return n
    low, high = get_number(line, "auc_low"), get_number(line, "auc_high")
    ends = f" ({format_interval(low, high, format_two_decimals)})" if low is not None else ""
    return f"mean AUC {format_two_decimals(get_number(line, 'auc'))}{ends}, {n}"


def _make_roc_point(line: TableRow, source: str, colour: str, shape: str) -> dict[str, Any]:
    false_alarms, hits = get_number(line, "false_alarm_rate"), get_number(line, "hit_rate")
    threshold = get_number(line, "threshold")
    # A point with a title is drawn with a marker; a point without a title is only an end of the line.
    title = ""  # the curve starts where nothing is rated as an error; this is not a rating, so it has no marker
    if threshold is not None:
        at = f"{threshold:g}".replace("-", "−")
        title = f"{source}: errors are ratings up to {at}: {format_percent(hits)} hits, {format_percent(false_alarms)} false alarms"
    return {"of": source, "x": false_alarms, "y": hits, "title": title, "colour": colour, "shape": shape}


def _make_share_axis() -> alt.Axis:
    return alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", grid=True, labelOverlap=False, labelFlush=False)


def _draw_lines(points: list[dict[str, Any]], profile: FigureSize, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Return layers with a line through the points of each curve, in the given order, and with the points."""
    colour = alt.Stroke("colour:N", scale=None)
    defined = [
        # The order is stored with the points, because Vega-Lite would otherwise connect them from left to right, which is
        # wrong for the vertical parts of a curve.
        {**point, "place": place}
        for place, point in enumerate(points)
        if point["x"] is not None and point["y"] is not None
    ]
    base = alt.Chart(make_data([point for point in defined if point["title"]]))
    line = alt.Chart(make_data(defined)).mark_line(strokeWidth=profile.stroke * 1.2, aria=False)
    line = line.encode(x=x, y=y, detail="of:N", order=alt.Order("place:Q"), stroke=colour)
    mark = base.mark_point(size=profile.point * 1.1, strokeWidth=profile.stroke * 0.4, opacity=1)
    dots = mark.encode(
        x=x,
        y=y,
        fill=alt.Fill("colour:N", scale=None),
        stroke=alt.value(PAPER.light),
        shape=alt.Shape("shape:N", scale=None),
        description="title:N",
    )
    return [line, dots]


def describe_roc(document: Document) -> str:
    areas = _areas_by_source(document)
    lines = tables.get_rows(document, "roc")
    parts = [
        f"{source or 'all errors'} "
        + _describe_area(areas.get(source), [line for line in lines if get_text(line, "source") == source])
        for source in tables.list_distinct(lines, "source")
    ]
    return f"Outcomes with an error against those without: {join_parts(parts)}."


def has_drift(document: Document) -> bool:
    rows = [_drift_row(line) for line in tables.get_rows(document, "drift")]
    return any(_rows_with_field(rows, field) for field in ("correct", "seconds"))


def draw_drift(document: Document, profile: FigureSize) -> AnyChart:
    """Draw the share correct and the median seconds by position in the raters' orders."""
    rows = [_drift_row(line) for line in tables.get_rows(document, "drift")]
    left = profile.size * 3.4
    order = [row["places"] for row in rows]
    plots = [
        _draw_over_positions(rows, order, "correct", "Correct", profile, left, ("low", "high")),
        _draw_over_positions(rows, order, "seconds", "Median seconds per item", profile, left, None),
    ]
    return alt.vconcat(*[one for one in plots if one is not None], spacing=profile.size * 1.5)


def _drift_row(line: TableRow) -> dict[str, Any]:
    first, last = get_count(line, "from_position"), get_count(line, "to_position")
    places = f"{first}–{last}" if last != first else f"{first}"
    correct, low, high, seconds = (
        get_number(line, name) for name in ("correct_share", "low", "high", "median_seconds")
    )
    title = f"Places {places}: {format_percent(correct)} correct, 95% interval: {format_interval(low, high)}, {get_count(line, 'n')} ratings"
    title += f", median {_format_seconds(seconds)}" if seconds is not None else ""
    return {
        **{"places": places, "correct": correct, "low": low, "high": high, "seconds": seconds, "title": title},
        **{
            "correct_said": format_percent(correct),
            "seconds_said": "" if seconds is None else _format_seconds(seconds),
        },
    }


def _rows_with_field(rows: Sequence[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Return the rows that have a value of this field; none if it is a time and no time reaches one second."""
    known_rows = [row for row in rows if row[field] is not None]
    # Simulated raters take less than a second; a curve of such times would mean nothing.
    return [] if field == "seconds" and all(row[field] < 1 for row in known_rows) else known_rows


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"


def _draw_over_positions(
    rows: list[dict[str, Any]],
    order: list[str],
    field: str,
    title: str,
    profile: FigureSize,
    left: float,
    ends: tuple[str, str] | None,
) -> alt.LayerChart | None:
    plotted = _rows_with_field(rows, field)
    if not plotted:
        return None
    # Room for the numbers above the highest point.
    top = 1.08 if ends else max(row[field] for row in plotted) * 1.2 or 1.0
    room = profile.width - left - profile.size * 2
    apart = profile.size * 0.6
    axis = alt.Axis(title="Position in the order", ticks=False, grid=False, labelOverlap=True, labelSeparation=apart)
    # The order of positions, not of their texts: "11–20" is before "2–10" as text.
    x = alt.X("places:N", sort=order, axis=axis, scale=alt.Scale(type="band", domain=order))
    scale = alt.Scale(domain=[0, top], nice=False, zero=True)
    shown_as = ".0%" if ends else ",.0f"
    across = alt.Axis(format=shown_as, ticks=False, domain=False, grid=True, title=None, tickCount=4)
    y = alt.Y(f"{field}:Q", axis=across, scale=scale)
    base = alt.Chart(make_data(plotted))
    layers: list[alt.Chart] = [make_frame(-left, room + profile.size * 2)]
    layers.append(base.mark_line(color=TONES["blue"].solid, strokeWidth=profile.stroke, aria=False).encode(x=x, y=y))
    above = f"{field}:Q"
    if ends:
        with_interval = alt.Chart(make_data([row for row in plotted if row[ends[0]] is not None]))
        rule = with_interval.mark_rule(color=INK.light, strokeWidth=profile.stroke, aria=False)
        layers.append(rule.encode(x=x, y=alt.Y(f"{ends[0]}:Q", scale=scale, axis=across), y2=f"{ends[1]}:Q"))
    dot = base.mark_point(filled=True, fill=TONES["blue"].solid, size=profile.point, opacity=1)
    layers.append(dot.encode(x=x, y=y, description="title:N"))
    label = base.mark_text(
        align="left",
        baseline="bottom",
        dx=profile.size * 0.4,
        dy=-profile.size * 0.3,
        fontSize=profile.small,
        aria=False,
    )
    layers.append(label.encode(x=x, y=alt.Y(above, scale=scale, axis=across), text=f"{field}_said:N"))
    heading = alt.TitleParams(
        title, anchor="start", fontSize=profile.size, offset=profile.size * 0.6, fontWeight="normal"
    )
    return layer_charts(*layers, width=room, height=profile.size * 9).properties(title=heading)


def describe_drift(document: Document) -> str:
    rows = [_drift_row(line) for line in tables.get_rows(document, "drift")]
    parts = []
    for field, name, say in (
        ("correct", "Correct", format_percent),
        ("seconds", "Median seconds per item", format_integer),
    ):
        plotted = _rows_with_field(rows, field)
        if plotted:
            first, last = plotted[0], plotted[-1]
            parts.append(
                f"{name} {say(first[field])} at positions {first['places']}, {say(last[field])} at {last['places']}"
            )
    return f"{join_parts(parts)}." if parts else "The order of the ratings is unknown."


def draw_pass_at_k(document: Document, profile: FigureSize) -> AnyChart:
    """Draw one line per agent over k. Points at the same k are side by side; the legend is sorted by the value at
    the last k.
    """
    lines = tables.get_rows(document, "pass_at_k")
    agents = tables.list_distinct(lines, "agent")
    max_k = max(get_count(line, "k") for line in lines)
    # The offsets at one k never reach the next: at most 0.6 of the distance between them.
    step = min(0.09, 0.6 / len(agents))
    points, ranked = list[dict[str, Any]](), list[tuple[float, legends.LegendEntry]]()
    for place, agent in enumerate(agents):
        hue, shape = _curve_style(place)
        colour, offset = TONES[hue].solid, (place - (len(agents) - 1) / 2) * step
        some = [line for line in lines if get_text(line, "agent") == agent]
        points += [_make_pass_point(line, agent, offset, colour, shape) for line in some]
        last = [get_number(line, "value") for line in some if get_number(line, "value") is not None]
        ranked.append(
            # Sorted by the last value, so that the legend has the order of the lines' right ends; undefined ones come
            # last.
            (
                -(last[-1] or 0.0) if last else 1.0,
                legends.LegendEntry(agent, colour, colour, shape, _describe_agent(some)),
            )
        )
    left = profile.size * 4.2
    room = profile.width - left - 8 if profile.stacked else profile.width * 0.58 - left
    ticks = alt.Axis(values=list(range(1, max_k + 1)), format="d", grid=False, labelOverlap=False)
    x = alt.X(
        "x:Q", title="Attempts (k)", axis=ticks, scale=alt.Scale(domain=[0.6, max_k + 0.4], nice=False, zero=False)
    )
    y = alt.Y("y:Q", title="Experiments solved", axis=_make_share_axis(), scale=alt.Scale(domain=[0, 1], nice=False))
    with_interval = alt.Chart(make_data([point for point in points if point["low"] is not None]))
    rule = with_interval.mark_rule(strokeWidth=profile.stroke, aria=False)
    whisker = rule.encode(
        x=x,
        y=alt.Y(
            "low:Q", title="Experiments solved", axis=_make_share_axis(), scale=alt.Scale(domain=[0, 1], nice=False)
        ),
        y2="high:Q",
        stroke=alt.Stroke("colour:N", scale=None),
    )
    lines_and_points = _draw_lines(points, profile, x, y)
    published = _draw_published(lines, points, profile, x, y)
    plot = layer_charts(
        make_frame(-left, room + 6), whisker, *lines_and_points, *published, width=room, height=room * 0.8
    )
    entries = [entry for _, entry in sorted(ranked, key=lambda one: one[0])]
    return legends.draw_beside(plot, entries, profile, profile.width - left - room - 6 - profile.size * 1.5, -left)


def _draw_published(
    lines: Sequence[TableRow], points: Sequence[Mapping[str, Any]], profile: FigureSize, x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    """Return a layer with a diamond at each published value for an agent's model; an empty list if there are none."""
    # A published value belongs at the agent's own offset, not at the integer k.
    places = {(point["of"], round(point["x"])): point["x"] for point in points}
    published_points = [
        {
            "x": places[get_text(line, "agent"), get_count(line, "k")],
            "y": published,
            "title": f"{get_text(line, 'agent')}: published pass@{get_count(line, 'k')} {format_percent(published)}",
        }
        for line in lines
        if (published := get_number(line, "published")) is not None
    ]
    if not published_points:
        return []
    marks = alt.Chart(make_data(published_points)).mark_point(
        shape="diamond", size=profile.size * 6, opacity=1, aria=False
    )
    paint = {"fill": alt.value(PAPER.light), "stroke": alt.value(INK.light)}
    return [marks.encode(x=x, y=y, description="title:N", **paint)]


def _make_pass_point(line: TableRow, agent: str, offset: float, colour: str, shape: str) -> dict[str, Any]:
    k, value, low, high = (
        get_count(line, "k"),
        get_number(line, "value"),
        get_number(line, "low"),
        get_number(line, "high"),
    )
    title = f"{agent}: pass@{k} {format_percent(value)}, 95% interval: {format_interval(low, high)}, {get_count(line, 'tasks')} experiments"
    point = {"of": agent, "x": k + offset, "y": value, "low": low, "high": high, "title": title}
    return {**point, "colour": colour, "shape": shape}


def _describe_agent(lines: Sequence[TableRow]) -> str:
    defined = [line for line in lines if get_number(line, "value") is not None]
    if not defined:
        reason = get_text(lines[0], "reason")
        return "undefined" + (f", {reason}" if reason else "")
    ends = [defined[0]] if len(defined) == 1 else [defined[0], defined[-1]]
    parts = []
    for line in ends:
        low, high = get_number(line, "low"), get_number(line, "high")
        within = f" ({format_interval(low, high)})" if low is not None else ""
        parts.append(f"{format_percent(get_number(line, 'value'))}{within} at k={get_count(line, 'k')}")
    return ", ".join(parts)


def describe_pass_at_k(document: Document) -> str:
    lines = tables.get_rows(document, "pass_at_k")
    parts = [
        f"{agent} {_describe_agent([line for line in lines if get_text(line, 'agent') == agent])}"
        for agent in tables.list_distinct(lines, "agent")
    ]
    return f"Experiments solved within k trials: {join_parts(parts)}."
