"""The outermost layer: gives every request an id, measures it, and says it in the log where that is wanted."""

import logging
import re
import secrets
import time
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from wetbench_site.observability import request_facts, request_metrics

log = logging.getLogger("wetbench.requests")
HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9._-]{8,64}")


def traced(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """The id stands in `request.request_id`, in the header of the answer and in every line of the log."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        request.request_id = request_id(request)  # type: ignore[attr-defined]  # ours
        before, began = request_facts.enter(request), time.perf_counter()
        try:
            response = get_response(request)
            _tell(request, response, time.perf_counter() - began)
        finally:
            request_facts.leave(before)
        response[HEADER] = request.request_id  # type: ignore[attr-defined]
        return response

    return middleware


def request_id(request: HttpRequest) -> str:
    """The proxy's own, where one is said to be there; else a random one, which tells nothing."""
    given = request.headers.get(HEADER, "") if settings.PROXIES else ""
    return given if _SANE.fullmatch(given) else secrets.token_hex(16)


def _tell(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    if request_facts.REHEARSED in request.META:
        return
    view = request_facts.view_name(request)
    request_metrics.observe(view, response.status_code, seconds)
    if view and settings.REQUEST_LOG and not hasattr(request, "machine"):  # they ask all day
        facts = {"status": response.status_code, "ms": round(seconds * 1000, 1)}
        log.info("%s %s", request.method, view, extra={"facts": facts})
