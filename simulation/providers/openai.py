"""The OpenAI chat dialect, spoken by OpenAI, Gemini, OpenRouter and local servers: bodies and replies, no network."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simulation.providers import faults, options, wire
from simulation.providers.base import Completion, Endpoint, Params, Prompt, Reply, Stop, Usage

PATH = "/chat/completions"
HOTTEST = Decimal(2)
STOPS = {
    "length": Stop.MAX_TOKENS,
    "max_tokens": Stop.MAX_TOKENS,
    "model_length": Stop.CONTEXT,
    "tool_calls": Stop.TOOL,
    "function_call": Stop.TOOL,
    **dict.fromkeys(
        ("content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii"), Stop.REFUSAL
    ),
}  # whatever else a server calls it: the text is judged by what it says


def choice(params: Params, endpoint: Endpoint) -> options.Choice:
    """What is sent of a configuration."""
    takes_budget = endpoint.provider in ("gemini", "openrouter")
    return options.choose(params, endpoint.options, 0, HOTTEST, takes_budget)


def body(prompt: Prompt, effective: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """The JSON fields of one request, in the order in which they are sent."""
    wants = endpoint.options
    fields: dict[str, Any] = {"model": endpoint.model_id, "messages": _messages(prompt, wants.caching == "breakpoint")}
    fields[wants.max_tokens_field] = effective["max_tokens"]
    if "temperature" in effective:
        fields["temperature"] = float(effective["temperature"])
    if prompt.wants_json and wants.json_mode:
        fields["response_format"] = {"type": "json_object"}
    return fields | _thinking(effective, endpoint.provider)


def read(reply: Reply, requested: str) -> Completion:
    """What a reply says. Raises the ProviderError that it stands for where it holds no answer."""
    data = wire.envelope(reply)
    error = faults.error_of(data)
    if error is not None or not wire.succeeded(reply):
        return _refused(reply, data, error or {}, requested)
    choices = data.get("choices")
    if not choices and (blocked := _blocked(data)):
        return _refusal(reply, data, blocked, requested)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise wire.garbled(reply, "the reply holds no choices")
    broken = wire.mapping(choices[0].get("error"))
    if broken or choices[0].get("finish_reason") == "error":  # OpenRouter: the model broke off
        raise faults.fault(reply, broken or {"message": "the model broke off"})
    return _completion(reply, data, choices[0], requested)


def usage(said: Mapping[str, Any]) -> Usage | None:
    """Tokens by class, or None where they are not said. The prompt's count includes what was cached."""
    prompt, completion = wire.count(said.get("prompt_tokens")), wire.count(said.get("completion_tokens"))
    total = wire.count(said.get("total_tokens"))
    if completion is None and said.get("completion_tokens") is None and total is not None:
        completion = 0  # Gemini says none where thinking took all there was
    if prompt is None or completion is None:
        return None
    details = wire.mapping(said.get("prompt_tokens_details"))
    cached, written = wire.count(details.get("cached_tokens")) or 0, wire.count(details.get("cache_write_tokens")) or 0
    thought = wire.count(wire.mapping(said.get("completion_tokens_details")).get("reasoning_tokens")) or 0
    # Gemini leaves thinking out of the completion's count: it shows only in the total
    beside = max(0, (total or 0) - prompt - completion)
    return Usage(max(0, prompt - cached - written), cached, written, 0, completion + beside, max(thought, beside))


def cost(said: Mapping[str, Any]) -> Decimal | None:
    """US dollars, where the provider says so; with a key of one's own at its upstream, that part is added."""
    own = wire.money(said.get("cost"))
    upstream = wire.money(wire.mapping(said.get("cost_details")).get("upstream_inference_cost"))
    return own + upstream if own is not None and upstream is not None and said.get("is_byok") is True else own


def _messages(prompt: Prompt, breakpoint_: bool) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = [{"role": turn.role, "content": wire.sendable(turn.text)} for turn in prompt.messages]
    if not prompt.system:
        return told
    text = wire.sendable(prompt.system)
    block = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    return [{"role": "system", "content": [block] if breakpoint_ else text}, *told]


def _thinking(effective: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """How each server takes a thinking budget or an effort."""
    budget, effort = effective.get("thinking_budget"), effective.get("effort")
    if provider == "openrouter" and (budget is not None or effort):
        return {"reasoning": {"effort": effort} if effort else {"max_tokens": budget}}
    if budget is not None:
        return {"extra_body": {"google": {"thinking_config": {"thinking_budget": budget}}}}
    return {"reasoning_effort": effort} if effort else {}


def _completion(reply: Reply, data: Mapping[str, Any], first: Mapping[str, Any], requested: str) -> Completion:
    message, said = wire.mapping(first.get("message")), wire.mapping(data.get("usage"))
    refused = wire.word(message.get("refusal"), 2000)
    reason = str(first.get("finish_reason") or "").lower()[:100]
    stop = Stop.REFUSAL if refused else STOPS.get(reason.partition(":")[0], Stop.STOP)  # content_filter: SAFETY
    return Completion(
        text=_text(message.get("content"), reply),
        stop=stop,
        usage=usage(said),
        served_model=wire.word(data.get("model"), 200) or requested,
        served_provider=wire.word(data.get("provider"), 120),
        request_id=wire.request_id(reply.headers, data),
        cost=cost(said),
        refusal=(refused or reason) if stop is Stop.REFUSAL else "",
        reply=reply,
    )


def _text(content: object, reply: Reply) -> str:
    """The answer's text; nothing at all is "", parts are joined."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise wire.garbled(reply, "the answer's content is no text")
    parts = (wire.mapping(part).get("text") for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def _refused(reply: Reply, data: Mapping[str, Any], error: Mapping[str, Any], requested: str) -> Completion:
    """A prompt that the provider's own filter stopped is a refusal; every other error is raised."""
    reason = faults.refusal(reply, error)
    if not reason:
        raise faults.fault(reply, error)
    return _refusal(reply, data, reason, requested)


def _blocked(data: Mapping[str, Any]) -> str:
    """Why Gemini let a prompt not through to the model: it answers with no choices and a reason; "" where there is none."""
    told = (wire.mapping(data.get(name)) for name in ("prompt_feedback", "promptFeedback"))
    places = [data, *told, wire.mapping(data.get("error"))]
    said = (wire.word(place.get(name), 200) for place in places for name in ("block_reason", "blockReason"))
    found = next(filter(None, said), "")
    return found or next((word for word in data.values() if word == "PROHIBITED_CONTENT"), "")


def _refusal(reply: Reply, data: Mapping[str, Any], reason: str, requested: str) -> Completion:
    identity = wire.request_id(reply.headers, data)
    said = wire.mapping(data.get("usage"))
    return Completion(
        "", Stop.REFUSAL, usage(said), requested, request_id=identity, cost=cost(said), refusal=reason, reply=reply
    )
