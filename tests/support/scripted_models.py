"""Scripted models: completion functions for tests of the roles, connections for tests of the layers below."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from simulation.providers import connections
from simulation.providers.base import (
    Completion,
    Endpoint,
    Params,
    Prompt,
    ProviderError,
    Reply,
    Stop,
    Usage,
    WireRequest,
)

Answer = str | Completion | ProviderError  # an error is raised
LOCAL = Endpoint("local", "scripted", base_url="http://127.0.0.1:9/v1")
REASONS = {Stop.STOP: "stop", Stop.MAX_TOKENS: "length", Stop.TOOL: "tool_calls", Stop.REFUSAL: "content_filter"}


def make_completion(text: str, stop: Stop = Stop.STOP, usage: Usage | None = Usage(1, output=1)) -> Completion:  # noqa: B008
    """Return a completion with a matching reply, as a local server would have sent it. `cache_write_1h` must be 0."""
    reason = REASONS.get(stop, "model_length")
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    data: dict[str, Any] = {"id": "scripted", "object": "chat.completion", "model": "scripted", "choices": [choice]}
    if usage is not None:
        data["usage"] = _usage_to_json(usage)
    reply = Reply(200, {"content-type": "application/json"}, json.dumps(data).encode())
    return connections.parse_reply(LOCAL, reply)


class ScriptedProvider:
    """A completion function that returns its answers in order, or calls a function of the prompt. `prompts` stores the prompts it received."""

    def __init__(self, answers: Iterable[Answer] | Callable[[Prompt], Answer]) -> None:
        self.prompts: list[Prompt] = []
        self._next = answers if callable(answers) else _answer_in_order(answers)

    def __call__(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        return _return_or_raise(self._next(prompt))


class ScriptedConnection:
    """A connection that returns its answers in order, or calls a function of the request. Safe between threads."""

    def __init__(self, answers: Iterable[Answer] | Callable[[WireRequest], Answer], endpoint: Endpoint = LOCAL) -> None:
        self.endpoint = endpoint
        self.requests: list[WireRequest] = []
        self._next = answers if callable(answers) else _answer_in_order(answers)
        self._lock = threading.Lock()

    def prepare_request(self, prompt: Prompt, params: Params) -> WireRequest:
        return connections.prepare_request(self.endpoint, prompt, params)

    def send_request(self, request: WireRequest, deadline: float) -> Completion:
        with self._lock:
            self.requests.append(request)
            answer = self._next(request)
        return _return_or_raise(answer)


def _answer_in_order(answers: Iterable[Answer]) -> Callable[[object], Answer]:
    script: Iterator[Answer] = iter(answers)

    def next_answer(_: object) -> Answer:
        for answer in script:
            return answer
        raise LookupError("the script has ended: one more answer was requested")

    return next_answer


def _return_or_raise(answer: Answer) -> Completion:
    if isinstance(answer, ProviderError):
        raise answer
    return make_completion(answer) if isinstance(answer, str) else answer


def _usage_to_json(usage: Usage) -> dict[str, Any]:
    """Return the tokens in OpenAI's format: the prompt count includes the cache."""
    prompt = usage.input_uncached + usage.cache_read + usage.cache_write_5m
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write_5m},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
