"""How often somebody may write: a bucket of tokens per person, in each process of its own.

Several web processes allow that many times as much: it is a brake on what runs wild, and asks no database. Drafts have a
bucket beside: who thinks aloud is not kept from answering.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template import loader

from wetbench_site.observability.audit_log import security_event
from wetbench_site.observability.request_facts import REHEARSED

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
DRAFTS, RATINGS = "ratings:draft", "ratings:rate"
MOST_PEOPLE = 10_000
QUIET, NOTICE = {"HX-Reswap": "none"}, {"HX-Retarget": "#main", "HX-Reswap": "afterbegin"}


class Buckets:
    """Full at first; refilled evenly, to one minute's worth."""

    def __init__(self) -> None:
        self._held: dict[object, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def wait(self, who: object, per_minute: float, now: float) -> float:
        """Take one token: 0, or the seconds until there is one, and then none is taken."""
        with self._lock:
            if len(self._held) > MOST_PEOPLE:
                self._held = {key: kept for key, kept in self._held.items() if now - kept[1] < 60}
            tokens, since = self._held.get(who, (per_minute, now))
            tokens = min(per_minute, tokens + (now - since) * per_minute / 60)
            self._held[who] = (tokens - 1 if tokens >= 1 else tokens, now)
        return 0.0 if tokens >= 1 else (1 - tokens) * 60 / per_minute


class WriteLimit:
    """429 with Retry-After for who writes more often than WETBENCH_WRITES_PER_MINUTE. Strangers have no bucket."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response, self.buckets = get_response, Buckets()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        if request.method in SAFE or REHEARSED in request.META or not request.user.is_authenticated:
            return None
        name = request.resolver_match.view_name if request.resolver_match else ""
        who = (request.user.pk, name == DRAFTS)
        wait = self.buckets.wait(who, settings.WRITES_PER_MINUTE, time.monotonic())
        if not wait:
            return None
        security_event("writes limited", request)
        return too_many(request, math.ceil(wait), "writes", in_place=name == RATINGS)


def too_many(request: HttpRequest, seconds: int, what: str, in_place: bool = False) -> HttpResponse:
    """429. htmx shows a notice above the page and keeps the form; `in_place`: the page's own script says it and tries again."""
    fragment = request.headers.get("HX-Request") == "true"
    page = loader.render_to_string("_too_many.html" if fragment else "429.html", {"seconds": seconds, "what": what})
    response = HttpResponse(page, status=429, headers={"Retry-After": str(seconds)})
    if fragment:
        for name, value in (QUIET if in_place else NOTICE).items():
            response.headers[name] = value
    return response
