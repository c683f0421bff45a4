"""The type of a check and of its violations, and the loop that runs all checks."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model, QuerySet

from wetbench_site.database import read_snapshot

SHOWN = 50  # violations of one check that are reported; further ones are only counted
PIECE = 2000  # rows fetched at a time, so that memory does not grow with the table


class Wrong(NamedTuple):
    """A row that breaks a promise: its table and code, the expected value and the one that was found."""

    table: str
    code: str
    expected: str
    found: str


class Check(NamedTuple):
    """One promise, the model whose rows it is about, and a function that yields the violations."""

    name: str
    promise: str
    of: type[Model]
    find: Callable[[], Iterator[Wrong]]


class Looked(NamedTuple):
    """The result of a check: the number of rows, the first violations, and the number of further ones."""

    check: Check
    rows: int
    findings: tuple[Wrong, ...]
    more: int
    seconds: float


Find = Callable[[], Iterator[Wrong]]
Tell = Callable[[int, int, str], None]


def check(name: str, promise: str, of: type[Model]) -> Callable[[Find], Check]:
    """Return a decorator that makes a check of a function that yields violations."""
    return lambda find_violations: Check(name, promise, of, find_violations)


def wrong(of: type[Model], code: object, expected: object, found: object) -> Wrong:
    return Wrong(of._meta.db_table, str(code), _short(expected), _short(found))


def rows(query: "QuerySet[Any, Any]") -> Iterator[Any]:
    """Yield the rows of a query in chunks."""
    return query.iterator(chunk_size=PIECE)


def look(checks: Iterable[Check], tell: Tell) -> Iterator[Looked]:
    """Run the checks on one snapshot of the database and yield their results."""
    all_checks = list(checks)
    with read_snapshot():
        for index, item in enumerate(all_checks):
            tell(index, len(all_checks), item.name)
            yield _looked(item)
    tell(len(all_checks), len(all_checks), "")


def _looked(one: Check) -> Looked:
    reported: list[Wrong] = []
    started, further = time.monotonic(), 0
    for violation in _found(one):
        if len(reported) < SHOWN:
            reported.append(violation)
        else:
            further += 1
    return Looked(one, _count(one), tuple(reported), further, time.monotonic() - started)


def _found(one: Check) -> Iterator[Wrong]:
    """Yield the violations. A check that raises is a violation itself and does not stop the other checks."""
    try:
        # A savepoint: on PostgreSQL a failed query would otherwise end the snapshot for all later checks.
        with transaction.atomic():
            yield from one.find()
    except Exception as error:
        yield wrong(one.of, "", "rows that can be read", f"{type(error).__name__}: {error}")


def _count(one: Check) -> int:
    try:
        with transaction.atomic():
            return one.of._default_manager.count()
    except Exception:  # its table is missing, which is a violation already
        return 0


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
