"""Tables of an analysis as pages show them: the two ends of an interval in one cell, no empty columns, a limited number of rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django import template

from ratings.templatetags.ratings_tags import format_seconds

register = template.Library()

MAX_PAGE_ROWS = 60  # rows on a page; the CSV file has all of them
GROUPED_BY = "family"  # rows are grouped by a first column with this name; groups are folded
MAX_GROUPED_ROWS = 240  # rows of all groups on a page: 700 bytes each; with more, each group shows an equal number
_CONTRAST_COLUMNS = ("first", "second", "quantity")  # these three together name a row
_KEY_COLUMNS = ("difference", "low", "p", "p_holm")  # placed next to the name: a phone has room for few columns
ADJUSTED, LEVEL = "p_holm", 0.05
_ENDS: Mapping[str, tuple[str, str]] = {
    "low": ("high", "95% interval"),
    "low_new": ("high_new", "Interval, new raters"),
}


class TableHeading(NamedTuple):
    """The heading of a column. `meaning` is shown below the table; `long` columns hold whole sentences and need room."""

    title: str
    meaning: str
    number: bool
    long: bool = False


class TableCell(NamedTuple):
    """One cell. `label` is its column's title, for narrow screens where cells are stacked."""

    text: str
    label: str
    number: bool
    long: bool = False


class RowGroup(NamedTuple):
    """The first rows of one group of `total`; its name is not in their cells. `clear`: number of adjusted p below LEVEL, or None."""

    name: str
    heads: list[TableHeading]
    rows: list[list[TableCell]]
    clear: int | None
    total: int


class PageTable(NamedTuple):
    """A table for a page: the first `len(rows)` of `total` rows or, with `groups`, the first of each group."""

    title: str
    heads: list[TableHeading]
    rows: list[list[TableCell]]
    total: int
    notes: list[str]
    groups: list[RowGroup]


class _PageColumn(NamedTuple):
    """A column of the page: one column of the table, or two that share a cell."""

    head: TableHeading
    position: int
    kind: str
    name: str
    second_index: int | None = None
    joint: str = ""

    def format_text(self, row: Sequence[Any]) -> str:
        if self.second_index is None:
            return _format_column_value(row[self.position], self.kind, self.name, self.head.title)
        first, second = row[self.position], row[self.second_index]
        if self.joint == VALUE_OR_REASON:
            return format_table_value(
                first if first is not None else second, self.kind if first is not None else "text"
            )
        if first is None or second is None or not self.has_content(row):
            return EMPTY_CELL
        return f"{format_table_value(first, self.kind)} {self.joint} {format_table_value(second, self.kind)}"

    def build_cell(self, row: Sequence[Any]) -> TableCell:
        """Return the cell of a row. A reason in place of a number is a sentence and needs room."""
        is_reason = self.joint == VALUE_OR_REASON and row[self.position] is None
        return TableCell(self.format_text(row), self.head.title, self.head.number, self.head.long or is_reason)

    def has_content(self, row: Sequence[Any]) -> bool:
        """Return whether the row has content in this column: "0 of 0" has none."""
        if self.joint == "of" and self.second_index is not None:
            return bool(row[self.second_index])
        if self.joint == VALUE_OR_REASON and self.second_index is not None:
            return row[self.position] is not None or bool(row[self.second_index])
        return row[self.position] is not None and row[self.position] != ""


EMPTY_CELL = "–"
UNPUBLISHED_REASON = "published_reason"
VALUE_OR_REASON = "or"  # a value, or the reason why there is none
_LONG = ("reason", "said", "flags", "models")
# Title of the column with internal names, which have underscores in the document.
_CODED_COLUMN_TITLE = "Kind of error"
_P_VALUES, _WHOLE_NUMBERS, _SECONDS = ("p", "p_holm", "mcnemar_p"), ("threshold",), ("median_seconds",)


@register.filter("grid")
def build_page_table(table: Mapping[str, Any]) -> PageTable:
    """Return a table of an analysis document as a page shows it."""
    rows, columns = table["rows"], table["columns"]
    notes = list(table.get("notes", ()))
    if columns and columns[0]["name"] == GROUPED_BY:
        groups = _build_groups(rows, columns)
        heads = list(dict.fromkeys(head for group in groups for head in group.heads))
        return PageTable(table["title"], heads, [], len(rows), notes, groups)
    heads, cells = _build_rows(rows, _merge_columns(columns), MAX_PAGE_ROWS)
    return PageTable(table["title"], heads, cells, len(rows), notes, [])


def _build_groups(rows: Sequence[Sequence[Any]], columns: Sequence[Mapping[str, str]]) -> list[RowGroup]:
    """Return the rows grouped by their first column, each group with the columns in which it has content."""
    names = [column["name"] for column in columns]
    adjusted = names.index(ADJUSTED) if ADJUSTED in names else None
    parts = sorted(
        _merge_columns(columns)[1:],
        key=lambda part: (part.name not in _CONTRAST_COLUMNS) + (part.name not in (*_CONTRAST_COLUMNS, *_KEY_COLUMNS)),
    )
    contrast_parts = [part for part in parts if part.name in _CONTRAST_COLUMNS]
    row_groups = []
    group_names = list(dict.fromkeys(row[0] for row in rows))
    max_rows = len(rows) if len(rows) <= MAX_GROUPED_ROWS else MAX_GROUPED_ROWS // len(group_names)
    for name in group_names:
        group_rows = [row for row in rows if row[0] == name]
        clear = (
            None
            if adjusted is None
            else sum(1 for row in group_rows if row[adjusted] is not None and row[adjusted] < LEVEL)
        )
        heads, cells = _build_rows(group_rows, parts, max_rows)
        # Three columns become one only if all of them are present and first; otherwise the slices below would cut off
        # other columns.
        if len(contrast_parts) == len(_CONTRAST_COLUMNS) and heads[: len(_CONTRAST_COLUMNS)] == [
            part.head for part in contrast_parts
        ]:
            meaning = f"the first side minus the second, and the quantity; {contrast_parts[-1].head.meaning}"
            heads = [TableHeading("Contrast", meaning, False), *heads[len(_CONTRAST_COLUMNS) :]]
            cells = [
                [_merge_contrast_name(line[: len(_CONTRAST_COLUMNS)], heads[0].title), *line[len(_CONTRAST_COLUMNS) :]]
                for line in cells
            ]
        row_groups.append(RowGroup(str(name), heads, cells, clear, len(group_rows)))
    return row_groups


def _merge_contrast_name(sides: Sequence[TableCell], label: str) -> TableCell:
    """Return the name of a row in one cell, which stays visible while the numbers beside it scroll."""
    first, second, quantity = (cell.text for cell in sides)
    return TableCell(f"{first} minus {second}, {quantity}", label, False)


def _build_rows(
    rows: Sequence[Sequence[Any]], all_parts: Sequence[_PageColumn], max_rows: int
) -> tuple[list[TableHeading], list[list[TableCell]]]:
    # A column counts as empty only if it is empty in all rows, including those that are not shown.
    parts = [part for part in all_parts if any(part.has_content(row) for row in rows)]
    cells = [[part.build_cell(row) for part in parts] for row in rows[:max_rows]]
    return [part.head for part in parts], cells


def format_table_value(value: Any, kind: str) -> str:
    """Return a value formatted by the kind of its column; a dash if it is undefined or unknown."""
    if value is None or value == "":
        return EMPTY_CELL
    if kind == "share":
        return f"{value:.1%}"
    if kind == "count":
        return f"{value:,}"
    if kind == "number":
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
    if kind == "flag":
        return "yes" if value else "no"
    return str(value)


def _format_column_value(value: Any, kind: str, name: str, title: str) -> str:
    """Return a value formatted for its column. For some columns, the format of their kind would not be suitable."""
    if value is None or value == "":
        return EMPTY_CELL
    if name in _P_VALUES:
        return format_p_value(value)
    if name in _WHOLE_NUMBERS:
        return f"{value:g}".replace("-", "\N{MINUS SIGN}")
    if name in _SECONDS:
        return format_seconds(value)
    return str(value).replace("_", " ") if title == _CODED_COLUMN_TITLE else format_table_value(value, kind)


def format_p_value(p: float) -> str:
    """Return a p-value with three decimals, and never zero."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _merge_columns(columns: Sequence[Mapping[str, str]]) -> list[_PageColumn]:
    names = [column["name"] for column in columns]
    parts: list[_PageColumn] = []
    merged: set[int] = set()
    for index, column in enumerate(columns):
        if index in merged:
            continue
        other, head, joined = _find_joined_column(column, columns, names)
        if other is not None:
            merged.add(other)
        parts.append(_PageColumn(head, index, column["kind"], column["name"], other, joined))
    return parts


def _find_joined_column(
    column: Mapping[str, str], columns: Sequence[Mapping[str, str]], names: Sequence[str]
) -> tuple[int | None, TableHeading, str]:
    """Return the index of the column that shares a cell with this one (or None), the heading of both, and the word between them."""
    name, title, meaning = column["name"], column["title"], column["meaning"]
    # The names of the two ends are fixed by the analysis document: low/high, x_low/x_high.
    if name.startswith("low") and name in _ENDS and _ENDS[name][0] in names:
        return names.index(_ENDS[name][0]), TableHeading(_ENDS[name][1], _describe_interval(meaning), True), "to"
    if name.endswith("_low") and name[:-3] + "high" in names:
        return (
            names.index(name[:-3] + "high"),
            TableHeading(f"{title.removesuffix(' low')} interval", _describe_interval(meaning), True),
            "to",
        )
    if name.startswith("published") and name != UNPUBLISHED_REASON and UNPUBLISHED_REASON in names:
        return names.index(UNPUBLISHED_REASON), TableHeading(title, meaning, False), VALUE_OR_REASON
    # A count is followed by its total in a column titled "of": "3" and "5" become "3 of 5".
    after = names.index(name) + 1
    if after < len(columns) and columns[after]["title"] == "of":
        return after, TableHeading(title, f"{meaning}; of {columns[after]['meaning']}", True), "of"
    return None, TableHeading(title, meaning, column["kind"] not in ("text", "flag"), name in _LONG), ""


def _describe_interval(meaning: str) -> str:
    """Return the meaning of an interval, made from the meaning of its lower end."""
    return meaning.replace("lower end of the ", "")
