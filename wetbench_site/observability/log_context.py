"""Facts for log lines: the current request, and the row that this thread works on. They never cost a query."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Any

from django.http import HttpRequest

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


# Key in META of requests that a blinding audit sends to its scratch copy (ratings/studies/blinding_audit). No client can set
# it: every HTTP header arrives under a name that starts with HTTP_.
AUDIT_REQUEST = "wetbench.rehearsed"
_current_request: ContextVar[HttpRequest | None] = ContextVar("request", default=None)


def set_current_request(request: HttpRequest) -> "Token[HttpRequest | None]":
    return _current_request.set(request)


def reset_current_request(token: "Token[HttpRequest | None]") -> None:
    _current_request.reset(token)


def get_view_name(request: HttpRequest) -> str:
    """Return the name of the view, or "" before it is known."""
    # Never the path, which contains codes and tokens.
    return request.resolver_match.view_name if request.resolver_match else ""


def describe_current_request() -> dict[str, Any]:
    """Return the known facts of the current request; none outside of requests."""
    request = _current_request.get()
    if request is None:
        return {}
    # `request.user` would load the session and query the database for a log line.
    user = getattr(getattr(request, "_cached_user", None), "pk", None)
    facts = {"request": getattr(request, "request_id", ""), "user": user, "view": get_view_name(request)}
    return {name: value for name, value in facts.items() if value}
