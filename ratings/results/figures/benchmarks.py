"""Figures of a benchmark: how each agent's episodes ended, and their cost."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from ratings.results.figures import keys, tables
from ratings.results.figures.forest import Scale, spanning, stacked, written
from ratings.results.figures.palette import INK, MUTED, TONES
from ratings.results.figures.placing import Row, Section
from ratings.results.figures.tables import Document, Line, count, number, text
from ratings.results.figures.theme import AnyChart, Profile, frame, layered, values
from ratings.results.figures.wording import lines, listed, percent, whole, width

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


def failures(document: Document, profile: Profile) -> AnyChart:
    """Draw one stacked bar per agent, with the numbers of all parts as text below it."""
    found = tables.rows(document, "failures")
    agents = tables.first_seen(found, "agent")
    pitch, bar = profile.size * 1.4, profile.size * 1.7  # 1.4 lines of text, and a bar as high as one line of text
    parts, texts, inside = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    y = 0.0
    # All positions are computed here in pixels, because the texts above and below a bar have a variable number of
    # lines.
    for agent in agents:
        some = _ordered([line for line in found if text(line, "agent") == agent])
        n = sum(count(line, "n") for line in some)
        # Long names of agents are wrapped, or they would be clipped at the edge of the drawing.
        head = lines(f"{agent}, {n} attempt{'s' if n != 1 else ''}", profile.width, profile.size)
        for line in head:
            texts.append({"text": line, "x": 0, "y": y + profile.size * 0.7, "colour": INK.light})
            y += pitch
        parts += _parts(some, agent, n, y, y + bar, profile, inside)
        y += bar + profile.size * 0.3
        for line in lines(_parts_said(some, n), profile.width, profile.size, most=3):
            texts.append({"text": line, "x": 0, "y": y + profile.size * 0.7, "colour": MUTED.light})
            y += pitch
        y += profile.size * 0.7
    # The legend contains only causes that occur, so it does not promise colours that nobody can find.
    causes = {text(line, "cause") for line in found if count(line, "n")}
    entries = [
        keys.Entry(said, TONES[tone].tint, TONES[tone].solid)
        for cause, (said, tone) in _CAUSES.items()
        if cause in causes
    ]
    words = [written(texts, profile), written(inside, profile, align="center")]
    plot = layered(frame(0, profile.width), _bars(parts, profile), *words, width=profile.width, height=y)
    return alt.vconcat(keys.across(entries, profile), plot, spacing=profile.size)


# The order of the causes is fixed, so that bars of different agents can be compared; unknown causes come last.
def _ordered(some: Sequence[Line]) -> list[Line]:
    order = list(_CAUSES)
    return sorted(
        some, key=lambda line: order.index(text(line, "cause")) if text(line, "cause") in order else len(order)
    )


def _parts(
    some: Sequence[Line], agent: str, n: int, top: float, below: float, profile: Profile, inside: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    # One pixel remains free on each side, because the outline of a part is centred on its edge.
    x, parts, room = 1.0, list[dict[str, Any]](), profile.width - 2.0
    for line in some:
        many = count(line, "n")
        # A part of zero would draw an outline without area.
        if not many:
            continue
        said, hue = _CAUSES.get(text(line, "cause"), (text(line, "cause"), "olive"))
        end = x + room * many / n
        title = f"{agent}: {said.lower()} {many} of {n} ({percent(many / n)})"
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
        if width(str(many), profile.size) + 4 < end - x:
            inside.append({"text": str(many), "x": (x + end) / 2, "y": (top + below) / 2, "colour": INK.light})
        x = end
    return parts


def _bars(parts: Sequence[dict[str, Any]], profile: Profile) -> alt.Chart:
    bar = alt.Chart(values(parts)).mark_rect(strokeWidth=profile.stroke * 0.75)
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


def _parts_said(some: Sequence[Line], n: int) -> str:
    return ", ".join(
        f"{_CAUSES.get(text(line, 'cause'), (text(line, 'cause'), ''))[0].lower()} {count(line, 'n')} ({percent(count(line, 'n') / n)})"
        for line in some
        if count(line, "n")
    )


def say_failures(document: Document) -> str:
    lines = tables.rows(document, "failures")
    parts = []
    for agent in tables.first_seen(lines, "agent"):
        some = _ordered([line for line in lines if text(line, "agent") == agent])
        parts.append(f"{agent}: {_parts_said(some, sum(count(line, 'n') for line in some)) or 'no episodes'}")
    return f"How episodes ended: {listed(parts)}."


def dollars(amount: float | None) -> str:
    """Return "$1,234", "$12.30", "$0.0042": at least two significant digits."""
    if amount is None:
        return "undefined"
    if amount >= 100:
        return f"${amount:,.0f}"
    # At least two significant digits, since a single step can cost less than a cent.
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.2g}"


def cost_known(document: Document) -> bool:
    """Return whether any cost is known."""
    return any(number(line, "cost") for line in tables.rows(document, "cost"))


def cost(document: Document, profile: Profile) -> AnyChart:
    """Draw two plots with the same rows: US dollars per success, and in total."""
    lines = tables.rows(document, "cost")
    plots: list[tuple[list[Section], Scale]] = []
    for field, title in (("per_success", "US dollars per success"), ("cost", "US dollars in total")):
        rows = [_cost(line, field) for line in lines]
        # `or 1.0`: if all costs are zero, the scale would have no extent.
        scale = spanning("", rows, ceiling=max([row.value or 0.0 for row in rows]) or 1.0, unit="$")
        plots.append(([Section(title, rows)], scale))
    return stacked(plots, profile, bars=True)


def _cost(line: Line, field: str) -> Row:
    agent, amount, episodes = text(line, "agent"), number(line, field), count(line, "episodes")
    tokens = f"{whole(number(line, 'input_tokens'))} tokens in, {whole(number(line, 'output_tokens'))} out"
    what = "per success" if field == "per_success" else "in total"
    value_text = dollars(amount) + (f" ({episodes} episodes)" if field == "cost" else "")
    return Row(
        agent, amount, None, None, value_text, f"{agent}: {dollars(amount)} {what}, {episodes} episodes, {tokens}"
    )


def say_cost(document: Document) -> str:
    parts = [
        f"{text(line, 'agent')} {dollars(number(line, 'per_success'))} per success, {dollars(number(line, 'cost'))} in total"
        for line in tables.rows(document, "cost")
    ]
    return f"Cost: {listed(parts)}."
