"""What tokens cost, in US dollars: after a call from its usage, and before it at worst. No Django."""

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from typing import Any, Final, NamedTuple

from simulation.providers import Prompt
from simulation.providers.base import Usage

MILLION: Final = Decimal(1_000_000)
MICRO: Final = Decimal("0.000001")  # the ledger's last place
# English is some four bytes a token; barcodes, numbers, JSON and other scripts come down towards two. Half the bytes
# is above what any tokenizer in use makes of such prompts, with the few tokens that frame each message.
BYTES_PER_TOKEN_AT_WORST: Final = 2


class Price(NamedTuple):
    """US dollars per million tokens of each class. None: not known, which is not free."""

    input: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None
    output: Decimal | None = None


class WorstCase(NamedTuple):
    """The most that one call can take. `cost` is None where the model has no price."""

    tokens: int
    cost: Decimal | None


def cost(usage: Usage | None, price: Price | None) -> Decimal | None:
    """What the tokens cost, to the millionth of a dollar; None if any class that was used has no price."""
    if usage is None or price is None:
        return None
    used = [
        (usage.input_uncached, price.input),
        (usage.cache_read, price.cache_read),
        (usage.cache_write_5m, price.cache_write_5m),
        (usage.cache_write_1h, price.cache_write_1h),
        (usage.output, price.output),  # reasoning is in it, and billed as output
    ]
    parts = [None if each is None else tokens * each for tokens, each in used if tokens]
    known = [part for part in parts if part is not None]
    return money(sum(known, Decimal(0)) / MILLION) if len(known) == len(parts) else None


def snapshot(price: Price) -> dict[str, str]:
    """The classes that have a price, as JSON that keeps every digit."""
    return {name: str(each) for name, each in price._asdict().items() if each is not None}


def from_snapshot(told: Mapping[str, Any]) -> Price | None:
    """The price as it was told with a call; None if none was."""
    classes = {name: Decimal(told[name]) for name in Price._fields if name in told}
    return Price(**classes) if classes else None


def worst_case(prompt: Prompt | int, max_tokens: int, price: Price | None) -> WorstCase:
    """What one call takes at most: a prompt (or its UTF-8 bytes) with nothing cached, and a reply to its limit."""
    size = prompt if isinstance(prompt, int) else prompt_bytes(prompt)
    inputs = -(-size // BYTES_PER_TOKEN_AT_WORST)
    return WorstCase(inputs + max_tokens, None if price is None else _most(inputs, max_tokens, price))


def prompt_bytes(prompt: Prompt) -> int:
    """The length of all that is said, in UTF-8 bytes. A lone surrogate counts as the character put in its place."""
    texts = (prompt.system, *(message.text for message in prompt.messages))
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def missing(price: Price | None, caching: str) -> list[str]:
    """The classes that a model with such caching (WireOptions.caching) bills and that have no price."""
    billed = {"breakpoint": ("cache_read", "cache_write_5m"), "automatic": ("cache_read",)}.get(caching, ())
    return [name for name in ("input", *billed, "output") if getattr(price, name, None) is None]


def money(amount: Decimal, rounding: str = ROUND_HALF_EVEN) -> Decimal:
    """Rounded to the ledger's last place."""
    return amount.quantize(MICRO, rounding)


def _most(inputs: int, outputs: int, price: Price) -> Decimal | None:
    """Rounded up, so that no call costs more than was reserved for it."""
    if price.input is None or price.output is None:
        return None
    classes = (price.input, price.cache_read, price.cache_write_5m, price.cache_write_1h)
    dearest = max(each for each in classes if each is not None)
    return money((inputs * dearest + outputs * price.output) / MILLION, ROUND_CEILING)
