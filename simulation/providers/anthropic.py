"""The Anthropic Messages API: request bodies and replies, without a network."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from simulation.providers import faults, options, wire
from simulation.providers.base import Completion, Endpoint, Params, Prompt, Reply, Stop, Usage

PATH = "/v1/messages"
HOTTEST = Decimal(1)
LEAST_BUDGET = 1024
STOPS = {
    "max_tokens": Stop.MAX_TOKENS,
    "model_context_window_exceeded": Stop.CONTEXT,
    "tool_use": Stop.TOOL,
    "pause_turn": Stop.TOOL,
    "refusal": Stop.REFUSAL,
}  # end_turn, stop_sequence and unknown reasons: the text is used as it is; a missing reason is an error


def choice(params: Params, endpoint: Endpoint) -> options.Choice:
    """Return which parameters are sent. Claude accepts no temperature while thinking, whatever its options state."""
    endpoint_options = replace(endpoint.options, temperature_with_thinking=False)
    return options.choose(params, endpoint_options, LEAST_BUDGET, HOTTEST, takes_budget=True)


def body(prompt: Prompt, effective: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """Return the JSON fields of a request in sending order: constant parts first, so that providers can cache the prefix."""
    fields: dict[str, Any] = {"model": endpoint.model_id, "max_tokens": effective["max_tokens"]}
    if prompt.system:
        fields["system"] = [_system(prompt.system, endpoint.options.caching == "breakpoint")]
    fields["messages"] = [{"role": turn.role, "content": wire.sendable(turn.text)} for turn in prompt.messages]
    if "temperature" in effective:
        fields["temperature"] = float(effective["temperature"])
    return fields | _thinking(effective)


def read(reply: Reply, requested: str) -> Completion:
    """Return the completion in a reply. Raises the matching ProviderError if it has no answer."""
    data = wire.envelope(reply)
    error = faults.error_of(data)
    if error is not None or not wire.succeeded(reply):
        return _refused(reply, data, error or {}, requested)
    if not isinstance(data.get("content"), list):
        raise wire.garbled(reply, "the reply holds no content")
    if data.get("stop_reason") is None:
        raise faults.fault(reply, {"message": "the model broke off: no stop_reason is told"})
    stop = STOPS.get(str(data.get("stop_reason")), Stop.STOP)
    return Completion(
        text="".join(_texts(data["content"])),
        stop=stop,
        usage=usage(wire.mapping(data.get("usage"))),
        served_model=wire.word(data.get("model"), 200) or requested,
        request_id=wire.request_id(reply.headers, data),
        refusal=_category(data) if stop is Stop.REFUSAL else "",
        reply=reply,
    )


def usage(said: Mapping[str, Any]) -> Usage | None:
    """Return tokens by class, or None if missing. The input count excludes the cache."""
    fresh, output = wire.count(said.get("input_tokens")), wire.count(said.get("output_tokens"))
    if fresh is None or output is None:
        return None
    cache_written = wire.count(said.get("cache_creation_input_tokens")) or 0
    written_1h = wire.count(wire.mapping(said.get("cache_creation")).get("ephemeral_1h_input_tokens")) or 0
    reasoning = wire.count(wire.mapping(said.get("output_tokens_details")).get("thinking_tokens")) or 0
    cache_read = wire.count(said.get("cache_read_input_tokens")) or 0
    return Usage(fresh, cache_read, max(0, cache_written - written_1h), written_1h, output, reasoning)


def _system(text: str, breakpoint_: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": wire.sendable(text)}
    return block | ({"cache_control": {"type": "ephemeral"}} if breakpoint_ else {})


def _thinking(effective: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if "thinking_budget" in effective:
        fields["thinking"] = {"type": "enabled", "budget_tokens": effective["thinking_budget"]}
    elif "thinking" in effective:
        fields["thinking"] = {"type": effective["thinking"]}
    if "effort" in effective:
        fields["output_config"] = {"effort": effective["effort"]}
    return fields


def _texts(content: list[object]) -> list[str]:
    """Return the text blocks of an answer, without thinking and other blocks."""
    blocks = (wire.mapping(block) for block in content)
    return [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]


def _category(data: Mapping[str, Any]) -> str:
    return wire.word(wire.mapping(data.get("stop_details")).get("category"), 200) or "refusal"


def _refused(reply: Reply, data: Mapping[str, Any], error: Mapping[str, Any], requested: str) -> Completion:
    """Return a refusal if the provider's own filter stopped the prompt; raise for every other error."""
    reason = faults.refusal(reply, error)
    if not reason:
        raise faults.fault(reply, error)
    return Completion(
        "", Stop.REFUSAL, None, requested, request_id=wire.request_id(reply.headers, data), refusal=reason, reply=reply
    )
