"""What is answered when something failed on our side: 503 with "come again" while the database is away, else 500."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template import loader

from wetbench_site.error_pages import server_error

COME_AGAIN_SECONDS = 2
_DATABASE_AWAY = (OperationalError, InterfaceError)


def failed(request: HttpRequest) -> HttpResponse:
    """Django's `handler500`, called while the exception is being handled, whichever middleware or view raised it."""
    if not isinstance(sys.exc_info()[1], _DATABASE_AWAY):
        return server_error(request)
    page = loader.get_template("503.html").render()
    return HttpResponse(page, status=503, headers={"Retry-After": str(COME_AGAIN_SECONDS)})
