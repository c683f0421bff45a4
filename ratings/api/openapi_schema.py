"""The OpenAPI 3.1 description of the API, with every error that an operation can return."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

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
