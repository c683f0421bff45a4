"""What more ratings would give: the half-width of the interval to be expected."""

from ratings.results.figures import tables
from ratings.results.figures.forest import forest, spanning
from ratings.results.figures.placing import Row, Section
from ratings.results.figures.tables import Document, Line, count, number, text
from ratings.results.figures.theme import AnyChart, Profile
from ratings.results.figures.wording import listed, two

_NAMES = {"rate": "Rate", "kappa": "Kappa", "auc": "AUC"}


def precision(document: Document, profile: Profile) -> AnyChart:
    """A section for each quantity and source, a row for each size of study."""
    sections = [Section(heading, [_row(line) for line in some]) for heading, some in _sections(document).items()]
    every = [row for section in sections for row in section.rows]
    top = max((row.value or 0.0 for row in every), default=0.0) or 0.1
    return forest(sections, spanning("Half-width", every, ceiling=top), profile, bars=True)


def _sections(document: Document) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in tables.rows(document, "precision"):
        what, source = text(line, "what"), text(line, "source")
        name = _NAMES.get(what, what)
        found.setdefault(f"{name}, {source}" if source else name, []).append(line)
    return found


def _row(line: Line) -> Row:
    half, now = number(line, "half_width"), bool(number(line, "now"))
    size = _size(line, ", ")
    said = f"±{two(half)}" if half is not None else _UNSAID
    title = text(line, "said") or f"{size}: {said}"
    return Row(f"{size}{' (now)' if now else ''}", half, None, None, said, title, "blue" if now else "slate")


_UNSAID = "cannot be said yet"


def _size(line: Line, between: str) -> str:
    raters, items = count(line, "raters"), count(line, "items")
    return f"{raters} rater{'s' * (raters != 1)}{between}{items} item{'s' * (items != 1)}"


def say_precision(document: Document) -> str:
    """Each quantity as it is and at its best."""
    parts = []
    for heading, some in _sections(document).items():
        now = [line for line in some if number(line, "now")] or some[:1]
        half = number(now[0], "half_width")
        why = f" ({said})" if (said := text(now[0], "said")) else ""
        present = f"±{two(half)} now" if half is not None else f"{_UNSAID}{why}"
        known = [line for line in some if number(line, "half_width") is not None]
        best = min(known, key=lambda line: number(line, "half_width") or 0.0, default=None)
        reached = f", {two(number(best, 'half_width'))} with {_size(best, ' and ')}" if best else ""
        parts.append(f"{heading} {present}{reached}")
    return f"Half-widths: {listed(parts, most=4)}."
