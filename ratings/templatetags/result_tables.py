"""Tables of an analysis as pages show them: the two ends of an interval in one cell, no empty columns, a limited number of rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django import template

from ratings.templatetags.study_numbers import seconds

register = template.Library()

MOST = 60  # rows on a page; the CSV file has all of them
GROUPED_BY = "family"  # a first column with this name defines groups, which are folded and complete
_SIDES = ("first", "second", "quantity")  # these three together name a row
_TELLING = ("difference", "low", "p", "p_holm")  # placed next to the name: a phone has room for few columns
ADJUSTED, LEVEL = "p_holm", 0.05
_ENDS: Mapping[str, tuple[str, str]] = {
    "low": ("high", "95 % interval"),
    "low_new": ("high_new", "Interval, new raters"),
}


class Head(NamedTuple):
    """The heading of a column. `meaning` is shown below the table; `long` columns hold whole sentences and need room."""

    title: str
    meaning: str
    number: bool
    long: bool = False


class Cell(NamedTuple):
    """One cell. `label` is its column's title, for narrow screens where cells are stacked."""

    text: str
    label: str
    number: bool
    long: bool = False


class Group(NamedTuple):
    """The rows of one group, whose name is not in their cells. `clear`: how many have an adjusted p below LEVEL, or None."""

    name: str
    heads: list[Head]
    rows: list[list[Cell]]
    clear: int | None


class Grid(NamedTuple):
    """A table for a page: the first `len(rows)` of `total` rows or, with `groups`, all of them within the groups."""

    title: str
    heads: list[Head]
    rows: list[list[Cell]]
    total: int
    notes: list[str]
    groups: list[Group]


class _Part(NamedTuple):
    """A column of the page: one column of the table, or two that share a cell."""

    head: Head
    at: int
    kind: str
    name: str
    other: int | None = None
    joined: str = ""

    def text(self, row: Sequence[Any]) -> str:
        if self.other is None:
            return _cell(row[self.at], self.kind, self.name, self.head.title)
        first, second = row[self.at], row[self.other]
        if self.joined == OR:
            return written(first if first is not None else second, self.kind if first is not None else "text")
        if first is None or second is None or not self.filled(row):
            return NOTHING
        return f"{written(first, self.kind)} {self.joined} {written(second, self.kind)}"

    def cell(self, row: Sequence[Any]) -> Cell:
        """Return the cell of a row. A reason in place of a number is a sentence and needs room."""
        is_reason = self.joined == OR and row[self.at] is None
        return Cell(self.text(row), self.head.title, self.head.number, self.head.long or is_reason)

    def filled(self, row: Sequence[Any]) -> bool:
        """Return whether the row has content in this column: "0 of 0" has none."""
        if self.joined == "of" and self.other is not None:
            return bool(row[self.other])
        if self.joined == OR and self.other is not None:
            return row[self.at] is not None or bool(row[self.other])
        return row[self.at] is not None and row[self.at] != ""


NOTHING = "–"
WHY_UNPUBLISHED = "published_reason"
OR = "or"  # a value, or the reason why there is none
_LONG = ("reason", "said", "flags", "models")
# The column with internal names, which have underscores in the document.
_CODED = "Kind of error"
_P_VALUES, _WHOLE, _SECONDS = ("p", "p_holm", "mcnemar_p"), ("threshold",), ("median_seconds",)


@register.filter("grid")
def grid(table: Mapping[str, Any]) -> Grid:
    """Return a table of an analysis document as a page shows it."""
    rows, columns = table["rows"], table["columns"]
    notes = list(table.get("notes", ()))
    if columns and columns[0]["name"] == GROUPED_BY:
        groups = _groups(rows, columns)
        heads = list(dict.fromkeys(head for group in groups for head in group.heads))
        return Grid(table["title"], heads, [], len(rows), notes, groups)
    heads, cells = _shown(rows, _parts(columns), MOST)
    return Grid(table["title"], heads, cells, len(rows), notes, [])


def _groups(rows: Sequence[Sequence[Any]], columns: Sequence[Mapping[str, str]]) -> list[Group]:
    """Return the rows grouped by their first column, each group with the columns in which it has content."""
    names = [column["name"] for column in columns]
    adjusted = names.index(ADJUSTED) if ADJUSTED in names else None
    parts = sorted(
        _parts(columns)[1:], key=lambda part: (part.name not in _SIDES) + (part.name not in (*_SIDES, *_TELLING))
    )
    contrast_parts = [part for part in parts if part.name in _SIDES]
    row_groups = []
    for name in dict.fromkeys(row[0] for row in rows):
        group_rows = [row for row in rows if row[0] == name]
        clear = (
            None
            if adjusted is None
            else sum(1 for row in group_rows if row[adjusted] is not None and row[adjusted] < LEVEL)
        )
        # Groups are folded, so they are shown completely.
        heads, cells = _shown(group_rows, parts, len(group_rows))
        # Three columns become one only if all of them are present and first; otherwise the slices below would cut
        # others.
        if len(contrast_parts) == len(_SIDES) and heads[: len(_SIDES)] == [part.head for part in contrast_parts]:
            meaning = f"the first side minus the second, and the quantity; {contrast_parts[-1].head.meaning}"
            heads = [Head("Contrast", meaning, False), *heads[len(_SIDES) :]]
            cells = [[_name_contrast(line[: len(_SIDES)], heads[0].title), *line[len(_SIDES) :]] for line in cells]
        row_groups.append(Group(str(name), heads, cells, clear))
    return row_groups


def _name_contrast(sides: Sequence[Cell], label: str) -> Cell:
    """Return the name of a row in one cell, which stays visible while the numbers beside it scroll."""
    first, second, quantity = (cell.text for cell in sides)
    return Cell(f"{first} minus {second}, {quantity}", label, False)


def _shown(rows: Sequence[Sequence[Any]], every: Sequence[_Part], most: int) -> tuple[list[Head], list[list[Cell]]]:
    # A column counts as empty only if it is empty in all rows, including those that are not shown.
    parts = [part for part in every if any(part.filled(row) for row in rows)]
    cells = [[part.cell(row) for part in parts] for row in rows[:most]]
    return [part.head for part in parts], cells


def written(value: Any, kind: str) -> str:
    """Return a value formatted by the kind of its column; a dash if it is undefined or unknown."""
    if value is None or value == "":
        return NOTHING
    if kind == "share":
        return f"{value:.1%}".replace("%", " %")
    if kind == "count":
        return f"{value:,}"
    if kind == "number":
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
    if kind == "flag":
        return "yes" if value else "no"
    return str(value)


def _cell(value: Any, kind: str, name: str, title: str) -> str:
    """Return a value formatted for its column, where its kind alone would be too coarse or would show a code."""
    if value is None or value == "":
        return NOTHING
    if name in _P_VALUES:
        return p_value(value)
    if name in _WHOLE:
        return f"{value:g}".replace("-", "\N{MINUS SIGN}")
    if name in _SECONDS:
        return seconds(value)
    return str(value).replace("_", " ") if title == _CODED else written(value, kind)


def p_value(p: float) -> str:
    """Return a p-value with three decimals, and never zero."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _parts(columns: Sequence[Mapping[str, str]]) -> list[_Part]:
    names = [column["name"] for column in columns]
    parts: list[_Part] = []
    merged: set[int] = set()
    for index, column in enumerate(columns):
        if index in merged:
            continue
        other, head, joined = _joined(column, columns, names)
        if other is not None:
            merged.add(other)
        parts.append(_Part(head, index, column["kind"], column["name"], other, joined))
    return parts


def _joined(
    column: Mapping[str, str], columns: Sequence[Mapping[str, str]], names: Sequence[str]
) -> tuple[int | None, Head, str]:
    """Return the index of the column that shares a cell with this one (or None), the heading of both, and the word between them."""
    name, title, meaning = column["name"], column["title"], column["meaning"]
    # The names of the two ends are fixed by the analysis document: low/high, x_low/x_high.
    if name.startswith("low") and name in _ENDS and _ENDS[name][0] in names:
        return names.index(_ENDS[name][0]), Head(_ENDS[name][1], _target(meaning), True), "to"
    if name.endswith("_low") and name[:-3] + "high" in names:
        return (
            names.index(name[:-3] + "high"),
            Head(f"{title.removesuffix(' low')} interval", _target(meaning), True),
            "to",
        )
    if name.startswith("published") and name != WHY_UNPUBLISHED and WHY_UNPUBLISHED in names:
        return names.index(WHY_UNPUBLISHED), Head(title, meaning, False), OR
    # A count is followed by its total in a column titled "of": "3" and "5" become "3 of 5".
    after = names.index(name) + 1
    if after < len(columns) and columns[after]["title"] == "of":
        return after, Head(title, f"{meaning}; of {columns[after]['meaning']}", True), "of"
    return None, Head(title, meaning, column["kind"] not in ("text", "flag"), name in _LONG), ""


def _target(meaning: str) -> str:
    """Return the meaning of the lower end as the meaning of the interval."""
    return meaning.replace("lower end of the ", "")
