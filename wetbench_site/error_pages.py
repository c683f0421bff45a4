"""Pages for what went wrong. They name the status and what to do next, and nothing of whoever asked or what failed."""

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template import loader

WITHOUT_A_PAGE = frozenset({405, 413, 429, 503})  # answered in many places with a status alone


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400; 413 for what is too large."""
    return _page(request, 413 if isinstance(exception, RequestDataTooBig) else 400)


def server_error(request: HttpRequest) -> HttpResponse:
    """500, with the number under which the fault stands in the log."""
    return _page(request, 500)


def filled(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """The response, with a page where it is an error without a word. Fragments are answered by their status."""
    if response.status_code not in WITHOUT_A_PAGE or request.headers.get("HX-Request") == "true":
        return response
    if isinstance(response, HttpResponse) and not response.content:
        response.content = _written(request, response.status_code)
        response.headers["Content-Type"] = "text/html; charset=utf-8"
    return response


def _page(request: HttpRequest, status: int) -> HttpResponse:
    return HttpResponse(_written(request, status), status=status)


def _written(request: HttpRequest, status: int) -> str:
    """Without the request as context: its processors would read the session, and the database may be what failed."""
    return loader.render_to_string(f"{status}.html", {"request_id": getattr(request, "request_id", "")})
