"""Cost of tokens: actual costs after a call, and worst-case costs before it."""

import itertools
import json
import random
from decimal import Decimal
from math import ceil

import pytest

from simulation.casts import pricing
from simulation.casts.pricing import MaxUsage, Price
from simulation.providers import Message, Prompt
from simulation.providers.base import Usage

SONNET = Price(Decimal(3), Decimal("0.30"), Decimal("3.75"), Decimal(6), Decimal(15))
UNCACHED = Price(input=Decimal("1.25"), output=Decimal(10))


def test_each_token_class_is_billed_once_at_its_own_price() -> None:
    # 1000 x 3 + 2000 x 0.30 + 400 x 3.75 + 100 x 6 + 500 x 15 = 3000 + 600 + 1500 + 600 + 7500 = 13200 millionths
    usage = Usage(1000, 2000, 400, 100, 500, reasoning=450)  # reasoning is part of the 500
    assert pricing.compute_cost(usage, SONNET) == Decimal("0.013200")


def test_call_served_from_the_cache_is_not_free() -> None:
    # 100,000 x 0.30 + 10 x 15 = 30,150 millionths
    assert pricing.compute_cost(Usage(0, 100_000, 0, 0, 10), SONNET) == Decimal("0.030150")


def test_cost_is_unknown_if_a_used_token_class_has_no_price() -> None:
    assert pricing.compute_cost(Usage(1000, 1, 0, 0, 10), UNCACHED) is None
    assert pricing.compute_cost(Usage(1000, 0, 0, 0, 10), UNCACHED) == Decimal("0.001350")  # 1250 + 100 millionths


def test_cost_is_unknown_without_usage_or_price() -> None:
    assert pricing.compute_cost(None, SONNET) is None
    assert pricing.compute_cost(Usage(1, 0, 0, 0, 1), None) is None


def test_free_model_has_a_known_cost_of_zero() -> None:
    free = Price(Decimal(0), Decimal(0), Decimal(0), Decimal(0), Decimal(0))
    assert pricing.compute_cost(Usage(1000, 10, 0, 0, 10), free) == 0
    assert pricing.compute_max_usage(1000, 100, free) == MaxUsage(600, Decimal(0))


def test_cost_is_rounded_to_the_millionth_of_a_dollar() -> None:
    tiny = Price(input=Decimal("0.25"), output=Decimal("0.25"))
    assert pricing.compute_cost(Usage(3, 0, 0, 0, 0), tiny) == Decimal("0.000001")  # 0.75 millionths
    assert pricing.compute_cost(Usage(1, 0, 0, 0, 0), tiny) == Decimal("0.000000")  # 0.25 millionths


def test_worst_case_is_one_token_per_two_bytes_at_the_highest_input_price_plus_the_longest_answer() -> None:
    # 1001 bytes: 501 tokens at 6 (an hour's cache write) + 200 at 15 = 3006 + 3000 = 6006 millionths
    assert pricing.compute_max_usage(1001, 200, SONNET) == MaxUsage(701, Decimal("0.006006"))
    # 501 x 1.25 + 200 x 10 = 626.25 + 2000 millionths, rounded up
    assert pricing.compute_max_usage(1001, 200, UNCACHED) == MaxUsage(701, Decimal("0.002627"))


def test_worst_case_of_an_unpriced_model_is_in_tokens_only() -> None:
    assert pricing.compute_max_usage(1000, 200, None) == MaxUsage(700, None)
    assert pricing.compute_max_usage(1000, 200, Price(input=Decimal(1))) == MaxUsage(700, None)


def test_prompt_size_counts_all_texts_in_bytes() -> None:
    prompt = Prompt("µµ", (Message("user", "abc"), Message("assistant", "\ud800"), Message("user", "d")), "act")
    assert pricing.count_prompt_bytes(prompt) == 11  # 4 + 3 + 3 + 1
    assert pricing.compute_max_usage(prompt, 10, None).tokens == 16  # 6 + 10


def test_call_within_its_limits_never_exceeds_its_worst_case() -> None:
    rng = random.Random(4)
    for _ in range(500):
        price = Price(*(Decimal(rng.randrange(10**9)) / 10**6 for _ in Price._fields))
        size, most = rng.randrange(10**6), rng.randrange(10**5)
        inputs = sorted(rng.randrange(ceil(size / 2) + 1) for _ in range(3))
        classes = [after - before for before, after in itertools.pairwise([0, *inputs, ceil(size / 2)])]
        usage = Usage(*classes, output=rng.randrange(most + 1))
        cost, worst = pricing.compute_cost(usage, price), pricing.compute_max_usage(size, most, price)
        assert cost is not None and worst.cost is not None and cost <= worst.cost
        assert sum(usage[:5]) <= worst.tokens


@pytest.mark.parametrize("price", [SONNET, UNCACHED, Price(input=Decimal("0.000001")), Price(output=Decimal(0))])
def test_price_snapshot_can_be_read_back(price: Price) -> None:
    told = {"model": "m", "source": "a page", **pricing.price_to_json(price)}
    assert pricing.price_from_json(json.loads(json.dumps(told))) == price


def test_empty_price_snapshot_means_no_price() -> None:
    assert pricing.price_from_json({}) is None
    assert pricing.price_to_json(Price()) == {}


def test_missing_prices_are_listed_by_token_class() -> None:
    assert pricing.missing_classes(None, "breakpoint") == ["input", "cache_read", "cache_write_5m", "output"]
    assert pricing.missing_classes(UNCACHED, "breakpoint") == ["cache_read", "cache_write_5m"]
    assert pricing.missing_classes(UNCACHED, "automatic") == ["cache_read"]
    assert pricing.missing_classes(UNCACHED, "none") == []
    assert pricing.missing_classes(SONNET, "breakpoint") == []
