"""ROC curves, pass@k, and changes over a rater's order."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from ratings.results.figures import keys, tables
from ratings.results.figures.palette import AXIS, INK, PAPER, TONES
from ratings.results.figures.tables import Document, Line, count, number, text
from ratings.results.figures.theme import AnyChart, Profile, frame, layered, values
from ratings.results.figures.wording import interval, listed, percent, two, whole


def _look(place: int) -> tuple[str, str]:
    """Return hue and shape of the nth curve; both repeat only after thirty."""
    # The shape moves by one after each round of hues, so that the two together repeat as late as possible.
    return keys.HUES[place % len(keys.HUES)], keys.SHAPES[(place + place // len(keys.HUES)) % len(keys.SHAPES)]


def roc(document: Document, profile: Profile) -> AnyChart:
    """Draw one curve per error source through the points of the table, from (0, 0) to (1, 1)."""
    lines = tables.rows(document, "roc")
    areas = _areas(document)
    points, entries = list[dict[str, Any]](), list[keys.Entry]()
    for place, source in enumerate(tables.first_seen(lines, "source")):
        hue, shape = _look(place)
        some = [line for line in lines if text(line, "source") == source]
        points += [_roc_point(line, source, TONES[hue].solid, shape) for line in some]
        area_text = _area_said(areas.get(source), some)
        entries.append(keys.Entry(source or "All errors", TONES[hue].solid, TONES[hue].solid, shape, area_text))
    left = profile.size * 4.2
    # Beside the legend if there is room, else the full width.
    side = profile.width - left - 8 if profile.stacked else profile.width * 0.56 - left
    x = alt.X("x:Q", title="False alarms", axis=_share_axis(), scale=alt.Scale(domain=[0, 1], nice=False))
    y = alt.Y("y:Q", title="Hits", axis=_share_axis(), scale=alt.Scale(domain=[0, 1], nice=False))
    # The dashed line is not data, so screen readers skip it.
    chance = alt.Chart(values([{"x": 0, "y": 0}, {"x": 1, "y": 1}]))
    dashed = chance.mark_line(color=AXIS.light, strokeWidth=profile.stroke * 0.8, strokeDash=[4, 4], aria=False)
    steps = _lines(points, profile, x, y)
    plot = layered(frame(-left, side + 6), dashed.encode(x=x, y=y), *steps, width=side, height=side)
    return keys.beside(plot, entries, profile, profile.width - left - side - 6 - profile.size * 1.5, -left)


def _areas(document: Document) -> dict[str, Line]:
    """Return the row of all raters together for each source."""
    some = tables.rows(document, "detection")
    # Single raters have areas of their own, which the legend has no room for.
    return {text(line, "source"): line for line in some if text(line, "who") == "all raters"}


def _area_said(line: Line | None, points: Sequence[Line]) -> str:
    n = f"{count(points[0], 'n_error')} ratings with an error and {count(points[0], 'n_genuine')} without"
    if line is None or number(line, "auc") is None:
        return n
    low, high = number(line, "auc_low"), number(line, "auc_high")
    ends = f" ({interval(low, high, two)})" if low is not None else ""
    return f"mean AUC {two(number(line, 'auc'))}{ends}, {n}"


def _roc_point(line: Line, source: str, colour: str, shape: str) -> dict[str, Any]:
    false_alarms, hits = number(line, "false_alarm_rate"), number(line, "hit_rate")
    threshold = number(line, "threshold")
    # The title marks a point as a rating; points without one are ends of the line.
    title = ""  # the curve starts where nothing is rated as an error; this is not a rating, so it has no marker
    if threshold is not None:
        at = f"{threshold:g}".replace("-", "−")
        title = f"{source}: errors are ratings up to {at}: {percent(hits)} hits, {percent(false_alarms)} false alarms"
    return {"of": source, "x": false_alarms, "y": hits, "title": title, "colour": colour, "shape": shape}


def _share_axis() -> alt.Axis:
    return alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", grid=True, labelOverlap=False, labelFlush=False)


def _lines(points: list[dict[str, Any]], profile: Profile, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Draw a line through the points of each name in the given order, and the points."""
    colour = alt.Stroke("colour:N", scale=None)
    defined = [
        # The order is stored with the points, because Vega-Lite would otherwise connect them from left to right, and a
        # curve can be vertical.
        {**point, "place": place}
        for place, point in enumerate(points)
        if point["x"] is not None and point["y"] is not None
    ]
    base = alt.Chart(values([point for point in defined if point["title"]]))
    line = alt.Chart(values(defined)).mark_line(strokeWidth=profile.stroke * 1.2, aria=False)
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


def say_roc(document: Document) -> str:
    areas = _areas(document)
    lines = tables.rows(document, "roc")
    parts = [
        f"{source or 'all errors'} "
        + _area_said(areas.get(source), [line for line in lines if text(line, "source") == source])
        for source in tables.first_seen(lines, "source")
    ]
    return f"Detection of planted errors: {listed(parts)}."


def drift_known(document: Document) -> bool:
    rows = [_part(line) for line in tables.rows(document, "drift")]
    return any(_shown(rows, field) for field in ("correct", "seconds"))


def drift(document: Document, profile: Profile) -> AnyChart:
    """Draw the share correct and the median seconds by position in the raters' orders."""
    rows = [_part(line) for line in tables.rows(document, "drift")]
    left = profile.size * 3.4
    order = [row["places"] for row in rows]
    plots = [
        _over(rows, order, "correct", "Correct", profile, left, ("low", "high")),
        _over(rows, order, "seconds", "Median seconds per item", profile, left, None),
    ]
    return alt.vconcat(*[one for one in plots if one is not None], spacing=profile.size * 1.5)


def _part(line: Line) -> dict[str, Any]:
    first, last = count(line, "from_position"), count(line, "to_position")
    places = f"{first}–{last}" if last != first else f"{first}"
    correct, low, high, seconds = (number(line, name) for name in ("correct_share", "low", "high", "median_seconds"))
    title = (
        f"Places {places}: {percent(correct)} correct, 95% interval: {interval(low, high)}, {count(line, 'n')} ratings"
    )
    title += f", median {_seconds(seconds)}" if seconds is not None else ""
    return {
        **{"places": places, "correct": correct, "low": low, "high": high, "seconds": seconds, "title": title},
        **{"correct_said": percent(correct), "seconds_said": "" if seconds is None else _seconds(seconds)},
    }


def _shown(rows: Sequence[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Return rows with the field; no times at all if none reaches a second, as for simulated raters."""
    known_rows = [row for row in rows if row[field] is not None]
    # Simulated raters take less than a second; a curve of such times would mean nothing.
    return [] if field == "seconds" and all(row[field] < 1 for row in known_rows) else known_rows


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"


def _over(
    rows: list[dict[str, Any]],
    order: list[str],
    field: str,
    title: str,
    profile: Profile,
    left: float,
    ends: tuple[str, str] | None,
) -> alt.LayerChart | None:
    plotted = _shown(rows, field)
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
    base = alt.Chart(values(plotted))
    layers: list[alt.Chart] = [frame(-left, room + profile.size * 2)]
    layers.append(base.mark_line(color=TONES["blue"].solid, strokeWidth=profile.stroke, aria=False).encode(x=x, y=y))
    above = f"{field}:Q"
    if ends:
        with_interval = alt.Chart(values([row for row in plotted if row[ends[0]] is not None]))
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
    return layered(*layers, width=room, height=profile.size * 9).properties(title=heading)


def say_drift(document: Document) -> str:
    rows = [_part(line) for line in tables.rows(document, "drift")]
    parts = []
    for field, name, say in (("correct", "Correct", percent), ("seconds", "Median seconds per item", whole)):
        plotted = _shown(rows, field)
        if plotted:
            first, last = plotted[0], plotted[-1]
            parts.append(
                f"{name} {say(first[field])} at positions {first['places']}, {say(last[field])} at {last['places']}"
            )
    return f"{listed(parts)}." if parts else "The order of the ratings is unknown."


def pass_at_k(document: Document, profile: Profile) -> AnyChart:
    """Draw one line per agent over k, side by side at each k, with the legend in the order of the last k."""
    lines = tables.rows(document, "pass_at_k")
    agents = tables.first_seen(lines, "agent")
    max_k = max(count(line, "k") for line in lines)
    # The offsets at one k never reach the next: at most 0.6 of the distance between them.
    step = min(0.09, 0.6 / len(agents))
    points, ranked = list[dict[str, Any]](), list[tuple[float, keys.Entry]]()
    for place, agent in enumerate(agents):
        hue, shape = _look(place)
        colour, offset = TONES[hue].solid, (place - (len(agents) - 1) / 2) * step
        some = [line for line in lines if text(line, "agent") == agent]
        points += [_attempt(line, agent, offset, colour, shape) for line in some]
        last = [number(line, "value") for line in some if number(line, "value") is not None]
        ranked.append(
            # Sorted by the last value, so that the legend has the order of the lines' right ends; undefined ones come
            # last.
            (-(last[-1] or 0.0) if last else 1.0, keys.Entry(agent, colour, colour, shape, _agent_said(some)))
        )
    left = profile.size * 4.2
    room = profile.width - left - 8 if profile.stacked else profile.width * 0.58 - left
    ticks = alt.Axis(values=list(range(1, max_k + 1)), format="d", grid=False, labelOverlap=False)
    x = alt.X(
        "x:Q", title="Attempts (k)", axis=ticks, scale=alt.Scale(domain=[0.6, max_k + 0.4], nice=False, zero=False)
    )
    y = alt.Y("y:Q", title="Experiments solved", axis=_share_axis(), scale=alt.Scale(domain=[0, 1], nice=False))
    with_interval = alt.Chart(values([point for point in points if point["low"] is not None]))
    rule = with_interval.mark_rule(strokeWidth=profile.stroke, aria=False)
    whisker = rule.encode(
        x=x,
        y=alt.Y("low:Q", title="Experiments solved", axis=_share_axis(), scale=alt.Scale(domain=[0, 1], nice=False)),
        y2="high:Q",
        stroke=alt.Stroke("colour:N", scale=None),
    )
    lines_and_points = _lines(points, profile, x, y)
    published = _published_points(lines, points, profile, x, y)
    plot = layered(frame(-left, room + 6), whisker, *lines_and_points, *published, width=room, height=room * 0.8)
    entries = [entry for _, entry in sorted(ranked, key=lambda one: one[0])]
    return keys.beside(plot, entries, profile, profile.width - left - room - 6 - profile.size * 1.5, -left)


def _published_points(
    lines: Sequence[Line], points: Sequence[Mapping[str, Any]], profile: Profile, x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    """Return a layer with a diamond at each published value for the agent's model, or nothing."""
    # A published value belongs at the agent's own offset, not at the integer k.
    places = {(point["of"], round(point["x"])): point["x"] for point in points}
    published_points = [
        {
            "x": places[text(line, "agent"), count(line, "k")],
            "y": published,
            "title": f"{text(line, 'agent')}: published pass@{count(line, 'k')} {percent(published)}",
        }
        for line in lines
        if (published := number(line, "published")) is not None
    ]
    if not published_points:
        return []
    marks = alt.Chart(values(published_points)).mark_point(
        shape="diamond", size=profile.size * 6, opacity=1, aria=False
    )
    paint = {"fill": alt.value(PAPER.light), "stroke": alt.value(INK.light)}
    return [marks.encode(x=x, y=y, description="title:N", **paint)]


def _attempt(line: Line, agent: str, offset: float, colour: str, shape: str) -> dict[str, Any]:
    k, value, low, high = count(line, "k"), number(line, "value"), number(line, "low"), number(line, "high")
    title = (
        f"{agent}: pass@{k} {percent(value)}, 95% interval: {interval(low, high)}, {count(line, 'tasks')} experiments"
    )
    point = {"of": agent, "x": k + offset, "y": value, "low": low, "high": high, "title": title}
    return {**point, "colour": colour, "shape": shape}


def _agent_said(lines: Sequence[Line]) -> str:
    defined = [line for line in lines if number(line, "value") is not None]
    if not defined:
        reason = text(lines[0], "reason")
        return "undefined" + (f", {reason}" if reason else "")
    ends = [defined[0]] if len(defined) == 1 else [defined[0], defined[-1]]
    parts = []
    for line in ends:
        low, high = number(line, "low"), number(line, "high")
        within = f" ({interval(low, high)})" if low is not None else ""
        parts.append(f"{percent(number(line, 'value'))}{within} at k={count(line, 'k')}")
    return ", ".join(parts)


def say_pass_at_k(document: Document) -> str:
    lines = tables.rows(document, "pass_at_k")
    parts = [
        f"{agent} {_agent_said([line for line in lines if text(line, 'agent') == agent])}"
        for agent in tables.first_seen(lines, "agent")
    ]
    return f"Experiments solved within k trials: {listed(parts)}."
