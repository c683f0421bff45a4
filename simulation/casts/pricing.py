"""Prices of tokens in US dollars: the cost of a call from its usage, and its maximum beforehand."""

import json
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from simulation.providers import Prompt
from simulation.providers.base import Usage

MILLION: Final = Decimal(1_000_000)
MICRO: Final = Decimal("0.000001")  # precision of the call log
# English has about four bytes per token; barcodes, numbers, JSON and other scripts approach two. Half the number of
# bytes exceeds the token count of any tokenizer in use for such prompts, with the few tokens around each message.
MIN_BYTES_PER_TOKEN: Final = 2


class Price(NamedTuple):
    """US dollars per million tokens of each class; None if the price is unknown."""

    input: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    output: Decimal | None = None


class MaxUsage(NamedTuple):
    """The maximum tokens and cost of one call. `cost` is None if the model has no price."""

    tokens: int
    cost: Decimal | None


def compute_cost(usage: Usage | None, price: Price | None) -> Decimal | None:
    """Return the cost of the tokens to the millionth of a dollar; None if any used class has no price."""
    if usage is None or price is None:
        return None
    used = [
        (usage.input_uncached, price.input),
        (usage.cache_read, price.cache_read),
        (usage.cache_write_5m, price.cache_write_5m),
        (usage.cache_write_1h, price.cache_write_1h),
        (usage.output, price.output),  # includes reasoning, which is billed as output
    ]
    # Only classes with tokens need a price.
    parts = [None if each is None else tokens * each for tokens, each in used if tokens]
    priced = [part for part in parts if part is not None]
    # A partial sum would look like a low cost.
    return round_money(sum(priced, Decimal(0)) / MILLION) if len(priced) == len(parts) else None


def price_to_json(price: Price) -> dict[str, str]:
    """Return the classes that have a price, as JSON with every digit."""
    return {name: str(each) for name, each in price._asdict().items() if each is not None}


def price_from_json(data: Mapping[str, Any]) -> Price | None:
    """Return the price stored with a call; None if there was none."""
    classes = {name: Decimal(data[name]) for name in Price._fields if name in data}
    return Price(**classes) if classes else None


def compute_max_usage(
    prompt: Prompt | int, max_tokens: int, price: Price | None, sends_schema: bool = False
) -> MaxUsage:
    """Return the maximum of one call with this prompt (or prompt size in UTF-8 bytes), without caching."""
    size = prompt if isinstance(prompt, int) else count_prompt_bytes(prompt)
    # Providers charge the schema of the reply as input.
    if sends_schema and not isinstance(prompt, int) and prompt.schema:
        size += _count_bytes(json.dumps(prompt.schema.schema) + prompt.schema.note)
    inputs = -(-size // MIN_BYTES_PER_TOKEN)  # rounded up
    return MaxUsage(inputs + max_tokens, None if price is None else _max_cost(inputs, max_tokens, price))


def count_prompt_bytes(prompt: Prompt) -> int:
    """Return the length of all texts in UTF-8 bytes. An unpaired surrogate counts as its replacement."""
    return sum(map(_count_bytes, (prompt.system, *(message.text for message in prompt.messages))))


@lru_cache(maxsize=32)  # the system prompt is the same in all calls
def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def missing_classes(price: Price | None, caching: str) -> list[str]:
    """Return the token classes without a price that a model with this kind of caching (WireOptions.caching) bills."""
    billed = {"breakpoint": ("cache_read", "cache_write_5m"), "automatic": ("cache_read",)}.get(caching, ())
    return [name for name in ("input", *billed, "output") if getattr(price, name, None) is None]


def round_money(amount: Decimal, rounding: str = ROUND_HALF_EVEN) -> Decimal:
    """Return the amount rounded to the precision of the call log."""
    return amount.quantize(MICRO, rounding)


def _max_cost(inputs: int, outputs: int, price: Price) -> Decimal | None:
    """Return the maximum cost, rounded up, so that no call costs more than was reserved for it."""
    if price.input is None or price.output is None:
        return None
    classes = (price.input, price.cache_read, price.cache_write_5m, price.cache_write_1h)
    # Caching can make input more expensive, so the highest price of any input class is assumed.
    highest = max(each for each in classes if each is not None)
    return round_money((inputs * highest + outputs * price.output) / MILLION, ROUND_CEILING)
