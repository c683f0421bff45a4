"""URLs of the API under /api/v1/, all read-only."""

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

from ratings.api import episodes, items, replication, responses, studies
from ratings.api.tokens import TokenAuth

app_name = "api"
API_PREFIX = "api/v1/"


class JsonRenderer(BaseRenderer):
    """Render responses as JSON with times and numbers in full precision, as in exported files."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return to_json(data)


api = NinjaAPI(
    title="WetBench",
    version="1",
    description=(
        "Read access to studies, items, ratings, statistics, episodes and transcripts, as the pages show them. Lists are "
        "paginated: follow `next` until it is null. Errors are problem documents (RFC 9457)."
    ),
    auth=TokenAuth(),
    renderer=JsonRenderer(),
    # the library's pages load scripts from another host; the site serves its own description
    docs_url=None,
    openapi_url=None,
    urls_namespace=app_name,
)
responses.register_error_handlers(api)
_ROUTERS = (
    studies.router, items.router, items.ratings_router, studies.statistics_router, episodes.router, replication.router,
)  # fmt: skip
for router in _ROUTERS:
    api.add_router("", router)


@login_not_required
@require_safe
def show_openapi(request: HttpRequest) -> HttpResponse:
    """Return the description of the API. It is public, because it contains nothing about the studies of this site."""
    return HttpResponse(_build_description(), content_type="application/json")


@cache
def _build_description() -> bytes:
    schema = responses.complete_schema(api.get_openapi_schema(path_prefix=API_PREFIX))
    return json.dumps(schema, ensure_ascii=False).encode()


# without the library's own index page, which has no content
urlpatterns = [
    path("openapi.json", show_openapi, name="openapi"),
    *(
        URLPattern(one.pattern, login_not_required(one.callback), name=one.name)
        for one in api.urls[0]
        if isinstance(one, URLPattern) and one.name != "api-root"
    ),
]
