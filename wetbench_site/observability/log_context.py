"""Facts about the work of this thread, such as the kind and code of its row, which every log line then contains.

This module does not import Django: the settings import the log handlers before Django is set up.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

NO_FACTS: Mapping[str, str | int] = MappingProxyType({})
_bound: ContextVar[Mapping[str, str | int]] = ContextVar("log_context", default=NO_FACTS)


@contextmanager
def bind_facts(kind: str, code: object, **progress: str | int) -> Iterator[None]:
    """Add the row's kind and code, and its progress, to every line logged inside the block.

    An inner block replaces the facts of an outer one; they return when the inner block ends.
    """
    token = _bound.set({kind: str(code), **progress})
    try:
        yield
    finally:
        _bound.reset(token)


def bound_facts() -> Mapping[str, str | int]:
    """Return the facts of the innermost block of this thread; none outside of all blocks."""
    return _bound.get()
