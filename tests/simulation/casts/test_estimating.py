"""Worst-case cost estimates of a run, before any call is made."""

from decimal import Decimal
from typing import Any

import pytest

from simulation.calls import run_usage
from simulation.models import Experiment
from tests.support import run_factory
from tests.support.call_rows import create_model, create_price

pytestmark = pytest.mark.django_db


def build_config(**players: Any) -> dict[str, Any]:
    """Return a run configuration with the models "gpt" and "sonnet"; rules play every role that is not given."""
    rules = {"agent": {"plays": "offline/protocol"}, "transition_model": {"plays": "offline/rules"},
             "evidence_classifier": {"plays": "offline/checklist"}, "panel": []}  # fmt: skip
    wire = {"provider": "openai", "model_id": "x", "aliases": [], "context_limit": 200_000}
    models = {"gpt": {**wire, "options": {}}, "sonnet": {**wire, "options": {"caching": "breakpoint"}}}
    return {"cast": {**rules, **players}, "models": models}


def build_model_role(name: str, max_tokens: int = 100, **more: Any) -> dict[str, Any]:
    return {"model": name, "params": {"max_tokens": max_tokens}, **more}


def create_two_step_experiment(**fields: Any) -> Experiment:
    return run_factory.create_experiment("short", max_steps=2, **fields)


def test_rule_based_cast_costs_nothing_and_needs_no_price() -> None:
    for setup in ({}, build_config()):
        found = run_usage.estimate_episodes(setup, [create_two_step_experiment()], 5)
        assert found[:5] == (0, 0, 0, 0, [])


def test_transition_model_estimate_includes_all_repairs() -> None:
    create_price(create_model("gpt"), "2026-01-01", input="1", output="10")
    found = run_usage.estimate_episodes(
        build_config(transition_model=build_model_role("gpt")), [create_two_step_experiment()], 3
    )
    # Each of 2 steps: prompts of 18,000, 20,200 and 22,400 bytes (a repair repeats 100 tokens at two bytes and adds
    # 2,000 bytes), so 9,000 + 10,100 + 11,200 tokens, and three answers of 100; three attempts.
    assert (found.calls, found.usual_calls) == (18, 6)
    assert found.tokens == 6 * (30_300 + 300)
    assert found.cost == Decimal(6 * (30_300 + 300 * 10)) / 10**6


def test_agent_estimate_includes_the_growing_history_of_steps() -> None:
    create_price(create_model("gpt"), "2026-01-01", input="1", output="10")
    found = run_usage.estimate_episodes(
        build_config(agent=build_model_role("gpt", scaffold="plan")), [create_two_step_experiment()], 1
    )
    # The plan, the first step and the second, each up to three times: 130,000, 130,000 and 133,200 bytes.
    assert (found.calls, found.usual_calls) == (9, 3)
    assert found.tokens == 3 * (65_000 + 65_000 + 66_600 + 300)


@pytest.mark.parametrize("history", [{"kind": "window", "k": 5}, {"kind": "summary", "k": 5}])
def test_short_history_costs_less_than_a_full_one(history: dict[str, Any]) -> None:
    long = run_factory.create_experiment("long", max_steps=100)
    full = run_usage.estimate_episodes(build_config(agent=build_model_role("gpt")), [long], 1)
    short = run_usage.estimate_episodes(build_config(agent=build_model_role("gpt", history=history)), [long], 1)
    assert short.tokens < full.tokens
    summaries = 18 if history["kind"] == "summary" else 0  # after 10, 15, ... and 95 steps
    assert short.usual_calls == full.usual_calls + summaries


def test_estimate_includes_every_classifier() -> None:
    one = run_usage.estimate_episodes(
        build_config(evidence_classifier=build_model_role("gpt")), [create_two_step_experiment()], 1
    )
    three = run_usage.estimate_episodes(
        build_config(
            evidence_classifier=build_model_role("gpt"), panel=[build_model_role("gpt"), build_model_role("sonnet")]
        ),
        [create_two_step_experiment()],
        1,
    )
    assert (one.calls, one.usual_calls) == (2, 1)
    assert (three.calls, three.usual_calls, three.tokens) == (6, 3, 3 * one.tokens)


def test_estimate_includes_summaries_of_records_too_long_for_the_classifier() -> None:
    setup = build_config(evidence_classifier=build_model_role("gpt"))
    setup["models"]["gpt"]["context_limit"] = 5_000  # less than half of 6,000 + 2 x 3,200 bytes
    assert run_usage.estimate_episodes(setup, [create_two_step_experiment()], 1).usual_calls == 2


def test_model_without_a_price_has_no_cost_and_its_missing_prices_are_listed() -> None:
    create_price(create_model("sonnet"), "2026-01-01", input="3", output="15")
    found = run_usage.estimate_episodes(
        build_config(agent=build_model_role("gpt"), transition_model=build_model_role("sonnet")),
        [create_two_step_experiment()],
        1,
    )
    assert found.cost is None and found.tokens > 0
    assert found.unpriced == ["gpt: input, output", "sonnet: cache_read, cache_write_5m"]


def test_run_estimate_is_the_sum_over_its_experiments() -> None:
    setup = build_config(
        agent=build_model_role("gpt"),
        transition_model=build_model_role("sonnet"),
        evidence_classifier=build_model_role("gpt"),
    )
    orders = [run_factory.create_experiment(f"e{i}", max_steps=steps) for i, steps in enumerate((50, 50, 100))]
    each = [run_usage.estimate_episodes(setup, [experiment], 4) for experiment in orders]
    both = run_usage.estimate_episodes(setup, orders, 4)
    assert both.calls == sum(one.calls for one in each)
    assert both.tokens == sum(one.tokens for one in each)


def test_twin_estimate_counts_one_outcome_with_its_repairs_for_each_twin() -> None:
    setup = build_config(agent=build_model_role("gpt"), transition_model=build_model_role("gpt"))
    found = run_usage.estimate_twins(setup, 7)
    assert (found.calls, found.usual_calls, found.tokens) == (21, 7, 7 * 30_600)
    assert run_usage.estimate_twins({}, 7).calls == 0


# Code episodes


def build_code_config(helper: bool = False, tools: tuple[str, ...] = ("submit", "quit"), **more: Any) -> dict[str, Any]:
    agent = build_model_role("gpt", tools=list(tools), **more)
    cast = {"kind": "code", "agent": agent, "helper": build_model_role("gpt") if helper else None}
    return {"cast": cast, "models": build_config()["models"]}


def test_code_estimate_includes_the_growing_history_and_the_last_turn() -> None:
    create_price(create_model("gpt"), "2026-01-01", input="1", output="10")
    found = run_usage.estimate_code_episodes(build_code_config(scaffold="react"), [1, 3], steps=2)
    # Two episodes; each has three turns of 30,000, 44,550 and 59,100 bytes (a step has 14,000 bytes, two for each of 100 tokens
    # and a line of 350), each up to three times.
    assert (found.calls, found.usual_calls) == (18, 6)
    assert found.tokens == 2 * 3 * (15_000 + 22_275 + 29_550 + 300)
    assert found.cost == Decimal(2 * 3 * (66_825 + 300 * 10)) / 10**6
    helped = run_usage.estimate_code_episodes(
        build_code_config(helper=True, tools=("edit_file", "submit", "quit")), [1, 3], steps=2
    )
    # A file of 20,000 bytes in each of two steps, up to three times, in two episodes.
    assert helped.tokens == found.tokens + 12 * 10_100 and "helper" in helped.assumes


def test_code_estimate_of_the_pipeline_has_two_calls_and_one_for_each_hidden_function() -> None:
    create_price(create_model("gpt"), "2026-01-01", input="1", output="10")
    found = run_usage.estimate_code_episodes(build_code_config(scaffold="fixed"), [2, 0], steps=50)
    assert (found.calls, found.usual_calls, found.tokens) == (12, 4, 12 * (19_000 + 100))


def test_code_estimate_is_bounded_by_the_limit_of_an_episode_and_its_last_two_turns() -> None:
    create_price(create_model("gpt"), "2026-01-01", input="1", output="10")
    setup = build_code_config(scaffold="react")
    unlimited = run_usage.estimate_code_episodes(setup, [1], 50)
    limited = run_usage.estimate_code_episodes(setup, [1, 1], 50, Decimal("0.01"))
    # The longest prompt: 30,000 bytes, 200,000 of steps and 50 lines of 350, so 123,750 tokens; four such calls, each three times.
    assert limited.cost == 2 * (Decimal("0.01") + 12 * Decimal(123_750 + 1000) / 10**6)
    assert unlimited.cost is not None and limited.cost < 2 * unlimited.cost


@pytest.mark.parametrize("history", [{"kind": "window", "k": 1}, {"kind": "summary", "k": 5}])
def test_code_estimate_of_a_short_history_is_below_that_of_a_full_one(history: dict[str, Any]) -> None:
    full, short = (
        run_usage.estimate_code_episodes(build_code_config(history=kind), [1], 20)
        for kind in ({"kind": "full"}, history)
    )
    assert short.tokens < full.tokens
    assert short.usual_calls == full.usual_calls + (
        3 if history["kind"] == "summary" else 0
    )  # after 10, 15 and 20 steps


def test_rule_based_code_cast_costs_nothing_and_missing_prices_are_named() -> None:
    assert run_usage.estimate_code_episodes({}, [1], 50)[:5] == (0, 0, 0, 0, [])
    found = run_usage.estimate_code_episodes(build_code_config(), [1], 50, Decimal(1))
    assert found.cost is None and found.unpriced == ["gpt: input, output"]
