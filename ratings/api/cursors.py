"""Pages of lists. A cursor is signed and identifies the last row of a page by its public fields, never by its database key."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from django.core import signing
from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field

DEFAULT_LIMIT, MAX_LIMIT = 100, 500
Row = TypeVar("Row")


class CursorError(ValueError):
    """The cursor does not belong to this list. The message explains what to do."""


class PageQuery(BaseModel):
    """The query parameters that select one page of a list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Maximum number of rows in a page.")
    cursor: str = Field(
        "",
        max_length=600,
        description="Start of the page, from `next` of the previous page; empty: the start of the list.",
    )


class Page(NamedTuple):
    """The rows of a page, and whether more follow."""

    rows: Sequence[Any]
    more: bool


def split_page(rows: Sequence[Row], limit: int) -> Page:
    """Return the rows that fit. The query fetches one row more than `limit`, which shows whether there is a next page."""
    return Page(rows[:limit], len(rows) > limit)


def parse_cursor(list_name: str, cursor: str) -> list[Any] | None:
    """Return the values given to `build_next_url` for this list, or None at its start. Raises CursorError for any other cursor."""
    if not cursor:
        return None
    try:
        values: list[Any] = signing.loads(cursor, salt=_get_salt(list_name))
    except signing.BadSignature as error:
        raise CursorError(STALE_CURSOR) from error
    return values


STALE_CURSOR = "This cursor does not belong to this list in its current form. Start again without a cursor."


def build_next_url(request: HttpRequest, list_name: str, window: PageQuery, last: Sequence[Any]) -> str:
    """Return the URL path of the page after the row `last`, with the same parameters."""
    parameters = {name: value for name, value in request.GET.items() if name not in ("limit", "cursor")}
    cursor = signing.dumps(list(last), salt=_get_salt(list_name))
    return f"{request.path}?{urlencode({**parameters, 'limit': window.limit, 'cursor': cursor})}"


def _get_salt(list_name: str) -> str:
    # one salt per list, so that a cursor of another list or form has an invalid signature
    return f"ratings.api/{list_name}"
