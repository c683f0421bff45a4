"""Statements whose SQL is built once and that are then executed with other values.

Building a query takes Django ten times as long as the database takes to answer it, and each rating needs several. A
prepared query is built once from placeholders. It keeps the SQL, and executes it with values in their place. `build_insert`
and `build_update` do the same for statements that write.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.models import CharField, Model, QuerySet, TextField
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


class Statement(NamedTuple):
    """A statement and its parameters."""

    sql: str
    parameters: Sequence[Any]

    def fetch_rows(self) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(self.sql, self.parameters)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def insert_row(row: Model) -> None:
    """Insert a new object as `row.save(force_insert=True)` does, but without signals."""
    [[row.pk]] = build_insert(row).fetch_rows()


def insert_if_found(row: Model, condition: Statement) -> list[tuple[Any, ...]]:
    """Execute `condition`, and insert the new object if it returned a row; all or nothing. Return these rows."""
    if connection.vendor == "sqlite":  # its WITH parts cannot write
        with transaction.atomic():
            if rows := condition.fetch_rows():
                insert_row(row)
        return rows
    insert = build_insert(row, source="condition")
    sql = _format_conditional_insert(condition.sql, insert.sql)
    rows = Statement(sql, [*condition.parameters, *insert.parameters]).fetch_rows()
    if rows:
        row.pk = rows[0][0]
    return [values[1:] for values in rows]


def build_insert(row: Model, source: str = "") -> Statement:
    """Return the statement that inserts a new object and returns its key. `source`: only if this named query has a row."""
    fields = [field for field in row._meta.concrete_fields if not field.primary_key]
    given = [(field, value) for field in fields if (value := field.pre_save(row, add=True)) is not None]
    database = connections[
        DEFAULT_DB_ALIAS
    ]  # `connection` finds it again at every use, which takes longer than the rest
    values = [_adapt_to_field(field, value, database) for field, value in given]
    return Statement(_format_insert(type(row), tuple(field.column for field, _ in given), source), values)


def build_update(
    model: type[Model], changes: Mapping[str, object], returning: str = "", **conditions: object
) -> Statement:
    """Return the statement that changes the rows whose columns have the values of `conditions` (a tuple: one of these)."""
    allowed = {name: value if isinstance(value, tuple) else (value,) for name, value in conditions.items()}
    lengths = tuple((name, 0 if values == (None,) else len(values)) for name, values in allowed.items())
    database = connections[DEFAULT_DB_ALIAS]
    tested = [(name, value) for name, values in allowed.items() for value in values if value is not None]
    values = [_adapt_to_field(_get_column(model, name), value, database) for name, value in (*changes.items(), *tested)]
    return Statement(_format_update(model, tuple(changes), lengths, returning), values)


def convert_value(field: Any, value: object) -> Any:
    """Return the value that a statement returned for this field as Django would."""
    if value is None:
        return None
    column = field.get_col(field.model._meta.db_table)
    for converter in (*connection.ops.get_db_converters(column), *column.get_db_converters(connection)):
        value = converter(value, column, connection)
    return value


# The texts are cached: psycopg, too, parses a text with at most 50 parameters only once.
@lru_cache(maxsize=200)
def _format_insert(model: type[Model], columns: tuple[str, ...], source: str) -> str:
    marks = ", ".join(["%s"] * len(columns))
    values = f"SELECT {marks} FROM {source}" if source else f"VALUES ({marks})"
    table, key = _quote(model._meta.db_table), _quote(model._meta.pk.column)
    return f"INSERT INTO {table} ({', '.join(map(_quote, columns))}) {values} RETURNING {key}"


@lru_cache(maxsize=200)
def _format_conditional_insert(condition: str, insert: str) -> str:
    return f"WITH condition AS ({condition}), stored AS ({insert}) SELECT stored.*, condition.* FROM stored, condition"


@lru_cache(maxsize=200)
def _format_update(
    model: type[Model], changed: tuple[str, ...], conditions: tuple[tuple[str, int], ...], returning: str
) -> str:
    changes = ", ".join(f"{_quote(_get_column(model, name).column)} = %s" for name in changed)
    comparisons = ((name, f"IN ({', '.join(['%s'] * length)})" if length else "IS NULL") for name, length in conditions)
    tests = " AND ".join(f"{_quote(_get_column(model, name).column)} {comparison}" for name, comparison in comparisons)
    key = _quote(model._meta.pk.column)
    return f"UPDATE {_quote(model._meta.db_table)} SET {changes} WHERE {tests} RETURNING {returning or key}"


@lru_cache(maxsize=500)
def _get_column(model: type[Model], name: str) -> Any:
    return model._meta.get_field(name)


def _adapt_to_field(field: Any, value: object, database: Any) -> object:
    """Return the value as Django passes it to this database. Texts and None, which most values are, stay as they are."""
    is_plain = value is None or (type(value) is str and type(field) in (CharField, TextField))
    return value if is_plain else field.get_db_prep_save(value, database)


def _quote(name: str) -> str:
    return connection.ops.quote_name(name)


def _adapt_value(value: object, connection: Any) -> object:
    """Return the value as Django passes it to this database."""
    if isinstance(value, UUID):
        return value if connection.features.has_native_uuid_field else value.hex
    return connection.ops.adapt_datetimefield_value(value) if isinstance(value, datetime) else value
