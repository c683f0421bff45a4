"""Reject requests that the providers would reject."""

import re
from collections.abc import Mapping
from typing import Any

from simulation.scripted_server.openai_api import ALWAYS_REASONS
from simulation.scripted_server.questions import Question, bad_request

_REASONS_IF_ASKED = re.compile(r"^gpt-5\.[1-4]")
_ADAPTIVE_ONLY = re.compile(r"^claude-[a-z]+-(4-[789]|5)(?!\d{2})")
_NO_SAMPLING_SINCE = "2026-10-21"  # the version from which the API rejects sampling parameters
_STRUCTURED = re.compile(r"^claude-[a-z]+-(4-[1-9](?!\d)|[5-9])")  # older models have no structured outputs
_MIN_BUDGET = 1024  # tokens; the API's minimum
_OPENAI_FIELDS = frozenset([
    "model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop", "seed",
    "stream", "stream_options", "response_format", "reasoning_effort", "verbosity", "service_tier", "store",
    "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
    "logprobs", "top_logprobs", "logit_bias", "frequency_penalty", "presence_penalty", "tools", "tool_choice",
    "parallel_tool_calls", "modalities", "prediction", "web_search_options", "audio",
])  # fmt: skip
_ANTHROPIC_FIELDS = frozenset([
    "model", "messages", "system", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "stream",
    "metadata", "service_tier", "thinking", "output_config", "cache_control", "tools", "tool_choice",
    "context_management", "container", "mcp_servers", "inference_geo", "speed",
])  # fmt: skip


def _check_fields(body: Mapping[str, Any], dialect: str) -> None:
    """Raise RefusedError if the body has a field that the provider rejects as unknown."""
    allowed = _OPENAI_FIELDS if dialect == "openai" else _ANTHROPIC_FIELDS
    # Only the first unknown field is reported, as by the providers.
    if unknown := sorted(set(body) - allowed):
        word = "Unknown parameter" if dialect == "openai" else "Extra inputs are not permitted"
        raise bad_request(f"{word}: '{unknown[0]}'")


def check_request(body: Mapping[str, Any], headers: Mapping[str, str], question: Question) -> None:
    """Raise RefusedError for a field or value that the question's provider would reject."""
    if question.flavour.name == "anthropic":
        _check_anthropic(body, headers["anthropic-version"])
    elif question.flavour.name == "openai":
        # Only OpenAI itself rejects these parameters; compatible servers ignore them.
        _check_openai(body, question.hidden > 0)


def _check_openai(body: Mapping[str, Any], reasons: bool) -> None:
    """Raise RefusedError for a field or value that OpenAI does not accept for this model."""
    model = body["model"]
    if ALWAYS_REASONS.match(model) or _REASONS_IF_ASKED.match(model):
        if "max_tokens" in body:
            raise bad_request(
                "Unsupported parameter: 'max_tokens' is not supported; use 'max_completion_tokens' instead."
            )
        if reasons and body.get("temperature", 1) != 1:
            raise bad_request("Unsupported value: 'temperature'. Only the default (1) value is supported.")
    _check_fields(body, "openai")


def _check_anthropic(body: Mapping[str, Any], version: str) -> None:
    """Raise RefusedError for a field or value that this version of the Messages API does not accept for the model."""
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    sampling = [name for name in ("temperature", "top_p", "top_k") if body.get(name) is not None]
    adaptive = bool(_ADAPTIVE_ONLY.match(body["model"]))
    if kind not in (None, "enabled", "adaptive", "disabled", "between_tools"):
        raise bad_request(f"thinking.type: {kind!r} is not known")
    if kind == "enabled":
        _check_budget(thinking.get("budget_tokens"), body["max_tokens"], adaptive)
    # Newer models reject sampling parameters in every version of the API.
    if sampling and (adaptive or version >= _NO_SAMPLING_SINCE):
        raise bad_request(f"{sampling[0]}: this model does not take sampling parameters")
    if kind in ("enabled", "adaptive") and body.get("temperature", 1) != 1:
        raise bad_request("temperature: may only be set to 1 when thinking is enabled")
    if (body.get("output_config") or {}).get("format") and not _STRUCTURED.match(body["model"]):
        raise bad_request("output_config.format: this model does not support structured outputs")
    _check_fields(body, "anthropic")


def _check_budget(budget: Any, max_tokens: int, adaptive: bool) -> None:
    if adaptive:
        raise bad_request("thinking.budget_tokens: this model thinks adaptively; use output_config.effort")
    if not isinstance(budget, int) or budget < _MIN_BUDGET:
        raise bad_request(f"thinking.budget_tokens: must be at least {_MIN_BUDGET}")
    # Thinking counts towards `max_tokens`, so some tokens must remain for the answer.
    if budget >= max_tokens:
        raise bad_request("max_tokens: must be greater than thinking.budget_tokens")
