"""What of a configuration goes over the wire, and what is dropped aloud."""

from decimal import Decimal
from typing import Any

import pytest

from simulation.providers import Endpoint, Message, Prompt, connections
from simulation.providers.base import Params, WireOptions, WireRequest
from tests.support.wires import PROMPT


def prepared(provider: str, params: Params, prompt: Prompt = PROMPT, **options: Any) -> WireRequest:
    return connections.prepare(Endpoint(provider, "model-1", WireOptions(**options)), prompt, params)


def test_the_papers_claude_thinks_and_so_takes_no_temperature() -> None:
    asked = Params(16384, Decimal("0.7"), thinking_budget=4096)
    request = prepared("anthropic", asked, thinking="budget", api_version="2023-06-01")
    assert request.body["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    assert "temperature" not in request.body and request.headers == {"anthropic-version": "2023-06-01"}
    assert request.effective == {"max_tokens": 16384, "thinking_budget": 4096}
    assert request.dropped == {"temperature": "the model takes none while it thinks"}


@pytest.mark.parametrize(
    ("budget", "reason"),
    [(1023, "1023 asked; the least is 1024"), (4096, "4096 asked; it must be below max_tokens, 4096")],
)
def test_a_budget_that_cannot_be_sent_is_dropped_and_the_temperature_stays(budget: int, reason: str) -> None:
    request = prepared("anthropic", Params(4096, Decimal("0.7"), budget), thinking="budget")
    assert request.dropped == {"thinking_budget": reason}
    assert "thinking" not in request.body and request.body["temperature"] == 0.7


def test_an_adaptive_claude_is_told_to_think_and_how_hard() -> None:
    request = prepared(
        "anthropic", Params(4096, None, 2048, "high"), thinking="adaptive", effort_levels=("low", "high")
    )
    assert request.body["thinking"] == {"type": "adaptive"} and request.body["output_config"] == {"effort": "high"}
    assert request.dropped == {"thinking_budget": "the model decides by itself how long it thinks"}


def test_gpt_5_takes_neither_temperature_nor_the_old_name_of_max_tokens() -> None:
    request = prepared(
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
def test_every_server_is_asked_to_think_in_its_own_words(
    provider: str, options: dict[str, Any], params: Params, fields: dict[str, Any]
) -> None:
    request = prepared(provider, params, **options)
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
def test_what_a_model_cannot_take_is_dropped_with_a_reason(
    options: dict[str, Any], params: Params, dropped: set[str]
) -> None:
    request = prepared("openai", params, **options)
    assert set(request.dropped) == dropped and all(request.dropped.values())
    # max_tokens alone is lowered, not left out: every server wants it
    assert not (set(request.effective) & dropped - {"max_tokens"}) and request.body["max_tokens"] <= 9


def test_the_system_text_ends_with_the_only_breakpoint() -> None:
    for provider in ("anthropic", "openrouter"):
        body = prepared(provider, Params(9), caching="breakpoint").body
        system = body["system"] if provider == "anthropic" else body["messages"][0]["content"]
        assert system == [{"type": "text", "text": PROMPT.system, "cache_control": {"type": "ephemeral"}}]
        assert str(body).count("cache_control") == 1
    assert "cache_control" not in str(prepared("anthropic", Params(9)).body)


def test_json_is_asked_for_only_where_prompt_and_model_agree() -> None:
    wanted = Prompt("", PROMPT.messages, "answer", wants_json=True)
    assert prepared("openai", Params(9), wanted, json_mode=True).body["response_format"] == {"type": "json_object"}
    assert "response_format" not in prepared("openai", Params(9), wanted).body
    assert "response_format" not in prepared("openai", Params(9), json_mode=True).body


def test_extra_fields_are_sent_and_objects_are_joined() -> None:
    extra = {"provider": {"allow_fallbacks": False}, "reasoning": {"exclude": True}}
    body = prepared("openrouter", Params(9, effort="low"), thinking="effort", extra_body=extra).body
    assert body["provider"] == {"allow_fallbacks": False}
    assert body["reasoning"] == {"effort": "low", "exclude": True}


@pytest.mark.parametrize("name", ["stream", "max_tokens", "temperature", "model"])
def test_an_extra_field_cannot_contradict_the_ledger(name: str) -> None:
    with pytest.raises(ValueError, match=f"extra_body must not hold {name}"):
        connections.connect(Endpoint("local", "m", WireOptions(extra_body={name: 1})))


def test_the_same_prompt_gives_the_same_hash_and_another_does_not() -> None:
    once = prepared("openai", Params(9))
    assert once.sha256 == prepared("openai", Params(9)).sha256
    others = [prepared("openai", Params(8)), prepared("openai", Params(9), PROMPT.answered("a", "repair", "b"))]
    assert len({once.sha256, *(other.sha256 for other in others)}) == 3


def test_the_api_version_is_part_of_the_hash_and_the_key_is_not() -> None:
    def sha256(version: str, key: str) -> str:
        at = Endpoint("anthropic", "m", WireOptions(api_version=version), "http://a", key)
        return connections.prepare(at, PROMPT, Params(9)).sha256

    assert sha256("2023-06-01", "one") == sha256("2023-06-01", "two") != sha256("2026-10-21", "one")


def test_what_cannot_be_sent_or_stored_is_shown_as_a_replacement_character() -> None:
    hostile = Prompt("a\0b", (Message("user", "x\ud800y \U0001f9ec"),), "act")
    messages = prepared("openai", Params(9), hostile).body["messages"]
    assert [turn["content"] for turn in messages] == ["a\ufffdb", "x\ufffdy \U0001f9ec"]
