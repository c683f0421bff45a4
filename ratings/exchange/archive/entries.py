"""One file of the archive: its name, its description, and its content piece by piece."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ratings.exchange import exports
from ratings.exchange.archive.fields import Field

Pieces = Callable[[], Iterable[str | bytes]]
Rows = Callable[[], Iterable[Iterable[Any]]]


class Entry(NamedTuple):
    """One file of the archive.

    `description` is one sentence. `fields` are the columns of a table, empty for other files. `key` names the columns
    that identify a row; none of their cells is ever empty.

    `pieces` is called once, when the file is written. Nothing is read from the database before that.
    """

    name: str
    says: str
    pieces: Pieces
    fields: tuple[Field, ...] = ()
    key: tuple[str, ...] = ()


def table(
    name: str, says: str, fields: Sequence[Field], rows: Rows, *, exact: bool = False, key: tuple[str, ...] = ()
) -> Entry:
    """Return a CSV file. Numbers have three decimals, or with `exact` as many as needed to restore the same number."""
    columns = [field.name for field in fields]
    return Entry(name, says, lambda: exports.table_lines(columns, rows(), exact=exact), tuple(fields), key)


def text(name: str, says: str, written: str) -> Entry:
    """Return a file with this text."""
    return Entry(name, says, lambda: [written])
