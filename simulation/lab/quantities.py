"""Parse and format quantities strictly: a number, then a unit that its dimension allows, and nothing else.

Text from models and files never reaches Pint's own parser, which reads "37C" as 37 coulomb and can hang on
"9**9**9 m". Here a regular expression splits the text, a table defines the allowed units, and Pint only converts them,
in decimal arithmetic, so that 0.1 mL + 0.2 mL is 0.3 mL.
"""

import re
from decimal import Context, Decimal, localcontext
from functools import cache, lru_cache
from typing import Any, NamedTuple

import pint

from simulation.lab.errors import LabError

# Decimal throughout: binary fractions would make 0.1 mL + 0.2 mL unequal to 0.3 mL.
REGISTRY: "pint.UnitRegistry[Any]" = pint.UnitRegistry(non_int_type=Decimal, autoconvert_offset_to_baseunit=True)

# For each dimension: its base unit, then {allowed unit as written: Pint's name of the unit}.
# None instead of Pint's name: the factor is 1, or is in _SIZES.
_TABLE: dict[str, tuple[str, dict[str, str | None]]] = {
    "volume": ("µL", {"nL": "nL", "µL": "uL", "mL": "mL", "L": "L"}),
    "mass": ("µg", {"ng": "ng", "µg": "ug", "mg": "mg", "g": "g", "kg": "kg"}),
    "amount": ("nmol", {"pmol": "pmol", "nmol": "nmol", "µmol": "umol", "mmol": "mmol", "mol": "mol"}),
    "duration": ("s", {"ms": "ms", "s": "s", "min": "min", "h": "hour", "day": "day", "week": "week"}),
    "temperature": ("°C", {"°C": None}),
    "molar_concentration": ("µM", {"nM": "nmol/L", "µM": "umol/L", "mM": "mmol/L", "M": "mol/L"}),
    "mass_concentration": (
        "µg/mL",
        {"ng/mL": "ng/mL", "µg/mL": "ug/mL", "mg/L": "mg/L", "mg/mL": "mg/mL", "g/L": "g/L", "ng/µL": "ng/uL"},
    ),
    "number_density": ("1/mL", {"cells/mL": None, "TU/mL": None, "particles/mL": None, "1/mL": None}),
    # Counts need no conversion.
    "count": ("", {"cells": None, "TU": None, "particles": None, "fish": None, "": None}),
    "centrifugal_force": ("x g", {"x g": None}),
    "rotation": ("rpm", {"rpm": None}),
    "length": ("mm", {"nm": "nm", "µm": "um", "mm": "mm", "cm": "cm"}),
    "voltage": ("V", {"mV": "mV", "V": "V", "kV": "kV"}),
    "flow": ("mL/min", {"nL/min": "nL/min", "µL/min": "uL/min", "mL/min": "mL/min", "L/min": "L/min"}),
    "ratio": ("%", {"%": None}),
    "pressure": (
        "kPa",
        {"Pa": "Pa", "kPa": "kPa", "MPa": "MPa", "mbar": "mbar", "bar": "bar", "psi": "psi", "mTorr": "mtorr"},
    ),
    "base_pairs": ("bp", {"bp": None, "kb": None}),
    "density": ("g/mL", {"g/mL": "g/mL", "g/cm³": "g/cm**3", "kg/L": "kg/L"}),
    "power_density": ("mW/mm²", {"µW/mm²": "uW/mm**2", "mW/mm²": "mW/mm**2", "mW/cm²": "mW/cm**2", "W/cm²": "W/cm**2"}),
    "current": ("µA", {"nA": "nA", "µA": "uA", "mA": "mA", "A": "A"}),
    "scan_rate": ("V/s", {"mV/s": "mV/s", "V/s": "V/s"}),
    "osmolality": ("mOsm/kg", {"mOsm/kg": None}),
    "conductivity": ("mS/cm", {"µS/cm": "uS/cm", "mS/cm": "mS/cm", "S/m": "S/m"}),
    "viscosity": ("mPa·s", {"mPa·s": "mPa*s", "Pa·s": "Pa*s", "cP": "cP"}),
    "surface_tension": ("mN/m", {"mN/m": "mN/m"}),
    "power": ("W", {"mW": "mW", "W": "W"}),
    "frequency": ("Hz", {"Hz": "Hz", "kHz": "kHz", "MHz": "MHz"}),
    "angle": ("°", {"°": None}),
    "mass_to_charge": ("m/z", {"m/z": None}),
    "molecular_mass": ("kDa", {"Da": "Da", "kDa": "kDa"}),
    "electric_field": ("V/cm", {"V/cm": "V/cm", "kV/cm": "kV/cm"}),
    "heating_rate": ("°C/min", {"°C/min": None}),
    "activity": ("U/mL", {"mU/mL": None, "U/mL": None}),
    "enzyme_units": ("U", {"mU": None, "U": None}),
    "area_density": ("cells/cm²", {"cells/cm²": None}),
}
# Units that Pint does not define, with their size in the base unit.
_SIZES = {"kb": Decimal(1000), "mU": Decimal("0.001"), "mU/mL": Decimal("0.001")}
# The units used for display, in dimensions where not all allowed units are used.
_READABLE = {
    "mass_concentration": ("ng/mL", "µg/mL", "mg/mL"),
    "duration": ("s", "min", "h", "day"),
    "conductivity": ("µS/cm", "mS/cm"),
}
# Dimensions that are always displayed in the base unit.
_ALWAYS_BASE_UNIT = {
    "flow", "pressure", "density", "power_density", "viscosity", "scan_rate", "activity", "enzyme_units",
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
    """Return a decimal without exponent or trailing zeros, with at most six significant digits."""
    with localcontext() as context:
        # Six digits: more would be artefacts of a division.
        context.prec = 6
        rounded = +number
    text = format(rounded, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    # A negative value rounded to zero would be "-0".
    return "0" if text in ("-0", "") else text


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


def format_concentration(name: str, value: Decimal, dimension: str) -> str:
    """Format a concentration, rounded for display. `dimension` is that of the substance's amount, for example mass."""
    unit = "cells/mL" if dimension == "count" and "cells" in name else ""
    return format_quantity(round_for_display(value), PER_VOLUME[dimension], unit)


# Cached, because Pint is slow and the same few units occur in every step.
@cache
def _conversion_factor(unit: str, dimension: str) -> Decimal:
    base, table = _TABLE[dimension]
    if unit in _SIZES:
        return _SIZES[unit]
    pint_name = table[unit]
    if pint_name is None:
        return Decimal(1)
    target = table[base]
    assert target is not None, f"the base unit of {dimension} is known to Pint"
    # Normalised, so that equal factors have equal digits.
    return Decimal(str(REGISTRY.Quantity(Decimal(1), pint_name).to(target).magnitude)).normalize()


def _readable_unit(value: Decimal, dimension: str) -> str:
    base, table = _TABLE[dimension]
    if table[base] is None or dimension in _ALWAYS_BASE_UNIT:
        return base
    units = _READABLE.get(dimension, tuple(table))
    return ([base] + [unit for unit in units if abs(value / _conversion_factor(unit, dimension)) >= 1])[-1]


def _shorten(text: object) -> str:
    if isinstance(text, int) and abs(text) > _MAX_INTEGER:
        return "so large a number"
    text_repr = repr(str(text))
    return text_repr if len(text_repr) <= 60 else text_repr[:57] + "...'"
