"""The size of a wrong reading in terms of the precision of its instrument: five to fifteen standard deviations."""

import random
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from simulation.lab.deviations import DETECTION_LIMIT, SizeRange
from simulation.offline.declared_numbers import parse_number
from simulation.offline.injectors import edits, sizes
from simulation.offline.responses import get_noise_floor, list_names

# In standard deviations of the instrument: fewer may be chance, and more are seen at a glance.
LEAST, MOST = Decimal(5), Decimal(15)
# The least width of a range, as the quotient of its ends, where what a reader can see is more than 15 standard deviations.
_NARROWEST = Decimal("1.25")


def find_precision(case: edits.Case, reading: edits.Reading, value: Decimal) -> Decimal | None:
    """Return the standard deviation of the instrument at this value, in the unit of the reading; None if none is declared.

    `sqrt((relative * value)^2 + floor^2)` of the experiment's declared response, the declared noise of the action, or the
    binomial standard deviation of a share of counted events, in percent.
    """
    if share := edits.SHARE.fullmatch(reading.value):
        part, events = Decimal(share["positive"]) / Decimal(share["events"]), Decimal(share["events"])
        return 100 * (part * (1 - part) / events).sqrt() if 0 < part < 1 else None
    declared = [
        ((parse_number(one["noise"]) * value) ** 2 + get_noise_floor(one) ** 2).sqrt()
        for one in _list_responses(case, reading)
    ]
    noise = case.truth.get("noise", {}).get(case.action.name)
    known = [*declared, *([parse_number(noise) * abs(value)] if noise and not declared else [])]
    # A response may be declared for several ranges. The least precise one is certain to be exceeded.
    return max(known, default=None) or None


def _list_responses(case: edits.Case, reading: edits.Reading) -> Iterator[Mapping[str, Any]]:
    quantity = reading.description.rpartition(": ")[2]
    for response in case.truth.get("responses", ()):
        if response["signal"] == quantity and case.action.name in list_names(response["action"]):
            yield response


def narrow_sizes(requested: SizeRange, relative: Decimal | None) -> SizeRange | None:
    """Return the part of the requested deviations that is 5 to 15 standard deviations, or None if there is none.

    `relative` is the standard deviation divided by the value. No deviation is below the smallest requested one: where
    that is more than 15 standard deviations, deviations are just above it. Sizes below the detection limit are requested
    for what nobody can see, so the instrument does not change them.
    """
    if relative is None or requested.largest <= DETECTION_LIMIT:
        return requested
    smallest, largest = Decimal(str(requested.smallest)), Decimal(str(requested.largest))
    low = max(smallest, LEAST * relative)
    high = min(largest, max(MOST * relative, _NARROWEST * low))
    return SizeRange(float(low), float(high)) if low < high else None


def draw_reading_factors(case: edits.Case, reading: edits.Reading, rng: random.Random) -> list[Decimal]:
    """Return four factors for a subtly wrong reading, two of them above 1; none if no allowed size exceeds the noise."""
    numbers = [Decimal(number) for number in edits.NUMBER.findall(reading.value)]
    value = min((abs(number) for number in numbers), default=Decimal(0))
    precision = find_precision(case, reading, value) if value else None
    if share := edits.SHARE.fullmatch(reading.value):
        value = Decimal(share["percent"])
    allowed = narrow_sizes(case.sizes, precision / value if precision else None)
    return sizes.draw_factors(allowed, rng) if allowed else []


def draw_distance(
    case: edits.Case, reading: edits.Reading, visible: tuple[float, float], rng: random.Random
) -> Decimal:
    """Return a difference for a reading whose scale has no zero that means none, such as a pH or a potential.

    `visible` are the smallest difference that a careful reader sees and the largest subtle one.
    """
    numbers = edits.NUMBER.findall(reading.value)
    precision = find_precision(case, reading, Decimal(numbers[-1])) if numbers else None
    low, high = (Decimal(str(end)) for end in visible)
    if precision:
        low = max(low, LEAST * precision)
        high = max(MOST * precision, _NARROWEST * low)
    return Decimal(str(round(rng.uniform(float(low), float(high)), 4)))


def stands_out(case: edits.Case, reading: edits.Reading, wrong: Decimal, others: list[Decimal]) -> bool:
    """Return whether a wrong number is as far from the median of the others as a subtle error has to be."""
    middle = sorted(others)[len(others) // 2]
    precision = find_precision(case, reading, middle)
    if precision is None:
        return abs(wrong - middle) >= Decimal(str(case.sizes.smallest)) * abs(middle)
    return abs(wrong - middle) >= LEAST * precision
