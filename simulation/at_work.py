"""What this thread plays just now, for its lines in the log: kind and code of the row, and how far it is."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

NOTHING: Mapping[str, str | int] = MappingProxyType({})
_now: ContextVar[Mapping[str, str | int]] = ContextVar("at_work", default=NOTHING)


@contextmanager
def on(kind: str, code: object, **far: str | int) -> Iterator[None]:
    """Every line written meanwhile carries it."""
    before = _now.set({kind: str(code), **far})
    try:
        yield
    finally:
        _now.reset(before)


def facts() -> Mapping[str, str | int]:
    return _now.get()
