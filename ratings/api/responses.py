"""Errors of the API. Every error response under /api/ is a problem document (RFC 9457)."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from django.core import signing
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, AuthorizationError, Throttled, ValidationError
from pydantic import BaseModel, ConfigDict, Field

DEFAULT_LIMIT, MAX_LIMIT = 100, 500
STALE_CURSOR = "This cursor does not belong to this list in its current form. Start again without a cursor."
Row = TypeVar("Row")


class CursorError(ValueError):
    """The cursor does not belong to this list. The message explains what to do."""


class PageQuery(BaseModel):
    """The query parameters that select one page of a list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Maximum number of rows in a page.")
    cursor: str = Field(
        "", max_length=600,
        description="Start of the page, from `next` of the previous page; empty: the start of the list.",
    )  # fmt: skip


class Page(NamedTuple, Generic[Row]):
    """The rows of a page, and the URL path of the next page; None for the last one."""

    rows: Sequence[Row]
    next: str | None


def select_page(
    request: HttpRequest,
    list_name: str,
    window: PageQuery,
    load: Callable[[list[Any] | None, int], Iterable[Row]],
    locate: Callable[[Row], list[Any]],
) -> Page[Row]:
    """Return the requested page of a list. Raises CursorError if the cursor is not of this list.

    `load` takes the position of the last row of the previous page (None at the start) and the maximum number of rows;
    `locate` returns the position of a row.
    """
    # One salt per list, so that a cursor of another list or form has an invalid signature.
    salt = f"ratings.api/{list_name}"
    try:
        last = signing.loads(window.cursor, salt=salt) if window.cursor else None
    except signing.BadSignature as error:
        raise CursorError(STALE_CURSOR) from error
    # One row more than the page has, which shows whether there is a next page.
    rows = list(load(last, window.limit + 1))
    if len(rows) <= window.limit:
        return Page(rows, None)
    rows = rows[: window.limit]
    parameters = {name: value for name, value in request.GET.items() if name not in ("limit", "cursor")}
    parameters |= {"limit": str(window.limit), "cursor": signing.dumps(locate(rows[-1]), salt=salt)}
    return Page(rows, f"{request.path}?{urlencode(parameters)}")


def find_key(rows: QuerySet[Any], code: str) -> int:
    """Return the primary key of the row with this code. Raises CursorError if it was deleted."""
    key: int | None = rows.filter(code=code).values_list("pk", flat=True).first()
    if key is None:
        raise CursorError(STALE_CURSOR)
    return key


API_ROOT = "/api/"
MEDIA_TYPE = "application/problem+json"
_NOT_FOUND = "This address does not exist, or you may not read it."
_DETAILS: Mapping[int, str] = {
    400: "The request is malformed.",
    404: _NOT_FOUND,
    405: "This API is read-only. Use GET or HEAD.",
    413: "The request is too large. Use GET without a body.",
    429: "Too many requests. Try again after the number of seconds in Retry-After.",
    503: "The database is not available. Try again after the number of seconds in Retry-After.",
}
_SERVER_ERROR = "The server failed to answer and logged the error. You can try the same request again later."
_KEPT_HEADERS = ("Allow", "Retry-After")
_CHALLENGE = 'Bearer realm="WetBench"'


class ConflictError(Exception):
    """The study's state does not allow this request. The message explains why."""


def create_problem_response(status: int, detail: str, **more: Any) -> HttpResponse:
    """Return a problem document. `more` are members besides the four standard ones."""
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return HttpResponse(json.dumps(document, ensure_ascii=False), status=status, content_type=MEDIA_TYPE)


def problem_documents(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Replace every error page under /api/ by a problem document, including error pages of other middleware."""

    def replace_error_page(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        status = response.status_code
        if status < 400 or not request.path_info.startswith(API_ROOT) or response.get("Content-Type") == MEDIA_TYPE:
            return response
        other = _SERVER_ERROR if status >= 500 else HTTPStatus(status).description
        document = create_problem_response(status, _DETAILS.get(status, other))
        for name in _KEPT_HEADERS:
            if name in response:
                document[name] = response[name]
        return document

    return replace_error_page


def register_error_handlers(api: NinjaAPI) -> None:
    """Register a response for each error of the API."""
    for error, handler in (
        (AuthenticationError, _handle_authentication_error),
        (AuthorizationError, _handle_missing_scope),
        (Throttled, _handle_rate_limit),
        (ValidationError, _handle_validation_error),
        (Http404, lambda request, error: create_problem_response(404, _NOT_FOUND)),
        (CursorError, lambda request, error: create_problem_response(400, str(error))),
        (ConflictError, lambda request, error: create_problem_response(409, str(error))),
        # without this handler the library would respond itself, and Django would neither log nor report the error
        (Exception, _reraise_error),
    ):
        api.add_exception_handler(error, handler)  # type: ignore[arg-type]  # a handler takes its own kind of error


def _handle_authentication_error(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    has_token = "Authorization" in request.headers
    detail = (
        "The token is unknown, expired or revoked, or its user no longer has access. Create a new token at /account/tokens/."
        if has_token
        else "A token is required. Send 'Authorization: Bearer' and a token created at /account/tokens/."
    )
    response = create_problem_response(401, detail)
    response["WWW-Authenticate"] = _CHALLENGE + (', error="invalid_token"' if has_token else "")
    return response


def _handle_missing_scope(request: HttpRequest, error: AuthorizationError) -> HttpResponse:
    response = create_problem_response(403, str(error))
    response["WWW-Authenticate"] = f'{_CHALLENGE}, error="insufficient_scope"'
    return response


def _handle_rate_limit(request: HttpRequest, error: Throttled) -> HttpResponse:
    response = create_problem_response(429, _DETAILS[429])
    response["Retry-After"] = str(error.wait)
    return response


def _handle_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Return a problem that names each invalid parameter."""
    # the values sent are not repeated: they may contain secrets, and responses may be logged
    invalid = [{"parameter": str(one["loc"][-1]), "problem": str(one["msg"])} for one in error.errors]
    summary = "; ".join(f"{one['parameter']}: {one['problem']}" for one in invalid)
    return create_problem_response(422, f"{summary}." if summary else "The parameters are invalid.", errors=invalid)


def _reraise_error(request: HttpRequest, error: Exception) -> HttpResponse:
    raise error


PROBLEM_SCHEMA: Mapping[str, Any] = {
    "title": "Problem",
    "description": "A problem document (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "examples": ["Not Found"]},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What is wrong, and what to do next."},
        "errors": {
            "type": "array",
            "description": "With 422: every invalid parameter.",
            "items": {
                "type": "object",
                "required": ["parameter", "problem"],
                "properties": {"parameter": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
    },
}
_ERROR_CAUSES: Mapping[int, str] = {
    400: "The cursor does not belong to this list in its current form.",
    401: "There is no token, or it is not valid.",
    403: "The token lacks the scope.",
    404: "It does not exist, or the user of the token may not read it.",
    405: "The method is not GET or HEAD.",
    409: "The study is not unblinded yet.",
    422: "A parameter is invalid or unknown.",
    429: "The token has reached its rate limit.",
}
_TEXT_HEADER, _SECONDS_HEADER = {"schema": {"type": "string"}}, {"schema": {"type": "integer", "minimum": 1}}
_ERROR_HEADERS: Mapping[int, Mapping[str, Any]] = {
    401: {"WWW-Authenticate": {**_TEXT_HEADER, "description": "How to authenticate."}},
    403: {"WWW-Authenticate": {**_TEXT_HEADER, "description": "The missing scope."}},
    429: {"Retry-After": {**_SECONDS_HEADER, "description": "Seconds to wait."}},
}
# every operation needs a token, has scopes, rejects unknown parameters and has a rate limit
_COMMON_ERRORS = (401, 403, 422, 429)


def describe_errors(*statuses: int) -> dict[str, Any]:
    """Return the error responses common to all operations, and those with the given status codes."""
    return {"responses": {status: _describe_response(status) for status in sorted({*_COMMON_ERRORS, *statuses})}}


def _describe_response(status: int) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    description = f"{HTTPStatus(status).phrase}. {_ERROR_CAUSES[status]}"
    headers = {"headers": _ERROR_HEADERS[status]} if status in _ERROR_HEADERS else {}
    return {"description": description, "content": content, **headers}


def complete_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the library's OpenAPI description without HEAD operations, with the schema of problem documents."""
    paths = {
        path: {method: operation for method, operation in methods.items() if method != "head"}
        for path, methods in schema["paths"].items()
    }
    schemas = {**schema["components"]["schemas"], "Problem": PROBLEM_SCHEMA}
    return {**schema, "paths": paths, "components": {**schema["components"], "schemas": schemas}}
