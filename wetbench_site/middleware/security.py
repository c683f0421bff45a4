"""What holds for every response: its headers, nothing unseen in pages, and signing in first."""

import re
from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from wetbench_site import error_pages
from wetbench_site.headers import HEADERS


def protective_headers(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Sends HEADERS with every response, faults and files too: what a model or an upload says can never run.

    It stands above all others, whose own answers and faults would else go without.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = error_pages.filled(request, get_response(request))
        for name, value in HEADERS:
            if name != "Cache-Control" or name not in response.headers:  # of all of them a view may choose this one
                response.headers[name] = value
        return response

    return middleware


# Control characters, and what turns or hides text: a page shows that something stood there, and lets it do nothing.
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def seen_as_written(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """On every page the last word about signs that cannot be seen; those who store or show text clean it before."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            text = response.content.decode(response.charset)
            if _UNSEEN.search(text):
                response.content = _UNSEEN.sub("\ufffd", text)
        return response

    return middleware


class LargePages(GZipMiddleware):
    """Packs the pages that carry drawings, with Django's random padding. No page of a rater: what one compresses to would
    be one more thing to compare."""

    PACKED = frozenset({"ratings:study", "ratings:benchmark"})

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        match = request.resolver_match
        return super().process_response(request, response) if match and match.view_name in self.PACKED else response


class SignInRequired(LoginRequiredMiddleware):
    """Django's own, but a fragment is answered 401, and its page loads itself anew: a sign-in page belongs in no corner."""

    def handle_no_permission(  # type: ignore[override]  # the stubs promise a redirect, Django any response
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        return super().handle_no_permission(request, view_func)
