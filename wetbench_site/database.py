"""The database connection of this thread: released while it is idle, rows of SQL, snapshots, limits of `migrate`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

from django.db import connection, connections, transaction
from django.db.models import DateTimeField, Field, JSONField, Model, QuerySet, UUIDField


def fetch_rows(query: str) -> list[tuple[Any, ...]]:
    """Return all rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


class JsonText(str):
    """A JSON document as text, for a column of JSON: `build_batch` passes it on as it is."""


class RowBatch(NamedTuple):
    """Rows of one table in the form of the database, ready to be inserted."""

    table: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def insert(self) -> None:
        """Insert the rows with one call of the driver. Sends no signals."""
        quote = connection.ops.quote_name
        target = f"{quote(self.table)} ({', '.join(map(quote, self.columns))})"
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                with cursor.copy(f"COPY {target} FROM STDIN") as copy:
                    for row in self.rows:
                        copy.write_row(row)
            else:
                values = ", ".join(["%s"] * len(self.columns))
                cursor.executemany(f"INSERT INTO {target} VALUES ({values})", self.rows)


def build_batch(model: type[Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> RowBatch:
    """Return rows to be inserted; `columns` are attributes such as "item_id", and all others get their default value.

    Model objects and `bulk_create` take ten times as long, which matters for tens of thousands of rows. The default
    value is the same for all rows, so a column with a random default must be among `columns`.
    """
    fields: dict[str, Field[Any, Any]] = {field.attname: field for field in model._meta.concrete_fields}
    others = [field for name, field in fields.items() if name not in columns and not field.primary_key]
    defaults = tuple(_to_database(field, [field.get_default()])[0] for field in others)
    cells = [_to_database(fields[name], values) for name, values in zip(columns, zip(*rows, strict=True), strict=False)]
    names = (*(fields[name].column for name in columns), *(field.column for field in others))
    return RowBatch(model._meta.db_table, names, [(*row, *defaults) for row in zip(*cells, strict=True)])


def update_column(model: type[Model], column: str, values: Mapping[int, Any]) -> None:
    """Set a column of many rows, each to its own value; `values` are numbers or texts by primary key.

    `bulk_update` builds an expression per row, which takes 50 times as long.
    """
    quote = connection.ops.quote_name
    table, name, key = (quote(one) for one in (model._meta.db_table, column, str(model._meta.pk.column)))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # One statement: a call per row would cost the server more than the change.
            cast = model._meta.get_field(column).db_type(connection)  # type: ignore[union-attr]  # it is a column
            rows = f"unnest(%s::bigint[], %s::{cast}[]) AS new(key, value)"
            sql = f"UPDATE {table} SET {name} = new.value FROM {rows} WHERE {table}.{key} = new.key"
            cursor.execute(sql, [list(values), list(values.values())])
        else:
            sql = f"UPDATE {table} SET {name} = %s WHERE {key} = %s"
            cursor.executemany(sql, [(value, pk) for pk, value in values.items()])


def delete_rows(rows: "QuerySet[Any]", size: int = 10_000) -> None:
    """Delete the rows to which no other row refers, without looking for such rows, as `delete` does for every row."""
    keys = list(rows.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(keys), size):
        rows.model._base_manager.filter(pk__in=keys[start : start + size])._raw_delete(rows.db)


def _to_database(field: "Field[Any, Any]", values: Sequence[Any]) -> Sequence[Any]:
    # Drivers take numbers, texts and truth values as they are.
    if isinstance(field, DateTimeField | JSONField | UUIDField):
        return [v if isinstance(v, JsonText) else field.get_db_prep_save(v, connection) for v in values]
    return values


def release_connection() -> None:
    """Return this thread's connection to the pool, unless a transaction is open on it.

    A process with hundreds of threads shares ten connections. SQLite has no pool, and closing the last connection of a
    file costs more than keeping it, so SQLite connections stay open.
    """
    if connection.vendor == "postgresql" and not connection.in_atomic_block:
        connection.close()


def transaction_if(is_needed: bool) -> AbstractContextManager[Any]:
    """Return a transaction if several statements belong together, else a block in which one statement commits by itself.

    That spares PostgreSQL and the worker two round trips. On SQLite the block is always a transaction, because writers
    queue for transactions only.
    """
    return transaction.atomic() if is_needed or connection.vendor == "sqlite" else nullcontext()


@contextmanager
def read_snapshot() -> Iterator[None]:
    """Make all reads in the block return one committed state of the database, without making any writer wait.

    The block is a read-only transaction. Inside another transaction, such as that of a test, that transaction is used.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        with _defer_write_lock(connection), transaction.atomic():
            yield
    else:
        with transaction.atomic():
            _begin_long_read()
            yield


@contextmanager
def _defer_write_lock(database: Any) -> Iterator[None]:
    """Begin transactions in the block without taking the write lock, which the site's settings take at the start."""
    database.ensure_connection()
    usual_mode, database.transaction_mode = database.transaction_mode, "DEFERRED"
    try:
        yield
    finally:
        database.transaction_mode = usual_mode


def _begin_long_read() -> None:
    """Make the transaction a snapshot without time limits."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # The site's limits are meant for pages; an export or a verification reads for minutes.
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SET LOCAL {limit} = 0")


# A waiting ALTER TABLE blocks every later query of the table, raters' included, so it waits 2 s at most.
LIMITS = {"lock_timeout": "2s", "statement_timeout": "60s"}


def set_migration_limits(using: str, **signal: Any) -> None:
    """Set the limits for the session of the command."""
    _execute_on_postgres(using, *(f"SET {name} = '{value}'" for name, value in LIMITS.items()))


def reset_limits(using: str, **signal: Any) -> None:
    _execute_on_postgres(using, *(f"RESET {name}" for name in LIMITS))


def _execute_on_postgres(using: str, *statements: str) -> None:
    if connections[using].vendor == "postgresql":
        with connections[using].cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
