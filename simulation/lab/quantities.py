"""Parse and format quantities strictly: a number, then a unit that its dimension allows, and nothing else.

A regular expression splits the text, and a table defines the allowed units with their sizes. All arithmetic is decimal, so
that 0.1 mL + 0.2 mL is 0.3 mL.
"""

import re
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

from simulation.lab.errors import LabError

# For each dimension: its base unit, then {allowed unit as written: its size in the base unit}. Normalised, so that equal sizes
# have equal digits. A test compares the sizes with those of the library Pint, which would take half a second to load.
_SIZES: dict[str, tuple[str, dict[str, int | str]]] = {
    "volume": ("µL", {"nL": "0.001", "µL": 1, "mL": 1000, "L": "1e6"}),
    "mass": ("µg", {"ng": "0.001", "µg": 1, "mg": 1000, "g": "1e6", "kg": "1e9"}),
    "amount": ("nmol", {"pmol": "0.001", "nmol": 1, "µmol": 1000, "mmol": "1e6", "mol": "1e9"}),
    "duration": ("s", {"ms": "0.001", "s": 1, "min": 60, "h": 3600, "day": 86400, "week": 604800}),
    "temperature": ("°C", {"°C": 1}),
    "molar_concentration": ("µM", {"nM": "0.001", "µM": 1, "mM": 1000, "M": "1e6"}),
    "mass_concentration": (
        "µg/mL",
        {"ng/mL": "0.001", "µg/mL": 1, "mg/L": 1, "mg/mL": 1000, "g/L": 1000, "ng/µL": 1},
    ),
    "number_density": ("1/mL", {"cells/mL": 1, "TU/mL": 1, "vg/mL": 1, "particles/mL": 1, "1/mL": 1}),
    "count": ("", {"cells": 1, "TU": 1, "vg": 1, "particles": 1, "fish": 1, "": 1}),
    "centrifugal_force": ("x g", {"x g": 1}),
    "rotation": ("rpm", {"rpm": 1}),
    "length": ("mm", {"nm": "1e-6", "µm": "0.001", "mm": 1, "cm": 10}),
    "voltage": ("V", {"mV": "0.001", "V": 1, "kV": 1000}),
    "flow": ("mL/min", {"nL/min": "1e-6", "µL/min": "0.001", "mL/min": 1, "L/min": 1000}),
    "ratio": ("%", {"%": 1}),
    "pressure": (
        "kPa",
        {
            "Pa": "0.001",
            "kPa": 1,
            "MPa": 1000,
            "mbar": "0.1",
            "bar": 100,
            "psi": "6.894757293168361336722673443",
            "mTorr": "0.0001333223684210526315789473685",
        },
    ),
    "base_pairs": ("bp", {"bp": 1, "kb": 1000}),
    "density": ("g/mL", {"g/mL": 1, "g/cm³": 1, "kg/L": 1}),
    "power_density": ("mW/mm²", {"µW/mm²": "0.001", "mW/mm²": 1, "mW/cm²": "0.01", "W/cm²": 10}),
    "current": ("µA", {"nA": "0.001", "µA": 1, "mA": 1000, "A": "1e6"}),
    "scan_rate": ("V/s", {"mV/s": "0.001", "V/s": 1}),
    "osmolality": ("mOsm/kg", {"mOsm/kg": 1}),
    "conductivity": ("mS/cm", {"µS/cm": "0.001", "mS/cm": 1, "S/m": 10}),
    "viscosity": ("mPa·s", {"mPa·s": 1, "Pa·s": 1000, "cP": 1}),
    "surface_tension": ("mN/m", {"mN/m": 1}),
    "power": ("W", {"mW": "0.001", "W": 1}),
    "frequency": ("Hz", {"Hz": 1, "kHz": 1000, "MHz": "1e6"}),
    "angle": ("°", {"°": 1}),
    "mass_to_charge": ("m/z", {"m/z": 1}),
    "molecular_mass": ("kDa", {"Da": "0.001", "kDa": 1}),
    "electric_field": ("V/cm", {"V/cm": 1, "kV/cm": 1000}),
    "heating_rate": ("°C/min", {"°C/min": 1}),
    "activity": ("U/mL", {"mU/mL": "0.001", "U/mL": 1}),
    "enzyme_units": ("U", {"mU": "0.001", "U": 1}),
    "area_density": ("cells/cm²", {"cells/cm²": 1}),
}
_TABLE = {
    dimension: (base, {unit: Decimal(size).normalize() for unit, size in sizes.items()})
    for dimension, (base, sizes) in _SIZES.items()
}
_ALL_UNITS = {unit for _, sizes in _SIZES.values() for unit in sizes if unit}
# The units used for display, in dimensions where not all allowed units are used.
_READABLE = {
    "mass_concentration": ("ng/mL", "µg/mL", "mg/mL"),
    "duration": ("s", "min", "h", "day"),
    "conductivity": ("µS/cm", "mS/cm"),
}
# Dimensions that are always displayed in the base unit.
_ALWAYS_BASE_UNIT = {
    "flow", "pressure", "density", "power_density", "viscosity", "scan_rate", "activity", "enzyme_units", "number_density",
    "count", "base_pairs",
}  # fmt: skip
# Other spellings of the same unit. Variants of the micro and degree signs are folded before the look-up.
_SPELLINGS = {
    "uL": "µL", "ul": "µL", "µl": "µL", "ml": "mL", "l": "L", "nl": "nL", "ug": "µg", "umol": "µmol", "uM": "µM",
    "um": "µm", "mcg": "µg", "mcL": "µL", "mcM": "µM", "mcm": "µm", "mcmol": "µmol",
    "microliter": "µL", "microlitre": "µL", "microliters": "µL", "microlitres": "µL", "microgram": "µg",
    "micrograms": "µg", "micrometer": "µm", "micrometre": "µm", "micrometers": "µm", "micrometres": "µm",
    "micron": "µm", "microns": "µm", "micromolar": "µM", "micromole": "µmol", "micromoles": "µmol",
    "milliliter": "mL", "millilitre": "mL", "milliliters": "mL", "millilitres": "mL", "nanoliter": "nL",
    "nanolitre": "nL", "nanoliters": "nL", "nanolitres": "nL", "cc": "mL",
    "liter": "L", "litre": "L", "liters": "L", "litres": "L", "gram": "g", "grams": "g", "milligram": "mg",
    "milligrams": "mg", "nanogram": "ng", "nanograms": "ng", "kilogram": "kg", "kilograms": "kg",
    "nanomolar": "nM", "millimolar": "mM", "molar": "M", "mol/L": "M", "mmol/L": "mM", "µmol/L": "µM",
    "umol/L": "µM", "nmol/L": "nM", "nanometer": "nm", "nanometre": "nm", "nanometers": "nm", "nanometres": "nm",
    "C": "°C", "degC": "°C", "deg C": "°C", "deg. C": "°C", "degree C": "°C", "degrees C": "°C", "Celsius": "°C",
    "celsius": "°C", "degrees Celsius": "°C", "degrees celsius": "°C", "degree Celsius": "°C", "° C": "°C",
    "oC": "°C", "msec": "ms", "millisecond": "ms", "milliseconds": "ms",
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "mins": "min", "minute": "min", "minutes": "min",
    "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "days": "day", "d": "day", "weeks": "week", "wk": "week",
    "xg": "x g", "g-force": "x g", "rcf": "x g", "RCF": "x g", "×g": "x g", "× g": "x g", "RPM": "rpm",
    "percent": "%", "bases": "bp", "base pairs": "bp", "kbp": "kb",
    "ug/mL": "µg/mL", "ug/ml": "µg/mL", "µg/ml": "µg/mL", "mcg/mL": "µg/mL", "mg/ml": "mg/mL", "ng/ml": "ng/mL",
    "ng/uL": "ng/µL", "ng/ul": "ng/µL", "ng/µl": "ng/µL", "g/l": "g/L", "mg/l": "mg/L",
    "uL/min": "µL/min", "ul/min": "µL/min", "µl/min": "µL/min", "ml/min": "mL/min", "nl/min": "nL/min",
    "l/min": "L/min", "cells/ml": "cells/mL", "cell/mL": "cells/mL", "TU/ml": "TU/mL", "particles/ml": "particles/mL",
    "/mL": "1/mL", "g/ml": "g/mL", "g/cm3": "g/cm³", "g/cm^3": "g/cm³", "kg/l": "kg/L",
    "mW/mm2": "mW/mm²", "mW/mm^2": "mW/mm²", "uW/mm2": "µW/mm²", "uW/mm²": "µW/mm²", "uW/mm^2": "µW/mm²",
    "mW/cm2": "mW/cm²", "mW/cm^2": "mW/cm²", "W/cm2": "W/cm²", "W/cm^2": "W/cm²", "cells/cm2": "cells/cm²",
    "cells/cm^2": "cells/cm²", "uA": "µA", "mcA": "µA", "mOsmol/kg": "mOsm/kg", "mOsm": "mOsm/kg",
    "uS/cm": "µS/cm", "mPa*s": "mPa·s", "mPa s": "mPa·s", "Pa*s": "Pa·s", "Pa s": "Pa·s", "deg": "°",
    "degree": "°", "degrees": "°", "C/min": "°C/min", "degC/min": "°C/min", "U/ml": "U/mL", "units": "U",
    "IU": "U", "IU/mL": "U/mL", "units/mL": "U/mL", "mU/ml": "mU/mL", "mtorr": "mTorr",
}  # fmt: skip
_MAX_INTEGER = 10**15
LEAST_WITH_EXPONENT = 10**6  # numbers from this one on are written with a power of ten
# Characters that look alike on a page but are different code points.
_FOLD = str.maketrans(
    {"μ": "µ", "º": "°", "˚": "°", "℃": "°C", "−": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "⋅": "·"}
)
# At most 15 digits and two of the exponent, so that no value exceeds what decimal arithmetic handles quickly.
_NUMBER = re.compile(r"([+-]?[0-9]{1,15}(?:\.[0-9]{1,12})?(?:[eE][+-]?[0-9]{1,2})?)\s*(.{0,20})", re.DOTALL)


class QuantityError(LabError):
    """Raised if a text is not a quantity of the dimension. The message states what is expected."""


class Quantity(NamedTuple):
    """An amount in the base unit of its dimension (`base_unit`)."""

    value: Decimal
    dimension: str


def base_unit(dimension: str) -> str:
    """Return the unit in which amounts of a dimension are stored, for example µL for volume."""
    return _TABLE[dimension][0]


def list_units(dimension: str) -> tuple[str, ...]:
    """Return every unit in which a dimension may be written."""
    return tuple(_TABLE[dimension][1])


def list_dimensions() -> tuple[str, ...]:
    return tuple(_TABLE)


def parse_quantity(text: object, dimension: str) -> Quantity:
    """Parse a quantity, such as "50 µL" as a volume. Raises QuantityError.

    A number without a unit means seconds for a duration, is a valid count, and is rejected for any other dimension.
    """
    number, unit = _split_quantity(text, dimension)
    return Quantity(number * _conversion_factor(unit, dimension), dimension)


def _split_quantity(text: object, dimension: str) -> tuple[Decimal, str]:
    """Return the number and the unit in standard spelling. Raises QuantityError."""
    example = f'"{f"10 {base_unit(dimension)}".strip()}"'
    if isinstance(text, bool) or not isinstance(text, str | int | float | Decimal):
        raise QuantityError(f"{text!r} is not a quantity; write a number and a unit, like {example}")
    # Python raises ValueError when converting an integer of thousands of digits to text.
    folded = "" if isinstance(text, int) and abs(text) > _MAX_INTEGER else str(text).translate(_FOLD).strip()
    match = _NUMBER.fullmatch(folded)
    if not match:
        raise QuantityError(f"{_shorten(text)} is not a quantity; write a number and a unit, like {example}")
    # Seconds, because that is the unit of the clock.
    unit = match[2].strip() or ("s" if dimension == "duration" else "")
    unit = _SPELLINGS.get(unit, unit)
    if unit not in _TABLE[dimension][1]:
        allowed = ", ".join(u for u in list_units(dimension) if u)
        raise QuantityError(f"{_shorten(text)} is not a {dimension.replace('_', ' ')}; units allowed: {allowed}")
    return Decimal(match[1]), unit


def spell_unit(text: str) -> str:
    """Return a unit in its standard spelling: µL for "ul" and "microliters"; "" if it is no unit of any dimension."""
    folded = text.translate(_FOLD).strip()
    unit = _SPELLINGS.get(folded, folded)
    return unit if unit in _ALL_UNITS else ""


def find_quantity(text: object, *dimensions: str) -> Quantity | None:
    """Return the text as a quantity of the first of these dimensions that fits, or None."""
    for dimension in dimensions:
        try:
            return parse_quantity(text, dimension)
        except QuantityError:
            continue
    return None


def parse_unit(text: object, dimension: str) -> str:
    """Return the unit in which a quantity is written, in standard spelling: µL for "50 ul". Raises QuantityError."""
    return _split_quantity(text, dimension)[1]


@lru_cache(maxsize=4096)  # the checker formats the amounts of every comparison
def format_quantity(value: Decimal, dimension: str, unit: str = "") -> str:
    """Format an amount for display in `unit`, by default in the largest unit that gives a number of at least 1."""
    display_unit = unit or _readable_unit(value, dimension)
    number = format_number(value / _conversion_factor(display_unit, dimension))
    return f"{number} {display_unit}".strip()


def format_number(number: Decimal) -> str:
    """Return a decimal without trailing zeros, with at most six significant digits, and as `write_digits` writes it."""
    with localcontext() as context:
        # Six digits: more would be artefacts of a division.
        context.prec = 6
        # Adding zero turns -0 into 0.
        return write_digits((+number).normalize() + 0)


def write_digits(number: Decimal) -> str:
    """Return all digits of a number, from a million on with an exponent and without zeros at the end: "2e12".

    Every parser of numbers here reads that, and nobody has to count the zeros of 2000000000000.
    """
    if abs(number) < LEAST_WITH_EXPONENT:
        return format(number, "f")
    digits = number.normalize()
    return f"{digits.scaleb(-digits.adjusted()):f}e{digits.adjusted()}"


def round_for_display(number: Decimal) -> Decimal:
    """Round a computed number for display. More than four significant digits are rounded to three, others are kept."""
    return number if len(number.normalize().as_tuple().digits) <= 4 else Context(prec=3).plus(number)


# Dimension of an amount -> dimension of its concentration.
PER_VOLUME = {
    "mass": "mass_concentration",
    "amount": "molar_concentration",
    "count": "number_density",
    "volume": "ratio",
    "enzyme_units": "activity",
}


# Word in the name of what is counted, and the unit in which its number is given: cells, transducing units of a lentivirus,
# and genomes of the other viral vectors.
_COUNTED_UNITS = (("cells", "cells/mL"), ("lentivir", "TU/mL"), ("vector", "vg/mL"))


def format_concentration(name: str, value: Decimal, dimension: str) -> str:
    """Format a concentration, rounded for display. `dimension` is that of the substance's amount, for example mass."""
    unit = next((unit for word, unit in _COUNTED_UNITS if word in name), "") if dimension == "count" else ""
    return format_quantity(round_for_display(value), PER_VOLUME[dimension], unit)


def _conversion_factor(unit: str, dimension: str) -> Decimal:
    return _TABLE[dimension][1][unit]


def _readable_unit(value: Decimal, dimension: str) -> str:
    base, table = _TABLE[dimension]
    if dimension in _ALWAYS_BASE_UNIT:
        return base
    units = _READABLE.get(dimension, tuple(table))
    return ([base] + [unit for unit in units if abs(value / _conversion_factor(unit, dimension)) >= 1])[-1]


def _shorten(text: object) -> str:
    if isinstance(text, int) and abs(text) > _MAX_INTEGER:
        return "so large a number"
    text_repr = repr(str(text))
    return text_repr if len(text_repr) <= 60 else text_repr[:57] + "...'"
