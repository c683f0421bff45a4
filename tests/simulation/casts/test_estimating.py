"""What an order would come to at worst, before anything is said."""

from decimal import Decimal
from typing import Any

import pytest

from simulation.calls import spending
from simulation.models import Experiment
from tests.support import run_factory
from tests.support.ledger import model, price

pytestmark = pytest.mark.django_db


def cast(**players: Any) -> dict[str, Any]:
    """A setup in which rules play every role that is not given, with models "gpt" and "sonnet"."""
    rules = {"agent": {"plays": "offline/protocol"}, "transition_model": {"plays": "offline/rules"},
             "evidence_classifier": {"plays": "offline/checklist"}, "panel": []}  # fmt: skip
    wire = {"provider": "openai", "model_id": "x", "aliases": [], "context_limit": 200_000}
    models = {"gpt": {**wire, "options": {}}, "sonnet": {**wire, "options": {"caching": "breakpoint"}}}
    return {"cast": {**rules, **players}, "models": models}


def speaks(name: str, max_tokens: int = 100, **more: Any) -> dict[str, Any]:
    return {"model": name, "params": {"max_tokens": max_tokens}, **more}


def two_steps(**fields: Any) -> Experiment:
    return run_factory.experiment("short", max_steps=2, **fields)


def test_rules_cost_nothing_and_need_no_price() -> None:
    for setup in ({}, cast()):
        found = spending.estimate(setup, [two_steps()], 5)
        assert found[:5] == (0, 0, 0, 0, [])


def test_a_transition_model_is_estimated_with_all_its_repairs() -> None:
    price(model("gpt"), "2026-01-01", input="1", output="10")
    found = spending.estimate(cast(transition_model=speaks("gpt")), [two_steps()], 3)
    # Each of 2 steps: prompts of 15,000, 17,200 and 19,400 bytes (a repair repeats 100 tokens at two bytes and adds
    # 2,000 bytes), so 7,500 + 8,600 + 9,700 tokens, and three answers of 100; three attempts.
    assert (found.calls, found.usual_calls) == (18, 6)
    assert found.tokens == 6 * (25_800 + 300)
    assert found.cost == Decimal(6 * (25_800 + 300 * 10)) / 10**6


def test_an_agent_is_estimated_with_a_history_that_grows() -> None:
    price(model("gpt"), "2026-01-01", input="1", output="10")
    found = spending.estimate(cast(agent=speaks("gpt", scaffold="plan")), [two_steps()], 1)
    # The plan, the first step and the second, each up to three times: 124,000, 124,000 and 127,200 bytes.
    assert (found.calls, found.usual_calls) == (9, 3)
    assert found.tokens == 3 * (62_000 + 62_000 + 63_600 + 300)


@pytest.mark.parametrize("history", [{"kind": "window", "k": 5}, {"kind": "summary", "k": 5}])
def test_a_shorter_history_costs_less_than_a_full_one(history: dict[str, Any]) -> None:
    long = run_factory.experiment("long", max_steps=100)
    full = spending.estimate(cast(agent=speaks("gpt")), [long], 1)
    short = spending.estimate(cast(agent=speaks("gpt", history=history)), [long], 1)
    assert short.tokens < full.tokens
    summaries = 18 if history["kind"] == "summary" else 0  # after 10, 15, ... and 95 steps
    assert short.usual_calls == full.usual_calls + summaries


def test_every_member_of_a_panel_is_estimated() -> None:
    one = spending.estimate(cast(evidence_classifier=speaks("gpt")), [two_steps()], 1)
    three = spending.estimate(
        cast(evidence_classifier=speaks("gpt"), panel=[speaks("gpt"), speaks("sonnet")]), [two_steps()], 1
    )
    assert (one.calls, one.usual_calls) == (2, 1)
    assert (three.calls, three.usual_calls, three.tokens) == (6, 3, 3 * one.tokens)


def test_a_record_that_no_classifier_can_take_is_summarised_first() -> None:
    setup = cast(evidence_classifier=speaks("gpt"))
    setup["models"]["gpt"]["context_limit"] = 5_000  # less than half of 6,000 + 2 x 3,200 bytes
    assert spending.estimate(setup, [two_steps()], 1).usual_calls == 2


def test_a_model_without_a_price_has_no_cost_and_is_named_with_what_is_missing() -> None:
    price(model("sonnet"), "2026-01-01", input="3", output="15")
    found = spending.estimate(cast(agent=speaks("gpt"), transition_model=speaks("sonnet")), [two_steps()], 1)
    assert found.cost is None and found.tokens > 0
    assert found.unpriced == ["gpt: input, output", "sonnet: cache_read, cache_write_5m"]


def test_an_order_of_many_experiments_is_the_sum_of_each() -> None:
    setup = cast(agent=speaks("gpt"), transition_model=speaks("sonnet"), evidence_classifier=speaks("gpt"))
    orders = [run_factory.experiment(f"e{i}", max_steps=steps) for i, steps in enumerate((50, 50, 100))]
    each = [spending.estimate(setup, [experiment], 4) for experiment in orders]
    both = spending.estimate(setup, orders, 4)
    assert both.calls == sum(one.calls for one in each)
    assert both.tokens == sum(one.tokens for one in each)


def test_a_twin_is_estimated_as_one_outcome_with_its_repairs() -> None:
    setup = cast(agent=speaks("gpt"), transition_model=speaks("gpt"))
    found = spending.estimate_twins(setup, 7)
    assert (found.calls, found.usual_calls, found.tokens) == (21, 7, 7 * 26_100)
    assert spending.estimate_twins({}, 7).calls == 0
