"""The Chat Completions API of OpenAI, with the variants of Gemini, OpenRouter and local servers."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simulation.scripted_server import questions, structured

ALWAYS_REASONS = re.compile(r"^(gpt-5(?!\.)|gpt-5\.(?:[5-9]|\d\d)|gpt-6|o\d)")
_FINISH = {"stop": "stop", "max_tokens": "length", "context": "length", "refusal": "stop", "filtered": "content_filter"}
_ROLES = ("system", "developer", "user", "assistant")
_DEFAULT_MAX_TOKENS = 4096
_CREATED = 1_763_600_000  # constant, so that the same prompts give the same bytes
_GOOGLE_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
# Prices of the OpenRouter path, in dollars per token: uncached input, cached input, output.
PRICES = (Decimal("0.000001"), Decimal("0.0000001"), Decimal("0.000004"))


def parse_request(
    body: Mapping[str, Any], headers: Mapping[str, str], flavour: questions.ProviderApi
) -> questions.Question:
    """Return the question in a request. Raises RefusedError where the provider would reject the request."""
    if flavour.needs_key and len(headers.get("authorization", "")) <= len("Bearer "):  # local servers need no key
        raise questions.RefusedError(401, "invalid_request_error", "You didn't provide an API key.")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise questions.bad_request("you must provide a model parameter")
    if body.get("stream"):
        raise questions.bad_request("this server does not stream")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise questions.bad_request("messages: at least one is needed")
    turns = [_parse_turn(message) for message in messages]
    effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")
    thinker = "thinking" in body["model"] or "deepseek-r1" in body["model"]
    # The newer field takes precedence.
    max_tokens = body.get("max_completion_tokens", body.get("max_tokens"))
    if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 1):
        raise questions.bad_request("max_tokens: must be a whole number from 1")
    reasons = bool(ALWAYS_REASONS.match(body["model"])) or thinker or effort not in (None, "none")
    schema = structured.find_schema(body)
    return questions.Question(
        flavour=flavour,
        model=body["model"],
        system="\n".join(turn.text for turn in turns if turn.role in ("system", "developer")),
        turns=tuple(turn for turn in turns if turn.role in ("user", "assistant")),
        blocks=(*questions.build_schema_blocks(schema), *(questions.Block(turn.text) for turn in turns)),
        max_tokens=_DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens,
        hidden=64 + questions.draw_number(64, turns[-1].text) if reasons else 0,
        schema=schema,
    )


def build_response(question: questions.Question, answer: questions.Answer, number: int) -> dict[str, Any]:
    """Return the JSON envelope of an answer."""
    flavour = question.flavour.name
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if flavour in ("openai", "openrouter"):
        # Present and null in these APIs, absent in others.
        message["refusal"] = None
    if answer.stop == "refusal":
        message = {"role": "assistant", "content": None, "refusal": "I can't help with that request."}
    if answer.thinking:
        message["reasoning" if flavour == "openrouter" else "reasoning_content"] = answer.thinking
    choice = {"index": 0, "message": message, "finish_reason": _FINISH[answer.stop], "logprobs": None}
    if flavour == "openrouter":
        choice["native_finish_reason"] = choice["finish_reason"]
    envelope = {
        "id": f"chatcmpl-{number:08d}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": answer.served_model,
        "choices": [choice],
    }
    if flavour == "openrouter":
        envelope["provider"] = "Model server"
    return {**envelope, "usage": _build_usage(flavour, answer.tokens)} if answer.reports_usage else envelope


def compute_cost(tokens: questions.Tokens) -> Decimal:
    """Return the cost of these tokens in dollars, as the OpenRouter path reports it."""
    uncached, cached, output = PRICES
    return tokens.input_uncached * uncached + tokens.cache_read * cached + tokens.output * output


def build_error(flavour: questions.ProviderApi, status: int, kind: str, message: str) -> Any:
    """Return the JSON envelope of an error. Google wraps it in a list; OpenRouter gives the status as a number."""
    # Parsers that expect an object must be able to handle this list.
    if flavour.name == "gemini":
        return [{"error": {"code": status, "message": message, "status": _GOOGLE_STATUS.get(status, "INTERNAL")}}]
    if flavour.name == "openrouter":
        return {"error": {"code": status, "message": message, "metadata": {"provider_name": "Model server"}}}
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def _parse_turn(message: Any) -> questions.Turn:
    if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
        raise questions.bad_request(f"messages: the roles are {', '.join(_ROLES)}")
    content = message.get("content")
    # Text in parts is joined without a separator, as the API defines it.
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        content = "".join(str(part.get("text", "")) for part in content)
    if not isinstance(content, str):
        raise questions.bad_request("messages.content: must be a text or a list of parts")
    return questions.Turn(message["role"], content)


def _build_usage(flavour: str, tokens: questions.Tokens) -> dict[str, Any]:
    """Return the usage. Here prompt tokens include cached tokens, and completion tokens include reasoning."""
    usage: dict[str, Any] = {
        "prompt_tokens": tokens.prompt_total,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.prompt_total + tokens.output,
    }
    if flavour == "local":
        return usage
    usage["prompt_tokens_details"] = {"cached_tokens": tokens.cache_read}
    usage["completion_tokens_details"] = {"reasoning_tokens": tokens.reasoning}
    if flavour == "openrouter":
        price = float(compute_cost(tokens))
        usage |= {"cost": price, "is_byok": False, "cost_details": {"upstream_inference_cost": price}}
    return usage
