"""What the log says of the request under way: its id, who is signed in and which page it is; nothing is looked up for it."""

from contextvars import ContextVar, Token
from typing import Any

from django.http import HttpRequest

# In a request that a blinding audit sends to its scratch copy (ratings/studies/blinding_audit). No client can set it: what
# comes over HTTP is named HTTP_ something.
REHEARSED = "wetbench.rehearsed"
_now: ContextVar[HttpRequest | None] = ContextVar("request", default=None)


def enter(request: HttpRequest) -> "Token[HttpRequest | None]":
    return _now.set(request)


def leave(before: "Token[HttpRequest | None]") -> None:
    _now.reset(before)


def view_name(request: HttpRequest) -> str:
    """Never the address itself, which holds codes and tokens; empty until it is known."""
    return request.resolver_match.view_name if request.resolver_match else ""


def now() -> dict[str, Any]:
    """Empty outside of requests."""
    request = _now.get()
    if request is None:
        return {}
    known = {"request": getattr(request, "request_id", ""), "user": user_id(request), "view": view_name(request)}
    return {name: value for name, value in known.items() if value}


def user_id(request: HttpRequest) -> int | None:
    """Of whom the request has read already: the log asks the database nothing."""
    user = getattr(request, "_cached_user", None)
    return user.pk if user is not None else None
