"""URLs of the API under /api/v1/, all read-only."""

import json
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.renderers import BaseRenderer
from pydantic_core import to_json

from ratings.api import episodes, items, ratings, responses, statistics, studies
from ratings.api.tokens import TokenAuth

PROBLEM_SCHEMA: Mapping[str, Any] = {
    "title": "Problem",
    "description": "A problem document (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "examples": ["Not Found"]},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What is wrong, and what to do next."},
        "errors": {
            "type": "array",
            "description": "With 422: every invalid parameter.",
            "items": {
                "type": "object",
                "required": ["parameter", "problem"],
                "properties": {"parameter": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
    },
}
_ERROR_CAUSES: Mapping[int, str] = {
    400: "The cursor does not belong to this list in its current form.",
    401: "There is no token, or it is not valid.",
    403: "The token lacks the scope.",
    404: "It does not exist, or the user of the token may not read it.",
    405: "The method is not GET or HEAD.",
    409: "The study is not unblinded yet.",
    422: "A parameter is invalid or unknown.",
    429: "The token has reached its rate limit.",
}
_TEXT_HEADER, _SECONDS_HEADER = {"schema": {"type": "string"}}, {"schema": {"type": "integer", "minimum": 1}}
_ERROR_HEADERS: Mapping[int, Mapping[str, Any]] = {
    401: {"WWW-Authenticate": {**_TEXT_HEADER, "description": "How to authenticate."}},
    403: {"WWW-Authenticate": {**_TEXT_HEADER, "description": "The missing scope."}},
    429: {"Retry-After": {**_SECONDS_HEADER, "description": "Seconds to wait."}},
}
# every operation needs a token, has scopes, rejects unknown parameters and has a rate limit
_COMMON_ERRORS = (401, 403, 422, 429)


def describe_errors(*statuses: int) -> dict[str, Any]:
    """Return the error responses common to all operations, and those with the given status codes."""
    return {"responses": {status: _describe_response(status) for status in sorted({*_COMMON_ERRORS, *statuses})}}


def _describe_response(status: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    headers = _ERROR_HEADERS.get(status)
    return {
        "description": f"{HTTPStatus(status).phrase}. {_ERROR_CAUSES[status]}",
        "content": content,
        **({"headers": headers} if headers else {}),
    }


def complete_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the library's OpenAPI description without HEAD operations, with the schema of problem documents."""
    paths = {
        path: {method: operation for method, operation in methods.items() if method != "head"}
        for path, methods in schema["paths"].items()
    }
    components = schema["components"]
    return {
        **schema,
        "paths": paths,
        "components": {**components, "schemas": {**components["schemas"], "Problem": PROBLEM_SCHEMA}},
    }


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
for part in (studies, items, ratings, statistics, episodes):
    api.add_router("", part.router)


@login_not_required
@require_safe
def show_openapi(request: HttpRequest) -> HttpResponse:
    """Return the description of the API. It is public, because it contains nothing about the studies of this site."""
    return HttpResponse(_build_description(), content_type="application/json")


@cache
def _build_description() -> bytes:
    return json.dumps(complete_schema(api.get_openapi_schema(path_prefix=API_PREFIX)), ensure_ascii=False).encode()


def _exempt_from_login(pattern: URLPattern) -> URLPattern:
    """Return the URL pattern without the login requirement: the view checks the token instead of a session."""
    return URLPattern(pattern.pattern, login_not_required(pattern.callback), name=pattern.name)


# without the library's own index page, which has no content
urlpatterns = [
    path("openapi.json", show_openapi, name="openapi"),
    *(_exempt_from_login(one) for one in api.urls[0] if isinstance(one, URLPattern) and one.name != "api-root"),
]
