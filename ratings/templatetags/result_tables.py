"""Tables of an analysis as pages show them: two ends of an interval in one cell, no empty columns, no endless rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django import template

from ratings.templatetags.study_numbers import seconds

register = template.Library()

MOST = 60  # rows on a page; the file has them all
GROUPED_BY = "family"  # a first column of this name makes groups, which are folded and whole
_SIDES = ("first", "second", "quantity")  # name a row together
_TELLING = ("difference", "low", "p", "p_holm")  # stand next to its name: a phone has room for few
ADJUSTED, LEVEL = "p_holm", 0.05
_ENDS: Mapping[str, tuple[str, str]] = {
    "low": ("high", "95% interval"),
    "low_new": ("high_new", "Interval, new raters"),
}


class Head(NamedTuple):
    """A column's head. `meaning` stands below the table; `long`: whole sentences, which need room."""

    title: str
    meaning: str
    number: bool
    long: bool = False


class Cell(NamedTuple):
    """One cell; `label` is its column's title, for narrow screens where cells stand below each other."""

    text: str
    label: str
    number: bool
    long: bool = False


class Group(NamedTuple):
    """The rows of one group, whose name is not among their cells. `clear`: how many have an adjusted p below LEVEL, or None."""

    name: str
    heads: list[Head]
    rows: list[list[Cell]]
    clear: int | None


class Grid(NamedTuple):
    """A table for a page. Of `total` rows it shows the first `len(rows)`; with `groups` all of them, there."""

    title: str
    heads: list[Head]
    rows: list[list[Cell]]
    total: int
    notes: list[str]
    groups: list[Group]


class _Part(NamedTuple):
    """A column of the page: one of the table's columns, or two that are told in one cell."""

    head: Head
    at: int
    kind: str
    name: str
    other: int | None = None
    joined: str = ""

    def text(self, row: Sequence[Any]) -> str:
        if self.other is None:
            return _cell(row[self.at], self.kind, self.name, self.head.title)
        one, two = row[self.at], row[self.other]
        if self.joined == OR:
            return written(one if one is not None else two, self.kind if one is not None else "text")
        if one is None or two is None or not self.filled(row):
            return NOTHING
        return f"{written(one, self.kind)} {self.joined} {written(two, self.kind)}"

    def cell(self, row: Sequence[Any]) -> Cell:
        """Return the cell of a row; a reason in the place of a number is a sentence, and needs room."""
        told = self.joined == OR and row[self.at] is None
        return Cell(self.text(row), self.head.title, self.head.number, self.head.long or told)

    def filled(self, row: Sequence[Any]) -> bool:
        """Whether the row has something to say here: "0 of 0" says nothing."""
        if self.joined == "of" and self.other is not None:
            return bool(row[self.other])
        if self.joined == OR and self.other is not None:
            return row[self.at] is not None or bool(row[self.other])
        return row[self.at] is not None and row[self.at] != ""


NOTHING = "–"
WHY_UNPUBLISHED = "published_reason"
OR = "or"  # a value, or why there is none
_LONG = ("reason", "said", "flags", "models")
# The column of names of our own making, which have no spaces in files.
_CODED = "Kind of error"
_P_VALUES, _WHOLE, _SECONDS = ("p", "p_holm", "mcnemar_p"), ("threshold",), ("median_seconds",)


@register.filter
def grid(table: Mapping[str, Any]) -> Grid:
    """A table of an analysis document as a page shows it."""
    rows, columns = table["rows"], table["columns"]
    notes = list(table.get("notes", ()))
    if columns and columns[0]["name"] == GROUPED_BY:
        groups = _groups(rows, columns)
        heads = list(dict.fromkeys(head for group in groups for head in group.heads))
        return Grid(table["title"], heads, [], len(rows), notes, groups)
    heads, shown = _shown(rows, _parts(columns), MOST)
    return Grid(table["title"], heads, shown, len(rows), notes, [])


def _groups(rows: Sequence[Sequence[Any]], columns: Sequence[Mapping[str, str]]) -> list[Group]:
    """Return the rows by what the first column says, each group with the columns in which it has something to say."""
    names = [column["name"] for column in columns]
    adjusted = names.index(ADJUSTED) if ADJUSTED in names else None
    parts = sorted(
        _parts(columns)[1:], key=lambda part: (part.name not in _SIDES) + (part.name not in (*_SIDES, *_TELLING))
    )
    joined = [part for part in parts if part.name in _SIDES]
    found = []
    for name in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == name]
        clear = (
            None if adjusted is None else sum(1 for row in own if row[adjusted] is not None and row[adjusted] < LEVEL)
        )
        heads, cells = _shown(own, parts, len(own))
        if len(joined) == len(_SIDES) and heads[: len(_SIDES)] == [part.head for part in joined]:
            told = f"the first side less the second, and of what; {joined[-1].head.meaning}"
            heads = [Head("Contrast", told, False), *heads[len(_SIDES) :]]
            cells = [[_name_contrast(line[: len(_SIDES)], heads[0].title), *line[len(_SIDES) :]] for line in cells]
        found.append(Group(str(name), heads, cells, clear))
    return found


def _name_contrast(sides: Sequence[Cell], label: str) -> Cell:
    """Return the name of a row in one cell, which stays in sight while the numbers beside it move."""
    first, second, quantity = (cell.text for cell in sides)
    return Cell(f"{first} less {second}, {quantity}", label, False)


def _shown(rows: Sequence[Sequence[Any]], every: Sequence[_Part], most: int) -> tuple[list[Head], list[list[Cell]]]:
    parts = [part for part in every if any(part.filled(row) for row in rows)]
    cells = [[part.cell(row) for part in parts] for row in rows[:most]]
    return [part.head for part in parts], cells


def written(value: Any, kind: str) -> str:
    """A cell by the kind of its column; a dash for what is undefined or not known."""
    if value is None or value == "":
        return NOTHING
    if kind == "share":
        return f"{value:.1%}"
    if kind == "count":
        return f"{value:,}"
    if kind == "number":
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
    if kind == "flag":
        return "yes" if value else "no"
    return str(value)


def _cell(value: Any, kind: str, name: str, title: str) -> str:
    """A cell by its column: what its kind alone would show too coarsely, or as a code."""
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
    """Three decimals, and no p-value of zero."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _parts(columns: Sequence[Mapping[str, str]]) -> list[_Part]:
    names = [column["name"] for column in columns]
    parts: list[_Part] = []
    told: set[int] = set()
    for at, column in enumerate(columns):
        if at in told:
            continue
        other, head, joined = _joined(column, columns, names)
        if other is not None:
            told.add(other)
        parts.append(_Part(head, at, column["kind"], column["name"], other, joined))
    return parts


def _joined(
    column: Mapping[str, str], columns: Sequence[Mapping[str, str]], names: Sequence[str]
) -> tuple[int | None, Head, str]:
    """The column this one shares a cell with, the head of both, and the word between them."""
    name, title, meaning = column["name"], column["title"], column["meaning"]
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
    after = names.index(name) + 1
    if after < len(columns) and columns[after]["title"] == "of":
        return after, Head(title, f"{meaning}; of {columns[after]['meaning']}", True), "of"
    return None, Head(title, meaning, column["kind"] not in ("text", "flag"), name in _LONG), ""


def _target(meaning: str) -> str:
    """What is said of the lower end, said of both."""
    return meaning.replace("lower end of the ", "")
