"""Rows of language models' runs for tests of pages: setups, calls of every state, bodies in both dialects."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from simulation.calls import shelf
from simulation.models import Episode, ModelCall, Run, Twin
from tests.support import run_factory

PRICE = {"model": "gpt-5", "effective_from": "2026-09-01", "source": "price list", "input": "1.25", "output": "10"}
MODEL = {"provider": "openai", "model_id": "gpt-5", "aliases": [], "options": {}, "context_limit": 400_000}
PLAYER = {"model": "gpt-5", "params": {"max_tokens": 4096, "temperature": None, "thinking_budget": None, "effort": ""}}


def setup() -> dict[str, Any]:
    """A cast in which one model plays every role."""
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


def run(kind: str = "episodes", cast: str = "small", **fields: Any) -> Run:
    """A run of language models, with a budget of five dollars unless told otherwise."""
    made = run_factory.run(kind, cast)
    Run.objects.filter(pk=made.pk).update(**{"setup": setup(), "max_cost": Decimal(5), **fields})
    made.refresh_from_db()
    return made


def episode(replicate: int = 1, status: str = "running", reason: str = "", error: str = "", **fields: Any) -> Episode:
    """An episode of such a run, in any state."""
    made = run_factory.episode(cast="small", replicate=replicate, status="running")
    Episode.objects.filter(pk=made.pk).update(status=status, reason=reason, error=error, **fields)
    made.refresh_from_db()
    return made


def request(said: str = "What next?", system: str = "You plan experiments.") -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": said}]
    return {"model": "gpt-5", "max_completion_tokens": 4096, "messages": messages}


def reply(text: str = "THOUGHT: weigh it") -> bytes:
    """What an OpenAI-compatible server sends."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
    return json.dumps(
        {"id": "x", "object": "chat.completion", "model": "gpt-5-2025", "choices": [choice], "usage": usage}
    ).encode()


def call(of: Episode | Twin, number: int = 1, turn: int = 0, attempt: int = 1, **fields: Any) -> ModelCall:
    """An answered call of the agent (of the twin maker for a twin): 1,000 tokens in, 50 out, $0.00175."""
    kind = "twin" if isinstance(of, Twin) else "episode"
    body = fields.pop("request", request())
    plain = {
        "run": of.run, kind: of, "role": "twin" if kind == "twin" else "agent", "speaker": "gpt-5", "purpose": "act",
        "number": number, "turn": turn, "attempt": attempt, "fence": 1, "state": "answered", "gate": "openai:1a2b3c4d",
        "ended_at": timezone.now(), "model_name": "gpt-5", "provider": "openai", "requested_model": "gpt-5",
        "served_model": "gpt-5-2025", "request_id": "req_1", "prompt_set": "a" * 64, "request_sha256": "b" * 64,
        "effective_params": {"max_tokens": 4096}, "dropped_params": {"temperature": "this model takes none"},
        "stop": "stop", "http_status": 200, "reply": reply(), "reply_headers": {"content-type": "application/json"},
        "input_uncached": 1000, "cache_read": 0, "output": 50, "cost": Decimal("0.00175"), "price": PRICE, "milliseconds": 2100,
    }  # fmt: skip
    made = ModelCall.objects.create(**{**plain, "request": shelf.put(body, _system(body)), **fields})
    ModelCall.objects.filter(pk=made.pk).update(started_at=timezone.now() - timedelta(seconds=3))
    return made


def failed_call(of: Episode | Twin, number: int = 1, **fields: Any) -> ModelCall:
    """A call that gave no completion: 503 with a page of HTML."""
    nothing = dict.fromkeys(("input_uncached", "cache_read", "output", "cost"))
    plain = {"state": "failed", "error_class": "overloaded", "error": "503: busy", "http_status": 503, "stop": ""}
    return call(of, number, **{**nothing, **plain, "served_model": "", "reply": b"<html>busy</html>", **fields})


def _system(body: Any) -> str:
    """The text that all calls of a role begin with, wherever the dialect has it."""
    first = next(iter(body.get("messages") or ()), {})
    return str(body.get("system") or (first.get("content", "") if first.get("role") == "system" else ""))
