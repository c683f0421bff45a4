"""Error pages. They show the status and what to do next, and nothing about the request, the user or the error."""

import sys

from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template import loader

RETRY_AFTER_SECONDS = 2
STATUSES_WITHOUT_BODY = frozenset({405, 413, 429, 503})  # views return these with a status only


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return the page of status 413 if the request is too large, else of 400."""
    return _render_response(request, 413 if isinstance(exception, RequestDataTooBig) else 400)


def handle_server_error(request: HttpRequest) -> HttpResponse:
    """Return the error response. Django calls it as `handler500` while the exception of a view or middleware is handled.

    The page of status 500 has the request id that finds the error in the log.
    """
    if not isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return _render_response(request, 500)
    # Without the request: its context processors would query the database that is not available.
    page = loader.get_template("503.html").render()
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


def fill_error_page(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Return the response, with a page if it is an error with an empty body. A fragment needs only the status."""
    if response.status_code not in STATUSES_WITHOUT_BODY or request.headers.get("HX-Request") == "true":
        return response
    if isinstance(response, HttpResponse) and not response.content:
        response.content = _render_page(request, response.status_code)
        response.headers["Content-Type"] = "text/html; charset=utf-8"
    return response


def _render_response(request: HttpRequest, status: int) -> HttpResponse:
    return HttpResponse(_render_page(request, status), status=status)


def _render_page(request: HttpRequest, status: int) -> str:
    """Return the page of a status, rendered without a request."""
    # Context processors of a request read the session, and the database may be what failed.
    return loader.render_to_string(f"{status}.html", {"request_id": getattr(request, "request_id", "")})
