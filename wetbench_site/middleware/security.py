"""Rules for every response: security headers, no invisible characters in pages, and sign-in required by default."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware

from wetbench_site import error_pages
from wetbench_site.headers import HEADERS
from wetbench_site.text import INVISIBLE


def security_headers_middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Add HEADERS to every response, errors and files included: text of models and uploads must never run as script.

    Must be near the top of MIDDLEWARE: responses and errors of middleware above it would lack the headers.
    """

    def add_headers(request: HttpRequest) -> HttpResponseBase:
        response = error_pages.fill_error_page(request, get_response(request))
        for name, value in HEADERS:
            if name != "Cache-Control" or name not in response.headers:  # the only one that a view may choose
                response.headers[name] = value
        return response

    return add_headers


def invisible_characters_middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Replace invisible characters in every HTML page.

    This is a second protection: code that stores or shows text already removes them. Searching a page takes as long as a
    query, so a view that has searched the parts of its page already sets `has_visible_text` of the response.
    """

    def replace_invisible(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if hasattr(response, "has_visible_text"):
            return response
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            text = response.content.decode(response.charset)
            if INVISIBLE.search(text):
                response.content = INVISIBLE.sub("\ufffd", text)
        return response

    return replace_invisible


class CompressLargePages(GZipMiddleware):
    """Compress the pages with charts, using Django's random padding against BREACH."""

    # No pages of raters: the compressed size would be one more thing that could differ between sources.
    COMPRESSED_VIEWS = frozenset({"ratings:study", "ratings:benchmark"})

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        match = request.resolver_match
        is_compressed = match is not None and match.view_name in self.COMPRESSED_VIEWS
        return super().process_response(request, response) if is_compressed else response


class SignInRequired(LoginRequiredMiddleware):
    """Django's sign-in middleware, except that a fragment gets status 401 and reloads its page."""

    def handle_no_permission(  # type: ignore[override]  # the stubs promise a redirect, Django any response
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        # A redirect would put the sign-in page into a fragment of the page.
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        return super().handle_no_permission(request, view_func)
