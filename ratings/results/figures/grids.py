"""Figures of cells: agreement between pairs (the paper's Fig. 4a and b), and ratings by rater and item."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from ratings.results.figures import legends, tables
from ratings.results.figures.forest import draw_text
from ratings.results.figures.tables import (
    Document,
    TableRow,
    format_percent,
    get_count,
    get_number,
    get_text,
    text_width,
    widest_text,
    wrap_text,
)
from ratings.results.figures.theme import (
    BLUES,
    INK,
    MUTED,
    ORANGES,
    PAPER,
    QUIET,
    AnyChart,
    FigureSize,
    colour_step,
    layer_charts,
    make_data,
    make_frame,
)

# With more cells, marks have no titles, because the file would be too large for a page. The table has every value.
MAX_TITLES = 1500


class GridCell(NamedTuple):
    """One cell of a grid, at a column and a row. `said` is printed in the cell if it fits."""

    column: int
    row: int
    fill: str
    said: str
    title: str
    quiet: bool = False


def draw_heat(names: Sequence[str], heads: Sequence[str], cells: Sequence[GridCell], profile: FigureSize) -> AnyChart:
    """Draw a grid with a number in each cell. `names` label the rows, `heads` the columns.

    If a head does not fit above its column, all heads are replaced by numbers, and the rows are numbered in the same way.
    """
    gap, pitch = profile.size * 0.7, profile.size * 1.2
    max_left = profile.width * (0.42 if profile.stacked else 0.34)
    numbered = [f"{place}  {name}" for place, name in enumerate(names, 1)]
    left = min(widest_text(numbered, profile.size), max_left) + gap
    side = min((profile.width - left) / len(heads), profile.size * 8)
    # Either every head fits or all become numbers: a mixture would be confusing.
    broken = [_break_head(head, side - 4, profile) for head in heads]
    if all(broken):
        rows, tops = list(names), [found or [] for found in broken]
    else:
        rows, tops = numbered, [[str(place)] for place in range(1, len(heads) + 1)]
    high = max(min(side, profile.size * 3), profile.size * 1.6)
    above = max(len(top) for top in tops) * pitch + profile.size * 0.6
    texts, heads_at = list[dict[str, Any]](), list[dict[str, Any]]()
    for place, name in enumerate(rows):
        part = wrap_text(name, left - gap + 1, profile.size, most=2 if high > pitch * 2 else 1)
        for at, line in enumerate(part):
            y = above + (place + 0.5) * high + (at - (len(part) - 1) / 2) * pitch
            texts.append({"text": line, "x": left - gap, "y": y, "colour": INK.light})
    for place, top in enumerate(tops):
        for at, line in enumerate(top):
            y = above - profile.size * 0.6 - (len(top) - 1 - at) * pitch - profile.size * 0.4
            heads_at.append({"text": line, "x": left + (place + 0.5) * side, "y": y, "colour": INK.light})
    # The small size only if a percentage does not fit, because the numbers are the content of the figure.
    size = profile.size if side > text_width("100%", profile.size) + 4 else profile.small
    room = side - 2
    marks = [
        {
            **{"x": left + cell.column * side, "x2": left + (cell.column + 1) * side},
            **{"y": above + cell.row * high, "y2": above + (cell.row + 1) * high},
            **{"fill": cell.fill, "title": cell.title},
        }
        for cell in cells
    ]
    labels = [_place_label(cell, left, above, side, high) for cell in cells]
    # A number that does not fit is left out; the title of the cell has it.
    labels = [one for one in labels if text_width(one["text"], size) <= room]
    layers = [
        make_frame(0, profile.width),
        draw_boxes(marks, profile.stroke),
        draw_text(texts, profile, align="right"),
        draw_text(heads_at, profile, align="center"),
        draw_text(labels, profile, align="center", size=size),
    ]
    return layer_charts(*layers, width=profile.width, height=above + high * len(rows))


def _break_head(head: str, room: float, profile: FigureSize) -> list[str] | None:
    """Return the head in at most three lines, broken between words; None if it does not fit."""
    head_lines = wrap_text(head, room, profile.size, most=3)
    is_complete = " ".join(head_lines) == head
    return head_lines if is_complete and widest_text(head_lines, profile.size) <= room else None


def _place_label(cell: GridCell, left: float, above: float, side: float, high: float) -> dict[str, Any]:
    position = {"x": left + (cell.column + 0.5) * side, "y": above + (cell.row + 0.5) * high}
    return {"text": cell.said, **position, "colour": MUTED.light if cell.quiet else INK.light}


def draw_boxes(marks: Sequence[Mapping[str, Any]], gap: float, titled: bool = True) -> alt.Chart:
    """Draw filled boxes between pixels x, x2, y, y2 with a gap between them."""
    edge = alt.MarkDef(type="rect", stroke=PAPER.light, strokeWidth=gap) if gap else alt.MarkDef(type="rect")
    if not titled:
        edge.aria = False  # thousands of boxes would otherwise be announced one by one
    drawn = alt.Chart(make_data(marks), mark=edge).encode(
        x=alt.X("x:Q", scale=None, axis=None),
        x2="x2:Q",
        y=alt.Y("y:Q", scale=None, axis=None),
        y2="y2:Q",
        fill=alt.Fill("fill:N", scale=None),
    )
    return drawn.encode(description="title:N") if titled else drawn


def draw_pairs(document: Document, profile: FigureSize, name: str) -> AnyChart:
    """Draw the cells of agreement_matrix or conditional_matrix, without the diagonal."""
    lines_of_table = tables.get_rows(document, name)
    names = list(
        dict.fromkeys([*tables.list_distinct(lines_of_table, "row"), *tables.list_distinct(lines_of_table, "col")])
    )
    cells = [_make_pair_cell(line, names) for line in lines_of_table]
    existing = {(cell.row, cell.column) for cell in cells}
    cells += [
        # The diagonal is drawn although the table does not have it, so that rows and columns can be followed.
        GridCell(place, place, QUIET.light, "–", f"{who} with itself", quiet=True)
        for place, who in enumerate(names)
        if (place, place) not in existing
    ]
    return draw_heat(names, names, cells, profile)


def _make_pair_cell(line: TableRow, names: Sequence[str]) -> GridCell:
    row, column, value = get_text(line, "row"), get_text(line, "col"), get_number(line, "value")
    place = (names.index(column), names.index(row))
    if row == column:
        return GridCell(*place, QUIET.light, "–", f"{row} with itself", quiet=True)
    # Conditional agreement has its own base: the items with a yes from the row.
    title = f"{row}, {column}: {format_percent(value)} of {get_count(line, 'base') or get_count(line, 'n')} items"
    if value is None:
        return GridCell(*place, QUIET.light, "none", title, quiet=True)
    return GridCell(*place, colour_step(BLUES, value), format_percent(value), title)


def describe_pairs(document: Document, name: str) -> str:
    """Return the lowest and the highest cell, and the number of cells."""
    some = [
        line
        for line in tables.get_rows(document, name)
        if get_text(line, "row") != get_text(line, "col") and get_number(line, "value") is not None
    ]
    if not some:
        return "No two raters judged the same items."
    ranked = sorted(some, key=lambda line: get_number(line, "value") or 0.0)
    joiner = "with" if name == "agreement_matrix" else "then"
    parts = [
        f"{get_text(line, 'row')} {joiner} {get_text(line, 'col')} {format_percent(get_number(line, 'value'))}"
        for line in (ranked[0], ranked[-1])
    ]
    what = "Same verdict" if name == "agreement_matrix" else "If the first answers yes, so does the second"
    return f"{what}: from {parts[0]} to {parts[1]}, {len(some)} cells."


def draw_matrix(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a band of cells for each source, with its items as columns and raters as rows."""
    lines_of_table = tables.get_rows(document, "matrix")
    raters = {name: place for place, name in enumerate(tables.list_distinct(lines_of_table, "rater"))}
    items: dict[str, dict[str, int]] = {}
    for line in lines_of_table:
        positions = items.setdefault(get_text(line, "source"), {})
        positions.setdefault(get_text(line, "item"), len(positions))
    left = min(widest_text(list(raters), profile.size), profile.width * 0.2) + profile.size * 0.7
    side = (profile.width - left) / max(len(some) for some in items.values())
    side = min(side, profile.size * 2)  # in small studies, cells stay about two letters wide
    high = _compute_row_height(len(raters) * len(items), profile)
    bands = _band_tops(items, len(raters), high, profile)
    # See the limit above: without titles, boxes of one colour can be merged into one path.
    titled = len(lines_of_table) <= MAX_TITLES
    marks, wrong, digits = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for line in lines_of_table:
        source = get_text(line, "source")
        x = left + items[source][get_text(line, "item")] * side
        y = bands[source] + raters[get_text(line, "rater")] * high
        marks.append(_make_rating_cell(line, document, x, y, side, high))
        if get_number(line, "correct") == 0:
            # A bar in the lower fifth of the cell, so that colour and digit stay visible.
            wrong.append({"x": x, "x2": x + side, "y": y + high * 0.78, "y2": y + high, "fill": INK.light})
        if side >= profile.small * 0.9 and high >= profile.small * 1.4 and line.get("confidence") is not None:
            digit = str(get_count(line, "confidence"))
            digits.append({"text": digit, "x": x + side / 2, "y": y + high * 0.42, "colour": INK.light})
    if not titled:
        # Sorted by colour, so that equal neighbours can be merged when the SVG is cleaned.
        marks.sort(key=lambda mark: str(mark["fill"]))
    height = max(bands.values()) + len(raters) * high
    gap = 1.0 if min(side, high) > 5 else 0.0  # below 5 pixels, gaps would take much of a cell
    layers = [make_frame(0, profile.width), draw_boxes(marks, gap * 0.6, titled)]
    if wrong:
        layers.append(draw_boxes(wrong, 0.0, titled=False))
    if digits:
        layers.append(draw_text(digits, profile, align="center", size=profile.small))
    layers += _draw_band_labels(items, raters, bands, left, high, profile)
    plot = layer_charts(*layers, width=profile.width, height=height)
    return alt.vconcat(_draw_matrix_legend(document, profile), plot, spacing=profile.size)


def _compute_row_height(rows: int, profile: FigureSize) -> float:
    """Return the height of a row: enough for a letter if there are few rows, less if there are many.

    A figure with many rows is limited to a height of about one and a half screens, unless its rows have the least height.
    """
    return max(profile.size * 0.3, min(profile.size * 1.5, profile.size * 90 / rows))


def _band_tops(
    items: Mapping[str, Mapping[str, int]], raters: int, high: float, profile: FigureSize
) -> dict[str, float]:
    """Return the top of each source's first row."""
    top, tops = profile.size * 1.6, dict[str, float]()
    for source in items:
        tops[source] = top
        top += raters * high + profile.size * 2.4
    return tops


def _make_rating_cell(
    line: TableRow, document: Document, x: float, y: float, side: float, high: float
) -> dict[str, Any]:
    yes, no = tables.verdict_words(document)
    verdict, confidence = get_count(line, "verdict"), get_number(line, "confidence")
    # Without a confidence the middle colour is used.
    fill = colour_step(BLUES if verdict else ORANGES, _colour_strength(confidence or 3))
    title = f"{get_text(line, 'rater')}, item {get_text(line, 'item')}: {yes if verdict else no}"
    title += f", confidence {confidence:.0f}" if confidence is not None else ""
    correct = get_number(line, "correct")
    title += "" if correct is None else (", right" if correct else ", wrong")
    return {"x": x, "x2": x + side, "y": y, "y2": y + high, "fill": fill, "title": title}


def _colour_strength(confidence: float) -> float:
    """Return the position on the colour ramp, 0.25 to 1, for a confidence of 1 to 5.

    The palest colour is visible in print.
    """
    return 0.25 + 0.75 * (confidence - 1) / 4


def _draw_band_labels(
    items: Mapping[str, Mapping[str, int]],
    raters: Mapping[str, int],
    bands: Mapping[str, float],
    left: float,
    high: float,
    profile: FigureSize,
) -> list[alt.Chart]:
    """Draw the source above each band and the raters beside it. If rows are low, only every nth rater is named."""
    heads, names = list[dict[str, Any]](), list[dict[str, Any]]()
    # Every nth name, where n is the number of rows that one line of text covers; + 0.49 rounds up.
    label_step = max(1, round(profile.size * 1.15 / high + 0.49))
    for source, top in bands.items():
        n = len(items[source])
        heading = f"{source or 'All items'}, {n} item{'s' if n != 1 else ''}"
        line = wrap_text(heading, profile.width, profile.size, most=1)[0]
        heads.append({"text": line, "x": 0, "y": top - profile.size * 0.8, "colour": INK.light})
        for rater, place in raters.items():
            if place % label_step == 0:
                label = wrap_text(rater, left - profile.size * 0.5, profile.size, most=1)[0]
                y = top + (place + 0.5) * high
                names.append({"text": label, "x": left - profile.size * 0.5, "y": y, "colour": INK.light})
    return [draw_text(heads, profile, bold=True), draw_text(names, profile, align="right", size=profile.small)]


def _draw_matrix_legend(document: Document, profile: FigureSize) -> AnyChart:
    yes, no = tables.verdict_words(document)
    entries = []
    for word, colours in ((yes, BLUES), (no, ORANGES)):
        for confidence in (1, 5):
            fill = colour_step(colours, _colour_strength(confidence))
            entries.append(legends.LegendEntry(f"{word.capitalize()}, {confidence}", fill, fill))
    if any(get_number(line, "correct") == 0 for line in tables.get_rows(document, "matrix")):
        entries.append(legends.LegendEntry("Wrong", INK.light, INK.light, "M-1,0.4H1V1H-1Z"))
    return legends.draw_across(entries, profile)


def describe_matrix(document: Document) -> str:
    lines_of_table = tables.get_rows(document, "matrix")
    yes, _ = tables.verdict_words(document)
    items, raters = (
        len({get_text(line, "item") for line in lines_of_table}),
        len({get_text(line, "rater") for line in lines_of_table}),
    )
    # A note of the table means that it contains only a sample.
    of = "A sample of " if tables.get_notes(document, "matrix") else ""
    sentence = f"{of}{len(lines_of_table)} ratings of {items} items by {raters} raters: {format_percent(_mean_of(lines_of_table, 'verdict'))} {yes}"
    judged = [line for line in lines_of_table if get_number(line, "correct") is not None]
    return (
        f"{sentence}, {format_percent(_mean_of(judged, 'correct'))} equal to the reference label where it is known."
        if judged
        else f"{sentence}."
    )


def _mean_of(found: Sequence[TableRow], name: str) -> float:
    return sum(get_number(line, name) or 0.0 for line in found) / len(found)
