"""Errors of calls: the class of an error envelope or a refusal, and what follows each class. No other layer retries."""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from simulation.providers import wire
from simulation.providers.base import ErrorClass, ProviderError, ProviderRefused, ProviderUnavailable, Reply

RATE_LIMIT, UNAVAILABLE = "rate_limit", "provider_unavailable"
# Google's code for a limit per minute or day, with a text that others use for missing credit.
EXHAUSTED = "RESOURCE_EXHAUSTED"
BY_STATUS = {
    401: ErrorClass.CREDENTIALS, 402: ErrorClass.CREDITS, 403: ErrorClass.CREDENTIALS, 408: ErrorClass.SERVER,
    409: ErrorClass.SERVER, 413: ErrorClass.CONTEXT, 425: ErrorClass.SERVER, 429: ErrorClass.RATE_LIMIT,
    503: ErrorClass.OVERLOADED, 529: ErrorClass.OVERLOADED,
}  # fmt: skip
# An error inside a 200 has no status: its type or code gives the class.
BY_WORD = {
    "overloaded_error": ErrorClass.OVERLOADED,
    "rate_limit_error": ErrorClass.RATE_LIMIT,
    "rate_limit_exceeded": ErrorClass.RATE_LIMIT,
    "authentication_error": ErrorClass.CREDENTIALS,
    "invalid_api_key": ErrorClass.CREDENTIALS,
    "permission_error": ErrorClass.CREDENTIALS,
    "billing_error": ErrorClass.CREDITS,
    "insufficient_quota": ErrorClass.CREDITS,
    EXHAUSTED: ErrorClass.RATE_LIMIT,
    "invalid_request_error": ErrorClass.BAD_REQUEST,
    "not_found_error": ErrorClass.BAD_REQUEST,
    "request_too_large": ErrorClass.CONTEXT,
    "context_length_exceeded": ErrorClass.CONTEXT,
    "exceed_context_size_error": ErrorClass.CONTEXT,
}
NO_CREDIT = re.compile(r"credit balance|insufficient (credits|quota|balance)|exceeded your current quota, please", re.I)
NO_KEY = re.compile(r"api key not valid|api_key_invalid|invalid api key|incorrect api key", re.I)
TOO_LONG = re.compile(
    r"prompt is too long|context length|context window|context size|context limit"
    r"|input token count.{0,40}exceeds|too many (input )?tokens|input is too long|maximum number of tokens allowed",
    re.I,
)
# Not `urlsplit`, which rejects an address in which a key was replaced by "[key]".
_HOST = re.compile(r"(?:https?:)?//(?:[^/?#]*@)?(\[[0-9a-f:.]+\]|[^/?#:@\[\]\s]+)", re.I)
FORBIDDEN = {
    "content_filter", "content_policy_violation", "responsible_ai_policy_violation", "moderation_blocked", "invalid_prompt",
}  # fmt: skip
MODERATED = re.compile(r"moderation|flagged", re.I)  # OpenRouter's 403
FLAGGED = re.compile(
    r"usage polic|content policy|content filter|flagged|limited access to this content|for safety reasons|prohibited.content",
    re.I,
)


class Retry(NamedTuple):
    """Send the same request again after this many seconds; `reason` is shown while the row waits."""

    seconds: float
    reason: str = UNAVAILABLE


class GiveUp(NamedTuple):
    """The unit ends without an answer, for this reason."""

    reason: str


class Block(NamedTuple):
    """Only a person can help: the row is blocked for this reason until somebody tries it again."""

    reason: str


Reaction = Retry | GiveUp | Block

# The consequence of each class of error: wait with a reason, or end. Every class must have an entry.
REACTIONS: Mapping[ErrorClass, Reaction] = {
    ErrorClass.RATE_LIMIT: Retry(0, RATE_LIMIT),
    ErrorClass.OVERLOADED: Retry(0, RATE_LIMIT),
    ErrorClass.SERVER: Retry(0),
    ErrorClass.CONNECTION: Retry(0),
    ErrorClass.TIMEOUT: Retry(0),
    ErrorClass.ABANDONED: Retry(0),
    ErrorClass.GARBLED: Retry(0),
    ErrorClass.CREDENTIALS: Block("credentials"),
    ErrorClass.CREDITS: Block("credentials"),
    ErrorClass.CONTEXT: GiveUp("context"),
    ErrorClass.BAD_REQUEST: Block("bad_request"),
}


class RetryPolicy(NamedTuple):
    """How long and how often one turn is tried, in seconds except `attempts`."""

    base: float = 2.0  # upper limit of the first wait; each further limit is twice the previous
    cap: float = 120.0
    retry_after_cap: float = 600.0  # the longest accepted Retry-After
    attempts: int = 10
    window: float = 1800.0  # since the first attempt; after that, no further attempt is made


POLICY = RetryPolicy()


def choose_reaction(
    error_class: ErrorClass,
    attempt: int,
    seconds_since_first: float,
    retry_after: float | None,
    jitter: float,
    policy: RetryPolicy = POLICY,
) -> Reaction:
    """Return what to do after the `attempt`-th attempt (from 1) of a turn failed; `jitter` is in [0, 1).

    The wait is a random part of a pause that doubles with each attempt (full jitter), and never shorter than the
    provider requested.
    """
    reaction = REACTIONS[error_class]
    if not isinstance(reaction, Retry):
        return reaction
    if attempt >= policy.attempts or seconds_since_first >= policy.window:
        return GiveUp(UNAVAILABLE)
    backoff = jitter * double_capped(policy.base, attempt - 1, policy.cap)
    return Retry(max(backoff, requested_wait(retry_after, policy.retry_after_cap)), reaction.reason)


def double_capped(base: float, times: int, cap: float) -> float:
    """Return `base` doubled this many times, at most `cap`."""
    return min(cap, base * 2.0 ** min(max(times, 0), 64))  # 64 doublings exceed every cap


def requested_wait(retry_after: float | None, cap: float) -> float:
    """Return the provider's Retry-After in seconds, at most `cap`; 0 if missing or invalid."""
    return 0.0 if retry_after is None or math.isnan(retry_after) else min(max(retry_after, 0.0), cap)


def build_error(
    error_class: ErrorClass, message: str, wait: float | None, reply: Reply | None, request_id: str = ""
) -> ProviderError:
    """Return the error to raise for a failed attempt: ProviderUnavailable if trying again can help."""
    kind = ProviderUnavailable if isinstance(REACTIONS[error_class], Retry) else ProviderRefused
    return kind(error_class, message, wait, reply, request_id)


def find_error(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the error of an envelope in any provider's form, or None."""
    error = data.get("error")
    if isinstance(error, dict) and error:
        return error
    if isinstance(error, str) and error:
        return {"message": error}
    if data.get("object") == "error" or data.get("type") == "error":
        return dict(data)
    return {"message": str(data["detail"])} if "detail" in data and "choices" not in data else None


def find_refusal_or_raise(reply: Reply, error: Mapping[str, Any]) -> str:
    """Return why the provider's own filter refused the prompt or withheld the answer; raise for every other error."""
    status, message = _effective_status(reply, error), _error_message(error)
    metadata, code = wire.as_mapping(error.get("metadata")), str(error.get("code") or "")
    reasons = metadata.get("reasons")
    if status == 403 and ("flagged_input" in metadata or reasons or MODERATED.search(message)):
        return (wire.parse_word(", ".join(map(str, reasons)), 200) if isinstance(reasons, list) else "") or "moderation"
    is_flagged = code in FORBIDDEN or (status == 400 and FLAGGED.search(message))
    if is_flagged and (reason := wire.parse_word(code or "content_filter", 200)):
        return reason
    raise make_error(reply, error)


def make_error(reply: Reply, error: Mapping[str, Any]) -> ProviderError:
    """Return the error to raise for a reply, given its envelope (may be empty)."""
    message = _error_message(error) or reply.body[:200].decode("utf-8", "replace")
    if 300 <= reply.status < 400:
        message = _describe_redirect(reply)
    text = wire.shorten(wire.make_sendable(f"HTTP {reply.status}: {message}"), 500)
    wait = wire.parse_retry_after(reply.headers)
    wait = _google_retry_delay(error) if wait is None else wait
    error_class = classify_error(_effective_status(reply, error), error)
    return build_error(error_class, text, wait, reply, wire.find_request_id(reply.headers, error))


def _describe_redirect(reply: Reply) -> str:
    """Return a sentence with the host that the reply redirects to. The rest of the address may contain a secret."""
    match = _HOST.match(reply.headers.get("location", ""))
    target = f" to host {wire.shorten(match[1], 100)}" if match else ""
    return f"The provider answered with a redirect{target}; WetBench does not follow redirects. Check the base URL."


def classify_error(status: int, error: Mapping[str, Any]) -> ErrorClass:
    """Return the class of an error. Its text is checked before its status, because different causes share a status."""
    words, message = {str(error.get(name)) for name in ("type", "code", "status")}, _error_message(error)
    is_success = 200 <= status < 300
    if status == 429 and (EXHAUSTED in words or _google_retry_delay(error) is not None):
        return ErrorClass.RATE_LIMIT
    if "insufficient_quota" in words or (status in (400, 403) and NO_CREDIT.search(message)):
        return ErrorClass.CREDITS
    if (status == 400 or is_success) and ("context_length_exceeded" in words or TOO_LONG.search(message)):
        return ErrorClass.CONTEXT
    if status == 400 and NO_KEY.search(message):
        return ErrorClass.CREDENTIALS
    if is_success:
        return next((BY_WORD[word] for word in sorted(words) if word in BY_WORD), ErrorClass.SERVER)
    return BY_STATUS.get(status, ErrorClass.SERVER if status >= 500 else ErrorClass.BAD_REQUEST)


def _effective_status(reply: Reply, error: Mapping[str, Any]) -> int:
    """Return the reply's status. For an error inside a reply with status 200, return the status in the error's code."""
    code = str(error.get("code") or "")
    return int(code) if wire.is_success(reply) and re.fullmatch(r"[45]\d\d", code) else reply.status


def _error_message(error: Mapping[str, Any]) -> str:
    message = error.get("message")
    return "" if message is None else str(message)


def _google_retry_delay(error: Mapping[str, Any]) -> float | None:
    """Return the wait in seconds that Google requests in the error's details (RetryInfo), or None."""
    details = error.get("details")
    rows = [wire.as_mapping(row) for row in details] if isinstance(details, list) else []
    return next((wire.parse_number(row["retryDelay"]) for row in rows if "retryDelay" in row), None)
