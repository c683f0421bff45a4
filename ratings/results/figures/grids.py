"""Figures of cells: agreement between pairs (the paper's Fig. 4a and b), and ratings by rater and item."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from ratings.results.figures import tables, theme

# With more cells, marks have no titles, because the file would be too large for a page. The table has every value.
MAX_TITLES = 1500


def _draw_pairs(document: tables.Document, profile: theme.FigureSize, name: str) -> theme.Spec:
    """Draw the cells of agreement_matrix or conditional_matrix. If a name does not fit above its column, use numbers."""
    lines = tables.get_rows(document, name)
    names = list(dict.fromkeys([*tables.list_distinct(lines, "row"), *tables.list_distinct(lines, "col")]))
    size = profile.size
    numbered = [f"{place}  {who}" for place, who in enumerate(names, 1)]
    widest = max(tables.text_width(text, size) for text in numbered)
    left = min(widest, profile.width * (0.42 if profile.stacked else 0.34)) + size * 0.7
    side = min((profile.width - left) / len(names), size * 8)
    heads = [tables.wrap_text(who, side - 4, size, most=3) for who in names]
    # Either every head fits, broken between words, or all become numbers: a mixture would be confusing.
    if any(
        " ".join(head) != who or max(tables.text_width(line, size) for line in head) > side - 4
        for who, head in zip(names, heads, strict=True)
    ):
        heads, row_names = [[str(place)] for place in range(1, len(names) + 1)], numbered
    else:
        row_names = names
    high = max(min(side, size * 3), size * 1.6)
    rows = [tables.wrap_text(who, left - size * 0.7 + 1, size, most=2 if high > size * 2.4 else 1) for who in row_names]
    # Axes place labels as if they had one line, so further lines move them up.
    keys = {
        who: theme.make_key(place, head, (len(head) * 1.2 - 0.8) * size, row, (len(row) - 1) * -0.6 * size)
        for place, (who, head, row) in enumerate(zip(names, heads, rows, strict=True))
    }
    # The diagonal is drawn although the table does not have it, so that rows and columns can be followed.
    on_diagonal = {line.text("row") for line in lines if line.text("row") == line.text("col")}
    cells = [_make_pair_cell(line, keys) for line in lines]
    cells += [_make_pair_cell(tables.TableRow(row=who, col=who), keys) for who in names if who not in on_diagonal]
    # The small size only if a percentage does not fit, because the numbers are the content of the figure.
    number_size = size if side > tables.text_width("100%", size) + 4 else profile.small
    # A number that does not fit is left out; the title of the cell has it.
    fitting = [cell for cell in cells if tables.text_width(cell["number"], number_size) <= side - 2]
    scale = alt.Scale(type="band", domain=list(keys.values()), padding=0)
    look: dict[str, Any] = {**theme.BARE_AXIS, "labelFontSize": size, "labelLineHeight": size * 1.2}
    x_axis = alt.Axis(
        orient="top", labelExpr=theme.read_key(1), labelPadding=theme.read_offset(2), labelOverlap=False, **look
    )
    y_axis = alt.Axis(
        labelExpr=theme.read_key(3), labelOffset=theme.read_offset(4), labelPadding=size * 0.6, minExtent=left, **look
    )
    x, y = alt.X("col:N", scale=scale, axis=x_axis), alt.Y("row:N", scale=scale, axis=y_axis)
    boxes = alt.Chart(theme.make_data(cells)).mark_rect(stroke=theme.PAPER.light, strokeWidth=profile.stroke)
    numbers = alt.Chart(theme.make_data(fitting)).mark_text(fontSize=number_size, aria=False)
    return theme.layer_charts(
        boxes.encode(x=x, y=y, fill=alt.Fill("fill:N", scale=None), description="title:N"),
        numbers.encode(x=x, y=y, text="number:N", fill=alt.Fill("ink:N", scale=None)),
        width=side * len(names),
        height=high * len(names),
    )


def _make_pair_cell(line: tables.TableRow, keys: Mapping[str, str]) -> dict[str, Any]:
    row, column, value = line.text("row"), line.text("col"), line.number("value")
    cell = {"row": keys[row], "col": keys[column], "fill": theme.QUIET.light, "ink": theme.MUTED.light}
    if row == column:
        return cell | {"number": "–", "title": f"{row} with itself"}
    # Conditional agreement has its own base: the items with a yes from the row.
    cell["title"] = f"{row}, {column}: {tables.format_percent(value)} of {line.count('base') or line.count('n')} items"
    if value is None:
        return cell | {"number": "none"}
    fill = theme.colour_step(theme.BLUES, value)
    return cell | {"number": tables.format_percent(value), "fill": fill, "ink": theme.INK.light}


def _describe_pairs(document: tables.Document, name: str) -> str:
    """Return the lowest and the highest cell, and the number of cells."""
    lines = tables.get_rows(document, name)
    some = [line for line in lines if line.text("row") != line.text("col") and line["value"] is not None]
    if not some:
        return "No two raters judged the same items."
    ranked = sorted(some, key=lambda line: line.number("value") or 0.0)
    what, joiner = "If the first answers yes, so does the second", "then"
    if name == "agreement_matrix":
        what, joiner = "Same verdict", "with"
    parts = [
        f"{line.text('row')} {joiner} {line.text('col')} {tables.format_percent(line.number('value'))}"
        for line in (ranked[0], ranked[-1])
    ]
    return f"{what}: from {parts[0]} to {parts[1]}, {len(some)} cells."


def _draw_matrix(document: tables.Document, profile: theme.FigureSize) -> theme.Spec:
    """Draw a band of cells for each source, with its items as columns and raters as rows."""
    lines, size = tables.get_rows(document, "matrix"), profile.size
    raters, bands = tables.list_distinct(lines, "rater"), tables.group_rows(lines, "source")
    items = {source: tables.list_distinct(some, "item") for source, some in bands.items()}
    room = min(max(tables.text_width(rater, size) for rater in raters), profile.width * 0.2)
    side = (profile.width - room - size * 0.7) / max(map(len, items.values()))
    side = min(side, size * 2)  # in small studies, cells stay about two letters wide
    # Enough for a letter if there are few rows, less if there are many: the height is limited to about one and a half
    # screens, unless the rows have the least height.
    high = max(size * 0.3, min(size * 1.5, size * 90 / (len(raters) * len(bands))))
    words = [word.capitalize() for word in tables.verdict_words(document)]
    colours = {
        f"{word}, {confidence}": theme.colour_step(ramp, 0.25 + 0.1875 * (confidence - 1))  # the palest shows in print
        for word, ramp in zip(words, (theme.BLUES, theme.ORANGES), strict=True)
        for confidence in (1, 2, 3, 4, 5)
    } | {"Wrong": theme.INK.light}
    has_wrong = any(line.number("correct") == 0 for line in lines)
    legend = alt.Legend(
        orient="top",
        symbolType="square",
        offset=size * 1.2,
        columns=2 if profile.stacked else 5,
        values=[f"{word}, {confidence}" for word in words for confidence in (1, 5)] + ["Wrong"] * has_wrong,
        symbolStrokeColor="transparent",
    )
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    # Without titles, boxes of one colour can be merged into one path.
    is_titled = len(lines) <= MAX_TITLES
    # A gap would take much of a cell below 5 pixels.
    look: dict[str, Any] = {"stroke": theme.PAPER.light, "strokeWidth": 0.6} if min(side, high) > 5 else {}
    if not is_titled:
        look["aria"] = False
    charts = []
    for source, some in bands.items():
        cells = [_make_rating_cell(line, document, words) for line in some]
        # Sorted by colour, so that equal neighbours can be merged when the SVG is cleaned.
        cells = cells if is_titled else sorted(cells, key=lambda cell: cell["kind"])
        axis = alt.Axis(labelLimit=room, labelOverlap=True, **theme.BARE_AXIS)
        base = alt.Chart(theme.make_data(cells)).encode(
            x=alt.X("item:N", axis=None, scale=alt.Scale(type="band", domain=items[source], padding=0)),
            y=alt.Y("rater:N", axis=axis, scale=alt.Scale(type="band", domain=raters, padding=0)),
        )
        boxes = base.mark_rect(**look).encode(fill=alt.Fill("kind:N", scale=scale, legend=legend))
        layers = [boxes.encode(description="title:N") if is_titled else boxes]
        # A bar in the lower fifth of the cell, so that colour and digit stay visible.
        wrong = base.transform_filter("datum.is_wrong").mark_rect(height=high * 0.22, yOffset=high * 0.39, aria=False)
        layers.append(wrong.encode(fill=alt.value(theme.INK.light)))
        if side >= profile.small * 0.9 and high >= profile.small * 1.4:
            digits = base.mark_text(dy=-high * 0.08, fontSize=profile.small, aria=False)
            layers.append(digits.encode(text="digit:N"))
        n = len(items[source])
        heading = f"{source or 'All items'}, {n} item{'s' if n != 1 else ''}"
        title = alt.TitleParams(tables.wrap_text(heading, profile.width, size, most=1))
        charts.append(theme.layer_charts(*layers, width=side * n, height=high * len(raters), title=title))
    return theme.share_colours(theme.stack_charts(charts, size * 0.8))


def _make_rating_cell(line: tables.TableRow, document: tables.Document, words: Sequence[str]) -> dict[str, Any]:
    rater, item, confidence = line.text("rater"), line.text("item"), line.number("confidence")
    word = words[0 if line.count("verdict") else 1]
    title = f"{rater}, item {item}: {word.lower()}"
    title += f", confidence {confidence:.0f}" if confidence is not None else ""
    correct = line.number("correct")
    title += "" if correct is None else (", right" if correct else ", wrong")
    return {
        **{"rater": rater, "item": item, "title": title, "is_wrong": correct == 0},
        "kind": f"{word}, {confidence or 3:.0f}",  # without a confidence the middle colour is used
        "digit": "" if confidence is None else f"{confidence:.0f}",
    }


def _describe_matrix(document: tables.Document) -> str:
    lines = tables.get_rows(document, "matrix")
    yes, _ = tables.verdict_words(document)
    items, raters = (len(tables.list_distinct(lines, column)) for column in ("item", "rater"))
    # A note of the table means that it contains only a sample.
    of = "A sample of " if tables.get_notes(document, "matrix") else ""
    sentence = f"{of}{len(lines)} ratings of {items} items by {raters} raters: {_format_mean(lines, 'verdict')} {yes}"
    judged = [line for line in lines if line.number("correct") is not None]
    if not judged:
        return f"{sentence}."
    return f"{sentence}, {_format_mean(judged, 'correct')} equal to the reference label where it is known."


def _format_mean(lines: Sequence[tables.TableRow], name: str) -> str:
    return tables.format_percent(sum(line.number(name) or 0.0 for line in lines) / len(lines))


def _make_pairs_drawing(name: str) -> theme.Drawing:
    return theme.Drawing(partial(_draw_pairs, name=name), partial(_describe_pairs, name=name))


AGREEMENT_MATRIX = _make_pairs_drawing("agreement_matrix")
CONDITIONAL_MATRIX = _make_pairs_drawing("conditional_matrix")
MATRIX = theme.Drawing(_draw_matrix, _describe_matrix)
