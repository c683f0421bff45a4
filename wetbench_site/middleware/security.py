"""Rules for every response: security headers, no invisible characters in pages, and sign-in required by default."""

import struct
import zlib
from collections.abc import Callable
from typing import Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware, re_accepts_gzip
from django.utils.cache import patch_vary_headers

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

    COMPRESSED_VIEWS = frozenset({"ratings:study", "ratings:benchmark"})

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        match = request.resolver_match
        is_compressed = match is not None and match.view_name in self.COMPRESSED_VIEWS
        return super().process_response(request, response) if is_compressed else response


_RATER_VIEWS = frozenset({"ratings:rate", "ratings:next"})
_SIZE_STEP = 512  # bytes


def compress_items_middleware(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Compress the fragments that a rater gets after the first page: one item each, a quarter as large as before.

    Nothing is revealed that the text itself does not contain: everybody who receives an item could compress it. Readers of
    encrypted traffic see sizes in steps of 512 bytes instead of the exact number of characters. BREACH needs a secret beside
    a text that the attacker chooses. Fragments contain neither the CSRF token, as whole pages do, nor anything of the URL.
    """

    def compress_item(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        match = request.resolver_match
        if match is None or match.view_name not in _RATER_VIEWS or request.headers.get("HX-Request") != "true":
            return response
        # Django sets this key when a page asks for the token; a page with one stays as it is.
        if not isinstance(response, HttpResponse) or not response.content or "CSRF_COOKIE_NEEDS_UPDATE" in request.META:
            return response
        patch_vary_headers(response, ["Accept-Encoding"])
        if re_accepts_gzip.search(request.headers.get("Accept-Encoding", "")):
            response.content = compress_padded(response.content)
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Content-Length"] = str(len(response.content))
        return response

    return compress_item


def compress_padded(data: bytes) -> bytes:
    """Return the data in the gzip format (RFC 1952), with an extra field of zeros that makes its size a multiple of 512 bytes."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    deflated = compressor.compress(data) + compressor.flush()
    n_zeros = -(len(deflated) + 24) % _SIZE_STEP  # 24: the header with the heads of the extra field, and the checksum
    # Flag 4: an extra field follows. No time, because equal data must give equal bytes.
    header = struct.pack("<BBBBLBBH", 0x1F, 0x8B, 8, 4, 0, 0, 255, n_zeros + 4)
    extra = struct.pack("<2sH", b"WB", n_zeros) + bytes(n_zeros)
    return header + extra + deflated + struct.pack("<LL", zlib.crc32(data), len(data) & 0xFFFFFFFF)


class SignInRequired(LoginRequiredMiddleware):
    """Django's sign-in middleware, except that a fragment gets status 401 and reloads its page."""

    def handle_no_permission(  # type: ignore[override]  # the stubs promise a redirect, Django any response
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        # A redirect would put the sign-in page into a fragment of the page.
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=401, headers={"HX-Refresh": "true"})
        return super().handle_no_permission(request, view_func)
