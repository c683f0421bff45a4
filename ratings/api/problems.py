"""What went wrong, as RFC 9457 has it: every answer under /api/ that is an error is a problem document."""

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
_NOTHING = "There is nothing at this address, or it is not yours to read."
_SAID: Mapping[int, str] = {
    400: "The request could not be read.",
    404: _NOTHING,
    405: "Nothing is written here: ask with GET or HEAD.",
    413: "The request is too large: ask with GET, without a body.",
    429: "Too many requests. Come again after as many seconds as Retry-After says.",
    503: "The database is away. Come again after as many seconds as Retry-After says.",
}
_OURS = "Something failed on our side; it stands in the server's log. The same request may work later."
_KEPT = ("Allow", "Retry-After")
_CHALLENGE = 'Bearer realm="WetBench"'


class ConflictError(Exception):
    """What is asked for cannot be given in the state the study is in; the message says why."""


def problem(status: int, detail: str, **more: Any) -> HttpResponse:
    """The document; `more` are members of its own beside the four of the standard."""
    told = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return HttpResponse(json.dumps(told, ensure_ascii=False), status=status, content_type=MEDIA_TYPE)


def problem_documents(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Puts one in the place of every error page under /api/, whoever answered it."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if response.status_code < 400 or not request.path_info.startswith(ROOT):
            return response
        return response if response.get("Content-Type") == MEDIA_TYPE else _instead_of(response)

    return middleware


def _instead_of(response: HttpResponseBase) -> HttpResponse:
    status = response.status_code
    told = problem(status, _SAID.get(status, _OURS if status >= 500 else HTTPStatus(status).description))
    for name in _KEPT:
        if name in response:
            told[name] = response[name]
    return told


def handle(api: NinjaAPI) -> None:
    """Tells the API what to answer for each of its errors; other faults go on to Django's own handling and log."""
    for error, answer in (
        (AuthenticationError, _stranger),
        (AuthorizationError, _not_allowed),
        (Throttled, _too_many),
        (ValidationError, _malformed),
        (Http404, lambda request, error: problem(404, _NOTHING)),
        (CursorError, lambda request, error: problem(400, str(error))),
        (ConflictError, lambda request, error: problem(409, str(error))),
        (Exception, _raise),
    ):
        api.add_exception_handler(error, answer)  # type: ignore[arg-type]  # a handler takes its own kind of error


def _stranger(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    given = "Authorization" in request.headers
    detail = (
        "The token is unknown, expired or revoked, or whose it is may read nothing any more. Make a new one at /account/tokens/."
        if given
        else "A token is needed: send 'Authorization: Bearer' and a token made at /account/tokens/."
    )
    response = problem(401, detail)
    response["WWW-Authenticate"] = _CHALLENGE + (', error="invalid_token"' if given else "")
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
    """Names each parameter that is wrong; what was sent is not said back."""
    found = [{"parameter": str(one["loc"][-1]), "problem": str(one["msg"])} for one in error.errors]
    said = "; ".join(f"{one['parameter']}: {one['problem']}" for one in found)
    return problem(422, f"{said}." if said else "The parameters are not as described.", errors=found)


def _raise(request: HttpRequest, error: Exception) -> HttpResponse:
    raise error
