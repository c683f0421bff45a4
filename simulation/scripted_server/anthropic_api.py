"""Parse requests and build responses of Anthropic's Messages API."""

from collections.abc import Iterator, Mapping
from typing import Any

from simulation.scripted_server import questions, structured

_STOP = {"stop": "end_turn", "max_tokens": "max_tokens", "context": "model_context_window_exceeded"}
_STOP |= dict.fromkeys(("refusal", "filtered"), "refusal")
# These models think unless the request turns thinking off. Others think only on request.
_THINKS_BY_DEFAULT = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5")
_TTLS = ("5m", "1h")


def parse_request(
    body: Mapping[str, Any], headers: Mapping[str, str], flavour: questions.ProviderApi
) -> questions.Question:
    """Return the question in a request. Raises RefusedError where Anthropic would reject the request."""
    # Anthropic accepts both headers: the first for API keys, the second for tokens of a gateway.
    key = headers.get("x-api-key", "") or headers.get("authorization", "").removeprefix("Bearer").strip()
    if not key:
        raise questions.RefusedError(401, "authentication_error", "x-api-key header is required")
    if not headers.get("anthropic-version", ""):
        raise questions.bad_request("anthropic-version: header is required")
    for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        if not isinstance(body.get(name), kind) or not body[name]:
            raise questions.bad_request(f"{name}: Field required")
    if body.get("stream"):
        raise questions.bad_request("this server does not stream")
    if body["max_tokens"] < 1:
        raise questions.bad_request("max_tokens: must be greater than or equal to 1")
    turns = _parse_turns(body["messages"])
    thinking = (body.get("thinking") or {}).get("type")
    by_default = thinking is None and body["model"].startswith(_THINKS_BY_DEFAULT)
    thinks = thinking in ("enabled", "adaptive") or by_default
    schema = structured.find_schema(body)
    return questions.Question(
        flavour=flavour,
        model=body["model"],
        system="\n".join(text for text, _ in _parse_parts(body.get("system", ""))),
        turns=turns,
        blocks=(*questions.build_schema_blocks(schema), *_list_blocks(body)),
        max_tokens=body["max_tokens"],
        # Derived from the text, so that the same prompt has the same number of thinking tokens.
        hidden=24 + questions.draw_number(40, turns[-1].text) if thinks else 0,
        shows_thinking=thinks,
        schema=schema,
    )


def build_response(question: questions.Question, answer: questions.Answer, number: int) -> dict[str, Any]:
    """Return the JSON envelope of an answer. Its usage counts cached tokens separately from `input_tokens`."""
    content: list[dict[str, Any]] = []
    if answer.thinking:
        # The block has a signature, which the API requires when a client returns the block in later turns.
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": f"c2ln{number:08d}"})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    envelope: dict[str, Any] = {
        "id": f"msg_{number:08d}",
        "type": "message",
        "role": "assistant",
        "model": answer.served_model,
        "content": content,
        "stop_reason": _STOP[answer.stop],
        "stop_sequence": None,
    }
    # Anthropic explains a refusal in a field of its own, which clients must read.
    if envelope["stop_reason"] == "refusal":
        refusal_text = "Such work can be dangerous."
        envelope["stop_details"] = {"type": "refusal", "category": "bio", "explanation": refusal_text}
    return {**envelope, "usage": _build_usage(answer)} if answer.reports_usage else envelope


def build_error(_flavour: questions.ProviderApi, status: int, kind: str, message: str) -> dict[str, Any]:
    """Return the JSON envelope of an error."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": f"req_{status}"}


def _build_usage(answer: questions.Answer) -> dict[str, Any]:
    tokens = answer.tokens
    return {
        "input_tokens": tokens.input_uncached,
        "cache_creation_input_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write_5m,
            "ephemeral_1h_input_tokens": tokens.cache_write_1h,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        "service_tier": "standard",
    }


def _parse_turns(messages: list[Any]) -> tuple[questions.Turn, ...]:
    for message in messages:
        if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant"):
            raise questions.bad_request("messages: the roles are user and assistant; system is a field of its own")
        # Whitespace alone is rejected by the real API as well.
        if not any(text.strip() for text, _ in _parse_parts(message.get("content"))):
            raise questions.bad_request("messages: text content blocks must be non-empty")
    if messages[-1]["role"] == "assistant":
        raise questions.bad_request("messages: the conversation must end with a user message")
    # A message in several blocks is one text for the model: clients split it only to mark what is to be cached.
    return tuple(questions.Turn(m["role"], "".join(text for text, _ in _parse_parts(m["content"]))) for m in messages)


def _list_blocks(body: Mapping[str, Any]) -> Iterator[questions.Block]:
    """Yield the blocks of the system prompt, then those of the messages; the last one ends in the request's breakpoint."""
    contents = (body.get("system", ""), *(message["content"] for message in body["messages"]))
    parts = [part for content in contents for part in _parse_parts(content)]
    request_ttl = _parse_ttl(body.get("cache_control"))
    for index, (text, ttl) in enumerate(parts):
        yield questions.Block(text, ttl or (request_ttl if index == len(parts) - 1 else ""))


def _parse_parts(content: Any) -> list[tuple[str, str]]:
    """Return (text, ttl) for every part of a content; ttl is "" unless the part ends in a cache breakpoint."""
    if isinstance(content, str):
        return [(content, "")]
    if not isinstance(content, list) or not all(isinstance(part, Mapping) for part in content):
        raise questions.bad_request("content: must be a text or a list of blocks")
    if not_text := [part for part in content if not isinstance(part.get("text"), str)]:
        raise questions.bad_request(f"content: only blocks of text are read here, not {not_text[0].get('type')!r}")
    return [(part["text"], _parse_ttl(part.get("cache_control"))) for part in content]


def _parse_ttl(control: Any) -> str:
    if control is None:
        return ""
    ttl = control.get("ttl", "5m") if isinstance(control, Mapping) and control.get("type") == "ephemeral" else None
    if ttl not in _TTLS:
        raise questions.bad_request("cache_control: must be ephemeral, with ttl 5m or 1h")
    return str(ttl)
