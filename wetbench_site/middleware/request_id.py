"""The outermost middleware: gives every request an id, measures its duration, and logs it if WETBENCH_REQUEST_LOG is set."""

import logging
import re
import secrets
import time
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from wetbench_site.observability import log_context, metrics

log = logging.getLogger("wetbench.requests")
HEADER = "X-Request-ID"
_VALID_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


def request_id_middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Store the id in `request.request_id`, in a header of the response and in every log line of the request."""

    def handle_request(request: HttpRequest) -> HttpResponseBase:
        request.request_id = get_request_id(request)  # type: ignore[attr-defined]  # our attribute
        token, started = log_context.set_current_request(request), time.perf_counter()
        try:
            response = get_response(request)
            _record_request(request, response, time.perf_counter() - started)
        finally:
            log_context.reset_current_request(token)
        response[HEADER] = request.request_id  # type: ignore[attr-defined]
        return response

    return handle_request


def get_request_id(request: HttpRequest) -> str:
    """Return the id that the proxy sent, if there is a proxy, else a random one."""
    # Without a proxy the client would choose the id, and could forge those of other requests in the log.
    sent_id = request.headers.get(HEADER, "") if settings.PROXIES else ""
    return sent_id if _VALID_ID.fullmatch(sent_id) else secrets.token_hex(16)


def _record_request(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    # Requests of a blinding audit are no traffic of people: they are neither counted nor logged.
    if log_context.AUDIT_REQUEST in request.META:
        return
    view = log_context.get_view_name(request)
    metrics.observe_request(view, response.status_code, seconds)
    if view and settings.REQUEST_LOG and not hasattr(request, "machine"):  # probes come every few seconds
        facts = {"status": response.status_code, "ms": round(seconds * 1000, 1)}
        log.info("%s %s", request.method, view, extra={"facts": facts})
