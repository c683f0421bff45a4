"""The figure of the half-widths that intervals are expected to have with more raters or items."""

from ratings.results.figures import tables
from ratings.results.figures.forest import ForestRow, ForestSection, draw_forest, make_scale
from ratings.results.figures.tables import (
    Document,
    TableRow,
    format_two_decimals,
    get_count,
    get_number,
    get_text,
    join_parts,
)
from ratings.results.figures.theme import AnyChart, FigureSize

_NAMES = {"rate": "Rate", "kappa": "Kappa", "auc": "AUC"}


def draw_precision(document: Document, profile: FigureSize) -> AnyChart:
    """Draw a section per quantity and source, with a row for each size of the study."""
    sections = [
        ForestSection(heading, [_precision_row(line) for line in some])
        for heading, some in _group_sections(document).items()
    ]
    all_rows = [row for section in sections for row in section.rows]
    top = max((row.value or 0.0 for row in all_rows), default=0.0) or 0.1  # a scale needs an extent
    return draw_forest(sections, make_scale("Half-width", all_rows, ceiling=top), profile, bars=True)


def _group_sections(document: Document) -> dict[str, list[TableRow]]:
    sections: dict[str, list[TableRow]] = {}
    for line in tables.get_rows(document, "precision"):
        what, source = get_text(line, "what"), get_text(line, "source")
        name = _NAMES.get(what, what)
        sections.setdefault(f"{name}, {source}" if source else name, []).append(line)
    return sections


def _precision_row(line: TableRow) -> ForestRow:
    # The half-width is undefined while there are too few raters or items; the row still shows the size of the study.
    half, is_current = get_number(line, "half_width"), bool(get_number(line, "now"))
    size = _describe_size(line, ", ")
    value_text = f"±{format_two_decimals(half)}" if half is not None else _NOT_ESTIMABLE
    title = get_text(line, "said") or f"{size}: {value_text}"
    return ForestRow(
        f"{size}{' (now)' if is_current else ''}",
        half,
        None,
        None,
        value_text,
        title,
        "blue" if is_current else "slate",
    )


_NOT_ESTIMABLE = "not estimable yet"


def _describe_size(line: TableRow, between: str) -> str:
    raters, items = get_count(line, "raters"), get_count(line, "items")
    return f"{raters} rater{'s' * (raters != 1)}{between}{items} item{'s' * (items != 1)}"


def describe_precision(document: Document) -> str:
    """Return the current and the best value of each quantity."""
    parts = []
    for heading, some in _group_sections(document).items():
        current = [line for line in some if get_number(line, "now")] or some[:1]
        half = get_number(current[0], "half_width")
        reason_text = f" ({said})" if (said := get_text(current[0], "said")) else ""
        present = f"±{format_two_decimals(half)} now" if half is not None else f"{_NOT_ESTIMABLE}{reason_text}"
        estimable = [line for line in some if get_number(line, "half_width") is not None]
        best = min(estimable, key=lambda line: get_number(line, "half_width") or 0.0, default=None)
        reached = (
            f", {format_two_decimals(get_number(best, 'half_width'))} with {_describe_size(best, ' and ')}"
            if best
            else ""
        )
        parts.append(f"{heading} {present}{reached}")
    return f"Half-widths: {join_parts(parts, most=4)}."
