"""Rows of language-model runs for tests of pages: run configurations, calls in every state, bodies in both API formats."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from simulation.calls import call_log
from simulation.models import Episode, ModelCall, Run, Twin
from tests.support import run_factory

PRICE = {"model": "gpt-5", "effective_from": "2026-09-01", "source": "price list", "input": "1.25", "output": "10"}
MODEL = {"provider": "openai", "model_id": "gpt-5", "aliases": [], "options": {}, "context_limit": 400_000}
PLAYER = {"model": "gpt-5", "params": {"max_tokens": 4096, "temperature": None, "thinking_budget": None, "effort": ""}}


def build_run_config() -> dict[str, Any]:
    """Return a configuration in which one model has every role."""
    cast = {
        "name": "small",
        "description": "",
        "agent": PLAYER,
        "transition_model": PLAYER,
        "evidence_classifier": PLAYER,
    }
    return {
        "cast": {**cast, "panel": []},
        "models": {"gpt-5": MODEL},
        "prompt_set": {"name": "wetbench", "sha256": "a" * 64},
    }


def create_llm_run(kind: str = "episodes", cast: str = "small", **fields: Any) -> Run:
    """Create a run of language models, by default with a budget of $5."""
    created = run_factory.create_run(kind, cast)
    Run.objects.filter(pk=created.pk).update(**{"setup": build_run_config(), "max_cost": Decimal(5), **fields})
    created.refresh_from_db()
    return created


def create_llm_episode(
    replicate: int = 1, status: str = "running", reason: str = "", error: str = "", **fields: Any
) -> Episode:
    """Create an episode of such a run, in any state."""
    created = run_factory.create_episode(cast="small", replicate=replicate, status="running")
    Episode.objects.filter(pk=created.pk).update(status=status, reason=reason, error=error, **fields)
    created.refresh_from_db()
    return created


def build_request(question: str = "What next?", system: str = "You plan experiments.") -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "gpt-5", "max_completion_tokens": 4096, "messages": messages}


def build_reply(text: str = "THOUGHT: weigh it") -> bytes:
    """Return the body that an OpenAI-compatible server sends."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
    return json.dumps(
        {"id": "x", "object": "chat.completion", "model": "gpt-5-2025", "choices": [choice], "usage": usage}
    ).encode()


def create_answered_call(
    of: Episode | Twin, number: int = 1, turn: int = 0, attempt: int = 1, **fields: Any
) -> ModelCall:
    """Create an answered call of the agent (of the perturber for a twin): 1,000 tokens in, 50 out, $0.00175."""
    kind = "twin" if isinstance(of, Twin) else "episode"
    body = fields.pop("request", build_request())
    defaults = {
        "run": of.run, kind: of, "role": "twin" if kind == "twin" else "agent", "speaker": "gpt-5", "purpose": "act",
        "number": number, "turn": turn, "attempt": attempt, "fence": 1, "state": "answered", "gate": "openai:1a2b3c4d",
        "ended_at": timezone.now(), "model_name": "gpt-5", "provider": "openai", "requested_model": "gpt-5",
        "served_model": "gpt-5-2025", "request_id": "req_1", "prompt_set": "a" * 64, "request_sha256": "b" * 64,
        "effective_params": {"max_tokens": 4096}, "dropped_params": {"temperature": "this model takes none"},
        "stop": "stop", "http_status": 200, "reply": build_reply(), "reply_headers": {"content-type": "application/json"},
        "input_uncached": 1000, "cache_read": 0, "output": 50, "cost": Decimal("0.00175"), "price": PRICE, "milliseconds": 2100,
    }  # fmt: skip
    created = ModelCall.objects.create(
        **{**defaults, "request": call_log.deduplicate_text(body, _get_system_text(body)), **fields}
    )
    ModelCall.objects.filter(pk=created.pk).update(started_at=timezone.now() - timedelta(seconds=3))
    return created


def create_failed_call(of: Episode | Twin, number: int = 1, **fields: Any) -> ModelCall:
    """Create a call without a completion: 503 with an HTML page."""
    no_usage = dict.fromkeys(("input_uncached", "cache_read", "output", "cost"))
    defaults = {"state": "failed", "error_class": "overloaded", "error": "503: busy", "http_status": 503, "stop": ""}
    return create_answered_call(
        of, number, **{**no_usage, **defaults, "served_model": "", "reply": b"<html>busy</html>", **fields}
    )


def _get_system_text(body: Any) -> str:
    """Return the text with which all calls of a role begin, wherever the API format has it."""
    first = next(iter(body.get("messages") or ()), {})
    return str(body.get("system") or (first.get("content", "") if first.get("role") == "system" else ""))
