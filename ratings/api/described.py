"""The description of the API: OpenAPI 3.1, with every error an operation can answer."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

PROBLEM: Mapping[str, Any] = {
    "title": "Problem",
    "description": "What went wrong, as RFC 9457 has it.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "examples": ["Not Found"]},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What is wrong, and what to do next."},
        "errors": {
            "type": "array",
            "description": "With 422: each parameter that is wrong.",
            "items": {
                "type": "object",
                "required": ["parameter", "problem"],
                "properties": {"parameter": {"type": "string"}, "problem": {"type": "string"}},
            },
        },
    },
}
_WHEN: Mapping[int, str] = {
    400: "The cursor is not of this list as it is now.",
    401: "No token, or one that does not work.",
    403: "The token lacks the scope.",
    404: "It does not exist, or whose token it is may not read it.",
    405: "Another method than GET or HEAD.",
    409: "The study is not unblinded yet.",
    422: "A parameter is not as described, or there is no such.",
    429: "More requests than a token may make.",
}
_TEXT, _SECONDS = {"schema": {"type": "string"}}, {"schema": {"type": "integer", "minimum": 1}}
_HEADERS: Mapping[int, Mapping[str, Any]] = {
    401: {"WWW-Authenticate": {**_TEXT, "description": "How to come in."}},
    403: {"WWW-Authenticate": {**_TEXT, "description": "What is missing."}},
    429: {"Retry-After": {**_SECONDS, "description": "Seconds to wait."}},
}
_ALWAYS = (401, 403, 422, 429)


def errors(*also: int) -> dict[str, Any]:
    """What every operation can answer beside its result, and these."""
    return {"responses": {status: _response(status) for status in sorted({*_ALWAYS, *also})}}


def _response(status: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    headers = _HEADERS.get(status)
    return {
        "description": f"{HTTPStatus(status).phrase}. {_WHEN[status]}",
        "content": content,
        **({"headers": headers} if headers else {}),
    }


def whole(made: Mapping[str, Any]) -> dict[str, Any]:
    """The library's description without its doubles for HEAD, and with the form of a problem."""
    paths = {
        path: {method: told for method, told in methods.items() if method != "head"}
        for path, methods in made["paths"].items()
    }
    parts = made["components"]
    return {**made, "paths": paths, "components": {**parts, "schemas": {**parts["schemas"], "Problem": PROBLEM}}}
