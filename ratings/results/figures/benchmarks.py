"""Figures of a benchmark: experiments solved within k trials, how each agent's episodes ended, and their cost."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from ratings.results.figures import tables, theme
from ratings.results.figures.curves import Curve, CurvePlot, make_share_axis
from ratings.results.figures.forest import AxisScale, ForestRow, ForestSection, make_scale, stack_forests

# In this order, so that bars of different agents can be compared; unknown causes come last.
_CAUSES = {
    "success": ("Success", "blue"),
    "evidence": ("Evidence not sufficient", "olive"),
    "agent": ("Agent", "orange"),
    "simulator": ("Simulator", "green"),
    "classifier": ("Classifier", "purple"),
    "provider": ("Provider", "slate"),
    "refusal": ("Refusal", "orange"),
    "budget": ("Budget", "slate"),
    "wetbench": ("WetBench", "green"),
}


def _draw_pass_at_k(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    """Draw one line per agent over k, points at the same k side by side; the legend is sorted by the last value."""
    lines = tables.get_rows(document, "pass_at_k")
    by_agent = tables.group_rows(lines, "agent")
    max_k = max(line.count("k") for line in lines)
    # The offsets at one k never reach the next: at most 0.6 of the distance between them.
    step = min(0.09, 0.6 / len(by_agent))
    curves, whiskers, published = list[Curve](), list[dict[str, Any]](), list[dict[str, Any]]()
    for place, (agent, some) in enumerate(by_agent.items()):
        offset = (place - (len(by_agent) - 1) / 2) * step
        points = [_make_pass_point(line, agent, offset) for line in some]
        curves.append(Curve(agent, _describe_agent(some), points))
        whiskers += [{**point, "place": place} for point in points if point["low"] is not None]
        for point, line in zip(points, some, strict=True):
            if (value := line.number("published")) is not None:
                title = f"{agent}: published pass@{line.count('k')} {tables.format_percent(value)}"
                published.append({"x": point["x"], "y": value, "title": title})
    ticks = alt.Axis(values=list(range(1, max_k + 1)), format="d", grid=False, labelOverlap=False)
    across = alt.Scale(domain=[0.6, max_k + 0.4], nice=False, zero=False)
    upright, axis = alt.Scale(domain=[0, 1], nice=False), make_share_axis()
    x = alt.X("x:Q", title="Attempts (k)", axis=ticks, scale=across)
    y = alt.Y("y:Q", title="Experiments solved", axis=axis, scale=upright)
    # The legend has the order of the lines' right ends; undefined ones come last.
    order = sorted(range(len(curves)), key=lambda place: -_get_last_value(curves[place]))
    plot = CurvePlot(curves, order, x, y, 0.8, profile)
    intervals = [{**row, "curve": plot.keys[row["place"]]} for row in whiskers]
    rule = alt.Chart(theme.make_data(intervals)).mark_rule(strokeWidth=profile.stroke, aria=False)
    low = alt.Y("low:Q", title="Experiments solved", axis=axis, scale=upright)
    diamonds = alt.Chart(theme.make_data(published)).mark_point(
        shape="diamond", size=profile.size * 6, opacity=1, aria=False, fill=theme.PAPER.light, stroke=theme.INK.light
    )
    return plot.draw(
        before=[rule.encode(x=x, y=low, y2="high:Q", stroke=plot.stroke)],
        after=[diamonds.encode(x=x, y=y, description="title:N")] if published else [],
    )


def _make_pass_point(line: tables.TableRow, agent: str, offset: float) -> dict[str, Any]:
    k, (value, low, high) = line.count("k"), line.numbers("value", "low", "high")
    title = f"{agent}: pass@{k} {tables.format_percent(value)}, 95% interval: {tables.format_interval(low, high)}, {line.count('tasks')} experiments"
    return {"x": k + offset, "y": value, "low": low, "high": high, "title": title}


def _get_last_value(curve: Curve) -> float:
    return next((point["y"] for point in reversed(curve.points) if point["y"] is not None), -1.0)


def _describe_agent(lines: Sequence[tables.TableRow]) -> str:
    defined = [line for line in lines if line.number("value") is not None]
    if not defined:
        reason = lines[0].text("reason")
        return "undefined" + (f", {reason}" if reason else "")
    parts = []
    for line in defined if len(defined) == 1 else (defined[0], defined[-1]):
        value, low, high = line.numbers("value", "low", "high")
        within = f" ({tables.format_interval(low, high)})" if low is not None else ""
        parts.append(f"{tables.format_percent(value)}{within} at k={line.count('k')}")
    return ", ".join(parts)


def _draw_failures(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    """Draw one stacked bar per agent, below its name and the numbers of all parts."""
    by_agent = _list_ends(document)
    # The legend contains only causes that occur, so it does not promise colours that nobody can find.
    tones = {word: theme.TONES[tone] for lines in by_agent.values() for word, tone in map(_name_cause, lines)}
    order = [word for word, _ in _CAUSES.values() if word in tones]
    words = order + [word for word in tones if word not in order]
    column = max(tables.text_width(word, profile.size) for word in words) + profile.size * 3
    legend = alt.Legend(
        orient="top", symbolType="square", columns=max(1, int(profile.width / column)), offset=profile.size * 1.2
    )
    scales = [
        alt.Scale(domain=words, range=[getattr(tones[word], part) for word in words]) for part in ("tint", "solid")
    ]
    fill = alt.Fill("cause:N", scale=scales[0], legend=legend)
    stroke = alt.Stroke("cause:N", scale=scales[1], legend=legend)
    charts = []
    for agent, lines in by_agent.items():
        parts, end, n = list[dict[str, Any]](), 0, sum(line.count("n") for line in lines)
        for line in lines:
            many, (word, _) = line.count("n"), _name_cause(line)
            title = f"{agent}: {word.lower()} {many} of {n} ({tables.format_percent(many / n)})"
            fits = tables.text_width(str(many), profile.size) + 4 < profile.width * many / n
            parts.append({"start": end, "end": end + many, "middle": end + many / 2, "cause": word, "title": title})
            # A number that does not fit is in the text above the bar.
            parts[-1]["number"] = str(many) if fits else ""
            end += many
        scale = alt.Scale(domain=[0, n or 1], nice=False)
        start, middle = (alt.X(f"{field}:Q", axis=None, scale=scale) for field in ("start", "middle"))
        base = alt.Chart(theme.make_data(parts))
        bar = base.mark_rect(strokeWidth=profile.stroke * 0.75).encode(
            x=start, x2="end:Q", fill=fill, stroke=stroke, description="title:N"
        )
        number = base.mark_text(aria=False).encode(x=middle, text="number:N")
        heading = alt.TitleParams(
            tables.wrap_text(f"{agent}, {n} attempt{'s' if n != 1 else ''}", profile.width, profile.size),
            subtitle=tables.wrap_text(_describe_ends(lines), profile.width, profile.size, most=3),
            fontWeight="normal",
            subtitleFontSize=profile.size,
        )
        charts.append(
            theme.layer_charts(bar, number, width=profile.width - 2, height=profile.size * 1.7, title=heading)
        )
    return theme.share_colours(theme.stack_charts(charts, profile.size * 0.9))


def _list_ends(document: tables.Document) -> dict[str, list[tables.TableRow]]:
    """Return the causes by agent; causes without episodes are left out."""
    order = list(_CAUSES)
    return {
        agent: sorted(
            (line for line in lines if line.count("n")),
            key=lambda line: order.index(cause) if (cause := line.text("cause")) in order else len(order),
        )
        for agent, lines in tables.group_rows(tables.get_rows(document, "failures"), "agent").items()
    }


def _name_cause(line: tables.TableRow) -> tuple[str, str]:
    """Return the words for a cause, and its tone."""
    cause = line.text("cause")
    return _CAUSES.get(cause, (cause, "olive"))


def _describe_ends(lines: Sequence[tables.TableRow]) -> str:
    n = sum(line.count("n") for line in lines)
    return ", ".join(
        f"{_name_cause(line)[0].lower()} {line.count('n')} ({tables.format_percent(line.count('n') / n)})"
        for line in lines
    )


def _format_dollars(amount: float | None) -> str:
    """Return "$1,234", "$12.30", "$0.0042": at least two significant digits."""
    if amount is None:
        return "undefined"
    if amount >= 100:
        return f"${amount:,.0f}"
    # At least two significant digits, since a single step can cost less than a cent.
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.2g}"


def _draw_cost(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    """Draw two plots with the same rows: US dollars per success, and in total."""
    plots: list[tuple[list[ForestSection], AxisScale]] = []
    for field, title in (("per_success", "US dollars per success"), ("cost", "US dollars in total")):
        rows = [_make_cost_row(line, field) for line in tables.get_rows(document, "cost")]
        # `or 1.0`: if all costs are zero, the scale would have no extent.
        scale = make_scale("", rows, ceiling=max(row.value or 0.0 for row in rows) or 1.0, unit="$")
        plots.append(([ForestSection(title, rows)], scale))
    return stack_forests(plots, profile, bars=True)


def _make_cost_row(line: tables.TableRow, field: str) -> ForestRow:
    agent, episodes = line.text("agent"), line.count("episodes")
    amount, tokens_in, tokens_out = line.numbers(field, "input_tokens", "output_tokens")
    title = f"{agent}: {_format_dollars(amount)} {'per success' if field == 'per_success' else 'in total'}"
    tokens = f"{tables.format_integer(tokens_in)} tokens in, {tables.format_integer(tokens_out)} out"
    title += f", {episodes} episodes, {tokens}"
    value_text = _format_dollars(amount) + (f" ({episodes} episodes)" if field == "cost" else "")
    return ForestRow(agent, amount, None, None, value_text, title)


def _describe_cost(line: tables.TableRow) -> str:
    per_success, total = map(_format_dollars, line.numbers("per_success", "cost"))
    return f"{line.text('agent')} {per_success} per success, {total} in total"


PASS_AT_K = theme.Drawing(
    _draw_pass_at_k,
    tables.describe_rows(
        "Experiments solved within k trials",
        lambda document: tables.group_rows(tables.get_rows(document, "pass_at_k"), "agent").items(),
        lambda agent: f"{agent[0]} {_describe_agent(agent[1])}",
    ),
)
FAILURES = theme.Drawing(
    _draw_failures,
    tables.describe_rows(
        "How episodes ended",
        lambda document: _list_ends(document).items(),
        lambda agent: f"{agent[0]}: {_describe_ends(agent[1]) or 'no episodes'}",
    ),
)
COST = theme.Drawing(
    _draw_cost,
    tables.describe_rows("Cost", "cost", _describe_cost),
    lambda document: any(line.number("cost") for line in tables.get_rows(document, "cost")),
)
