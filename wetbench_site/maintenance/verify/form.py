"""What a check is, what it finds, and how all of them are gone through."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model, QuerySet

from wetbench_site.database import read_snapshot

SHOWN = 50  # findings of one check that are kept; the others are counted
PIECE = 2000  # rows fetched at a time


class Wrong(NamedTuple):
    """A row that is not as promised: which one, what was expected there, what stands there."""

    table: str
    code: str
    expected: str
    found: str


class Check(NamedTuple):
    """One promise, the rows it is about, and a way to find those that break it."""

    name: str
    promise: str
    of: type[Model]
    find: Callable[[], Iterator[Wrong]]


class Looked(NamedTuple):
    """What came of a check: how many rows it was about, what it found (the first of it), how much more there is."""

    check: Check
    rows: int
    findings: tuple[Wrong, ...]
    more: int
    seconds: float


Find = Callable[[], Iterator[Wrong]]
Tell = Callable[[int, int, str], None]


def check(name: str, promise: str, of: type[Model]) -> Callable[[Find], Check]:
    """Return a decorator that makes a check of a function that yields violations."""
    return lambda find: Check(name, promise, of, find)


def wrong(of: type[Model], code: object, expected: object, found: object) -> Wrong:
    return Wrong(of._meta.db_table, str(code), _short(expected), _short(found))


def rows(query: "QuerySet[Any, Any]") -> Iterator[Any]:
    """The rows of a query, a piece at a time: as many as there are, memory stays as it is."""
    return query.iterator(chunk_size=PIECE)


def look(checks: Iterable[Check], tell: Tell) -> Iterator[Looked]:
    """Go through the checks, all at one moment of the database."""
    every = list(checks)
    with read_snapshot():
        for at, one in enumerate(every):
            tell(at, len(every), one.name)
            yield _looked(one)
    tell(len(every), len(every), "")


def _looked(one: Check) -> Looked:
    kept: list[Wrong] = []
    began, more = time.monotonic(), 0
    for found in _found(one):
        if len(kept) < SHOWN:
            kept.append(found)
        else:
            more += 1
    return Looked(one, _count(one), tuple(kept), more, time.monotonic() - began)


def _found(one: Check) -> Iterator[Wrong]:
    """Rows that cannot even be read are a finding like others, and keep no other check from its work."""
    try:
        with transaction.atomic():
            yield from one.find()
    except Exception as error:
        yield wrong(one.of, "", "rows that can be read", f"{type(error).__name__}: {error}")


def _count(one: Check) -> int:
    try:
        with transaction.atomic():
            return one.of._default_manager.count()
    except Exception:  # its table is gone, which is a finding already
        return 0


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
