"""Limit how often a person may write, with a token bucket per person in each web process.

With several web processes the limit is multiplied by their number. It protects against scripts that run out of control
and needs no query. Unsaved answers have a bucket of their own, so frequent saves of them never block a rating.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template import loader

from wetbench_site.observability.log_context import AUDIT_REQUEST
from wetbench_site.observability.logs import log_security_event

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
UNSAVED_ANSWER_VIEW, RATING_VIEW = "ratings:draft", "ratings:rate"
MAX_BUCKETS = 10_000
NO_SWAP, SHOW_NOTICE = {"HX-Reswap": "none"}, {"HX-Retarget": "#main", "HX-Reswap": "afterbegin"}


class TokenBuckets:
    """Token buckets that start full, with the tokens of one minute, and are refilled evenly."""

    def __init__(self) -> None:
        self._buckets: dict[object, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take_token(self, owner: object, per_minute: float, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        with self._lock:
            if len(self._buckets) > MAX_BUCKETS:
                # A bucket that was not used for a minute is full again, so it can be forgotten.
                self._buckets = {key: bucket for key, bucket in self._buckets.items() if now - bucket[1] < 60}
            tokens, updated_at = self._buckets.get(owner, (per_minute, now))
            tokens = min(per_minute, tokens + (now - updated_at) * per_minute / 60)
            self._buckets[owner] = (tokens - 1 if tokens >= 1 else tokens, now)
        return 0.0 if tokens >= 1 else (1 - tokens) * 60 / per_minute


class WriteLimit:
    """Return 429 with Retry-After to people who write more often than WETBENCH_WRITES_PER_MINUTE."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response, self.buckets = get_response, TokenBuckets()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        # Anonymous requests have no bucket: sign-in has limits of its own.
        if request.method in SAFE or AUDIT_REQUEST in request.META or not request.user.is_authenticated:
            return None
        name = request.resolver_match.view_name if request.resolver_match else ""
        owner = (request.user.pk, name == UNSAVED_ANSWER_VIEW)
        seconds = self.buckets.take_token(owner, settings.WRITES_PER_MINUTE, time.monotonic())
        if not seconds:
            return None
        log_security_event("writes limited", request)
        return too_many_requests(request, math.ceil(seconds), "writes", in_place=name == RATING_VIEW)


def too_many_requests(request: HttpRequest, seconds: int, what: str, in_place: bool = False) -> HttpResponse:
    """Return 429. htmx shows a notice above the page and keeps the form.

    With `in_place` htmx shows nothing: the script of the page displays the error and retries.
    """
    fragment = request.headers.get("HX-Request") == "true"
    page = loader.render_to_string("_too_many.html" if fragment else "429.html", {"seconds": seconds, "what": what})
    response = HttpResponse(page, status=429, headers={"Retry-After": str(seconds)})
    if fragment:
        for name, value in (NO_SWAP if in_place else SHOW_NOTICE).items():
            response.headers[name] = value
    return response
