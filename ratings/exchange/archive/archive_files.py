"""One file of the archive: its name, its description, and its content piece by piece."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ratings.exchange import exports
from ratings.exchange.archive.fields import Field

ContentSource = Callable[[], Iterable[str | bytes]]
RowSource = Callable[[], Iterable[Iterable[Any]]]


class ArchiveFile(NamedTuple):
    """One file of the archive.

    `description` is one sentence. `fields` are the columns of a table, empty for other files. `key` names the columns
    that identify a row; none of their cells is ever empty.

    `pieces` is called once, when the file is written. Nothing is read from the database before that.
    """

    name: str
    description: str
    pieces: ContentSource
    fields: tuple[Field, ...] = ()
    key: tuple[str, ...] = ()


def create_table_file(
    name: str,
    description: str,
    fields: Sequence[Field],
    rows: RowSource,
    *,
    exact: bool = False,
    key: tuple[str, ...] = (),
) -> ArchiveFile:
    """Return a CSV file. Numbers have three decimals, or with `exact` as many as needed to restore the same number."""
    columns = [field.name for field in fields]
    return ArchiveFile(
        name, description, lambda: exports.format_table_lines(columns, rows(), exact=exact), tuple(fields), key
    )


def create_text_file(name: str, description: str, content: str) -> ArchiveFile:
    """Return a file with this text."""
    return ArchiveFile(name, description, lambda: [content])
