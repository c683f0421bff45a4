"""The Anthropic Messages API: request bodies and replies, without a network."""

from collections.abc import Mapping
from typing import Any

from simulation.providers import errors, wire
from simulation.providers.base import Completion, Endpoint, Prompt, Reply, Stop, Usage

PATH = "/v1/messages"
STOPS = {
    "max_tokens": Stop.MAX_TOKENS,
    "model_context_window_exceeded": Stop.CONTEXT,
    "tool_use": Stop.TOOL,
    "pause_turn": Stop.TOOL,
    "refusal": Stop.REFUSAL,
}  # end_turn, stop_sequence and unknown reasons: the text is used as it is; a missing reason is an error


def build_body(prompt: Prompt, effective: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """Return the JSON fields of a request in sending order: constant parts first, so that providers can cache the prefix."""
    fields: dict[str, Any] = {"model": endpoint.model_id, "max_tokens": effective["max_tokens"]}
    if prompt.system:
        fields["system"] = [_system_block(prompt.system, endpoint.options.caching == "breakpoint")]
    fields["messages"] = [{"role": turn.role, "content": wire.make_sendable(turn.text)} for turn in prompt.messages]
    if "temperature" in effective:
        fields["temperature"] = float(effective["temperature"])
    return fields | _thinking_fields(effective)


def parse_reply(reply: Reply, requested: str) -> Completion:
    """Return the completion in a reply. Raises the matching ProviderError if it has no answer."""
    data = wire.parse_envelope(reply)
    error = errors.find_error(data)
    if error is not None or not wire.is_success(reply):
        return _refusal_or_raise(reply, data, error or {}, requested)
    if not isinstance(data.get("content"), list):
        raise wire.make_garbled_error(reply, "the reply contains no content")
    if data.get("stop_reason") is None:
        raise errors.make_error(reply, {"message": "the model broke off: no stop_reason is given"})
    stop = STOPS.get(str(data.get("stop_reason")), Stop.STOP)
    return Completion(
        text="".join(_collect_texts(data["content"])),
        stop=stop,
        usage=parse_usage(wire.as_mapping(data.get("usage"))),
        served_model=wire.parse_word(data.get("model"), 200) or requested,
        request_id=wire.find_request_id(reply.headers, data),
        refusal=_refusal_category(data) if stop is Stop.REFUSAL else "",
        reply=reply,
    )


def parse_usage(data: Mapping[str, Any]) -> Usage | None:
    """Return the tokens by class, or None if they are missing. Anthropic's input count excludes cached tokens."""
    fresh, output = wire.parse_count(data.get("input_tokens")), wire.parse_count(data.get("output_tokens"))
    if fresh is None or output is None:
        return None
    cache_written = wire.parse_count(data.get("cache_creation_input_tokens")) or 0
    written_1h = wire.parse_count(wire.as_mapping(data.get("cache_creation")).get("ephemeral_1h_input_tokens")) or 0
    reasoning = wire.parse_count(wire.as_mapping(data.get("output_tokens_details")).get("thinking_tokens")) or 0
    cache_read = wire.parse_count(data.get("cache_read_input_tokens")) or 0
    return Usage(fresh, cache_read, max(0, cache_written - written_1h), written_1h, output, reasoning)


def _system_block(text: str, breakpoint_: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": wire.make_sendable(text)}
    return block | ({"cache_control": {"type": "ephemeral"}} if breakpoint_ else {})


def _thinking_fields(effective: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "thinking_budget" in effective:
        fields["thinking"] = {"type": "enabled", "budget_tokens": effective["thinking_budget"]}
    elif "thinking" in effective:
        fields["thinking"] = {"type": effective["thinking"]}
    if "effort" in effective:
        fields["output_config"] = {"effort": effective["effort"]}
    return fields


def _collect_texts(content: list[object]) -> list[str]:
    """Return the text blocks of an answer, without thinking and other blocks."""
    blocks = (wire.as_mapping(block) for block in content)
    return [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]


def _refusal_category(data: Mapping[str, Any]) -> str:
    return wire.parse_word(wire.as_mapping(data.get("stop_details")).get("category"), 200) or "refusal"


def _refusal_or_raise(reply: Reply, data: Mapping[str, Any], error: Mapping[str, Any], requested: str) -> Completion:
    """Return a refusal if the provider's own filter stopped the prompt; raise for every other error."""
    reason = errors.find_refusal(reply, error)
    if not reason:
        raise errors.make_error(reply, error)
    return Completion(
        "",
        Stop.REFUSAL,
        None,
        requested,
        request_id=wire.find_request_id(reply.headers, data),
        refusal=reason,
        reply=reply,
    )
