"""Faults that are an HTTP status with the provider's own error envelope."""

from typing import TYPE_CHECKING, NamedTuple

from simulation.scripted_server import anthropic_wire, openai_wire
from simulation.scripted_server.messages import Reply, json_reply
from simulation.scripted_server.questions import Flavour, Question

if TYPE_CHECKING:
    from simulation.scripted_server.rules import Rule


class Error(NamedTuple):
    """An error in the words of each API."""

    status: int
    anthropic: str
    openai: str
    message: str


_TOO_LONG = "prompt is too long: 250000 tokens > 200000 maximum. This model's maximum context length is 200000 tokens."
ERRORS = {
    "rate_limit": Error(429, "rate_limit_error", "rate_limit_exceeded", "Rate limit reached, try again later."),
    "overloaded_529": Error(529, "overloaded_error", "overloaded", "Overloaded"),
    "unavailable_503": Error(503, "api_error", "service_unavailable", "No instance is available."),
    "server_500": Error(500, "api_error", "server_error", "Internal server error"),
    "context_400": Error(400, "invalid_request_error", "context_length_exceeded", _TOO_LONG),
    "bad_request_400": Error(400, "invalid_request_error", "invalid_value", "messages: something is not valid"),
    "unauthorized_401": Error(401, "authentication_error", "invalid_api_key", "invalid API key"),
    "credits_402": Error(402, "billing_error", "insufficient_quota", "There are no credits left."),
    "forbidden_403": Error(403, "permission_error", "forbidden", "This key may not use this model."),
    "not_found_404": Error(404, "not_found_error", "model_not_found", "There is no such model."),
}


def envelope(flavour: Flavour, status: int, kind: str, message: str) -> object:
    if flavour.dialect == "anthropic":
        return anthropic_wire.error(flavour, status, kind, message)
    return openai_wire.error(flavour, status, kind, message)


def reply(flavour: Flavour, status: int, kind: str, message: str, retry_after: float | None = None) -> Reply:
    """Return an error reply; `retry_after` in seconds."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return json_reply(status, envelope(flavour, status, kind, message), headers)


def struck(question: Question, rule: "Rule") -> Reply:
    """Return the error reply of a rule."""
    error = ERRORS[rule.fault]
    kind = error.anthropic if question.flavour.dialect == "anthropic" else error.openai
    return reply(question.flavour, rule.status or error.status, kind, error.message, rule.retry_after)
