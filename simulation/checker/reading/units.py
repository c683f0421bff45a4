"""Amounts as others write them: "1.00 mL", "1,000 ul", 1.0 under the key vol_ml, "1.2 x 10^6 cells per mL".

Only the spelling is lenient: what a unit is worth comes from simulation.lab.quantities.
"""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from simulation.lab import quantities

CONCENTRATIONS = ("mass_concentration", "molar_concentration", "number_density", "ratio")
_LARGEST = Decimal(10) ** 15
_FOLD = str.maketrans(
    {"μ": "µ", "º": "°", "˚": "°", "−": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "×": "x", "⋅": "·", "∼": "~"}
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]{1,3}(?:,[0-9]{3}){1,4}(?![0-9])|[0-9]{1,15})(?P<part>[.,][0-9]{1,12})?"
    r"(?:[eE](?P<e>[+-]?[0-9]{1,2})(?![0-9])|\s?[x*·]\s?10(?:\^(?P<power>[+-]?[0-9]{1,2})|(?P<super>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]{1,3})))?"
)
_HEAD_ENDS = re.compile(r"[,;:()\[\]=]")
_ABOUT = re.compile(r"(?:~|≈|approx(?:\.|imately)?|about|ca\.?|circa|around|roughly|exactly|=|:)\s*", re.IGNORECASE)
# Dimensions in the order a unit is looked for when the name of a property does not say which.
_FIRST = (
    "volume", "mass", "amount", "mass_concentration", "molar_concentration", "number_density", "ratio", "duration",
    "temperature", "length", "centrifugal_force", "rotation", "voltage", "base_pairs", "flow", "pressure",
    "count",
)  # fmt: skip
_MORE_SPELLINGS = {
    "mcl": "µL", "microliters": "µL", "microlitres": "µL", "microliter": "µL", "microlitre": "µL", "milliliters": "mL",
    "millilitres": "mL", "milliliter": "mL", "millilitre": "mL", "liters": "L", "litres": "L", "liter": "L",
    "litre": "L", "nanoliters": "nL", "nanoliter": "nL", "cc": "mL", "milligrams": "mg", "milligram": "mg",
    "micrograms": "µg", "microgram": "µg", "mcg": "µg", "nanograms": "ng", "nanogram": "ng", "grams": "g", "gram": "g",
    "gm": "g", "kilograms": "kg", "molar": "M", "millimolar": "mM", "micromolar": "µM", "nanomolar": "nM",
    "degc": "°C", "deg c": "°C", "celsius": "°C", "degrees celsius": "°C", "degrees c": "°C", "degree c": "°C", "° c": "°C",
    "c": "°C", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "mins": "min", "minute": "min", "minutes": "min",
    "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "d": "day", "days": "day", "xg": "x g", "g-force": "x g",
    "rcf": "x g", "percent": "%", "pct": "%", "micron": "µm", "microns": "µm", "micrometer": "µm", "nanometers": "nm",
    "nanometer": "nm", "cell/ml": "cells/mL", "cfu/ml": "1/mL", "pfu/ml": "1/mL", "vg/ml": "1/mL", "vp/ml": "1/mL",
    "iu/ml": "1/mL", "/ml": "1/mL", "per ml": "1/mL", "viable cells/ml": "cells/mL", "kbp": "kb", "cell": "cells",
    "mmol/l": "mM", "mol/l": "M", "µmol/l": "µM", "umol/l": "µM", "nmol/l": "nM", "pmol/µl": "µM", "pmol/ul": "µM",
    "% v/v": "%", "% (v/v)": "%", "%v/v": "%", "vol%": "%", "% vol": "%",
}  # fmt: skip
# Units the strict table does not have: dimension, and how many kept units one is.
_MORE_UNITS = {
    "g/ml": ("mass_concentration", "1000000"), "µg/µl": ("mass_concentration", "1000"),
    "ug/ul": ("mass_concentration", "1000"), "mg/dl": ("mass_concentration", "10"),
    "µg/l": ("mass_concentration", "0.001"), "ug/l": ("mass_concentration", "0.001"),
    "ng/l": ("mass_concentration", "0.000001"), "pg/ml": ("mass_concentration", "0.000001"),
    "pm": ("molar_concentration", "0.000001"), "pg": ("mass", "0.000001"), "fmol": ("amount", "0.000001"),
    "cells/µl": ("number_density", "1000"), "cells/ul": ("number_density", "1000"),
    "cells/l": ("number_density", "0.001"), "million cells/ml": ("number_density", "1000000"),
    "m cells/ml": ("number_density", "1000000"), "million cells": ("count", "1000000"), "µl/ml": ("ratio", "0.1"),
    "ppm": ("mass_concentration", "1"), "dl": ("volume", "100000"), "cl": ("volume", "10000"),
}  # fmt: skip


class Amount(NamedTuple):
    """A quantity in its kept unit; `step` is half of the last digit written, so how exact the text can be."""

    value: Decimal
    dimension: str
    step: Decimal
    text: str


def read(value: Any, unit: str = "", expect: tuple[str, ...] = ()) -> Amount | None:
    """The amount a value writes; `unit` is that of its key, `expect` the dimensions its name allows. None if unclear."""
    found = number_and_rest(value)
    if found is None:
        return None
    number, step, rest = found
    known = _unit_in(rest, expect) if rest.strip() else _unit_in(_molar(unit, expect), expect)
    if known is None:
        return None
    dimension, factor = known
    text = f"{value} {unit}".strip() if not rest.strip() else str(value)
    return Amount(number * factor, dimension, step * factor, text[:80])


def number(value: Any) -> Decimal | None:
    """A bare number, whatever stands after it."""
    found = number_and_rest(value)
    return found[0] if found else None


def unit_of(text: str, expect: tuple[str, ...] = ()) -> str:
    """The dimension of a unit as it stands in a key; "" if it is none."""
    known = _unit_in(text, expect)
    return known[0] if known else ""


def number_and_rest(value: Any) -> tuple[Decimal, Decimal, str] | None:
    """(number, half of its last digit, text after it) of a text that begins with a number, maybe after "about"."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    return _parsed(str(value)[:200])


@lru_cache(maxsize=16384)
def _parsed(text: str) -> tuple[Decimal, Decimal, str] | None:
    text = fold(text).strip()
    about = _ABOUT.match(text)
    found = _NUMBER.match(text, about.end() if about else 0)
    if not found or _goes_on(text, found.end()):
        return None
    whole, part = found["whole"].replace(",", ""), (found["part"] or "").replace(",", ".")
    power = int(found["e"] or found["power"] or (found["super"] or "0").translate(_SUPERSCRIPTS).strip("+-") or 0)
    power = -power if "⁻" in (found["super"] or "") else power
    scale = Decimal(10) ** power
    result = Decimal(found["sign"] + whole + part) * scale
    step = Decimal(10) ** -max(0, len(part) - 1) * scale / 2
    return (result, step, text[found.end() :]) if abs(result) <= _LARGEST else None


def fold(text: str) -> str:
    return text.translate(_FOLD)


def show(value: Decimal, dimension: str) -> str:
    return quantities.show(value, dimension) if dimension in quantities.dimensions() else quantities.plain(value)


def _goes_on(text: str, end: int) -> bool:
    """A range, a ratio or a version is no number: "1-2 mL", "1:10", "1.2.3"."""
    after = text[end : end + 2].replace(" ", "")
    return (after[:1] in (":", "-", "/") and after[1:2].isdigit()) or (after[:1] in ".," and after[1:2].isdigit())


@lru_cache(maxsize=16384)
def _unit_in(text: str, expect: tuple[str, ...]) -> tuple[str, Decimal] | None:
    """The unit a text begins with: as many of its words as make one."""
    head = _HEAD_ENDS.split(fold(text)[:40].strip(), maxsplit=1)[0].replace(" per ", "/").replace("^", "")
    words = head.strip().rstrip(".").split(" ")
    for count in range(min(3, len(words)), 0, -1):
        if known := _known(" ".join(words[:count]).strip(), expect):
            return known
    return None


@lru_cache(maxsize=4096)
def _known(unit: str, expect: tuple[str, ...]) -> tuple[str, Decimal] | None:
    if not unit:
        return None
    lower = unit.lower()
    if more := _MORE_UNITS.get(lower):
        return more[0], Decimal(more[1])
    spelled = _MORE_SPELLINGS.get(lower, unit)
    for dimension in _ordered(expect):
        for written in (spelled, spelled.replace("u", "µ", 1), _cased(spelled)):
            try:
                return dimension, quantities.parse(f"1 {written}", dimension).value
            except quantities.QuantityError:
                continue
    return None


def _molar(unit: str, expect: tuple[str, ...]) -> str:
    """Keys are often written small: conc_um is in µM, not in µm."""
    small = unit.lower()
    if expect and set(expect) <= set(CONCENTRATIONS) and small in ("um", "µm", "mm", "nm"):
        return small[:-1].replace("u", "µ") + "M"
    return unit


def _ordered(expect: tuple[str, ...]) -> list[str]:
    known = [name for name in _FIRST if name in quantities.dimensions()]
    return [name for name in expect if name in known] + [name for name in known if name not in expect]


def _cased(unit: str) -> str:
    """ "ML", "UL", "MG/ML" as mL, µL, mg/mL: shouted units are read as small ones with a large L."""
    return re.sub(r"l\b", "L", unit.lower()).replace("ul", "µL").replace("uL", "µL").replace("ug", "µg")
