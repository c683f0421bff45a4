"""Parse the numbers of the hidden truth that carry units: readings, slopes, and amounts per amount.

The unit is part of the number in the file, so that no number can be read in another unit than the author meant.
"""

from decimal import Decimal, InvalidOperation
from functools import lru_cache

from simulation.lab import quantities

# Dimension of a concentration -> dimension of the amount in a millilitre.
CONCENTRATIONS = {
    "mass_concentration": "mass",
    "molar_concentration": "amount",
    "number_density": "count",
    "activity": "enzyme_units",
}
PER = " per "  # separates the two parts of a slope or of a ratio of amounts
_LARGEST = 10**12


def parse_number(text: object) -> Decimal:
    """Return a plain number. Raises QuantityError.

    Numbers are text in the files: JSON numbers would be read as floats and lose exactness.
    """
    try:
        number = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite() or abs(number) > _LARGEST:
        raise quantities.QuantityError(f"{text!r} is not a number")
    return number


@lru_cache(maxsize=4096)  # every reading evaluates the same texts
def parse_reading(text: str, unit: str) -> Decimal:
    """Return the number of a reading such as "0.062 AU". Raises QuantityError unless it is written in this unit.

    Units of readings, such as AU or ΔF/F, are not converted: what the instrument displays is what the file declares.
    """
    number, _, written = text.partition(" ")
    if written.strip() != unit:
        raise quantities.QuantityError(f"{text!r} is not a number in {unit or 'no unit'}")
    return parse_number(number)


@lru_cache(maxsize=4096)
def parse_concentration(text: str) -> tuple[str, Decimal]:
    """Return (dimension of the amount, concentration in its base unit) for a text such as "30 ng/µL".

    Raises QuantityError if it is not a concentration.
    """
    if quantity := quantities.find_quantity(text, *CONCENTRATIONS):
        return CONCENTRATIONS[quantity.dimension], quantity.value
    raise quantities.QuantityError(f"{text!r} is not a concentration")


def split_slope(text: str) -> tuple[str, str]:
    """Return (reading, step of x) of a slope: ("0.22 AU", "1 µg/mL") for "0.22 AU per µg/mL".

    The step is "" if the slope has none, because x is a bare number. Without a number, a step is one unit.
    """
    reading, separator, step = text.partition(PER)
    if not separator:
        return text.strip(), ""
    return reading.strip(), step if step[:1].isdigit() and " " in step else f"1 {step}"


@lru_cache(maxsize=4096)
def parse_yield(text: str) -> tuple[str, Decimal]:
    """Return (dimension, amount per cell in its base unit) of what a culture consumes or forms as it grows.

    It is written as an amount per number of cells: "9.5 mg per 1e9 cells". Raises QuantityError.
    """
    amount, _ = split_slope(text)
    quantity = quantities.find_quantity(amount, "mass", "amount")
    if quantity is None or quantity.value <= 0:
        raise quantities.QuantityError(f"{text!r} is not an amount per cells")
    return quantity.dimension, parse_amount_ratio(text, quantity.dimension, "count")


@lru_cache(maxsize=4096)
def parse_amount_ratio(text: str, dimension: str, per_dimension: str) -> Decimal:
    """Return how much of one substance there is per amount of another, both in the base units of their dimensions.

    Between amounts of one dimension it is a bare number, such as "0.7"; otherwise both units are written, such as
    "6.97734 mmol per g". Raises QuantityError.
    """
    if dimension == per_dimension and PER not in text:
        return parse_number(text)
    amount, per_amount = split_slope(text)
    if not per_amount:
        raise quantities.QuantityError(f"{text!r} has no units")
    divisor = quantities.parse_quantity(per_amount, per_dimension).value
    if divisor <= 0:
        raise quantities.QuantityError(f"{text!r} is not per an amount above zero")
    return quantities.parse_quantity(amount, dimension).value / divisor
