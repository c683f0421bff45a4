"""Addresses of the API under /api/v1/, all of them read."""

import json
from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.renderers import BaseRenderer
from pydantic_core import to_json

from ratings.api import described, episodes, items, problems, ratings, statistics, studies
from ratings.api.bearer import Token

app_name = "api"
PREFIX = "api/v1/"


class Json(BaseRenderer):
    """Moments and numbers in full, as the files have them."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return to_json(data)


api = NinjaAPI(
    title="WetBench",
    version="1",
    description=(
        "Studies, items, ratings, statistics, episodes and transcripts, read as the pages show them. Every list comes in "
        "pages: follow `next` until it is null. Errors are problem documents (RFC 9457)."
    ),
    auth=Token(),
    renderer=Json(),
    docs_url=None,
    openapi_url=None,
    urls_namespace=app_name,
)
problems.handle(api)
for part in (studies, items, ratings, statistics, episodes):
    api.add_router("", part.router)


@login_not_required
@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """The description, for everybody: it says nothing of this site's studies."""
    return HttpResponse(_description(), content_type="application/json")


@cache
def _description() -> bytes:
    return json.dumps(described.whole(api.get_openapi_schema(path_prefix=PREFIX)), ensure_ascii=False).encode()


def _ours(pattern: URLPattern) -> URLPattern:
    """For programs without a session: the token decides, in the view."""
    return URLPattern(pattern.pattern, login_not_required(pattern.callback), name=pattern.name)


# The library's own first page answers nothing.
urlpatterns = [
    path("openapi.json", openapi, name="openapi"),
    *(_ours(one) for one in api.urls[0] if isinstance(one, URLPattern) and one.name != "api-root"),
]
