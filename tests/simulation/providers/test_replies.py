"""Parsing of OpenAI and Anthropic replies, including malformed ones."""

import json
from decimal import Decimal
from typing import Any

import pytest

from simulation.providers import Endpoint, ErrorClass, ProviderError, connections
from simulation.providers.base import Completion, ProviderRefused, ProviderUnavailable, Reply, Stop, Usage
from tests.support.byte_server import build_anthropic_message, build_chat_completion

QUOTA = "You exceeded your current quota, please check your plan and billing details."


def parse_reply(data: object, provider: str = "openai", status: int = 200, **headers: str) -> Completion:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return connections.parse_reply(Endpoint(provider, "model-1"), Reply(status, told, body))


def parse_error(*args: Any, **named: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        parse_reply(*args, **named)
    return caught.value


def test_openai_reply_is_parsed() -> None:
    said = parse_reply(build_chat_completion(), x_request_id="req_1")
    # 1000 prompt tokens include the 800 cached; 50 completion tokens include the 20 of reasoning
    assert said.usage == Usage(200, 800, 0, 0, 50, 20)
    assert (said.text, said.stop, said.served_model) == ("A clear liquid.", Stop.STOP, "gpt-served")
    assert said.request_id == "req_1" and said.cost is None and said.reply.body


def test_anthropic_reply_is_parsed() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said = parse_reply(
        build_anthropic_message(thinking, {"type": "text", "text": "A "}, {"type": "text", "text": "tube."}),
        "anthropic",
    )
    # 100 written to the cache, 40 of them for an hour
    assert said.usage == Usage(200, 700, 60, 40, 50, 20)
    assert (said.text, said.stop, said.request_id) == ("A tube.", Stop.STOP, "msg_1")


def test_gemini_thinking_tokens_are_computed_from_the_total() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 150}
    # 150 - 100 - 10 = 40 thinking tokens
    assert parse_reply(build_chat_completion(usage=usage), "gemini").usage == Usage(100, 0, 0, 0, 50, 40)


def test_missing_gemini_output_count_is_computed_from_the_total() -> None:
    usage = {"prompt_tokens": 100, "total_tokens": 150}
    # 150 - 100 = 50, none of them an answer
    assert parse_reply(build_chat_completion("", "length", usage=usage), "gemini").usage == Usage(100, 0, 0, 0, 50, 50)
    assert parse_reply(
        build_chat_completion("", "length", usage=usage | {"total_tokens": 100}), "gemini"
    ).usage == Usage(100, 0, 0, 0, 0, 0)


def test_openrouter_reply_has_its_serving_provider_and_cost() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.0000126}
    said = parse_reply(build_chat_completion(usage=usage, provider="DeepInfra"), "openrouter")
    assert said.cost == Decimal("0.000013") and said.served_provider == "DeepInfra"
    own_key = usage | {"is_byok": True, "cost_details": {"upstream_inference_cost": 0.01}}
    assert parse_reply(build_chat_completion(usage=own_key), "openrouter").cost == Decimal("0.010013")


@pytest.mark.parametrize(
    "usage",
    [None, {}, "free", {"prompt_tokens": -1, "completion_tokens": 1}, {"prompt_tokens": True, "completion_tokens": 1},
     {"prompt_tokens": 10**30, "completion_tokens": 1}, {"prompt_tokens": 1.5, "completion_tokens": 1}, {"prompt_tokens": 1}],
)  # fmt: skip
def test_invalid_usage_becomes_none(usage: object) -> None:
    assert parse_reply(build_chat_completion(usage=usage)).usage is None
    said = {"input_tokens": 1, "output_tokens": 1} | {"output_tokens": usage}
    assert parse_reply(build_anthropic_message(usage=said), "anthropic").usage is None


def test_invalid_cost_becomes_none() -> None:
    for cost in (-1, "1", True, 10**9, {"total": 1}):
        assert (
            parse_reply(build_chat_completion(usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": cost})).cost
            is None
        )


@pytest.mark.parametrize(
    ("written", "kept"),
    [(b"1E-400000", "0.000000"), (b"0." + b"1" * 17_000, "0.111111"), (b"-0.0", "0.000000"), (b"1e6", "1000000.000000"),
     (b"1000000.01", None), (b"1E+400000", None), (b"9" * 4000, None)],
)  # fmt: skip
def test_cost_is_rounded_to_the_millionth_and_dropped_if_too_large_to_store(written: bytes, kept: str | None) -> None:
    body = json.dumps(build_chat_completion(usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": 7})).encode()
    said = parse_reply(body.replace(b'"cost": 7', b'"cost": ' + written), "openrouter")
    assert (str(said.cost) if said.cost is not None else None) == kept


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", Stop.STOP), ("length", Stop.MAX_TOKENS), ("content_filter", Stop.REFUSAL), ("tool_calls", Stop.TOOL),
     ("SAFETY", Stop.REFUSAL), ("content_filter: RECITATION", Stop.REFUSAL), (None, Stop.STOP), (7, Stop.STOP), ("something_new", Stop.STOP)],
)  # fmt: skip
def test_openai_finish_reason_becomes_a_stop_value(reason: object, stop: Stop) -> None:
    assert parse_reply(build_chat_completion(reason=reason)).stop is stop


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("end_turn", Stop.STOP), ("stop_sequence", Stop.STOP), ("max_tokens", Stop.MAX_TOKENS), ("tool_use", Stop.TOOL),
     ("model_context_window_exceeded", Stop.CONTEXT), ("refusal", Stop.REFUSAL), ("something_new", Stop.STOP)],
)  # fmt: skip
def test_anthropic_stop_reason_becomes_a_stop_value(reason: object, stop: Stop) -> None:
    assert parse_reply(build_anthropic_message(stop_reason=reason), "anthropic").stop is stop


def test_model_refusal_is_a_completion_with_a_reason() -> None:
    biology = build_anthropic_message(
        stop_reason="refusal", stop_details={"type": "refusal", "category": "bio"}, content=[]
    )
    assert parse_reply(biology, "anthropic").refusal == "bio"
    declined = build_chat_completion(None)
    declined["choices"][0]["message"]["refusal"] = "I cannot help with vectors."
    said = parse_reply(declined)
    assert (said.stop, said.refusal, said.text) == (Stop.REFUSAL, "I cannot help with vectors.", "")
    assert said.usage == Usage(200, 800, 0, 0, 50, 20)  # a refusal is billed


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (403, {"code": 403, "message": "no", "metadata": {"reasons": ["violence"], "flagged_input": "virus"}}),
        (403, {"code": 403, "message": "Your chosen model requires moderation and your input was flagged"}),
        (200, {"code": 403, "message": "requires moderation"}),
        (400, {"code": "content_filter", "message": "The response was filtered"}),
        (400, {"code": "invalid_prompt", "message": "potentially violating our usage policy"}),
        (400, {"code": "invalid_prompt", "message": "Invalid prompt."}),
        (400, {"message": "Invalid prompt: we've limited access to this content for safety reasons."}),
        (400, {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"}),
    ],
)
def test_moderation_error_is_a_refusal(status: int, error: dict[str, Any]) -> None:
    for provider in ("openrouter", "anthropic"):
        said = parse_reply({"error": error}, provider, status)
        assert said.stop is Stop.REFUSAL and said.refusal and said.text == ""


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (429, {"message": "slow down"}, ErrorClass.RATE_LIMIT),
        (429, {"code": "insufficient_quota", "message": "You exceeded your current quota"}, ErrorClass.CREDITS),
        (429, {"code": 429, "message": QUOTA, "status": "RESOURCE_EXHAUSTED"}, ErrorClass.RATE_LIMIT),
        (429, {"message": QUOTA, "details": [{"@type": "RetryInfo", "retryDelay": "27s"}]}, ErrorClass.RATE_LIMIT),
        (429, {"message": QUOTA}, ErrorClass.RATE_LIMIT),
        (429, {"type": "insufficient_quota", "message": QUOTA}, ErrorClass.CREDITS),
        (200, {"message": QUOTA, "status": "RESOURCE_EXHAUSTED"}, ErrorClass.RATE_LIMIT),
        (529, {"type": "overloaded_error", "message": "Overloaded"}, ErrorClass.OVERLOADED),
        (503, {"message": "no provider"}, ErrorClass.OVERLOADED),
        (500, {"message": "oops"}, ErrorClass.SERVER),
        (504, {}, ErrorClass.SERVER),
        (408, {}, ErrorClass.SERVER),
        (401, {"message": "no such key"}, ErrorClass.CREDENTIALS),
        (403, {"message": "Key limit exceeded"}, ErrorClass.CREDENTIALS),
        (400, {"message": "API key not valid. Please pass a valid API key."}, ErrorClass.CREDENTIALS),
        (402, {"message": "pay"}, ErrorClass.CREDITS),
        (400, {"message": "Your credit balance is too low to access the API"}, ErrorClass.CREDITS),
        (400, {"message": "prompt is too long: 215000 tokens > 200000 maximum"}, ErrorClass.CONTEXT),
        (400, {"code": "context_length_exceeded", "message": "shorten it"}, ErrorClass.CONTEXT),
        (413, {"message": "Request exceeds the maximum size"}, ErrorClass.CONTEXT),
        (400, {"message": "temperature: unsupported"}, ErrorClass.BAD_REQUEST),
        (404, {"message": "no such model"}, ErrorClass.BAD_REQUEST),
        (422, {}, ErrorClass.BAD_REQUEST),
        (301, {}, ErrorClass.BAD_REQUEST),
        (200, {"type": "overloaded_error", "message": "Overloaded"}, ErrorClass.OVERLOADED),
        (200, {"code": 429, "message": "upstream is busy"}, ErrorClass.RATE_LIMIT),
        (200, {"code": "502", "message": "bad gateway"}, ErrorClass.SERVER),
        (200, {"message": "something"}, ErrorClass.SERVER),
        (200, {"code": "context_length_exceeded", "message": "x"}, ErrorClass.CONTEXT),
    ],
)
def test_error_reply_has_the_same_class_for_openai_and_anthropic(
    status: int, error: dict[str, Any], expected: ErrorClass
) -> None:
    lasting = {ErrorClass.CREDENTIALS, ErrorClass.CREDITS, ErrorClass.CONTEXT, ErrorClass.BAD_REQUEST}
    for provider in ("openai", "anthropic"):
        found = parse_error({"type": "error", "error": error}, provider, status)
        assert found.error_class is expected
        assert type(found) is (ProviderRefused if expected in lasting else ProviderUnavailable)
        assert found.reply is not None and found.reply.status == status


@pytest.mark.parametrize(
    "body", [{"error": "model not loaded"}, [{"error": {"code": 500, "message": "model not loaded"}}],
             {"object": "error", "message": "model not loaded"}, {"detail": "model not loaded"}, b"model not loaded", b'{"cut'],
)  # fmt: skip
def test_error_message_is_found_in_every_server_format(body: object) -> None:
    found = parse_error(body, "local", 500)
    assert found.error_class is ErrorClass.SERVER and ("model not loaded" in str(found) or body == b'{"cut')


@pytest.mark.parametrize(
    "body",
    [b"<html>Service unavailable</html>", b"", b"null", b"7", b"[1, 2]", b'{"choices": [', b'{"choices": []}', b"{}",
     b'{"choices": [7]}', b'{"choices": NaN}', b"[" * 100_000, b'{"a":' * 5000, b'{"n": ' + b"9" * 5000 + b"}",
     b'{"choices": [{"message": {"content": 7}}]}', b'{"content": "text"}', b"\xff\xfe\xff", b'{"n": 1e999999999999999999}'],
)  # fmt: skip
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_unparsable_reply_is_classified_as_garbled_and_kept(provider: str, body: bytes) -> None:
    found = parse_error(body, provider)
    assert found.error_class is ErrorClass.GARBLED and isinstance(found, ProviderUnavailable)
    assert found.reply is not None and found.reply.body == body and len(str(found)) < 1000


@pytest.mark.parametrize(
    "content", [None, "", [], [{"type": "text", "text": ""}], [{"type": "image"}, 7, {"text": None}]]
)  # fmt: skip
def test_answer_without_text_is_empty(content: object) -> None:
    assert parse_reply(build_chat_completion(content)).text == ""
    blocks = content if isinstance(content, list) else []
    assert parse_reply(build_anthropic_message(content=blocks), "anthropic").text == ""


def test_invalid_utf_8_and_nul_in_a_reply_are_parsed_as_text() -> None:
    body = (
        json.dumps(build_chat_completion("one\0two"))
        .encode()
        .replace(b"A clear", b"")
        .replace(b"gpt-served", b"gpt\xff\xfe")
    )
    said = parse_reply(body)
    assert said.text == "one\0two" and said.served_model == "gpt\ufffd\ufffd"
    assert parse_reply(build_chat_completion("\ud800 lone")).text == "\ud800 lone"


def test_long_and_hostile_labels_are_shortened_and_cleaned() -> None:
    said = parse_reply(build_chat_completion(model="m" * 5000, provider="p\0" + "q" * 500, id="i" * 900))
    assert len(said.served_model) == 200 and len(said.served_provider) == 120 and len(said.request_id) == 200
    assert "\0" not in said.served_provider
    assert parse_reply(build_chat_completion(model=7, provider=None)).served_model == "model-1"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "12"}, 12.0),
        ({"retry_after_ms": "1500", "retry_after": "12"}, 1.5),
        ({"retry_after": "Sat, 21 Nov 2026 10:01:00 GMT", "date": "Sat, 21 Nov 2026 10:00:30 GMT"}, 30.0),
        ({"retry_after": "Sat, 21 Nov 2026 10:00:00 GMT", "date": "Sat, 21 Nov 2026 10:00:30 GMT"}, 0.0),
        ({"retry_after": "-5"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "9" * 400}, None),
        ({}, None),
    ],
)
def test_retry_after_is_parsed_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_error({"error": {"message": "slow down"}}, "openai", 429, **headers).retry_after == seconds


def test_google_retry_delay_is_parsed_from_the_body() -> None:
    error = {"code": 429, "message": "quota", "details": [7, {"@type": "x"}, {"retryDelay": "27s"}]}
    assert parse_error([{"error": error}], "gemini", 429).retry_after == 27.0


def test_reply_whose_finish_reason_is_error_is_a_server_error() -> None:
    broken = build_chat_completion("half", "error")
    broken["choices"][0]["error"] = {"code": 502, "message": "upstream closed"}
    assert parse_error(broken, "openrouter").error_class is ErrorClass.SERVER
    broken["choices"][0].pop("error")
    assert parse_error(broken, "openrouter").error_class is ErrorClass.SERVER


def test_anthropic_reply_without_a_stop_reason_is_a_server_error() -> None:
    for unended in (
        build_anthropic_message(stop_reason=None),
        {k: v for k, v in build_anthropic_message().items() if k != "stop_reason"},
    ):
        found = parse_error(unended, "anthropic")
        assert found.error_class is ErrorClass.SERVER and "stop_reason" in str(found)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"choices": [], "prompt_feedback": {"block_reason": "OTHER"}}, "OTHER"),
        ({"choices": None, "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT"),
        ({"choices": [], "block_reason": "SAFETY"}, "SAFETY"),
        ({"choices": [], "status": "PROHIBITED_CONTENT"}, "PROHIBITED_CONTENT"),
    ],
)
def test_prompt_blocked_by_gemini_is_a_refusal(more: dict[str, Any], why: str) -> None:
    said = parse_reply(build_chat_completion(**more), "gemini")
    assert (said.stop, said.refusal, said.text) == (Stop.REFUSAL, why, "")
    assert said.usage == Usage(200, 800, 0, 0, 50, 20)  # a refusal is billed
