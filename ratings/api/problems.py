"""Errors of the API as problem documents (RFC 9457): every error response under /api/ is one."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, AuthorizationError, Throttled, ValidationError

from ratings.api.cursors import CursorError

ROOT = "/api/"
MEDIA_TYPE = "application/problem+json"
_NOTHING = "This address does not exist, or you may not read it."
_SAID: Mapping[int, str] = {
    400: "The request is malformed.",
    404: _NOTHING,
    405: "This API is read-only. Use GET or HEAD.",
    413: "The request is too large. Use GET without a body.",
    429: "Too many requests. Try again after the number of seconds in Retry-After.",
    503: "The database is not available. Try again after the number of seconds in Retry-After.",
}
_OURS = "The server failed to answer and logged the error. You can try the same request again later."
_KEPT = ("Allow", "Retry-After")
_CHALLENGE = 'Bearer realm="WetBench"'


class ConflictError(Exception):
    """The study's state does not allow this request. The message explains why."""


def problem(status: int, detail: str, **more: Any) -> HttpResponse:
    """Return a problem document. `more` are members in addition to the four of the standard."""
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return HttpResponse(json.dumps(document, ensure_ascii=False), status=status, content_type=MEDIA_TYPE)


def problem_documents(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Replace every error page under /api/ by a problem document, also those of other middleware."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if response.status_code < 400 or not request.path_info.startswith(ROOT):
            return response
        return response if response.get("Content-Type") == MEDIA_TYPE else _instead_of(response)

    return middleware


def _instead_of(response: HttpResponseBase) -> HttpResponse:
    status = response.status_code
    document = problem(status, _SAID.get(status, _OURS if status >= 500 else HTTPStatus(status).description))
    for name in _KEPT:
        if name in response:
            document[name] = response[name]
    return document


def handle(api: NinjaAPI) -> None:
    """Register a response for each error of the API."""
    for error, handler in (
        (AuthenticationError, _stranger),
        (AuthorizationError, _not_allowed),
        (Throttled, _too_many),
        (ValidationError, _malformed),
        (Http404, lambda request, error: problem(404, _NOTHING)),
        (CursorError, lambda request, error: problem(400, str(error))),
        (ConflictError, lambda request, error: problem(409, str(error))),
        # without this the library would answer itself; Django logs unexpected errors and sends reports
        (Exception, _raise),
    ):
        api.add_exception_handler(error, handler)  # type: ignore[arg-type]  # a handler takes its own kind of error


def _stranger(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    has_token = "Authorization" in request.headers
    detail = (
        "The token is unknown, expired or revoked, or its user no longer has access. Create a new token at /account/tokens/."
        if has_token
        else "A token is required. Send 'Authorization: Bearer' and a token created at /account/tokens/."
    )
    response = problem(401, detail)
    response["WWW-Authenticate"] = _CHALLENGE + (', error="invalid_token"' if has_token else "")
    return response


def _not_allowed(request: HttpRequest, error: AuthorizationError) -> HttpResponse:
    response = problem(403, str(error))
    response["WWW-Authenticate"] = f'{_CHALLENGE}, error="insufficient_scope"'
    return response


def _too_many(request: HttpRequest, error: Throttled) -> HttpResponse:
    response = problem(429, _SAID[429])
    response["Retry-After"] = str(error.wait)
    return response


def _malformed(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Return a problem that names each invalid parameter."""
    # the values sent are not repeated: they may contain secrets, and responses may be logged
    invalid = [
        {"parameter": str(parameter_error["loc"][-1]), "problem": str(parameter_error["msg"])}
        for parameter_error in error.errors
    ]
    summary = "; ".join(f"{parameter_error['parameter']}: {parameter_error['problem']}" for parameter_error in invalid)
    return problem(422, f"{summary}." if summary else "The parameters are invalid.", errors=invalid)


def _raise(request: HttpRequest, error: Exception) -> HttpResponse:
    raise error
