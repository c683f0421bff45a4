"""Parse amounts in foreign spellings: "1.00 mL", "1,000 ul", 1.0 under the key vol_ml, "1.2 x 10^6 cells per mL".

Only the spelling is lenient: the size of a unit comes from simulation.lab.quantities.
"""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from simulation.lab import quantities

CONCENTRATIONS = ("mass_concentration", "molar_concentration", "number_density", "ratio")
_LARGEST = Decimal(10) ** 15  # larger numbers are hostile input, not amounts
# Characters that look alike: two micro signs, three degree signs, minus and dash, special spaces, times and point.
_LOOKALIKES = str.maketrans(
    {"μ": "µ", "º": "°", "˚": "°", "−": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "×": "x", "⋅": "·", "∼": "~"}
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]{1,3}(?:,[0-9]{3}){1,4}(?![0-9])|[0-9]{1,15})(?P<part>[.,][0-9]{1,12})?"
    r"(?:[eE](?P<e>[+-]?[0-9]{1,2})(?![0-9])|\s?[x*·]\s?10(?:\^(?P<power>[+-]?[0-9]{1,2})|(?P<super>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]{1,3})))?"
)
# A number before a unit; not part of a range, ratio, date or version.
_NUMBER_IN_TEXT = re.compile(r"(?<![\w.,:/-])-?[0-9]{1,9}(?:\.[0-9]{1,6})?\s?(?=[A-Za-z°µμ%])")
# "300g" of a centrifuge; one digit would be grams.
_G_FORCE = re.compile(r"(?<![\w.,:/-])([0-9]{2,6})\s?g(?![\w/])")
# Characters that end a unit: "1 mL (approx.)", "2 h; then 4 °C".
_HEAD_ENDS = re.compile(r"[,;:()\[\]=]")
# "32 mg/100 mL"
_PER_PART = re.compile(r"([a-zA-Zµ]{1,5})\s?/\s?(1000?|10|250|500)\s?([mµuc]?[lL])\b")
_UNCERTAINTY = re.compile(r"\s?(?:±|\+/-)\s?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_RANGE_OR_VERSION = re.compile(r"[:/.,-][0-9]")
_ABOUT = re.compile(r"(?:~|≈|approx(?:\.|imately)?|about|ca\.?|circa|around|roughly|exactly|=|:)\s*", re.IGNORECASE)
_LITRES = re.compile(r"\b([nµum]?)l\b")
# "particles per millilitre", "millivolts": the symbol of a unit in words, of which the laboratory knows only some.
_PREFIXES = {
    "milli": "m",
    "micro": "µ",
    "nano": "n",
    "pico": "p",
    "femto": "f",
    "kilo": "k",
    "mega": "M",
    "centi": "c",
    "deci": "d",
    "": "",
}
_SYMBOLS = {
    "liter": "L", "litre": "L", "gram": "g", "gramme": "g", "meter": "m", "metre": "m", "volt": "V", "ampere": "A", "amp": "A", "mole": "mol",
    "molar": "M", "second": "s", "pascal": "Pa", "osmole": "Osm", "osmol": "Osm", "siemens": "S", "base": "b", "dalton": "Da", "watt": "W",
}  # fmt: skip
_UNIT_IN_WORDS = re.compile(rf"\b({'|'.join(filter(None, _PREFIXES))}|)({'|'.join(_SYMBOLS)})s?\b", re.IGNORECASE)
# Order in which dimensions are tried for a unit if the name of a property does not determine one.
_DIMENSION_ORDER = (
    "volume", "mass", "amount", "mass_concentration", "molar_concentration", "number_density", "ratio", "duration",
    "temperature", "length", "centrifugal_force", "rotation", "voltage", "base_pairs", "flow", "pressure",
    "count", "osmolality", "conductivity", "current", "molecular_mass", "scan_rate",
)  # fmt: skip
# Things that are counted per volume: "minicells/mL" is 1/mL.
_COUNTED = re.compile(
    r"(?:(?:viable|live|dead|total|intact|free|gated|infectious|single|physical) )?"
    r"(?:cells?|minicells?|particles?|cfu|pfu|tu|vg|vp|gc|iu|events?|beads?|spores?|bacteria|colonies|copies|virions?|vesicles?|yeasts?|zellen|cellules|celulas|partikel|particulas|kolonien|kbe|ufc|"
    r"transducing units|colony[- ]forming units|genomes?|genome copies|droplets?)?/(ml|µl|l|cm3)"
)
_VOLUMES_OF_COUNTS = {"ml": "1", "cm3": "1", "µl": "1000", "l": "0.001"}  # factor from 1/volume to 1/mL
# Lower-case spellings that simulation.lab.quantities does not know.
_MORE_SPELLINGS = {
    "gm": "g", "degc": "°C", "deg c": "°C", "degrees c": "°C", "degree c": "°C", "° c": "°C", "c": "°C", "pct": "%",
    "cfu/ml": "1/mL", "pfu/ml": "1/mL", "vg/ml": "1/mL", "vp/ml": "1/mL", "iu/ml": "1/mL", "per ml": "1/mL",
    "viable cells/ml": "cells/mL", "cell": "cells", "pmol/µl": "µM", "pmol/ul": "µM", "% v/v": "%", "% (v/v)": "%",
    "%v/v": "%", "vol%": "%", "% vol": "%", "cel": "°C", "degrees celsius": "°C", "mosmol/kg": "mOsm/kg",
    "mosm/kg": "mOsm/kg", "mosmol": "mOsm/kg", "g/mol": "Da", "kg/mol": "kDa", "mole": "mol", "moles": "mol", "millimole": "mmol", "millimoles": "mmol", "micromole": "µmol",
    "micromoles": "µmol", "nanomole": "nmol", "nanomoles": "nmol", "picomole": "pmol", "picomoles": "pmol",
}  # fmt: skip
# Units that the laboratory does not accept: their dimension, and their size in the base unit of that dimension.
_MORE_UNITS = {
    "g/ml": ("mass_concentration", "1000000"), "µg/µl": ("mass_concentration", "1000"),
    "ug/ul": ("mass_concentration", "1000"), "mg/dl": ("mass_concentration", "10"),
    "µg/l": ("mass_concentration", "0.001"), "ug/l": ("mass_concentration", "0.001"),
    "ng/l": ("mass_concentration", "0.000001"), "pg/ml": ("mass_concentration", "0.000001"),
    "pm": ("molar_concentration", "0.000001"), "pg": ("mass", "0.000001"), "fmol": ("amount", "0.000001"),
    "cells/µl": ("number_density", "1000"), "cells/ul": ("number_density", "1000"),
    "cells/l": ("number_density", "0.001"), "million cells/ml": ("number_density", "1000000"),
    "m cells/ml": ("number_density", "1000000"), "million cells": ("count", "1000000"), "µl/ml": ("ratio", "0.1"),
    "osm/kg": ("osmolality", "1000"), "osmol/kg": ("osmolality", "1000"),
    "vg": ("count", "1"), "vp": ("count", "1"), "gc": ("count", "1"), "pfu": ("count", "1"), "cfu": ("count", "1"),
    "minicells": ("count", "1"), "minicell": ("count", "1"), "copies": ("count", "1"), "pl": ("volume", "0.000001"), "fl": ("volume", "0.000000001"),
    "ppm": ("mass_concentration", "1"), "ppb": ("mass_concentration", "0.001"), "‰": ("ratio", "0.1"),
    "kg/l": ("mass_concentration", "1000000"), "g/cm3": ("mass_concentration", "1000000"), "g/cm³": ("mass_concentration", "1000000"),
    "dl": ("volume", "100000"), "cm3": ("volume", "1000"), "ccm": ("volume", "1000"), "cc": ("volume", "1000"), "cl": ("volume", "10000"),
}  # fmt: skip


class Amount(NamedTuple):
    """A quantity in the base unit of its dimension. `step` is half a unit of the last written digit, for rounding."""

    value: Decimal
    dimension: str
    step: Decimal
    text: str


def parse_amount(value: Any, unit: str = "", dimensions: tuple[str, ...] = ()) -> Amount | None:
    """Return the amount in a value, or None if unclear.

    `unit` is the unit in the key of the value. `dimensions` are the dimensions that are tried first.
    """
    number_parts = split_number(value)
    if number_parts is None:
        return None
    number, step, rest = number_parts
    # A unit in the value takes precedence over one in the key.
    unit_found = _find_leading_unit(rest if rest.strip() else _prefer_molar(unit, dimensions), dimensions)
    if unit_found is None:
        return None
    dimension, factor = unit_found
    text = str(value) if rest.strip() else f"{value} {unit}".strip()
    return Amount(number * factor, dimension, step * factor, text[:80])


def find_amounts(text: str, dimension: str) -> list[Amount]:
    """Return all amounts of a dimension in a text."""
    normalised = normalise_text(text[:2000])
    texts = (normalised[match.start() : match.start() + 40] for match in _NUMBER_IN_TEXT.finditer(normalised))
    amounts = (parse_amount(amount_text, "", (dimension,)) for amount_text in texts)
    return [amount for amount in amounts if amount and amount.dimension == dimension]


def find_forces(text: str) -> list[Amount]:
    """Return the centrifugal forces in a text like "300g" or "at 3000 g", which does not mean grams."""
    forces = (Decimal(match[1]) for match in _G_FORCE.finditer(normalise_text(text[:2000])))
    return [Amount(force, "centrifugal_force", Decimal("0.5"), f"{force} x g") for force in forces]


def parse_number(value: Any) -> Decimal | None:
    """Return the number at the start of a value, or None."""
    number_parts = split_number(value)
    return number_parts[0] if number_parts else None


def find_dimension(text: str, dimensions: tuple[str, ...] = ()) -> str:
    """Return the dimension of a unit, or "" if it is none."""
    unit_found = _find_leading_unit(text, dimensions)
    return unit_found[0] if unit_found else ""


def split_number(value: Any) -> tuple[Decimal, Decimal, str] | None:
    """Return (number, half a unit of its last digit, text after it) of a value that starts with a number, or None.

    A word like "about" may precede the number.
    """
    if not isinstance(value, str) and not _is_readable_number(value):
        return None
    return _parse_number_text(str(value)[:200])


def _is_readable_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return False
    # Before the conversion to text, which is slow for huge integers.
    return not isinstance(value, int) or abs(value) <= _LARGEST


@lru_cache(maxsize=16384)
def _parse_number_text(text: str) -> tuple[Decimal, Decimal, str] | None:
    text = normalise_text(text).strip()
    about = _ABOUT.match(text)
    match = _NUMBER.match(text, about.end() if about else 0)
    # The start of a range, ratio or version: "1-2 mL", "1:10", "1.2.3".
    if not match or _RANGE_OR_VERSION.match(text, match.end()):
        return None
    integer_part, decimal_part = match["whole"].replace(",", ""), (match["part"] or "").replace(",", ".")
    power = int(match["e"] or match["power"] or (match["super"] or "0").translate(_SUPERSCRIPTS).strip("+-") or 0)
    power = -power if "⁻" in (match["super"] or "") else power
    scale = Decimal(10) ** power
    result = Decimal(match["sign"] + integer_part + decimal_part) * scale
    step = Decimal(10) ** -max(0, len(decimal_part) - 1) * scale / 2
    uncertainty = _UNCERTAINTY.match(text, match.end())
    return (result, step, text[(uncertainty or match).end() :]) if abs(result) <= _LARGEST else None


def normalise_text(text: str) -> str:
    return text.translate(_LOOKALIKES)


def format_value(value: Decimal, dimension: str) -> str:
    return (
        quantities.format_quantity(value, dimension)
        if dimension in quantities.list_dimensions()
        else quantities.format_number(value)
    )


@lru_cache(maxsize=16384)
def _find_leading_unit(text: str, dimensions: tuple[str, ...]) -> tuple[str, Decimal] | None:
    """Return (dimension, size in its base unit) of the longest unit at the start of a text, or None."""
    head = _HEAD_ENDS.split(normalise_text(text)[:40].strip(), maxsplit=1)[0].replace(" per ", "/").replace("^", "")
    head = _UNIT_IN_WORDS.sub(_abbreviate, head)
    if part := _PER_PART.match(head):
        above, below = _find_unit(part[1], ("mass", "amount")), _find_unit(part[3], ("volume",))
        if above and below and below[0] == "volume" and above[0] in _PER_VOLUME and Decimal(part[2]):
            dimension, factor = _PER_VOLUME[above[0]]
            return dimension, above[1] / below[1] / Decimal(part[2]) * factor
    head_words = head.strip().rstrip(".").split(" ")
    for count in range(min(3, len(head_words)), 0, -1):
        if unit_found := _find_unit(" ".join(head_words[:count]).strip(), dimensions):
            return unit_found
    return None


def _abbreviate(match: re.Match[str]) -> str:
    return _PREFIXES[match[1].lower()] + _SYMBOLS[match[2].lower()]


@lru_cache(maxsize=4096)
def _find_unit(unit: str, dimensions: tuple[str, ...]) -> tuple[str, Decimal] | None:
    if not unit:
        return None
    # Not "pM" and "PM": only a unit that the laboratory does not have may be in any case.
    if (extra_unit := _MORE_UNITS.get(unit.lower())) and not quantities.spell_unit(unit):
        return extra_unit[0], Decimal(extra_unit[1])
    spelling = quantities.spell_unit(unit) or _MORE_SPELLINGS.get(unit.lower(), unit)
    if counted := _COUNTED.fullmatch(spelling.lower().replace("ul", "µl")):
        return "number_density", Decimal(_VOLUMES_OF_COUNTS[counted[1]])
    numerator, stroke, denominator = unit.partition("/")
    is_compound = stroke and "/" not in denominator and not quantities.spell_unit(unit)
    if is_compound and (compound := _find_compound(numerator.strip(), denominator.strip())):
        return compound
    # "MM" may mean millimolar or millimetres.
    if unit in ("MM", "UM", "NM", "PM", "Mm", "Um"):
        return None
    # Upper case in its usual spelling: mL, µL, mg/mL for "ML", "UL", "MG/ML".
    usual = _LITRES.sub(r"\1L", spelling.lower()).replace("uL", "µL").replace("ug", "µg")
    for dimension in (*(name for name in dimensions if name in _DIMENSION_ORDER), *_DIMENSION_ORDER):
        # "mM" is in the usual spelling; in lower case it would be a length.
        for candidate in (
            (spelling,) if quantities.spell_unit(unit) else (spelling, spelling.replace("u", "µ", 1), usual)
        ):
            try:
                # The strict parser decides; it raises for a spelling that is no unit of this dimension.
                return dimension, quantities.parse_quantity(f"1 {candidate}", dimension).value
            except quantities.QuantityError:
                continue
    # The laboratory has g/mL for densities only.
    extra_unit = _MORE_UNITS.get(unit.lower())
    return (extra_unit[0], Decimal(extra_unit[1])) if extra_unit else None


# Dimension of the part above the stroke -> dimension of the concentration, and the factor from base unit over µL.
_PER_VOLUME = {"mass": ("mass_concentration", 1000), "amount": ("molar_concentration", 1000), "volume": ("ratio", 100)}


def _find_compound(numerator: str, denominator: str) -> tuple[str, Decimal] | None:
    """Return (dimension, size) of a unit like "micrograms/millilitre", which no table lists in every spelling."""
    above = _find_unit(numerator, ("mass", "amount", "volume"))
    below = _find_unit(denominator, ("volume",))
    if above is None or below is None or below[0] != "volume" or above[0] not in _PER_VOLUME:
        return None
    dimension, factor = _PER_VOLUME[above[0]]
    # nmol/µL is mmol/L, and the base unit is µmol/L; µg/µL is 1000 µg/mL.
    return dimension, above[1] / below[1] * factor


def _prefer_molar(unit: str, dimensions: tuple[str, ...]) -> str:
    """Return the molar unit for a lower-case unit if a concentration is expected: the key conc_um is in µM, not µm."""
    if dimensions and set(dimensions) <= set(CONCENTRATIONS) and unit.lower() in ("um", "µm", "mm", "nm"):
        return unit.lower()[:-1].replace("u", "µ") + "M"
    return unit
