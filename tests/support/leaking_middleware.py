"""Middleware that leaks where items come from, for tests of the blinding audit."""

import re
import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from ratings.models import ItemSource

_RATED = re.compile(r"/rate/([0-9a-f-]{36})/")
GetResponse = Callable[[HttpRequest], HttpResponse]


def _find_source(request: HttpRequest) -> ItemSource | None:
    code = _RATED.search(request.path)
    return ItemSource.objects.filter(item__assignments__code=code[1]).first() if code else None


def _replace_text(response: HttpResponse, old: str, new: str) -> HttpResponse:
    response.content = response.content.decode().replace(old, new, 1).encode()
    return response


def mark_header(get_response: GetResponse) -> GetResponse:
    """State in a header whether an error was planted."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _find_source(request)
        if source:
            response["X-Item-Kind"] = source.perturbation
        return response

    return middleware


def mark_card(get_response: GetResponse) -> GetResponse:
    """Give the card of an item with a planted error another attribute: as neutral as "v2", but a leak all the same."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _find_source(request)
        version = "v2" if source and source.perturbation != "none" else "v1"
        return _replace_text(response, 'id="rating-card"', f'id="rating-card" data-layout="{version}"')

    return middleware


def add_row_to_address(get_response: GetResponse) -> GetResponse:
    """Add the item's primary key to the address of the form."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _find_source(request)
        path = request.path
        return (
            _replace_text(response, f'action="{path}"', f'action="{path}?item={source.item_id}"')
            if source
            else response
        )

    return middleware


def delay_twins(get_response: GetResponse) -> GetResponse:
    """Take longer wherever an error was planted."""

    def middleware(request: HttpRequest) -> HttpResponse:
        source = _find_source(request)
        if source and source.perturbation != "none":
            time.sleep(0.02)
        return get_response(request)

    return middleware


def add_model_to_download(get_response: GetResponse) -> GetResponse:
    """Add a column to the rater's own download."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not request.path.endswith("mine.csv"):
            return response
        labels = ItemSource.objects.filter(item__assignments__rater__user=request.user).values_list("label", flat=True)
        return HttpResponse(response.getvalue() + ",".join(labels).encode(), headers=dict(response.items()))

    return middleware


def add_etag(get_response: GetResponse) -> GetResponse:
    """Send an ETag that depends on the item's source."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _find_source(request)
        if source:
            response["ETag"] = f'"{source.pk}"'
        return response

    return middleware


def reveal_existence(get_response: GetResponse) -> GetResponse:
    """Answer differently for items that exist and items that do not."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if _find_source(request) and response.status_code == 404:
            response.content = b"This item is another rater's."
        return response

    return middleware


def set_leaking_cookie(get_response: GetResponse) -> GetResponse:
    """Set another cookie for planted errors."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _find_source(request)
        if source:
            response.set_cookie("view", "b" if source.perturbation != "none" else "a")
        return response

    return middleware


def _mark_requests(matches: Callable[[HttpRequest], bool]) -> Callable[[GetResponse], GetResponse]:
    """Return middleware that sends a neutral header for planted errors, on some requests only."""

    def layer(get_response: GetResponse) -> GetResponse:
        def middleware(request: HttpRequest) -> HttpResponse:
            response, source = get_response(request), _find_source(request)
            if source and matches(request):
                response["X-Cache"] = "hit" if source.perturbation != "none" else "miss"
            return response

        return middleware

    return layer


mark_draft = _mark_requests(lambda request: request.path.endswith("/draft/"))
mark_head = _mark_requests(lambda request: request.method == "HEAD")
mark_options = _mark_requests(lambda request: request.method == "OPTIONS")


def mark_last_page(get_response: GetResponse) -> GetResponse:
    """Mark the links of the last page by what they lead to."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.path.endswith("/done/") and response.status_code == 200:
            response.content = _LINK.sub(_mark_link, response.content.decode()).encode()
        return response

    return middleware


_LINK = re.compile(r'href="/rate/([0-9a-f-]{36})/(?:\?[^"]*)?"')


def _mark_link(link: re.Match[str]) -> str:
    source = ItemSource.objects.filter(item__assignments__code=link[1]).first()
    return f'{link[0]} data-v="{int(bool(source and source.perturbation != "none"))}"'


def mark_redirect(get_response: GetResponse) -> GetResponse:
    """Redirect a browser without scripts to an address that depends on the answered item."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _find_source(request)
        if source and response.status_code == 303:
            response["Location"] += f"?v={2 if source.perturbation != 'none' else 1}"
        return response

    return middleware


def delay_answers(get_response: GetResponse) -> GetResponse:
    """Take longer to save the answer to an item with a planted error."""

    def middleware(request: HttpRequest) -> HttpResponse:
        source = _find_source(request) if request.method == "POST" else None
        if source and source.perturbation != "none":
            time.sleep(0.02)
        return get_response(request)

    return middleware
