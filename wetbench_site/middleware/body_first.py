"""Receive a large body after the access table has been checked, and before a view runs."""

from collections.abc import Callable
from typing import Any, NoReturn

from django.http import HttpRequest, HttpResponse


class BodyRequested(BaseException):
    """The application reads a body that the server has not received yet.

    Not an Exception: Django would answer it with the page for server errors.
    """


class ExpectedBody:
    """`wsgi.input` of a request whose body the server has not received yet (wetbench_site/buffering_worker.py)."""

    def request_body(self, *_: int) -> NoReturn:
        raise BodyRequested

    read = readline = readlines = __iter__ = request_body


class BodyFirst:
    """Ask the server for a body that it has not received yet.

    The server then calls the application again with the body, so this must come before everything that changes data.
    A form that is too large raises RequestDataTooBig here, and is not received.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        if isinstance(request.META.get("wsgi.input"), ExpectedBody):
            request.POST  # noqa: B018  # reads the body
