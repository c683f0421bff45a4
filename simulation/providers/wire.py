"""Helpers for requests and replies: sendable text, canonical bytes, envelopes, headers."""

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, NoReturn

from simulation.providers.base import ErrorClass, Message, Prompt, ProviderUnavailable, Reply
from wetbench_site.text import hash_text

BYTE_CAP = 4 * 1024 * 1024
REPLY_FORMAT, JSON_SCHEMA = (
    "reply_format",
    "json_schema",
)  # the effective parameter of a request with a schema, and its value
CACHE_CONTROL: Mapping[str, str] = {"type": "ephemeral"}  # marks the end of what a provider is to cache
STORED_HEADERS = {"content-type", "date", "request-id", "x-request-id", "retry-after", "retry-after-ms"}
STORED_HEADERS |= {"location", "server"}
STORED_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")
MAX_TOKENS = 2_000_000_000  # larger values are not token counts
MAX_MONEY = 1_000_000  # dollars for one call; the call log stores eight digits before the point and six after it
_MARK = uuid.uuid4().hex  # takes the place of the system prompt while a request is serialised; no text contains it
_MILLIONTH = Decimal("0.000001")


def build_content(message: Message, marks_breakpoints: bool) -> str | list[dict[str, Any]]:
    """Return the content of a message: its text, or blocks of which the last stable one ends in a cache breakpoint.

    Every stable position ends a block, because providers find an older cache entry only at the end of a block.
    """
    if not (marks_breakpoints and message.stable_ends):
        return make_sendable(message.text)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": make_sendable(part)} for part in message.split_text()]
    blocks[len(message.stable_ends) - 1]["cache_control"] = CACHE_CONTROL
    return blocks


def compute_cache_key(prompt: Prompt) -> str:
    """Return a key that prompts share if they begin alike: the hash of the system prompt and of the first stable part."""
    first = prompt.messages[0]
    return hash_text(f"{prompt.system}\n{first.text[: first.stable_ends[0] if first.stable_ends else 0]}")[:32]


@lru_cache(maxsize=32)
def make_sendable(text: str) -> str:
    """Return the text with U+FFFD for NUL and unpaired surrogates, which can neither be sent nor stored by PostgreSQL."""
    try:
        text.encode()  # fails for unpaired surrogates, and is faster than the way through UTF-16
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


def hash_request(body: Mapping[str, Any], headers: Mapping[str, str], system: str = "") -> str:
    """Return the hash of a request: sorted keys, UTF-8, no spaces. Raises ValueError for NaN and infinity."""
    digest = hashlib.sha256()
    for part in _dump_parts({"body": body, "headers": headers}, system, sort_keys=True):
        digest.update(part)
    return digest.hexdigest()


def dump_body(body: Mapping[str, Any], system: str = "") -> bytes:
    """Return the body as JSON, as the SDKs serialise it. Raises ValueError for NaN and infinity."""
    return b"".join(_dump_parts(body, system))


def _dump_parts(data: Any, system: str, **options: Any) -> Iterator[bytes]:
    """Yield the JSON in parts. The system prompt, a hundred kilobytes in every call of an agent, is serialised only once."""
    marked = map_parts(data, lambda part: _MARK if part == system else part) if system else data
    text = json.dumps(marked, separators=(",", ":"), ensure_ascii=False, allow_nan=False, **options)
    for index, part in enumerate(text.split(f'"{_MARK}"')):
        if index:
            yield _dump_text(system)
        yield part.encode()


@lru_cache(maxsize=32)
def _dump_text(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


def map_parts(body: Any, replace: Callable[[Any], Any]) -> Any:
    """Return a copy of the body in which `replace` was applied to each part; replaced parts are not searched further."""
    new = replace(body)
    if new is not body:
        return new
    if isinstance(body, Mapping):
        return {key: map_parts(value, replace) for key, value in body.items()}
    return [map_parts(part, replace) for part in body] if isinstance(body, list | tuple) else body


def is_success(reply: Reply) -> bool:
    return 200 <= reply.status < 300


def parse_envelope(reply: Reply) -> dict[str, Any]:
    """Return the JSON object of a reply's body; fractions are Decimals, invalid UTF-8 becomes U+FFFD.

    Raises ProviderUnavailable(GARBLED) if the body is anything else.
    """
    try:
        data = json.loads(
            reply.body.decode("utf-8-sig", "replace"), parse_float=Decimal, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError, InvalidOperation) as problem:
        raise make_garbled_error(reply, f"the reply is not JSON ({shorten(str(problem), 120)})") from None
    if isinstance(data, list) and len(data) == 1:  # Gemini wraps its errors in a list
        data = data[0]
    if not isinstance(data, dict):
        raise make_garbled_error(reply, "the reply is not a JSON object")
    return data


def make_garbled_error(reply: Reply, what: str) -> ProviderUnavailable:
    """Return the error for an unreadable reply. Its message quotes the beginning of the reply."""
    start = shorten(reply.body[:400].decode("utf-8", "replace"), 200)
    message = f"HTTP {reply.status}: {what}; it starts with: {start!r}"
    return ProviderUnavailable(
        ErrorClass.GARBLED, message, parse_retry_after(reply.headers), reply, find_request_id(reply.headers, {})
    )


def select_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to store: at most 40, with names in lower case and values of at most 300 characters."""
    lower = ((name.lower(), make_sendable(value)[:300]) for name, value in headers.items())
    stored = [(name, value) for name, value in lower if name in STORED_HEADERS or name.startswith(STORED_PREFIXES)]
    return dict(stored[:40])


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from retry-after-ms or retry-after (a number or a date); None if missing."""
    milliseconds = parse_number(headers.get("retry-after-ms"))
    seconds = milliseconds / 1000 if milliseconds is not None else parse_number(headers.get("retry-after"))
    if seconds is None:
        seconds = _seconds_until(headers.get("retry-after", ""), headers.get("date", ""))
    return None if seconds is None else max(0.0, seconds)


def parse_number(value: object) -> float | None:
    """Return a finite number written as text (or with the unit s), else None."""
    try:
        parsed = Decimal(str(value).strip().removesuffix("s"))
        return float(parsed) if parsed.is_finite() and abs(parsed) < 10**12 else None
    except InvalidOperation:
        return None


def parse_count(value: object) -> int | None:
    """Return a number of tokens, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS else None


def parse_money(value: object) -> Decimal | None:
    """Return US dollars from 0 to a million, to the millionth; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= MAX_MONEY:
        return None
    return abs(Decimal(value)).quantize(_MILLIONTH)  # no negative zero


def parse_word(value: object, most: int) -> str:
    """Return a short text for a database column; "" for anything that is not text."""
    return shorten(make_sendable(value), most) if isinstance(value, str) else ""


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def as_mapping(value: object) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def find_request_id(headers: Mapping[str, str], data: Mapping[str, Any]) -> str:
    """Return the provider's id of the call: a header, or a field of the body."""
    candidates: Iterator[object] = (headers.get(name) for name in ("request-id", "x-request-id"))
    identity = next((value for value in candidates if value), None) or data.get("request_id") or data.get("id")
    return parse_word(identity, 200)


def _seconds_until(moment: str, now: str) -> float | None:
    try:
        target = parsedate_to_datetime(moment).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    try:
        return target - parsedate_to_datetime(now).timestamp()
    except (ValueError, TypeError, OverflowError):
        return target - time.time()


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
