"""The figure of the expected half-width of intervals with more data."""

from ratings.results.figures import tables
from ratings.results.figures.forest import forest, spanning
from ratings.results.figures.placing import Row, Section
from ratings.results.figures.tables import Document, Line, count, number, text
from ratings.results.figures.theme import AnyChart, Profile
from ratings.results.figures.wording import listed, two

_NAMES = {"rate": "Rate", "kappa": "Kappa", "auc": "AUC"}


def precision(document: Document, profile: Profile) -> AnyChart:
    """Draw a section per quantity and source, with a row per size of study."""
    sections = [Section(heading, [_row(line) for line in some]) for heading, some in _sections(document).items()]
    all_rows = [row for section in sections for row in section.rows]
    top = max((row.value or 0.0 for row in all_rows), default=0.0) or 0.1  # a scale needs an extent
    return forest(sections, spanning("Half-width", all_rows, ceiling=top), profile, bars=True)


def _sections(document: Document) -> dict[str, list[Line]]:
    sections: dict[str, list[Line]] = {}
    for line in tables.rows(document, "precision"):
        what, source = text(line, "what"), text(line, "source")
        name = _NAMES.get(what, what)
        sections.setdefault(f"{name}, {source}" if source else name, []).append(line)
    return sections


def _row(line: Line) -> Row:
    # The half-width is undefined while there are too few raters or items; the row still shows the size of the study.
    half, is_current = number(line, "half_width"), bool(number(line, "now"))
    size = _size(line, ", ")
    value_text = f"±{two(half)}" if half is not None else _UNSAID
    title = text(line, "said") or f"{size}: {value_text}"
    return Row(
        f"{size}{' (now)' if is_current else ''}",
        half,
        None,
        None,
        value_text,
        title,
        "blue" if is_current else "slate",
    )


_UNSAID = "not estimable yet"


def _size(line: Line, between: str) -> str:
    raters, items = count(line, "raters"), count(line, "items")
    return f"{raters} rater{'s' * (raters != 1)}{between}{items} item{'s' * (items != 1)}"


def say_precision(document: Document) -> str:
    """Return the current and the best value of each quantity."""
    parts = []
    for heading, some in _sections(document).items():
        current = [line for line in some if number(line, "now")] or some[:1]
        half = number(current[0], "half_width")
        reason_text = f" ({said})" if (said := text(current[0], "said")) else ""
        present = f"±{two(half)} now" if half is not None else f"{_UNSAID}{reason_text}"
        estimable = [line for line in some if number(line, "half_width") is not None]
        best = min(estimable, key=lambda line: number(line, "half_width") or 0.0, default=None)
        reached = f", {two(number(best, 'half_width'))} with {_size(best, ' and ')}" if best else ""
        parts.append(f"{heading} {present}{reached}")
    return f"Half-widths: {listed(parts, most=4)}."
