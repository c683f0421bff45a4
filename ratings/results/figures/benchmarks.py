"""Figures of a benchmark: how each agent's episodes ended, and their cost."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from ratings.results.figures import legends, tables
from ratings.results.figures.forest import AxisScale, ForestRow, ForestSection, draw_text, make_scale, stack_forests
from ratings.results.figures.tables import (
    Document,
    TableRow,
    format_integer,
    format_percent,
    get_count,
    get_number,
    get_text,
    join_parts,
    text_width,
    wrap_text,
)
from ratings.results.figures.theme import INK, MUTED, TONES, AnyChart, FigureSize, layer_charts, make_data, make_frame

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


def draw_failures(document: Document, profile: FigureSize) -> AnyChart:
    """Draw one stacked bar per agent, with the numbers of all parts as text below it."""
    found = tables.get_rows(document, "failures")
    agents = tables.list_distinct(found, "agent")
    pitch, bar = profile.size * 1.4, profile.size * 1.7  # 1.4 lines of text, and a bar as high as one line of text
    parts, texts, inside = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    y = 0.0
    # All positions are computed here in pixels, because the texts above and below a bar have a variable number of
    # lines.
    for agent in agents:
        some = _order_by_cause([line for line in found if get_text(line, "agent") == agent])
        n = sum(get_count(line, "n") for line in some)
        # Long names of agents are wrapped, or they would be clipped at the edge of the drawing.
        head = wrap_text(f"{agent}, {n} attempt{'s' if n != 1 else ''}", profile.width, profile.size)
        for line in head:
            texts.append({"text": line, "x": 0, "y": y + profile.size * 0.7, "colour": INK.light})
            y += pitch
        parts += _build_parts(some, agent, n, y, y + bar, profile, inside)
        y += bar + profile.size * 0.3
        for line in wrap_text(_describe_parts(some, n), profile.width, profile.size, most=3):
            texts.append({"text": line, "x": 0, "y": y + profile.size * 0.7, "colour": MUTED.light})
            y += pitch
        y += profile.size * 0.7
    # The legend contains only causes that occur, so it does not promise colours that nobody can find.
    causes = {get_text(line, "cause") for line in found if get_count(line, "n")}
    entries = [
        legends.LegendEntry(said, TONES[tone].tint, TONES[tone].solid)
        for cause, (said, tone) in _CAUSES.items()
        if cause in causes
    ]
    words = [draw_text(texts, profile), draw_text(inside, profile, align="center")]
    plot = layer_charts(make_frame(0, profile.width), _draw_bars(parts, profile), *words, width=profile.width, height=y)
    return alt.vconcat(legends.draw_across(entries, profile), plot, spacing=profile.size)


# The order of the causes is fixed, so that bars of different agents can be compared; unknown causes come last.
def _order_by_cause(some: Sequence[TableRow]) -> list[TableRow]:
    order = list(_CAUSES)
    return sorted(
        some, key=lambda line: order.index(get_text(line, "cause")) if get_text(line, "cause") in order else len(order)
    )


def _build_parts(
    some: Sequence[TableRow],
    agent: str,
    n: int,
    top: float,
    below: float,
    profile: FigureSize,
    inside: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    # One pixel remains free on each side, because the outline of a part is centred on its edge.
    x, parts, room = 1.0, list[dict[str, Any]](), profile.width - 2.0
    for line in some:
        many = get_count(line, "n")
        # A part of zero would draw an outline without area.
        if not many:
            continue
        said, hue = _CAUSES.get(get_text(line, "cause"), (get_text(line, "cause"), "olive"))
        end = x + room * many / n
        title = f"{agent}: {said.lower()} {many} of {n} ({format_percent(many / n)})"
        parts.append(
            {
                "x": x,
                "x2": end,
                "y": top,
                "y2": below,
                "fill": TONES[hue].tint,
                "stroke": TONES[hue].solid,
                "title": title,
            }
        )
        # 4 pixels of margin; a number that does not fit is in the text below the bar.
        if text_width(str(many), profile.size) + 4 < end - x:
            inside.append({"text": str(many), "x": (x + end) / 2, "y": (top + below) / 2, "colour": INK.light})
        x = end
    return parts


def _draw_bars(parts: Sequence[dict[str, Any]], profile: FigureSize) -> alt.Chart:
    bar = alt.Chart(make_data(parts)).mark_rect(strokeWidth=profile.stroke * 0.75)
    drawn: alt.Chart = bar.encode(
        x=alt.X("x:Q", scale=None, axis=None),
        x2="x2:Q",
        y=alt.Y("y:Q", scale=None, axis=None),
        y2="y2:Q",
        fill=alt.Fill("fill:N", scale=None),
        stroke=alt.Stroke("stroke:N", scale=None),
        description="title:N",
    )
    return drawn


def _describe_parts(some: Sequence[TableRow], n: int) -> str:
    return ", ".join(
        f"{_CAUSES.get(get_text(line, 'cause'), (get_text(line, 'cause'), ''))[0].lower()} {get_count(line, 'n')} ({format_percent(get_count(line, 'n') / n)})"
        for line in some
        if get_count(line, "n")
    )


def describe_failures(document: Document) -> str:
    lines = tables.get_rows(document, "failures")
    parts = []
    for agent in tables.list_distinct(lines, "agent"):
        some = _order_by_cause([line for line in lines if get_text(line, "agent") == agent])
        parts.append(f"{agent}: {_describe_parts(some, sum(get_count(line, 'n') for line in some)) or 'no episodes'}")
    return f"How episodes ended: {join_parts(parts)}."


def format_dollars(amount: float | None) -> str:
    """Return "$1,234", "$12.30", "$0.0042": at least two significant digits."""
    if amount is None:
        return "undefined"
    if amount >= 100:
        return f"${amount:,.0f}"
    # At least two significant digits, since a single step can cost less than a cent.
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.2g}"


def has_cost(document: Document) -> bool:
    """Return whether any cost is known."""
    return any(get_number(line, "cost") for line in tables.get_rows(document, "cost"))


def draw_cost(document: Document, profile: FigureSize) -> AnyChart:
    """Draw two plots with the same rows: US dollars per success, and in total."""
    lines = tables.get_rows(document, "cost")
    plots: list[tuple[list[ForestSection], AxisScale]] = []
    for field, title in (("per_success", "US dollars per success"), ("cost", "US dollars in total")):
        rows = [_cost_row(line, field) for line in lines]
        # `or 1.0`: if all costs are zero, the scale would have no extent.
        scale = make_scale("", rows, ceiling=max([row.value or 0.0 for row in rows]) or 1.0, unit="$")
        plots.append(([ForestSection(title, rows)], scale))
    return stack_forests(plots, profile, bars=True)


def _cost_row(line: TableRow, field: str) -> ForestRow:
    agent, amount, episodes = get_text(line, "agent"), get_number(line, field), get_count(line, "episodes")
    tokens = f"{format_integer(get_number(line, 'input_tokens'))} tokens in, {format_integer(get_number(line, 'output_tokens'))} out"
    what = "per success" if field == "per_success" else "in total"
    value_text = format_dollars(amount) + (f" ({episodes} episodes)" if field == "cost" else "")
    return ForestRow(
        agent,
        amount,
        None,
        None,
        value_text,
        f"{agent}: {format_dollars(amount)} {what}, {episodes} episodes, {tokens}",
    )


def describe_cost(document: Document) -> str:
    parts = [
        f"{get_text(line, 'agent')} {format_dollars(get_number(line, 'per_success'))} per success, {format_dollars(get_number(line, 'cost'))} in total"
        for line in tables.get_rows(document, "cost")
    ]
    return f"Cost: {join_parts(parts)}."
