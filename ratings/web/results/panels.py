"""Arrange an analysis document for the study's page: key numbers, and sections of figures and tables, without a query."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from ratings.models import EVIDENCE
from ratings.results.analyses.tables import Json, records
from ratings.results.figures.names import NAMES
from ratings.stats.table import natural
from ratings.templatetags.result_tables import written

MATRIX_CELLS = 1_500  # of the matrix on the page unless all are requested


class Number(NamedTuple):
    """One of the key numbers. `value` is "undefined" if missing, and `reason` says why. `target`: the population of the interval, unless it
    is new raters.
    """

    name: str
    value: str
    interval: str
    target: str
    said: str
    published: str
    reason: str


class Panel(NamedTuple):
    """A figure with its table, or a table alone. `fold`: long, and shown on request; `tall`: more than a printed page; `summary`: one
    sentence.
    """

    name: str
    title: str
    table_name: str
    table: Json
    figure: Any
    wide: bool
    fold: bool
    tall: bool
    summary: str


class Part(NamedTuple):
    """A section of the page. `slug` is its anchor."""

    slug: str
    title: str
    panels: list[Panel]


class MatrixRow(NamedTuple):
    """An item's ratings, one entry per rater in column order; None without a rating."""

    code: str
    source: str
    cells: list["MatrixCell | None"]


class MatrixCell(NamedTuple):
    """`side`: yes or no; `wrong`: the reference is known and differs."""

    side: str
    strength: int
    text: str
    wrong: bool


class Matrix(NamedTuple):
    """Raters and items; `items` are in the document, and `rows` contains those on the page."""

    raters: list[str]
    rows: list[MatrixRow]
    items: int
    notes: list[str]


_WIDE = ("raters", "detection", "contrasts")
_FOLDED = (
    "rates_by_action",
    "rates_by_error_kind",
    "rates_by_arm",
    "rates_by_rater",
    "detection",
    "precision",
    "contrasts",
)
_RATES = ("rates", "Rates and confidence", ("rates", "roc", "localisation", "confidence", "violins"))
_GROUPS = (
    "groups", "By experiment, action and kind of error",
    ("rates_by_experiment", "rates_by_action", "rates_by_error_kind", "rates_by_arm"),
)  # fmt: skip
_RATERS = ("raters", "Raters", ("raters", "drift", "rates_by_rater", "detection"))
_MATRICES = ("agreement_matrix", "conditional_matrix")
_MACHINES = ("machines", "People and models", ("misses", "human_model", "fractions"))
_AGREEMENT = ("agreement", "Agreement", ("agreement", *_MATRICES, "precision"))
_CONTRASTS = ("contrasts", "Contrasts", ("contrasts",))
_LAYOUT = (_RATES, _CONTRASTS, _MACHINES, _AGREEMENT, _GROUPS, _RATERS)
# The paper's Table 1 and Fig. 4 come first in studies of evidence.
_LAYOUT_EVIDENCE = (
    ("machines", "People and models", ("human_model", "fractions", *_MATRICES)),
    _RATES,
    _CONTRASTS,
    ("agreement", "Agreement", ("agreement", "precision")),
    _GROUPS,
    _RATERS,
)


def headline(document: Json) -> list[Number]:
    """Return the key numbers as text."""
    return [_number(entry) for entry in document["headline"]]


def parts(document: Json, figures: Mapping[str, Any]) -> list[Part]:
    """Return the page's sections in the order for the study's kind, without empty ones."""
    layout = _LAYOUT_EVIDENCE if document["subject"]["kind"] == EVIDENCE else _LAYOUT
    sections = []
    for slug, title, names in layout:
        panels = [_panel(name, document, figures.get(name)) for name in names]
        if blocks := [panel for panel in panels if panel.figure or panel.table["rows"]]:
            sections.append(Part(slug, title, blocks))
    return sections


def design(document: Json) -> str:
    """Return the sentence beside every result, whatever the filters: the share of planted errors, and how items were displayed."""
    composition, parts_of_sentence = document["composition"], []
    filtered = bool(document["filters"]["values"])
    if counts := composition["references_said"]:
        parts_of_sentence.append(f"{'the rated' if filtered else 'These'} items: {counts}")
    elif (share := composition["planted_share"]) is not None:
        parts_of_sentence.append(f"{share:.0%} of {'the rated' if filtered else 'these'} items have a planted error")
    for arm, shares in composition["arms"].items():
        if len(shares) > 1:
            parts_of_sentence.append(
                f"{_ARMS.get(arm, arm)}: {', '.join(f'{name} {part:.0%}' for name, part in shares.items())}"
            )
    return f"{'In the whole study, ' if filtered else ''}{'; '.join(parts_of_sentence)}." if parts_of_sentence else ""


_ARMS = {"layout": "layout", "context": "goal and earlier steps shown", "marks": "rows could be ticked"}


def matrix(document: Json, whole: bool = False) -> Matrix | None:
    """Return raters by items, grouped by source, with as many of each source as fit a page. None without a rating."""
    table = document["tables"]["matrix"]
    if not table["rows"]:
        return None
    raters: set[str] = set()
    items: dict[str, dict[str, dict[str, MatrixCell]]] = defaultdict(lambda: defaultdict(dict))
    for row in records(table):
        raters.add(row["rater"])
        items[row["source"]][row["item"]][row["rater"]] = _matrix_cell(row)
    # As many rows of each source as fit, so that no source is missing from the page.
    each = None if whole else max(1, MATRIX_CELLS // len(raters) // len(items))
    # Natural order: R2 before R10.
    labels = sorted(raters, key=natural)
    rows = [
        MatrixRow(code, source, [own[code].get(label) for label in labels])
        for source, own in sorted(items.items())
        for code in sorted(own)[:each]
    ]
    return Matrix(labels, rows, sum(map(len, items.values())), list(table["notes"]))


def _matrix_cell(row: Mapping[str, Any]) -> MatrixCell:
    # The minus sign has the width of the plus, so that the columns align.
    sign = "+" if row["verdict"] else "\N{MINUS SIGN}"
    confidence = row["confidence"] or 0
    return MatrixCell(
        # `is False`, because the reference can be unknown, which is neither right nor wrong.
        "yes" if row["verdict"] else "no",
        confidence,
        f"{sign}{confidence or ''}",
        row["correct"] is False,
    )


def _number(entry: Mapping[str, Any]) -> Number:
    kind = entry["kind"]
    low, high = entry["low"], entry["high"]
    # An interval without both ends is not shown, and the reason is stated with the number.
    interval = "" if low is None or high is None else f"{_said(low, kind)} to {_said(high, kind)}"
    published = entry["published"]["said"] if entry["published"] else ""
    value, target = _said(entry["value"], kind), _TARGETS.get(entry["key"], "")
    return Number(entry["name"], value, interval, target, entry["said"], published, entry["reason"])


_TARGETS = {"agreement": "for these raters", "model_agreement": "for these raters"}


def _said(value: float | None, kind: str) -> str:
    if value is None:
        return "undefined"
    return f"{value:.0%}" if kind == "share" else written(value, kind)


def _panel(name: str, document: Json, figure: Any) -> Panel:
    named_figure = NAMES.get(name)
    table_name = named_figure.table if named_figure else name
    # A document of an earlier release may lack a table; the page then omits it.
    table = document["tables"].get(table_name) or {"title": table_name, "columns": [], "rows": [], "notes": []}
    summary = figure.summary if figure else table.get("summary", "")
    title = named_figure.title_of(document) if named_figure else table["title"]
    return Panel(name, title, table_name, table, figure, name in _WIDE, name in _FOLDED, _is_tall(figure), summary)


_TALL = 1000  # at a width of 700 pixels, which prints with 7-point letters


def _is_tall(figure: Any) -> bool:
    # The height of the drawing is known only from the SVG itself.
    height = re.search(r'^<svg\b[^>]*?\sheight="([\d.]+)', str(figure.wide)) if figure else None
    return height is not None and float(height[1]) > _TALL
