"""The OpenAI chat API, used by OpenAI, Gemini, OpenRouter and local servers: request bodies and replies, without a network."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simulation.providers import errors, wire
from simulation.providers.base import Completion, Endpoint, Prompt, Reply, Stop, Usage

PATH = "/chat/completions"
STOPS = {
    "length": Stop.MAX_TOKENS,
    "max_tokens": Stop.MAX_TOKENS,
    "model_length": Stop.CONTEXT,
    "tool_calls": Stop.TOOL,
    "function_call": Stop.TOOL,
    **dict.fromkeys(
        ("content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii"), Stop.REFUSAL
    ),
}  # with any other reason the text is used as it is


def build_body(prompt: Prompt, effective: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """Return the JSON fields of a request in sending order."""
    wants = endpoint.options
    messages: list[dict[str, Any]] = []
    if text := wire.make_sendable(prompt.system):
        block = {"type": "text", "text": text, "cache_control": wire.CACHE_CONTROL}
        messages.append({"role": "system", "content": [block] if wants.caching == "breakpoint" else text})
    marks_breakpoints = wants.caching == "breakpoint"
    messages += [
        {"role": turn.role, "content": wire.build_content(turn, marks_breakpoints)} for turn in prompt.messages
    ]
    fields: dict[str, Any] = {"model": endpoint.model_id, "messages": messages}
    fields[wants.max_tokens_field] = effective["max_tokens"]
    if "temperature" in effective:
        fields["temperature"] = float(effective["temperature"])
    if prompt.schema and wire.REPLY_FORMAT in effective:
        form = {"name": prompt.schema.name, "strict": True, "schema": prompt.schema.schema}
        fields["response_format"] = {"type": wire.JSON_SCHEMA, "json_schema": form}
    elif prompt.wants_json and wants.json_mode:
        fields["response_format"] = {"type": "json_object"}
    # OpenAI sends requests with the same key to the same machine, whose cache has their prefix. Other servers may reject it.
    if endpoint.provider == "openai" and wants.caching == "automatic":
        fields["prompt_cache_key"] = wire.compute_cache_key(prompt)
    budget, effort = effective.get("thinking_budget"), effective.get("effort")
    # Each server has its own format for a thinking budget or an effort.
    if endpoint.provider == "openrouter" and (budget is not None or effort):
        fields["reasoning"] = {"effort": effort} if effort else {"max_tokens": budget}
    elif budget is not None:
        fields["extra_body"] = {"google": {"thinking_config": {"thinking_budget": budget}}}
    elif effort:
        fields["reasoning_effort"] = effort
    return fields


def parse_reply(reply: Reply, requested: str) -> Completion:
    """Return the completion in a reply. Raises the matching ProviderError if it has no answer."""
    data = wire.parse_envelope(reply)
    error = errors.find_error(data)
    if error is not None or not wire.is_success(reply):
        return _build_refusal(reply, data, errors.find_refusal_or_raise(reply, error or {}), requested)
    choices = data.get("choices")
    if not choices and (blocked := _find_block_reason(data)):
        return _build_refusal(reply, data, blocked, requested)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise wire.make_garbled_error(reply, "the reply contains no choices")
    broken = wire.as_mapping(choices[0].get("error"))
    if broken or choices[0].get("finish_reason") == "error":  # OpenRouter: the model stopped with an error
        raise errors.make_error(reply, broken or {"message": "the model broke off"})
    return _build_completion(reply, data, choices[0], requested)


def parse_usage(data: Mapping[str, Any]) -> Usage | None:
    """Return the tokens by class, or None if they are missing. The provider's prompt count includes cached tokens."""
    prompt, completion = wire.parse_count(data.get("prompt_tokens")), wire.parse_count(data.get("completion_tokens"))
    total = wire.parse_count(data.get("total_tokens"))
    if completion is None and data.get("completion_tokens") is None and total is not None:
        completion = 0  # Gemini reports none if thinking used all tokens
    if prompt is None or completion is None:
        return None
    details = wire.as_mapping(data.get("prompt_tokens_details"))
    cache_read = wire.parse_count(details.get("cached_tokens")) or 0
    cache_written = wire.parse_count(details.get("cache_write_tokens")) or 0
    reasoning = wire.parse_count(wire.as_mapping(data.get("completion_tokens_details")).get("reasoning_tokens")) or 0
    # Gemini excludes thinking from the completion count; it is only part of the total
    uncounted = max(0, (total or 0) - prompt - completion)
    fresh = max(0, prompt - cache_read - cache_written)
    return Usage(fresh, cache_read, cache_written, 0, completion + uncounted, max(reasoning, uncounted))


def parse_cost(data: Mapping[str, Any]) -> Decimal | None:
    """Return the reported cost in US dollars, or None. With an own key upstream, the upstream cost is added."""
    own_cost = wire.parse_money(data.get("cost"))
    upstream = wire.parse_money(wire.as_mapping(data.get("cost_details")).get("upstream_inference_cost"))
    if own_cost is None or upstream is None or data.get("is_byok") is not True:
        return own_cost
    return own_cost + upstream


def _build_completion(reply: Reply, data: Mapping[str, Any], first: Mapping[str, Any], requested: str) -> Completion:
    message, usage_data = wire.as_mapping(first.get("message")), wire.as_mapping(data.get("usage"))
    refused = wire.parse_word(message.get("refusal"), 2000)
    reason = str(first.get("finish_reason") or "").lower()[:100]
    stop = Stop.REFUSAL if refused else STOPS.get(reason.partition(":")[0], Stop.STOP)  # content_filter: SAFETY
    return Completion(
        text=_join_text(message.get("content"), reply),
        stop=stop,
        usage=parse_usage(usage_data),
        served_model=wire.parse_word(data.get("model"), 200) or requested,
        served_provider=wire.parse_word(data.get("provider"), 120),
        request_id=wire.find_request_id(reply.headers, data),
        cost=parse_cost(usage_data),
        refusal=(refused or reason) if stop is Stop.REFUSAL else "",
        reply=reply,
    )


def _join_text(content: object, reply: Reply) -> str:
    """Return the answer's text, with its parts joined, or "" if there is none."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise wire.make_garbled_error(reply, "the answer's content is not text")
    parts = (wire.as_mapping(part).get("text") for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def _find_block_reason(data: Mapping[str, Any]) -> str:
    """Return why Gemini did not pass the prompt to the model, or "". Such a reply has a reason and no choices."""
    feedback = (wire.as_mapping(data.get(name)) for name in ("prompt_feedback", "promptFeedback"))
    places = [data, *feedback, wire.as_mapping(data.get("error"))]
    reasons = (wire.parse_word(place.get(name), 200) for place in places for name in ("block_reason", "blockReason"))
    reason = next(filter(None, reasons), "")
    return reason or next((word for word in data.values() if word == "PROHIBITED_CONTENT"), "")


def _build_refusal(reply: Reply, data: Mapping[str, Any], reason: str, requested: str) -> Completion:
    usage_data = wire.as_mapping(data.get("usage"))
    return Completion(
        text="",
        stop=Stop.REFUSAL,
        usage=parse_usage(usage_data),
        served_model=requested,
        request_id=wire.find_request_id(reply.headers, data),
        cost=parse_cost(usage_data),
        refusal=reason,
        reply=reply,
    )
