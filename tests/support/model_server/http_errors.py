"""Faults that consist of an HTTP error status and an error in the provider's own JSON envelope."""

from typing import TYPE_CHECKING, NamedTuple

from simulation.scripted_server.questions import ProviderApi, Question
from simulation.scripted_server.server import APIS
from tests.support.model_server.messages import Reply, make_json_reply

if TYPE_CHECKING:
    from tests.support.model_server.rules import Rule


class ApiError(NamedTuple):
    """An HTTP error: its status, its error code in each API, and its message."""

    status: int
    anthropic: str
    openai: str
    message: str


_TOO_LONG = "prompt is too long: 250000 tokens > 200000 maximum. This model's maximum context length is 200000 tokens."
ERRORS = {
    "rate_limit": ApiError(429, "rate_limit_error", "rate_limit_exceeded", "Rate limit reached, try again later."),
    "overloaded_529": ApiError(529, "overloaded_error", "overloaded", "Overloaded"),
    "unavailable_503": ApiError(503, "api_error", "service_unavailable", "No instance is available."),
    "server_500": ApiError(500, "api_error", "server_error", "Internal server error"),
    "context_400": ApiError(400, "invalid_request_error", "context_length_exceeded", _TOO_LONG),
    "bad_request_400": ApiError(400, "invalid_request_error", "invalid_value", "messages: something is not valid"),
    "unauthorized_401": ApiError(401, "authentication_error", "invalid_api_key", "invalid API key"),
    "credits_402": ApiError(402, "billing_error", "insufficient_quota", "There are no credits left."),
    "forbidden_403": ApiError(403, "permission_error", "forbidden", "This key may not use this model."),
    "not_found_404": ApiError(404, "not_found_error", "model_not_found", "There is no such model."),
}


def build_envelope(flavour: ProviderApi, status: int, kind: str, message: str) -> object:
    return APIS[flavour.dialect].build_error(flavour, status, kind, message)


def build_error_reply(
    flavour: ProviderApi, status: int, kind: str, message: str, retry_after: float | None = None
) -> Reply:
    """Return an error reply. `retry_after` is in seconds; None omits the header Retry-After."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return make_json_reply(status, build_envelope(flavour, status, kind, message), headers)


def reply_for_rule(question: Question, rule: "Rule") -> Reply:
    """Return the error reply that a rule requests for this question."""
    error = ERRORS[rule.fault]
    kind = error.anthropic if question.flavour.dialect == "anthropic" else error.openai
    return build_error_reply(question.flavour, rule.status or error.status, kind, error.message, rule.retry_after)
