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
        block: dict[str, Any] = {"type": "text", "text": wire.make_sendable(prompt.system)}
        if endpoint.options.caching == "breakpoint":
            block["cache_control"] = wire.CACHE_CONTROL
        fields["system"] = [block]
    marks_breakpoints = endpoint.options.caching == "breakpoint"
    fields["messages"] = [
        {"role": turn.role, "content": wire.build_content(turn, marks_breakpoints)} for turn in prompt.messages
    ]
    if "temperature" in effective:
        fields["temperature"] = float(effective["temperature"])
    if "thinking_budget" in effective:
        fields["thinking"] = {"type": "enabled", "budget_tokens": effective["thinking_budget"]}
    elif "thinking" in effective:
        fields["thinking"] = {"type": effective["thinking"]}
    output: dict[str, Any] = {"effort": effective["effort"]} if "effort" in effective else {}
    if prompt.schema and wire.REPLY_FORMAT in effective:
        output["format"] = {"type": wire.JSON_SCHEMA, "schema": prompt.schema.schema}
    if output:
        fields["output_config"] = output
    return fields


def parse_reply(reply: Reply, requested: str) -> Completion:
    """Return the completion in a reply. Raises the matching ProviderError if it has no answer."""
    data = wire.parse_envelope(reply)
    error = errors.find_error(data)
    identity = wire.find_request_id(reply.headers, data)
    if error is not None or not wire.is_success(reply):
        reason = errors.find_refusal_or_raise(reply, error or {})
        return Completion("", Stop.REFUSAL, None, requested, request_id=identity, refusal=reason, reply=reply)
    if not isinstance(data.get("content"), list):
        raise wire.make_garbled_error(reply, "the reply contains no content")
    if data.get("stop_reason") is None:
        raise errors.make_error(reply, {"message": "the model broke off: no stop_reason is given"})
    stop = STOPS.get(str(data.get("stop_reason")), Stop.STOP)
    category = wire.parse_word(wire.as_mapping(data.get("stop_details")).get("category"), 200) or "refusal"
    # Text blocks only, without thinking.
    blocks = [block for block in map(wire.as_mapping, data["content"]) if block.get("type") == "text"]
    return Completion(
        text="".join(block["text"] for block in blocks if isinstance(block.get("text"), str)),
        stop=stop,
        usage=parse_usage(wire.as_mapping(data.get("usage"))),
        served_model=wire.parse_word(data.get("model"), 200) or requested,
        request_id=identity,
        refusal=category if stop is Stop.REFUSAL else "",
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
