"""Model options: what is sent to the provider, and what is dropped with a reason."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from simulation.providers import Endpoint, Message, Prompt, connections
from simulation.providers.base import Params, ReplySchema, WireOptions, WireRequest
from tests.support.byte_server import PROMPT


def prepare_request(provider: str, params: Params, prompt: Prompt = PROMPT, **options: Any) -> WireRequest:
    return connections.prepare_request(Endpoint(provider, "model-1", WireOptions(**options)), prompt, params)


def test_claude_of_the_paper_gets_a_thinking_budget_and_no_temperature() -> None:
    asked = Params(16384, Decimal("0.7"), thinking_budget=4096)
    request = prepare_request("anthropic", asked, thinking="budget", api_version="2023-06-01")
    assert request.body["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    assert "temperature" not in request.body and request.headers == {"anthropic-version": "2023-06-01"}
    assert request.effective == {"max_tokens": 16384, "thinking_budget": 4096}
    assert request.dropped == {"temperature": "the model takes none while it thinks"}


@pytest.mark.parametrize(
    ("budget", "reason"),
    [(1023, "1023 asked; the least is 1024"), (4096, "4096 asked; it must be below max_tokens, 4096")],
)
def test_invalid_thinking_budget_is_dropped_and_the_temperature_is_kept(budget: int, reason: str) -> None:
    request = prepare_request("anthropic", Params(4096, Decimal("0.7"), budget), thinking="budget")
    assert request.dropped == {"thinking_budget": reason}
    assert "thinking" not in request.body and request.body["temperature"] == 0.7


def test_claude_with_adaptive_thinking_gets_a_thinking_type_and_an_effort() -> None:
    request = prepare_request(
        "anthropic", Params(4096, None, 2048, "high"), thinking="adaptive", effort_levels=("low", "high")
    )
    assert request.body["thinking"] == {"type": "adaptive"} and request.body["output_config"] == {"effort": "high"}
    assert request.dropped == {"thinking_budget": "the model decides by itself how long it thinks"}


def test_gpt_5_gets_no_temperature_and_the_new_name_of_max_tokens() -> None:
    request = prepare_request(
        "openai", Params(16000, Decimal("0.7")), max_tokens_field="max_completion_tokens", temperature=False
    )
    assert request.body["max_completion_tokens"] == 16000
    assert "max_tokens" not in request.body and "temperature" not in request.body
    assert request.dropped == {"temperature": "the model takes none"}


@pytest.mark.parametrize(
    ("provider", "options", "params", "fields"),
    [
        ("openai", {"thinking": "effort"}, Params(9, effort="low"), {"reasoning_effort": "low"}),
        ("openrouter", {"thinking": "effort"}, Params(9, effort="low"), {"reasoning": {"effort": "low"}}),
        ("openrouter", {"thinking": "budget"}, Params(9, None, 8), {"reasoning": {"max_tokens": 8}}),
        (
            "gemini",
            {"thinking": "budget"},
            Params(9, None, 0),
            {"extra_body": {"google": {"thinking_config": {"thinking_budget": 0}}}},
        ),
    ],
)
def test_thinking_is_requested_in_the_format_of_each_provider(
    provider: str, options: dict[str, Any], params: Params, fields: dict[str, Any]
) -> None:
    request = prepare_request(provider, params, **options)
    assert {name: request.body[name] for name in fields} == fields and request.dropped == {}


@pytest.mark.parametrize(
    ("options", "params", "dropped"),
    [
        ({}, Params(9, None, 8, "high"), {"thinking_budget", "effort"}),
        ({"thinking": "always"}, Params(9, None, 8, "high"), {"thinking_budget", "effort"}),
        ({"thinking": "budget"}, Params(9, None, 8), {"thinking_budget"}),  # OpenAI's interface has no such field
        ({"thinking": "effort", "effort_levels": ("low",)}, Params(9, effort="max"), {"effort"}),
        ({"output_limit": 8}, Params(9), {"max_tokens"}),
        ({}, Params(9, Decimal("2.5")), {"temperature"}),
        ({"thinking": "effort", "temperature_with_thinking": False}, Params(9, Decimal(1), effort="low"), {"temperature"}),
        ({"thinking": "always", "temperature_with_thinking": False}, Params(9, Decimal(1)), {"temperature"}),
        ({"thinking": "effort", "temperature_with_thinking": False}, Params(9, Decimal(1), effort="none"), set()),
        ({"thinking": "effort", "temperature_with_thinking": False}, Params(9, Decimal(1)), set()),
    ],
)  # fmt: skip
def test_unsupported_parameter_is_dropped_with_a_reason(
    options: dict[str, Any], params: Params, dropped: set[str]
) -> None:
    request = prepare_request("openai", params, **options)
    assert set(request.dropped) == dropped and all(request.dropped.values())
    # max_tokens is lowered, not left out: every server requires it
    assert not (set(request.effective) & dropped - {"max_tokens"}) and request.body["max_tokens"] <= 9


def test_system_text_has_the_only_cache_breakpoint() -> None:
    for provider in ("anthropic", "openrouter"):
        body = prepare_request(provider, Params(9), caching="breakpoint").body
        system = body["system"] if provider == "anthropic" else body["messages"][0]["content"]
        assert system == [{"type": "text", "text": PROMPT.system, "cache_control": {"type": "ephemeral"}}]
        assert str(body).count("cache_control") == 1
    assert "cache_control" not in str(prepare_request("anthropic", Params(9)).body)


GROWING = Prompt("rules", (Message("user", "goal, step 1; step 2; now", (12, 20)),), "act")
SCHEMA = ReplySchema(
    "answer", {"type": "object", "properties": {}, "required": [], "additionalProperties": False}, "As JSON."
)


def test_last_stable_part_of_a_message_has_a_second_breakpoint_and_every_part_is_a_block() -> None:
    for provider in ("anthropic", "openrouter"):
        message = prepare_request(provider, Params(9), GROWING, caching="breakpoint").body["messages"][-1]
        assert message["content"] == [
            {"type": "text", "text": "goal, step 1"},
            {"type": "text", "text": "; step 2", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "; now"},
        ]
    for caching in ("automatic", "none"):
        plain = prepare_request("openai", Params(9), GROWING, caching=caching).body["messages"][-1]
        assert plain["content"] == GROWING.messages[0].text


def test_prompts_that_begin_alike_have_the_same_cache_key_at_openai_only() -> None:
    def get_key(provider: str, prompt: Prompt, caching: str = "automatic") -> object:
        return prepare_request(provider, Params(9), prompt, caching=caching).body.get("prompt_cache_key")

    later = Prompt("rules", (Message("user", "goal, step 1; step 2; step 3; later", (12, 20, 28)),), "act")
    other = Prompt("rules", (Message("user", "goal, step X; step 2; now", (12, 20)),), "act")
    assert get_key("openai", GROWING) == get_key("openai", later) != get_key("openai", other)
    assert get_key("gemini", GROWING) is None and get_key("openai", GROWING, "none") is None


def test_schema_is_sent_with_its_note_only_to_models_that_accept_one() -> None:
    prompt = replace(PROMPT, schema=SCHEMA, wants_json=True)
    openai = prepare_request("openai", Params(9), prompt, structured_output=True, json_mode=True)
    form = {"name": "answer", "strict": True, "schema": SCHEMA.schema}
    assert openai.body["response_format"] == {"type": "json_schema", "json_schema": form}
    assert openai.body["messages"][0]["content"] == openai.system == f"{PROMPT.system}\n\nAs JSON."
    assert openai.effective["reply_format"] == "json_schema"
    claude = prepare_request(
        "anthropic", Params(9, effort="low"), prompt, structured_output=True, thinking="adaptive"
    ).body
    assert claude["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA.schema}}
    plain = prepare_request("openai", Params(9), prompt, json_mode=True)
    assert plain.body["response_format"] == {"type": "json_object"} and plain.system == PROMPT.system
    assert "reply_format" not in plain.effective and "reply_format" not in plain.dropped


def test_schema_that_a_provider_rejected_is_dropped_with_the_reason() -> None:
    prompt = replace(PROMPT, schema=SCHEMA).without_schema("no schemas here")
    request = prepare_request("openai", Params(9), prompt, structured_output=True)
    assert request.dropped == {"reply_format": "no schemas here"}
    assert "response_format" not in request.body and "As JSON." not in request.system
    assert request.sha256 == prepare_request("openai", Params(9), PROMPT, structured_output=True).sha256


def test_json_mode_is_used_only_if_prompt_and_model_support_it() -> None:
    wanted = Prompt("", PROMPT.messages, "answer", wants_json=True)
    assert prepare_request("openai", Params(9), wanted, json_mode=True).body["response_format"] == {
        "type": "json_object"
    }
    assert "response_format" not in prepare_request("openai", Params(9), wanted).body
    assert "response_format" not in prepare_request("openai", Params(9), json_mode=True).body


def test_extra_body_fields_are_sent_and_objects_merged() -> None:
    extra = {"provider": {"allow_fallbacks": False}, "reasoning": {"exclude": True}}
    body = prepare_request("openrouter", Params(9, effort="low"), thinking="effort", extra_body=extra).body
    assert body["provider"] == {"allow_fallbacks": False}
    assert body["reasoning"] == {"effort": "low", "exclude": True}


@pytest.mark.parametrize("name", ["stream", "max_tokens", "temperature", "model"])
def test_extra_body_cannot_override_logged_fields(name: str) -> None:
    with pytest.raises(ValueError, match=f"extra_body must not contain {name}"):
        connections.open_connection(Endpoint("local", "m", WireOptions(extra_body={name: 1})))


def test_request_hash_depends_on_prompt_and_parameters() -> None:
    once = prepare_request("openai", Params(9))
    assert once.sha256 == prepare_request("openai", Params(9)).sha256
    others = [
        prepare_request("openai", Params(8)),
        prepare_request("openai", Params(9), PROMPT.with_reply("a", "repair", "b")),
    ]
    assert len({once.sha256, *(other.sha256 for other in others)}) == 3


def test_request_hash_includes_the_api_version_and_not_the_key() -> None:
    def compute_hash(version: str, key: str) -> str:
        at = Endpoint("anthropic", "m", WireOptions(api_version=version), "http://a", key)
        return connections.prepare_request(at, PROMPT, Params(9)).sha256

    assert compute_hash("2023-06-01", "one") == compute_hash("2023-06-01", "two") != compute_hash("2026-10-21", "one")


def test_unsendable_characters_become_replacement_characters() -> None:
    hostile = Prompt("a\0b", (Message("user", "x\ud800y \U0001f9ec"),), "act")
    messages = prepare_request("openai", Params(9), hostile).body["messages"]
    assert [turn["content"] for turn in messages] == ["a\ufffdb", "x\ufffdy \U0001f9ec"]
