"""Usage of runs, as sums over the call log."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from simulation.calls import run_usage
from simulation.casts import pricing
from simulation.casts.pricing import Price
from simulation.models import Episode, Run
from tests.support import run_factory
from tests.support.call_rows import create_call, create_model, create_price

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]
USED = {"input_uncached": 1000, "cache_read": 2000, "cache_write_5m": 400, "cache_write_1h": 100, "output": 50}
ZERO = dict.fromkeys(USED, 0)


@pytest.fixture
def run() -> Run:
    return run_factory.create_episode().run


def test_a_call_is_priced_by_the_newest_price_of_its_day() -> None:
    gpt = create_model()
    create_price(gpt, "2026-01-01", input="2", output="8")
    create_price(gpt, "2026-06-01", input="1", output="4")
    assert run_usage.get_price_on("gpt", date(2026, 5, 31))[0] == Price(input=Decimal(2), output=Decimal(8))
    assert run_usage.get_price_on("gpt", date(2026, 6, 1))[0] == Price(input=Decimal(1), output=Decimal(4))


def test_price_is_missing_before_the_first_price_and_for_unknown_models() -> None:
    create_price(create_model(), "2026-01-01", input="2", output="8")
    assert run_usage.get_price_on("gpt", date(2025, 12, 31)) == (None, {})
    assert run_usage.get_price_on("nobody", date(2026, 12, 31)) == (None, {})


def test_todays_prices_of_all_models_of_a_run_configuration_take_one_query(django_assert_num_queries: Any) -> None:
    gpt, sonnet = create_model(), create_model("sonnet")
    for day, dollars in (("2026-06-01", "1"), ("2026-01-01", "2"), ("2999-01-01", "3")):
        create_price(gpt, day, input=dollars)
    create_price(sonnet, "2999-01-01", input="3")
    with django_assert_num_queries(1):
        found = run_usage.get_todays_prices({"models": {"gpt": {}, "sonnet": {}, "nobody": {}}})
    assert found == {"gpt": Price(input=Decimal(1)), "sonnet": None, "nobody": None}
    assert run_usage.get_todays_prices({}) == {}


def test_price_record_identifies_the_price() -> None:
    create_price(create_model(), "2026-01-01", input="2", cache_read="0.25")
    found, told = run_usage.get_price_on("gpt", date(2026, 5, 1))
    assert told["model"] == "gpt" and told["effective_from"] == "2026-01-01" and told["source"] == "a page"
    assert "output" not in told  # unknown prices are omitted
    assert pricing.price_from_json(told) == found


def test_tokens_of_a_call_are_counted_once_each() -> None:
    assert run_usage.sum_tokens({**USED, "reasoning": 40}) == 3550  # 1000 + 2000 + 400 + 100 + 50, reasoning in the 50
    assert run_usage.sum_tokens({"input_uncached": 7, "output": 2, "cache_read": None}) == 9


@pytest.mark.parametrize("name", ["input_uncached", "output"])
def test_tokens_without_a_count_of_the_provider_are_unknown(name: str) -> None:
    assert run_usage.sum_tokens({**USED, name: None}) is None
    assert run_usage.sum_tokens({}) is None


def test_totals_are_sums_over_the_call_log(run: Run) -> None:
    create_call(state="answered", cost=Decimal("0.1"), reasoning=40, **USED)
    create_call(state="answered", cost=Decimal("0.2"), **USED)
    create_call(state="refused", cost=Decimal("0.000001"), input_uncached=10, output=1)
    create_call(state="answered")  # no usage, no cost
    create_call(state="failed", error_class="timeout")
    create_call(state="failed", error_class="rate_limit", cost=Decimal(0), **ZERO)
    create_call(state="lost", reserved_tokens=900, reserved_cost=Decimal("0.05"))
    create_call(state="fenced", cost=Decimal("0.3"), input_uncached=5, output=5)
    create_call(state="started", reserved_tokens=70, reserved_cost=Decimal("0.01"))
    found = run_usage.sum_usage(run)
    assert found == run_usage.UsageTotals(
        calls=9, started=1, answered=3, refused=1, failed=2, lost=1, fenced=1,
        input_uncached=2015, cache_read=4000, cache_write_5m=800, cache_write_1h=200, output=106, reasoning=40,
        cost=Decimal("0.600001"),  # 0.1 + 0.2 + 0.000001 + 0.3, to the last place
        unknown_cost=2, uncounted=2,  # the answer without usage, and the one that timed out
        lost_tokens=900, lost_cost=Decimal("0.05"),
    )  # fmt: skip
    assert found.tokens == 7121  # 2015 + 4000 + 800 + 200 + 106


def test_totals_of_a_run_without_calls_are_zero(run: Run) -> None:
    found = run_usage.sum_usage(run)
    assert found.calls == 0 and found.tokens == 0 and found.cost == 0
    assert run_usage.sum_usage_by_speaker(run) == [] and run_usage.compute_usage_rate(run) is None


def test_totals_do_not_include_other_runs(run: Run) -> None:
    other = run_factory.create_episode(cast="other")
    create_call(other, state="answered", cost=Decimal(5), ended_at=timezone.now(), **USED)
    assert run_usage.sum_usage(run).calls == 0
    assert run_usage.compute_usage_rate(run) is None
    assert run_usage.check_budget_counters(run).ledger_cost == 0


def test_totals_of_a_hundred_small_costs_are_exact(run: Run) -> None:
    for _ in range(100):
        create_call(state="answered", cost=Decimal("0.010001"))
    assert run_usage.sum_usage(run).cost == Decimal("1.000100")


def test_totals_of_counts_near_the_column_maximum_do_not_overflow(run: Run) -> None:
    most = 2**31 - 1
    for _ in range(2):
        create_call(state="answered", input_uncached=most, cache_read=most, output=most, ended_at=timezone.now())
    assert run_usage.sum_usage(run).tokens == 6 * most
    assert run_usage.check_budget_counters(run).ledger_tokens == 6 * most
    found = run_usage.compute_usage_rate(run)
    assert found is not None and found.tokens == pytest.approx(6 * most / 5)


def test_usage_is_reported_by_role_and_player(run: Run) -> None:
    create_call(state="answered", cost=Decimal(1), **USED)
    create_call(state="answered", cost=Decimal(2), role="verdict", **USED)
    create_call(state="answered", cost=Decimal(4), role="verdict", **USED)
    create_call(state="answered", role="transition", speaker="sonnet", model_name="sonnet", **USED)
    rows = [
        (r.role, r.speaker, r.totals.calls, r.totals.cost, r.totals.unknown_cost)
        for r in run_usage.sum_usage_by_speaker(run)
    ]
    assert rows == [("agent", "gpt", 1, 1, 0), ("transition", "sonnet", 1, 0, 1), ("verdict", "gpt", 2, 6, 0)]


def test_usage_rate_is_computed_over_the_last_five_minutes(run: Run) -> None:
    now = timezone.now()
    for ago in (1, 60, 299, 301, 4000):
        create_call(state="answered", ended_at=now - timedelta(seconds=ago), **USED)
    create_call()  # under way
    found = run_usage.compute_usage_rate(run)
    assert found is not None
    assert found.calls == pytest.approx(0.6)  # three in five minutes
    assert found.tokens == pytest.approx(3 * 3550 / 5)


def test_usage_rate_of_a_run_younger_than_five_minutes_is_computed_over_its_age(run: Run) -> None:
    run.first_call_at = timezone.now() - timedelta(seconds=30)
    for _ in range(10):
        create_call(state="answered", ended_at=timezone.now(), **USED)
    found = run_usage.compute_usage_rate(run)
    assert found is not None and found.calls == pytest.approx(20, rel=0.05)  # ten in half a minute


def create_reserving_calls(episode: Episode) -> None:
    """Create a call for each way of using budget: 0.30 and 150 tokens known, the rest reserved."""
    reserved = {"reserved_tokens": 1000, "reserved_cost": Decimal(1)}
    create_call(episode, state="answered", cost=Decimal("0.3"), input_uncached=100, output=50, **reserved)
    create_call(episode, state="answered", **reserved)  # no usage reported: 1.00, 1000
    create_call(episode, state="failed", error_class="timeout", **reserved)  # may be charged: 1.00, 1000
    create_call(episode, state="failed", error_class="rate_limit", cost=Decimal(0), **ZERO, **reserved)  # free
    create_call(episode, state="lost", **reserved)  # 1.00, 1000
    create_call(episode, state="started", **reserved)  # 1.00, 1000
    create_call(episode, state="fenced", cost=Decimal("0.2"), input_uncached=1, output=1, **reserved)


def test_budget_check_reports_counters_that_differ_from_the_call_log(run: Run) -> None:
    create_reserving_calls(run.episodes.get())
    Run.objects.filter(pk=run.pk).update(held_cost=Decimal("4.5"), held_tokens=4152)
    found = run_usage.check_budget_counters(run)
    assert found.ledger_cost == Decimal("4.5")  # 0.3 + 4 x 1 + 0.2
    assert found.ledger_tokens == 4152  # 150 + 4 x 1000 + 2
    assert found.is_consistent
    Run.objects.filter(pk=run.pk).update(held_tokens=4151)
    assert not run_usage.check_budget_counters(run).is_consistent
    Run.objects.filter(pk=run.pk).update(held_tokens=4152, held_cost=Decimal("4.499999"))
    assert not run_usage.check_budget_counters(run).is_consistent


def test_budget_counters_are_computed_from_the_call_log_when_a_run_gets_its_first_limit(run: Run) -> None:
    create_reserving_calls(run.episodes.get())
    assert not run_usage.check_budget_counters(run).is_consistent
    run_usage.recount_run(run)
    assert run_usage.check_budget_counters(run).is_consistent


def test_totals_cost_the_same_queries_for_ten_and_for_twenty_calls(run: Run, django_assert_num_queries: Any) -> None:
    for _ in range(2):
        for _ in range(10):
            create_call(state="answered", ended_at=timezone.now(), **USED)
        with django_assert_num_queries(3):
            run_usage.sum_usage(run)
            run_usage.sum_usage_by_speaker(run)
            run_usage.compute_usage_rate(run)
