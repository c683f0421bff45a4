"""L12: units that are missing, of another quantity than the one named, or wrong by a prefix."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from simulation.checker import concentrations
from simulation.checker.findings import Decided, Findings, error_finding, require, warning_finding
from simulation.checker.reading import claims, flows, units, words
from simulation.checker.reading.leaves import Leaf, flatten_properties
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab import quantities

_DIMENSIONS = {
    "volume": ("volume",), "vol": ("volume",), "mass": ("mass",), "weight": ("mass",), "temperature": ("temperature",), "temp": ("temperature",),
    "concentration": units.CONCENTRATIONS, "conc": units.CONCENTRATIONS,
}  # fmt: skip

_DIMENSION_NAMES = (
    "volume",
    "mass",
    "temperature",
    "length",
    "mass_concentration",
    "molar_concentration",
    "osmolality",
    "conductivity",
)

# A unit in a text without any number: "some mL".
_UNIT_WORD = re.compile(r"\b(?:mL|ml|µL|uL|ul|mg|µg|kg|mM|µM)\b")

_RATE = re.compile(r"[A-Za-zµ%/·]{1,12}/(?:s|sec|min|h|hr|hour|day|cm2|m2)")

# Things that are counted; a number of them is not an error of units.
_COUNTABLE_THINGS = word_set(
    "drop droplet tube vial well aliquot portion plate column bed dose bottle piece equivalent equiv cv time fold "
    "sample cup spoon pipette tip scoop pinch flask gram"
)

# A stated lack of a value needs no unit.
_UNKNOWN_VALUES = word_set("unknown undetermined unmeasured na none tbd not variable nominal varied trace saturated")

# "molecular weight" and "number average mass" are no masses of the material.
_OTHER_QUANTITIES = word_set("molecular molar number average tare dry")

# Dimensions whose units are unambiguous; a ratio or a count may fit several keys.
_DISTINCT_DIMENSIONS = word_set(
    "volume mass temperature duration length mass_concentration molar_concentration centrifugal_force voltage"
)

# Ratios of amounts with a wrong prefix. 2 %: rounding of both amounts; other ratios are errors of other checks.
_PREFIX_RATIOS = (Decimal(1000), Decimal("0.001"), Decimal(1000000), Decimal("0.000001"))

_PREFIX_TOLERANCE = Decimal("0.02")


def check_units(transition: Transition) -> Findings:
    """L12: yield a finding if a property has no unit or one of another dimension, or an amount has a wrong prefix."""
    for view in transition.outputs:
        for leaf in view.leaves:
            yield from _check_unit(transition, view, leaf)
    for before, after in transition.list_pairs():
        yield from _check_changed_units(before, after)
    for view, expected, got in _iter_expected_amounts(transition):
        ratio = got.value / expected if expected > 0 and got.value > 0 else Decimal(1)
        if any(abs(ratio / prefix_ratio - 1) < _PREFIX_TOLERANCE for prefix_ratio in _PREFIX_RATIOS):
            shown, factor = units.format_value(got.value, got.dimension), quantities.format_number(ratio)
            text = f"{shown} in {view.name} is {factor} times the expected value: probably a wrong unit prefix"
            yield error_finding("L12", view.name, units.format_value(expected, got.dimension), shown, text)


# What a description announces -> the dimensions of its value. Only words that name one physical quantity.
_ANNOUNCED = (
    (re.compile(r"\bconc(?:entration|\.)?(?![\w])", re.IGNORECASE), frozenset((*units.CONCENTRATIONS, "activity", ""))),
    (re.compile(r"\bvolume\b|\bvol\.", re.IGNORECASE), frozenset({"volume", ""})),
    (
        re.compile(r"\bmass\b(?! spec|[- ]to)|\bweight\b", re.IGNORECASE),
        frozenset({"mass", "molecular_mass", "ratio", "mass_concentration", ""}),
    ),
    (re.compile(r"\btemperature\b|\btemp\.", re.IGNORECASE), frozenset({"temperature", "duration", ""})),
    (re.compile(r"\bosmolality\b", re.IGNORECASE), frozenset({"osmolality", ""})),
    (re.compile(r"\bconductivity\b", re.IGNORECASE), frozenset({"conductivity", "temperature", ""})),
)

_CLEAR_DIMENSIONS = word_set(
    "volume mass temperature duration length mass_concentration molar_concentration osmolality conductivity voltage"
)


def check_announced_units(transition: Transition) -> Findings:
    """L12: yield an error if the value of an observation has a unit of another quantity than its description names."""
    for seen in transition.observations:
        yield from _check_nested_units(seen)
        announced = [dimensions for pattern, dimensions in _ANNOUNCED if pattern.search(seen.description)]
        number_parts = units.split_number(seen.value)
        amount = units.parse_amount(seen.value, "", _DIMENSION_NAMES)
        if len(announced) != 1 or amount is None or number_parts is None or not isinstance(seen.raw.get("value"), str):
            continue
        # One number with its unit and nothing else, so that it is the value announced.
        is_plain = re.fullmatch(r"\s?[^\s0-9]{1,8}(?:\s?g)?", number_parts[2]) is not None
        if is_plain and amount.dimension in _CLEAR_DIMENSIONS:
            holds, shown = amount.dimension in announced[0], seen.value[:40]
            text = f"{seen.description[:60]} was recorded as {shown}"
            yield from require("L12", holds, seen.path, "a unit of the quantity named", shown, text)


def _check_nested_units(seen: ObservationView) -> Findings:
    """Yield an error if an entry of a value that is an object has a unit of another quantity than its key names."""
    value = seen.raw.get("value")
    for leaf in flatten_properties(value) if isinstance(value, Mapping) else ():
        named = [_DIMENSIONS[word] for word in leaf.own_words if word in _DIMENSIONS]
        named = named or [_DIMENSIONS[word] for word in leaf.words if word in _DIMENSIONS]
        amount = leaf.parse_amount()
        if len(named) != 1 or amount is None or leaf.word_set & _OTHER_QUANTITIES or {"#", "per"} & leaf.word_set:
            continue
        if amount.dimension in _CLEAR_DIMENSIONS:
            holds, shown = leaf.parse_amount(*named[0]) is not None, f"{leaf.value_text[:40]} {leaf.unit}".strip()
            text = f"{leaf.path_text[:60]} was recorded as {shown}"
            yield from require("L12", holds, seen.path, "a unit of the quantity named", shown, text)


# Action -> the quantity that it measures: its dimensions and the words that name it.
_MEASURED = {
    "MeasureVolume": (frozenset({"volume"}), re.compile(r"\bvol(?:ume)?\b")),
    "MeasureWeight": (frozenset({"mass"}), re.compile(r"\b(?:mass|weigh\w*|net|gross)\b")),
    "MeasureDensity": (frozenset({"density", "mass_concentration"}), re.compile(r"\bdensity\b")),
    "MeasureOsmolality": (frozenset({"osmolality"}), re.compile(r"\bosmol\w*\b")),
    "MeasureConductivity": (frozenset({"conductivity"}), re.compile(r"\bconductivity\b")),
}  # fmt: skip
# A reading of one of these quantities is never meant for another one.
_OTHER_READINGS = word_set(
    "volume mass length mass_concentration molar_concentration molecular_mass osmolality conductivity voltage amount"
)


def check_measured_units(transition: Transition) -> Findings:
    """L12: yield an error if the readings of a measurement all have units of another quantity than it measures."""
    if transition.action not in _MEASURED:
        return
    dimensions, name = _MEASURED[transition.action]
    observed = claims.list_observed(transition)
    if any(claim.dimension in dimensions for _, found in observed for claim in found):
        return
    for seen, found in observed:
        for claim in found:
            is_reading = claim.dimension in _OTHER_READINGS and name.search(f"{claim.label} {claim.context}")
            if is_reading and seen.raw.get("measurement_type") == "quantitative":
                expected = f"a unit of {sorted(dimensions)[0].replace('_', ' ')}"
                yield error_finding("L12", seen.path, expected, claim.text, f"{transition.action} gave {claim.text}")
                return


def _check_changed_units(before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a concentration gets a unit per time or per area."""
    leaves_before = {leaf.words: leaf for leaf in before.leaves}
    for new in after.leaves:
        old = leaves_before.get(new.words)
        amount = old.parse_amount(*units.CONCENTRATIONS) if old and old.value_text != new.value_text else None
        number_parts = units.split_number(new.value)
        if old is None or amount is None or number_parts is None or "/" not in number_parts[2]:
            continue
        is_rate = _RATE.fullmatch(number_parts[2].strip()) and new.parse_amount() is None
        text = f"{new.key} of {after.name} was {old.value_text[:40]} and is now {new.value_text[:40]}"
        expected = f"a unit of {amount.dimension.replace('_', ' ')}"
        yield from require("L12", not is_rate, after.name, expected, new.value_text[:40], text)


def _check_unit(transition: Transition, view: MaterialView, leaf: Leaf) -> Findings:
    dimension_words = [word for word in leaf.words if word in _DIMENSIONS]
    if len(dimension_words) != 1 or leaf.word_set & _OTHER_QUANTITIES or isinstance(leaf.value, bool):
        return
    dimensions, number_parts = _DIMENSIONS[dimension_words[0]], units.split_number(leaf.value)
    shown, expected = leaf.value_text[:40], f"a unit of {dimensions[0].replace('_', ' ')}"
    text = f"{leaf.key} of {view.name} is {shown}"
    if number_parts is None:
        has_unit_word = isinstance(leaf.value, str) and _UNIT_WORD.search(leaf.value[:100])
        if has_unit_word and not any(c.isdigit() for c in leaf.value_text):
            yield error_finding("L12", view.name, "a number and a unit", shown, f"{text}, which is not an amount")
        return
    if set(words.tokenize(leaf.value_text)) & _UNKNOWN_VALUES:
        return
    yield Decided("L12")
    if leaf.parse_amount(*dimensions) is not None:
        return
    amount, unit_text = leaf.parse_amount(), number_parts[2].strip()
    # A missing or unknown unit is an error only if similar properties of the inputs have a unit.
    shared_words = leaf.word_set & set(_DIMENSIONS)
    leaves_before = (other for other_view in transition.inputs for other in other_view.leaves)
    has_similar = any(shared_words & other.word_set and other.parse_amount(*dimensions) for other in leaves_before)
    if amount is not None:
        if amount.dimension in _DISTINCT_DIMENSIONS - set(dimensions):
            yield error_finding("L12", view.name, expected, shown, text)
    elif not unit_text:
        # Zero is zero in every unit.
        if number_parts[0] != 0:
            build_finding = error_finding if has_similar else warning_finding
            yield build_finding("L12", view.name, expected, shown, f"{text}, without a unit")
    elif len(dimensions) == 1:
        is_short = re.fullmatch(r"[A-Za-zµ°]{1,4}", unit_text) and unit_text not in ("K", "F", "°F", "x", "X")
        if is_short:
            yield warning_finding("L12", view.name, expected, shown, text, decidable=False)
        elif has_similar and dimensions != ("temperature",) and _is_invented_unit(unit_text):
            yield error_finding("L12", view.name, expected, shown, text)


def _is_invented_unit(text: str) -> bool:
    """Return whether a text is a single word that is neither a unit nor the name of something that is counted."""
    word, *more = words.tokenize(text) or [""]
    return not more and word.isalpha() and word not in _COUNTABLE_THINGS and not units.find_dimension(word)


def _iter_expected_amounts(transition: Transition) -> Iterator[tuple[MaterialView, Decimal, Amount]]:
    """Yield (material, expected amount, amount found) of everything that the step determines or leaves unchanged."""
    flow = flows.trace_liquids(transition)
    for fill in flow.fills:
        if fill.total_volume and fill.output.volume is not None:
            yield fill.output, fill.total_volume, fill.output.volume
    for source, volume, remainder, is_stated in flow.withdrawals:
        if is_stated and remainder and remainder.volume and source.liquid_volume and volume is not None:
            yield remainder, source.liquid_volume - volume, remainder.volume
    if transition.family in (words.INERT, words.HEAT, *words.MEASUREMENTS):
        for before, after in transition.list_pairs():
            for old, new in ((before.volume, after.volume), (before.mass, after.mass)):
                if old is not None and new is not None:
                    yield after, old.value, new
            for _, old, new in concentrations.iter_shared_concentrations(before, after):
                yield after, old.value, new
