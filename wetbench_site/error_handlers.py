"""The response to an unhandled error: 503 with Retry-After if the database is not available, else 500."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template import loader

from wetbench_site.error_pages import server_error

RETRY_AFTER_SECONDS = 2
_DATABASE_UNAVAILABLE = (OperationalError, InterfaceError)


def handle_server_error(request: HttpRequest) -> HttpResponse:
    """Return the error response. Django calls it as `handler500` while the exception of a view or middleware is handled."""
    if not isinstance(sys.exc_info()[1], _DATABASE_UNAVAILABLE):
        return server_error(request)
    # Without the request: its context processors would query the database that is not available.
    page = loader.get_template("503.html").render()
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
