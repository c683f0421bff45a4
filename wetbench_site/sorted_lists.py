"""Lists that a person sorts, filters and searches. Their whole state is in the URL: headings are links, filters a form.

The templates are `_list_filter.html` (the form) and `_list_head.html` (the headings); pages follow from Django's paginator.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple, TypeVar

from django.db.models import F, Model, Q, QuerySet

from wetbench_site.text import UNSTORABLE

SORT = "sort"  # in the URL: "?sort=name", or "?sort=-name" for the reverse
MAX_SEARCH = 100  # characters

Row = TypeVar("Row", bound=Model)


class Column(NamedTuple):
    """A column of a list.

    `fields` are what it is ordered by; without any, the list cannot be ordered by this column. `falls_first`: the first
    click orders from high to low, as for numbers and times. `has_nulls`: rows without a value come last in both orders,
    which PostgreSQL cannot read from an index in the descending one.
    """

    key: str
    title: str
    fields: Sequence[str] = ()
    falls_first: bool = False
    is_number: bool = False
    has_nulls: bool = False


class Heading(NamedTuple):
    """The heading of a column. `direction` is "ascending", "descending", or "" if the list is not ordered by it.

    `sort` is the order that a click asks for; "" if there is none.
    """

    title: str
    is_number: bool
    direction: str
    sort: str


class Sorting:
    """The order that the URL asks for, or the default one if it asks for none that exists."""

    def __init__(self, columns: Sequence[Column], parameters: Mapping[str, Any], default: str) -> None:
        by_key = {column.key: column for column in columns if column.fields}
        requested = str(parameters.get(SORT, ""))
        self.columns = columns
        self.default = default
        self.value = requested if requested.removeprefix("-") in by_key else default
        self.is_descending = self.value.startswith("-")
        self.column = by_key[self.value.removeprefix("-")]

    def order_rows(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """Return the rows in this order. Rows that are equal in it are in the order of their keys, so pages never overlap."""
        last = True if self.column.has_nulls else None
        names = [*self.column.fields, "pk"]
        if self.is_descending:
            return rows.order_by(*(F(name).desc(nulls_last=last) for name in names))
        return rows.order_by(*(F(name).asc(nulls_last=last) for name in names))

    @property
    def headings(self) -> list[Heading]:
        return [self._build_heading(column) for column in self.columns]

    def _build_heading(self, column: Column) -> Heading:
        if not column.fields:
            return Heading(column.title, column.is_number, "", "")
        if column != self.column:
            return Heading(column.title, column.is_number, "", f"{'-' * column.falls_first}{column.key}")
        direction = "descending" if self.is_descending else "ascending"
        return Heading(column.title, column.is_number, direction, f"{'-' * (not self.is_descending)}{column.key}")


def match_words(text: str, *fields: str) -> Q:
    """Return the condition that every word of the text is in one of the fields, in upper or lower case. No words match all."""
    words = UNSTORABLE.sub("", text[:MAX_SEARCH]).split()
    conditions = [reduce(or_, (Q(**{f"{field}__icontains": word}) for field in fields)) for word in words]
    return reduce(and_, conditions, Q())
