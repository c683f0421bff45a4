"""Arrange an analysis document for the pages of results: key numbers, and sections of figures and tables, without a query."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ratings.models import EVIDENCE
from ratings.results.analyses.tables import Json, list_records
from ratings.results.figures.registry import FIGURES
from ratings.templatetags.result_tables import format_table_value
from wetbench_site.text import format_count, natural_sort_key

MATRIX_CELLS = 1_500  # most cells of the matrix on the page unless all are requested


class KeyNumber(NamedTuple):
    """A key number as text. `target`: the population to which the interval refers; "" for new raters."""

    name: str
    value: str
    interval: str
    target: str
    sample_text: str
    published: str
    reason: str


class ResultBlock(NamedTuple):
    """A figure and its table. `notes`: how to read both; `tall`: the figure fills more than a printed page; `summary`: a sentence."""

    name: str
    title: str
    table_name: str
    table: Json
    figure: Any
    notes: list[str]
    tall: bool
    summary: str


class ResultSection(NamedTuple):
    """A page of results. `slug` is the end of its URL; `notes` apply to several of its figures and tables."""

    slug: str
    title: str
    panels: list[ResultBlock]
    notes: list[str]


class MatrixRow(NamedTuple):
    """An item's ratings, one entry per rater in column order; None without a rating."""

    code: str
    name: str
    source: str
    cells: list["MatrixCell | None"]


class MatrixCell(NamedTuple):
    """One rating in the matrix. `side`: yes or no; `wrong`: the reference is known and differs."""

    side: str
    strength: int
    text: str
    wrong: bool


class RatingMatrix(NamedTuple):
    """Ratings by item and rater. `items` is the number of items in the document; `rows` has those on the page."""

    raters: list[str]
    rows: list[MatrixRow]
    items: int
    notes: list[str]


_RATES = ("rates", ("rates", "roc", "localisation", "confidence", "violins"))
_GROUPS = ("groups", ("rates_by_experiment", "rates_by_action", "rates_by_error_kind", "rates_by_arm"))
_RATERS = ("raters", ("raters", "drift", "rates_by_rater", "detection"))
_MATRICES = ("agreement_matrix", "conditional_matrix")
_MACHINES = ("machines", ("misses", "detection_by_size", "human_model", "fractions"))
_AGREEMENT = ("agreement", ("agreement", *_MATRICES, "precision"))
_CONTRASTS = ("contrasts", ("contrasts",))
_LAYOUT = (_RATES, _CONTRASTS, _MACHINES, _AGREEMENT, _GROUPS, _RATERS)
# The paper's Table 1 and Fig. 4 come first in studies of evidence.
_LAYOUT_EVIDENCE = (
    ("machines", ("human_model", "fractions", *_MATRICES)),
    _RATES,
    _CONTRASTS,
    ("agreement", ("agreement", "precision")),
    _GROUPS,
    _RATERS,
)
# Every page of results by the end of its URL.
ITEMS, STATISTICS, ABOUT = "items", "statistics", "about"
TITLES: Mapping[str, str] = {
    "rates": "Rates and confidence",
    "contrasts": "Contrasts",
    "machines": "People and models",
    "agreement": "Agreement",
    "groups": "By experiment, action and kind of error",
    "raters": "Raters",
    ITEMS: "Items",
    STATISTICS: "All statistics",
    ABOUT: "Protocol and progress",
}
# The figure beside the key numbers: the first of these that was drawn.
_FIRST_FIGURES, _FIRST_FIGURES_EVIDENCE = ("rates",), ("human_model", "rates")
_COLLECTED = "collected"


def build_key_numbers(document: Json) -> list[KeyNumber]:
    """Return the key numbers as text, without the number of ratings: `describe_sample` states it."""
    return [_make_key_number(entry) for entry in document["headline"] if entry["key"] != _COLLECTED]


def describe_sample(document: Json) -> str:
    """Return the ratings that all numbers are based on, in one sentence."""
    entry = next(entry for entry in document["headline"] if entry["key"] == _COLLECTED)
    return f"{format_count(entry['value'], 'rating')} {entry['said']}."


def build_sections(document: Json, figures: Mapping[str, Any]) -> list[ResultSection]:
    """Return the pages of figures and tables in the order for the study's kind, without empty ones."""
    sections = []
    for slug, names in _get_layout(document["subject"]["kind"]):
        panels = [_make_block(name, document, figures.get(name)) for name in names]
        if blocks := [panel for panel in panels if panel.figure or panel.table["rows"]]:
            sections.append(_share_notes(slug, blocks))
    return sections


def get_first_slug(kind: str) -> str:
    """Return the first section of studies of this kind."""
    return _get_layout(kind)[0][0]


def _get_layout(kind: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return _LAYOUT_EVIDENCE if kind == EVIDENCE else _LAYOUT


def find_first_block(document: Json, figures: Mapping[str, Any]) -> ResultBlock | None:
    """Return the figure that is shown beside the key numbers, or None until it has been drawn."""
    is_evidence = document["subject"]["kind"] == EVIDENCE
    names = _FIRST_FIGURES_EVIDENCE if is_evidence else _FIRST_FIGURES
    name = next((name for name in names if name in figures), None)
    return _make_block(name, document, figures[name]) if name else None


def _share_notes(slug: str, blocks: Sequence[ResultBlock]) -> ResultSection:
    """Return the section, with each note that several blocks have in common stated once, before all of them."""
    times = Counter(note for block in blocks for note in dict.fromkeys(block.notes))
    panels = [block._replace(notes=[note for note in block.notes if times[note] == 1]) for block in blocks]
    return ResultSection(slug, TITLES[slug], panels, [note for note, n in times.items() if n > 1])


def describe_design(document: Json) -> str:
    """Return the sentence beside every result, whatever the filters: the share of planted errors, and how items were displayed."""
    composition, parts_of_sentence = document["composition"], []
    filtered = bool(document["filters"]["values"])
    if counts := composition["references_said"]:
        parts_of_sentence.append(f"{'the rated' if filtered else 'These'} items: {counts}")
    elif (share := composition["planted_share"]) is not None:
        parts_of_sentence.append(f"{share:.0%} of {'the rated' if filtered else 'these'} items have a planted error")
    for arm, shares in composition["arms"].items():
        if len(shares) > 1:
            listing = ", ".join(f"{name} {part:.0%}" for name, part in shares.items())
            parts_of_sentence.append(f"{_ARMS.get(arm, arm)}: {listing}")
    return f"{'In the whole study, ' if filtered else ''}{'; '.join(parts_of_sentence)}." if parts_of_sentence else ""


_ARMS = {"layout": "layout", "context": "goal and earlier steps shown", "marks": "rows could be ticked"}


def build_matrix(document: Json, names: Mapping[str, str], whole: bool = False) -> RatingMatrix | None:
    """Return the matrix: as many items of each source as fit a page, or all if `whole`. None without ratings."""
    table = document["tables"]["matrix"]
    if not table["rows"]:
        return None
    raters: set[str] = set()
    items: dict[str, dict[str, dict[str, MatrixCell]]] = defaultdict(lambda: defaultdict(dict))
    for row in list_records(table):
        raters.add(row["rater"])
        items[row["source"]][row["item"]][row["rater"]] = _make_cell(row)
    # As many rows of each source as fit, so that no source is missing from the page.
    each = None if whole else max(1, MATRIX_CELLS // len(raters) // len(items))
    # Natural order: R2 before R10.
    labels = sorted(raters, key=natural_sort_key)
    rows = [
        MatrixRow(code, names.get(code, ""), source, [own[code].get(label) for label in labels])
        for source, own in sorted(items.items())
        for code in sorted(own)[:each]
    ]
    return RatingMatrix(labels, rows, sum(map(len, items.values())), list(table["notes"]))


def _make_cell(row: Mapping[str, Any]) -> MatrixCell:
    # The minus sign has the width of the plus, so that the columns align.
    sign = "+" if row["verdict"] else "\N{MINUS SIGN}"
    confidence = row["confidence"] or 0
    # `is False`, because the reference can be unknown, which is neither right nor wrong.
    is_wrong = row["correct"] is False
    return MatrixCell("yes" if row["verdict"] else "no", confidence, f"{sign}{confidence or ''}", is_wrong)


def _make_key_number(entry: Mapping[str, Any]) -> KeyNumber:
    kind = entry["kind"]
    low, high = entry["low"], entry["high"]
    # An interval without both ends is not shown, and the reason is stated with the number.
    interval = "" if low is None or high is None else f"{_format_number(low, kind)} to {_format_number(high, kind)}"
    published = entry["published"]["said"] if entry["published"] else ""
    value, target = _format_number(entry["value"], kind), _TARGETS.get(entry["key"], "")
    return KeyNumber(entry["name"], value, interval, target, entry["said"], published, entry["reason"])


_TARGETS = {"agreement": "for these raters", "model_agreement": "for these raters"}


def _format_number(value: float | None, kind: str) -> str:
    if value is None:
        return "undefined"
    return f"{value:.0%}" if kind == "share" else format_table_value(value, kind)


def _make_block(name: str, document: Json, figure: Any) -> ResultBlock:
    named_figure = FIGURES.get(name)
    table_name = named_figure.table if named_figure else name
    # A document of an earlier release may lack a table; the page then omits it.
    table = document["tables"].get(table_name) or {"title": table_name, "columns": [], "rows": [], "notes": []}
    summary = figure.summary if figure else table.get("summary", "")
    title = named_figure.get_title(document) if named_figure else table["title"]
    # The height of the drawing is known only from the SVG itself.
    height = re.search(r'^<svg\b[^>]*?\sheight="([\d.]+)', str(figure.wide)) if figure else None
    tall = height is not None and float(height[1]) > _TALL_PIXELS
    # The notes of some tables are also notes of their figure.
    notes = list(figure.notes) if figure else []
    notes += [note for note in table["notes"] if not any(note in other for other in notes)]
    return ResultBlock(name, title, table_name, {**table, "notes": []}, figure, notes, tall, summary)


_TALL_PIXELS = 1000  # at a width of 700 pixels, which prints with 7-point letters
