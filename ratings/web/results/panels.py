"""An analysis document laid out for the study's page: the five numbers, and parts of figures and tables. No query."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from ratings.models import EVIDENCE
from ratings.results.analyses.tables import Json, records
from ratings.results.figures.names import NAMES
from ratings.stats.table import natural
from ratings.templatetags.result_tables import written

MATRIX_CELLS = 1_500  # of the matrix on the page unless all are asked for


class Number(NamedTuple):
    """One of the five on top. `value` is a dash where it is undefined; `reason` then says why. `target`: for whom the interval
    is, where that is not any raters."""

    name: str
    value: str
    interval: str
    target: str
    said: str
    published: str
    reason: str


class Panel(NamedTuple):
    """A figure (of ratings.results.drawings) with the table it shows, or a table alone where nothing is drawn of it. `fold`: long, and
    shown when asked for; `tall`: more than a page of paper holds; `summary` says it in a sentence."""

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
    """A part of the page. `slug` is its anchor."""

    slug: str
    title: str
    panels: list[Panel]


class MatrixRow(NamedTuple):
    """An item's ratings, one entry a rater in the order of the columns; None where there is none."""

    code: str
    source: str
    cells: list["MatrixCell | None"]


class MatrixCell(NamedTuple):
    """`side`: yes or no; `wrong`: the reference is known and is the other verdict."""

    side: str
    strength: int
    text: str
    wrong: bool


class Matrix(NamedTuple):
    """Readers and items; `items` are in the document, of which `rows` are here."""

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
_MACHINES = ("machines", "People and machines", ("misses", "human_model", "fractions"))
_AGREEMENT = ("agreement", "Agreement", ("agreement", *_MATRICES, "precision"))
_CONTRASTS = ("contrasts", "Contrasts", ("contrasts",))
_LAYOUT = (_RATES, _CONTRASTS, _MACHINES, _AGREEMENT, _GROUPS, _RATERS)
# The paper's Table 1 and Fig. 4 come first where evidence is judged.
_LAYOUT_EVIDENCE = (
    ("machines", "People and machines", ("human_model", "fractions", *_MATRICES)),
    _RATES,
    _CONTRASTS,
    ("agreement", "Agreement", ("agreement", "precision")),
    _GROUPS,
    _RATERS,
)


def headline(document: Json) -> list[Number]:
    """The five numbers in words."""
    return [_number(entry) for entry in document["headline"]]


def parts(document: Json, figures: Mapping[str, Any]) -> list[Part]:
    """The page's parts in the order of the study's kind; what has no rows is left out."""
    layout = _LAYOUT_EVIDENCE if document["subject"]["kind"] == EVIDENCE else _LAYOUT
    found = []
    for slug, title, names in layout:
        panels = [_panel(name, document, figures.get(name)) for name in names]
        if kept := [panel for panel in panels if panel.figure or panel.table["rows"]]:
            found.append(Part(slug, title, kept))
    return found


def design(document: Json) -> str:
    """What stands beside every result, whatever it is filtered by: how common planted errors were to raters, and how items
    were shown."""
    composition, said = document["composition"], []
    filtered = bool(document["filters"]["values"])
    if counts := composition["references_said"]:
        said.append(f"{'the rated' if filtered else 'These'} items: {counts}")
    elif (share := composition["planted_share"]) is not None:
        said.append(f"{share:.0%} of {'the rated' if filtered else 'these'} items have a planted error")
    for arm, shares in composition["arms"].items():
        if len(shares) > 1:
            said.append(f"{_ARMS.get(arm, arm)}: {', '.join(f'{name} {part:.0%}' for name, part in shares.items())}")
    return f"{'In the whole study, ' if filtered else ''}{'; '.join(said)}." if said else ""


_ARMS = {"layout": "layout", "context": "goal and earlier steps shown", "marks": "rows could be ticked"}


def matrix(document: Json, whole: bool = False) -> Matrix | None:
    """Readers by items, the items of one source together; as many of each source as a page can hold. None without a rating."""
    table = document["tables"]["matrix"]
    if not table["rows"]:
        return None
    raters: set[str] = set()
    items: dict[str, dict[str, dict[str, MatrixCell]]] = defaultdict(lambda: defaultdict(dict))
    for row in records(table):
        raters.add(row["rater"])
        items[row["source"]][row["item"]][row["rater"]] = _matrix_cell(row)
    each = None if whole else max(1, MATRIX_CELLS // len(raters) // len(items))
    labels = sorted(raters, key=natural)
    rows = [
        MatrixRow(code, source, [own[code].get(label) for label in labels])
        for source, own in sorted(items.items())
        for code in sorted(own)[:each]
    ]
    return Matrix(labels, rows, sum(map(len, items.values())), list(table["notes"]))


def _matrix_cell(row: Mapping[str, Any]) -> MatrixCell:
    sign = "+" if row["verdict"] else "\N{MINUS SIGN}"
    confidence = row["confidence"] or 0
    return MatrixCell(
        "yes" if row["verdict"] else "no", confidence, f"{sign}{confidence or ''}", row["correct"] is False
    )


def _number(entry: Mapping[str, Any]) -> Number:
    kind = entry["kind"]
    low, high = entry["low"], entry["high"]
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
    drawn = NAMES.get(name)
    shown = drawn.table if drawn else name
    table = document["tables"].get(shown) or {"title": shown, "columns": [], "rows": [], "notes": []}
    summary = figure.summary if figure else table.get("summary", "")
    title = drawn.title_of(document) if drawn else table["title"]
    return Panel(name, title, shown, table, figure, name in _WIDE, name in _FOLDED, _is_tall(figure), summary)


_TALL = 1000  # of 700 pixels' width, as it is printed with letters of seven points


def _is_tall(figure: Any) -> bool:
    height = re.search(r'^<svg\b[^>]*?\sheight="([\d.]+)', str(figure.wide)) if figure else None
    return height is not None and float(height[1]) > _TALL
