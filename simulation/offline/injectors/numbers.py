"""Find the numbers in an outcome, and write a wrong number in the style of the right one."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.lab.materials import NewMaterial
from simulation.offline.injectors.edits import Case, parse_amount

CONCENTRATIONS = ("mass_concentration", "molar_concentration", "number_density", "ratio")
NUMBER = re.compile(r"(?<![\w.:/-])-?[0-9]+(?:\.[0-9]+)?(?![\w.:/])")
# A share as the cytometer's handler writes it.
SHARE = re.compile(r"(?P<percent>[0-9.]+) % \((?P<positive>[0-9]+) of (?P<events>[0-9]+) events\)")
# Balances display all digits, including trailing zeros, and scatter by the last one.
_BALANCE_UNITS = (" g", " g/mL")
# Relative difference up to which a rounded number still counts as the same.
_ROUNDING = Decimal("0.02")


class Bulk(NamedTuple):
    """A volume or mass displayed for a material of the outcome."""

    position: int
    draft: NewMaterial
    name: str  # "volume" or "mass"
    value: Decimal  # in the base unit

    @property
    def displayed_text(self) -> str:
        return str(self.draft.properties[self.name])


def list_bulks(case: Case) -> list[Bulk]:
    """Return every volume and mass above zero that no reading of the material repeats, so that one edit is enough."""
    return [
        Bulk(index, draft, name, quantity.value)
        for index, draft in case.iter_available()
        for name in ("volume", "mass")
        if (quantity := parse_amount(draft.properties.get(name), name)) and quantity.value > 0
        if not _is_read(case, index, quantity)
    ]


def _is_read(case: Case, material_index: int, expected: quantities.Quantity) -> bool:
    """Return whether any reading of the material is within 50 % of this amount."""
    return any(
        abs(reading - expected.value) * 2 < expected.value
        for index, observation in case.iter_observations()
        if case.subject_indexes[index] == material_index
        for reading in parse_readings(observation.value, expected.dimension)
    )


def parse_concentrations(properties: Mapping[str, Any]) -> dict[str, quantities.Quantity]:
    """Return the displayed concentrations of a material that are above zero, by property."""
    parsed = {
        name: parse_amount(text, *CONCENTRATIONS)
        for name, text in properties.items()
        if name.endswith(" concentration")
    }
    return {name: quantity for name, quantity in parsed.items() if quantity is not None and quantity.value > 0}


class Solute(NamedTuple):
    """A concentration displayed for a material of the outcome."""

    position: int
    draft: NewMaterial
    name: str
    quantity: quantities.Quantity

    @property
    def displayed_text(self) -> str:
        return str(self.draft.properties[self.name])


def list_solutes(case: Case) -> list[Solute]:
    return [
        Solute(index, draft, name, quantity)
        for index, draft in case.iter_available()
        for name, quantity in parse_concentrations(draft.properties).items()
    ]


def parse_readings(value: str, dimension: str) -> list[Decimal]:
    """Return the replicate readings of "1.1 mL, 1.2 mL" or "1.1, 1.2 mL"; an empty list for anything else."""
    parts = value.split(", ")
    unit = parts[-1].partition(" ")[2]
    amounts = [parse_amount(part if " " in part else f"{part} {unit}".strip(), dimension) for part in parts]
    return [quantity.value for quantity in amounts if quantity] if all(amounts) else []


def iter_spellings(original: str, value: Decimal, dimension: str, exact: bool = False) -> Iterator[str]:
    """Yield the value in the style of `original`: with its choice of unit, and its number of digits or one more.

    Yield nothing if rounding makes it equal to the original. With `exact`, allow two more digits, and yield only a text
    whose rounding error is at most 2 %.
    """
    correct = quantities.parse_quantity(original, dimension).value
    significant_digits = _count_significant_digits(correct)
    for digits in (
        (significant_digits, significant_digits + 1, significant_digits + 2)
        if exact
        else (significant_digits, significant_digits + 1)
    ):
        text = _format_like(original, value, dimension, digits)
        parsed = parse_amount(text, dimension)
        # Rounding may lead back to the correct number, which would be no error.
        if parsed and parsed.value != correct and (not exact or abs(parsed.value - value) <= abs(value) * _ROUNDING):
            yield text
            return


def _format_like(original: str, value: Decimal, dimension: str, digits: int) -> str:
    unit = quantities.parse_unit(original, dimension)
    # If the original uses the unit that our formats choose, the wrong value gets the unit chosen for it: 900 µL,
    # 1.2 mL.
    if unit == _choose_readable_unit(quantities.parse_quantity(original, dimension).value, dimension):
        unit = _choose_readable_unit(_round_to_digits(value, digits), dimension)
    number = _round_to_digits(value / quantities.parse_quantity(f"1 {unit}".strip(), dimension).value, digits)
    return f"{format(number.normalize(), 'f')} {unit}".strip()


def _choose_readable_unit(value: Decimal, dimension: str) -> str:
    return quantities.format_quantity(value, dimension).partition(" ")[2]


def multiply_numbers(value: str, factor: Decimal) -> str:
    """Return an instrument's text with every number multiplied by the factor, with the digits that it displays."""
    if value.endswith(_BALANCE_UNITS):
        first = Decimal(NUMBER.findall(value)[0])
        # All readings are shifted by the same amount, because multiplying them would also multiply their scatter,
        # which must stay at one last digit.
        further = (first * factor).quantize(first) - first
        return NUMBER.sub(lambda match: str(Decimal(match[0]) + further), value)
    return NUMBER.sub(lambda match: _scale_number(match[0], factor), value)


def _scale_number(number: str, factor: Decimal) -> str:
    original = Decimal(number)
    return format(_round_to_digits(original * factor, _count_significant_digits(original)).normalize(), "f")


def _round_to_digits(value: Decimal, digits: int) -> Decimal:
    with localcontext() as context:
        context.prec = digits
        return +value


def _count_significant_digits(value: Decimal) -> int:
    return len(value.normalize().as_tuple().digits)
