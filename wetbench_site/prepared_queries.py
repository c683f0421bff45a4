"""Queries that Django compiles to SQL once and that are then executed with other values.

Building a query takes Django ten times as long as the database takes to answer it, and each rating needs several. A
prepared query is built once from placeholders. It keeps the SQL, and executes it with values in their place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model, QuerySet
from django.db.models.query import get_related_populators  # type: ignore[attr-defined]  # missing in the stubs
from django.db.models.sql.compiler import SQLCompiler

_FIRST_NUMBER = 2_147_000_000  # of the placeholders: within 32 bits, because keys of accounts have no more
# Kind -> function of a parameter's position that returns a placeholder value, which no query has as a constant.
_PLACEHOLDERS: dict[str, Callable[[int], object]] = {
    "number": lambda position: _FIRST_NUMBER + position,
    "uuid": lambda position: UUID(int=_FIRST_NUMBER + position),
    "text": lambda position: f"placeholder-{_FIRST_NUMBER + position}",
    "time": lambda position: datetime(2900, 1, 1, tzinfo=UTC) + timedelta(days=position),
}
M = TypeVar("M", bound=Model)


class _Parameter(NamedTuple):
    """A parameter of the SQL: the position of the value that it takes, or None and its constant."""

    position: int | None
    constant: object


class _Objects(NamedTuple):
    """What Django's own `ModelIterable` finds out about a query before it reads the first row."""

    model: type[Model]
    names: list[str]
    columns: slice
    populators: Sequence[Any]
    annotations: Mapping[str, int]


class _Compiled(NamedTuple):
    """The SQL of a query, and what turns its rows into values and objects. `objects` is None for a query of values."""

    sql: str
    parameters: list[_Parameter]
    compiler: SQLCompiler
    converters: dict[int, Any]
    objects: _Objects | None


class PreparedQuery(Generic[M]):
    """A query built by `build` from one placeholder for each of `kinds` ("number", "uuid", "text" or "time")."""

    def __init__(self, build: Callable[..., QuerySet[M, Any]], *kinds: str) -> None:
        self._build, self._kinds = build, kinds
        self._compiled: _Compiled | None = None

    def fetch_rows(self, *values: object) -> Sequence[tuple[Any, ...]]:
        """Execute the query with these values and return the rows that its `values_list` would return."""
        # Two threads may compile at the same time: the results are equal, so no lock is needed.
        compiled = self._compiled = self._compiled or self._compile_query()
        # The proxy `django.db.connection` would look up the thread's connection at every access.
        connection = connections[DEFAULT_DB_ALIAS]
        arguments: list[Any] = [
            constant if position is None else _adapt_value(values[position], connection)
            for position, constant in compiled.parameters
        ]
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, arguments)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        if compiled.converters and rows:
            rows = list(map(tuple, compiled.compiler.apply_converters(rows, compiled.converters)))
        return rows

    def find_first(self, *values: object) -> M | None:
        """Return the first object with the related data that the query selects, or None if there is no row."""
        return next(self.iter_objects(*values), None)

    def iter_objects(self, *values: object) -> Iterator[M]:
        """Yield the objects that Django's own `ModelIterable` makes of the same rows."""
        rows = self.fetch_rows(*values)
        assert self._compiled and self._compiled.objects
        model, names, columns, populators, annotations = self._compiled.objects
        for row in rows:
            instance: Any = model.from_db(DEFAULT_DB_ALIAS, names, row[columns])
            for populator in populators:
                populator.populate(row, instance)
            for name, position in annotations.items():
                setattr(instance, name, row[position])
            yield instance

    def _compile_query(self) -> _Compiled:
        connection = connections[DEFAULT_DB_ALIAS]
        placeholders = [_PLACEHOLDERS[kind](position) for position, kind in enumerate(self._kinds)]
        compiler = self._build(*placeholders).query.get_compiler(connection=connection)
        sql, values = compiler.as_sql()
        adapted = [_adapt_value(placeholder, connection) for placeholder in placeholders]
        parameters = [
            _Parameter(adapted.index(value), None) if value in adapted else _Parameter(None, value) for value in values
        ]
        converters = compiler.get_converters([column[0] for column in compiler.select])
        return _Compiled(sql, parameters, compiler, converters, _describe_objects(compiler))


def _describe_objects(compiler: SQLCompiler) -> _Objects | None:
    """Return what `ModelIterable` computes for every query, with the same private functions of Django."""
    select, info = compiler.select, compiler.klass_info
    if not info:
        return None
    fields = info["select_fields"]
    names = [select[index][0].target.attname for index in fields]
    populators = get_related_populators(info, select, DEFAULT_DB_ALIAS)
    return _Objects(
        info["model"], names, slice(fields[0], fields[-1] + 1), populators, compiler.annotation_col_map or {}
    )


def _adapt_value(value: object, connection: Any) -> object:
    """Return the value as Django passes it to this database."""
    if isinstance(value, UUID):
        return value if connection.features.has_native_uuid_field else value.hex
    return connection.ops.adapt_datetimefield_value(value) if isinstance(value, datetime) else value
