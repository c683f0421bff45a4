"""Ways to leak: middleware that knows what raters must not, and marks what it sends. For tests of the blinding audit."""

import re
import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from ratings.models import ItemSource

_RATED = re.compile(r"/rate/([0-9a-f-]{36})/")
Answer = Callable[[HttpRequest], HttpResponse]


def _source(request: HttpRequest) -> ItemSource | None:
    code = _RATED.search(request.path)
    return ItemSource.objects.filter(item__assignments__code=code[1]).first() if code else None


def _rewritten(response: HttpResponse, old: str, new: str) -> HttpResponse:
    response.content = response.content.decode().replace(old, new, 1).encode()
    return response


def marked_header(get_response: Answer) -> Answer:
    """Says in a header whether an error was planted."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _source(request)
        if source:
            response["X-Item-Kind"] = source.perturbation
        return response

    return middleware


def marked_class(get_response: Answer) -> Answer:
    """Another class for the card of an item with a planted error: as neutral as "v2", and telling all the same."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _source(request)
        version = "v2" if source and source.perturbation != "none" else "v1"
        return _rewritten(response, 'id="rating-card"', f'id="rating-card" data-layout="{version}"')

    return middleware


def row_in_address(get_response: Answer) -> Answer:
    """The item's own number in the address that the form is sent to."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _source(request)
        path = request.path
        return (
            _rewritten(response, f'action="{path}"', f'action="{path}?item={source.item_id}"') if source else response
        )

    return middleware


def slow_twins(get_response: Answer) -> Answer:
    """One more look at the database wherever an error was planted."""

    def middleware(request: HttpRequest) -> HttpResponse:
        source = _source(request)
        if source and source.perturbation != "none":
            time.sleep(0.012)
        return get_response(request)

    return middleware


def model_in_own_ratings(get_response: Answer) -> Answer:
    """A column too many in the rater's own download."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not request.path.endswith("mine.csv"):
            return response
        labels = ItemSource.objects.filter(item__assignments__rater__user=request.user).values_list("label", flat=True)
        return HttpResponse(response.getvalue() + ",".join(labels).encode(), headers=dict(response.items()))

    return middleware


def kept_in_cache(get_response: Answer) -> Answer:
    """An ETag, made of what the item is."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response, source = get_response(request), _source(request)
        if source:
            response["ETag"] = f'"{source.pk}"'
        return response

    return middleware


def told_to_strangers(get_response: Answer) -> Answer:
    """Another answer for items that exist than for those that do not."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if _source(request) and response.status_code == 404:
            response.content = b"This item is another rater's."
        return response

    return middleware
