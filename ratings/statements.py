"""Questions that every request of a rater asks, written by Django once and asked again with other values.

Building a query takes Django ten times as long as the database takes to answer it, and an answer asks a dozen. A statement keeps what
Django wrote for the marks that it was built with, and asks it with values in their place.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Model, QuerySet
from django.db.models.query import get_related_populators  # type: ignore[attr-defined]  # missing in the stubs
from django.db.models.sql.compiler import SQLCompiler

_FIRST = 2_147_000_000  # of the marks: within 32 bits, which is all that keys of accounts have
_MARKS: dict[str, Callable[[int], object]] = {
    "number": lambda at: _FIRST + at,
    "uuid": lambda at: UUID(int=_FIRST + at),
    "text": lambda at: f"mark-{_FIRST + at}",
    "time": lambda at: datetime(2900, 1, 1, tzinfo=UTC) + timedelta(days=at),
}
M = TypeVar("M", bound=Model)


class _Written(NamedTuple):
    """`places`: for each parameter the value that goes there, or -1 and what it always is."""

    sql: str
    places: list[tuple[int, object]]
    compiler: SQLCompiler
    converters: dict[int, Any]


class Statement(Generic[M]):
    """`build` makes the query from one mark for each of `kinds` ("number", "uuid", "text", "time")."""

    def __init__(self, build: Callable[..., QuerySet[M, Any]], *kinds: str) -> None:
        self._build, self._kinds = build, kinds
        self._written: _Written | None = None

    def rows(self, *values: object) -> Sequence[tuple[Any, ...]]:
        """What the query gives as `values_list`, for these values."""
        written = self._written = self._written or self._write()
        given: list[Any] = [_adapted(values[at]) if at >= 0 else always for at, always in written.places]
        with connection.cursor() as cursor:
            cursor.execute(written.sql, given)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        if written.converters and rows:
            rows = list(map(tuple, written.compiler.apply_converters(rows, written.converters)))
        return rows

    def first(self, *values: object) -> M | None:
        """The first object, with all that the query selects beside it."""
        return next(self.objects(*values), None)

    def objects(self, *values: object) -> Iterator[M]:
        """As Django's own `ModelIterable` makes them of the same rows."""
        rows = self.rows(*values)
        assert self._written
        select, info = self._written.compiler.select, self._written.compiler.klass_info
        fields = info["select_fields"]
        names = [select[at][0].target.attname for at in fields]
        related = get_related_populators(info, select, connection.alias)
        for row in rows:
            made = info["model"].from_db(connection.alias, names, row[fields[0] : fields[-1] + 1])
            for populator in related:
                populator.populate(row, made)
            yield made

    def _write(self) -> _Written:
        marks = [_MARKS[kind](at) for at, kind in enumerate(self._kinds)]
        compiler = self._build(*marks).query.get_compiler(connection=connection)
        sql, params = compiler.as_sql()
        known = [_adapted(mark) for mark in marks]
        places = [(known.index(param), None) if param in known else (-1, param) for param in params]
        return _Written(sql, places, compiler, compiler.get_converters([one[0] for one in compiler.select]))


def _adapted(value: object) -> object:
    if isinstance(value, UUID):
        return value if connection.features.has_native_uuid_field else value.hex
    return connection.ops.adapt_datetimefield_value(value) if isinstance(value, datetime) else value
