"""The sizes of planted numbers: deviations drawn from a range, and wrong numbers written as the right ones are."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal, localcontext
from math import exp, log

from simulation.lab import quantities
from simulation.lab.deviations import SizeRange, measure_deviation
from simulation.lab.outcomes import Perturbation
from simulation.offline.injectors import edits
from simulation.offline.volumetric import choose_dispenser, format_delivered_volume

# A subtle error is at least three times what the pipette may be off, or nobody could tell it from pipetting.
_PRECISIONS = 3
# Obvious numbers are off by a factor in this range, so by far more than a subtle one, and are still written like any other.
_LARGE_FACTORS = (2.5, 9.0)
_OBVIOUS_GROWTH, _OBVIOUS_LOSS = 1.0, -0.5  # a factor of two up or down
# Balances display all digits, including trailing zeros, and scatter by the last one.
_BALANCE_UNITS = (" g", " g/mL")
_ACCEPTED_ROUNDING = Decimal("0.02")  # relative difference up to which a rounded number counts as the same


def draw_factors(sizes: SizeRange, rng: random.Random, volume: Decimal | None = None) -> list[Decimal]:
    """Return four factors, two of them above 1, whose deviations lie in the range.

    `volume` is that of a delivery in µL: deviations are then also above what the pipette for it may be off.
    """
    low, high = sizes
    if volume:
        dispenser = choose_dispenser(volume)
        low = min(high, max(low, _PRECISIONS * float((dispenser.systematic + dispenser.random) / volume)))
    signs = (1, 1, -1, -1)
    return [Decimal(str(round(1 + sign * rng.uniform(low, high), 3))) for sign in signs]


def draw_large_factors(rng: random.Random, number: int = 4) -> list[Decimal]:
    """Return factors of obvious errors, all above 1 and evenly spread on a logarithmic scale."""
    low, high = map(log, _LARGE_FACTORS)
    return [Decimal(str(round(exp(rng.uniform(low, high)), 2))) for _ in range(number)]


def has_size_of(perturbation: Perturbation, sizes: SizeRange, edit: edits.Edit) -> bool:
    """Return whether the edit is no matter of numbers, or has a deviation that fits the perturbation."""
    if re.search(r"\bpH\b", edit.field):
        return True
    deviation = measure_deviation(edit.old, edit.new)
    if deviation is None:
        return True
    if perturbation == Perturbation.SUBTLE:
        return sizes.contains(deviation)
    return deviation >= _OBVIOUS_GROWTH or deviation <= _OBVIOUS_LOSS


def iter_spellings(original: str, value: Decimal, dimension: str, exact: bool = False) -> Iterator[str]:
    """Yield the value in the style of `original`: with its choice of unit, and its number of digits or one more.

    Yield nothing if rounding makes it equal to the original. With `exact`, allow two more digits, and yield only a text
    whose rounding error is at most 2 %.
    """
    correct = quantities.parse_quantity(original, dimension).value
    fewest = count_significant_digits(correct)
    for digits in range(fewest, fewest + (3 if exact else 2)):
        unit = quantities.parse_unit(original, dimension)
        # If the original uses the unit that our formats choose, the wrong value gets the unit chosen for it: 900 µL,
        # 1.2 mL.
        if unit == _choose_readable_unit(quantities.parse_quantity(original, dimension).value, dimension):
            unit = _choose_readable_unit(round_to_digits(value, digits), dimension)
        number = round_to_digits(value / quantities.parse_quantity(f"1 {unit}".strip(), dimension).value, digits)
        text = f"{quantities.write_digits(number.normalize())} {unit}".strip()
        parsed = edits.parse_amount(text, dimension)
        is_near = parsed is not None and abs(parsed.value - value) <= abs(value) * _ACCEPTED_ROUNDING
        # Rounding may lead back to the correct number, which would be no error.
        if parsed and parsed.value != correct and (not exact or is_near):
            yield text
            return


def _choose_readable_unit(value: Decimal, dimension: str) -> str:
    return quantities.format_quantity(value, dimension).partition(" ")[2]


def scale_reading(value: str, factor: Decimal) -> str:
    """Return an instrument's text with every number multiplied by the factor, with the digits that it displays.

    Of a share, the number of positive events and the percentage are multiplied, and not the number of all events.
    """
    if share := edits.SHARE.fullmatch(value):
        events = int(share["events"])
        return format_share(round(int(share["positive"]) * factor), events)
    if value.endswith(_BALANCE_UNITS):
        first = Decimal(edits.NUMBER.findall(value)[0])
        # All readings are shifted by the same amount, because multiplying them would also multiply their scatter,
        # which must stay at one last digit.
        return shift_reading(value, (first * factor).quantize(first) - first)
    digits = max((count_significant_digits(Decimal(number)) for number in edits.NUMBER.findall(value)), default=1)
    return edits.NUMBER.sub(lambda match: _scale_number(match[0], factor, digits), value)


def _scale_number(text: str, factor: Decimal, digits: int) -> str:
    number = Decimal(text)
    if "." in text:
        # The decimals are those of the display: 5.850 min stays at three.
        return quantities.write_digits((number * factor).quantize(number))
    return quantities.write_digits(round_to_digits(number * factor, max(2, digits)).to_integral_value())


def shift_reading(value: str, by: Decimal) -> str:
    """Return an instrument's text with the same amount added to every number."""
    return edits.NUMBER.sub(lambda match: str(Decimal(match[0]) + by.quantize(Decimal(match[0]))), value)


def format_share(positive: int, events: int) -> str:
    """Return a share as the cytometer writes it: four digits of the percentage, then the counts."""
    percent = format(round_to_digits(Decimal(positive * 100) / events, 4).normalize(), "f")
    return f"{percent} % ({positive} of {events} events)"


def round_to_digits(value: Decimal, digits: int) -> Decimal:
    """Return the value rounded to this number of significant digits."""
    with localcontext() as context:
        context.prec = digits
        return +value


def count_significant_digits(value: Decimal) -> int:
    """Return the number of digits without zeros at either end."""
    return len(value.normalize().as_tuple().digits)


def iter_deliveries(text: str, factor: Decimal) -> Iterator[str]:
    """Yield a delivered volume or mass times the factor, as round and with the decimals of its instrument."""
    if mass := edits.parse_amount(text, "mass"):
        number = text.partition(" ")[0]
        wrong = round_to_digits(Decimal(number) * factor, max(2, count_significant_digits(mass.value)))
        yield f"{wrong.quantize(Decimal(number))} g" if text.endswith(" g") else text
        return
    volume = quantities.parse_quantity(text, "volume").value
    # Two digits: people set round volumes.
    digits = max(2, count_significant_digits(volume))
    yield format_delivered_volume(round_to_digits(volume * factor, digits))
