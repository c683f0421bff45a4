"""Where the next page begins. A cursor is signed and names the last row by what may be read of it, never by its key."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from django.core import signing
from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field

LIMIT, MOST = 100, 500
Row = TypeVar("Row")


class CursorError(ValueError):
    """The cursor is not of this list; the message says what to do."""


class Window(BaseModel):
    """Which rows of a list are asked for."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(LIMIT, ge=1, le=MOST, description="How many rows a page holds at most.")
    cursor: str = Field(
        "", max_length=600, description="Where the page begins, from `next` of the page before; empty: at the start."
    )


class Cut(NamedTuple):
    """The rows of a page, and whether more follow."""

    rows: Sequence[Any]
    more: bool


def cut(rows: Sequence[Row], limit: int) -> Cut:
    """Of one row more than fits, those that fit."""
    return Cut(rows[:limit], len(rows) > limit)


def read(form: str, cursor: str) -> list[Any] | None:
    """What `following` was given for a list of this form; None at its start. CursorError for anything else."""
    if not cursor:
        return None
    try:
        found: list[Any] = signing.loads(cursor, salt=_salt(form))
    except signing.BadSignature as error:
        raise CursorError(GONE) from error
    return found


GONE = "This cursor is not of this list as it is now. Begin again without one."


def following(request: HttpRequest, form: str, window: Window, last: Sequence[Any]) -> str:
    """The address of the page after the row `last`, on the same host and with the same parameters."""
    asked = {name: value for name, value in request.GET.items() if name not in ("limit", "cursor")}
    cursor = signing.dumps(list(last), salt=_salt(form))
    return f"{request.path}?{urlencode({**asked, 'limit': window.limit, 'cursor': cursor})}"


def _salt(form: str) -> str:
    return f"ratings.api/{form}"
