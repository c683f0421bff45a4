"""What one file of the archive is: its name, what it holds, and how its bytes come, piece by piece."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ratings.exchange import exports
from ratings.exchange.archive.fields import Field

Pieces = Callable[[], Iterable[str | bytes]]
Rows = Callable[[], Iterable[Iterable[Any]]]


class Entry(NamedTuple):
    """`says` is one sentence on what it is; `fields` are the columns of a table, none for any other file. `key`: the
    columns that tell its rows apart, where no cell of them is ever empty.

    `pieces` is called once, when the file is written; until then nothing is read.
    """

    name: str
    says: str
    pieces: Pieces
    fields: tuple[Field, ...] = ()
    key: tuple[str, ...] = ()


def table(
    name: str, says: str, fields: Sequence[Field], rows: Rows, *, exact: bool = False, key: tuple[str, ...] = ()
) -> Entry:
    """A CSV. Numbers have three decimals, or with `exact` as many as give the same number again."""
    columns = [field.name for field in fields]
    return Entry(name, says, lambda: exports.table_lines(columns, rows(), exact=exact), tuple(fields), key)


def text(name: str, says: str, written: str) -> Entry:
    """A file of this text."""
    return Entry(name, says, lambda: [written])
