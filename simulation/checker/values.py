"""L12 and L23: units, and the values that a quantity can have."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker import concentrations
from simulation.checker.findings import Decided, Finding, Findings, error_finding, warning_finding
from simulation.checker.reading import families, flows, properties, units, words
from simulation.checker.reading.properties import Leaf, MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab import quantities

_PH = re.compile(
    r"\bpH\s?(?:of|is|was|=|:|reads?|reading|value)?\s?(-?[0-9]{1,4}(?:\.[0-9]{1,4})?)(?![0-9])", re.IGNORECASE
)
# Properties and readings that are a share of a whole.
_PERCENT = word_set(
    "viability confluence confluency purity humidity co2 efficiency positive fraction identity homology coverage saturation"
)
# Dimensions, by their names in simulation.lab.quantities. Voltages, for example, may be negative.
_NEVER_NEGATIVE = word_set(
    "volume mass amount mass_concentration molar_concentration number_density count base_pairs duration rotation centrifugal_force"
)
# A negative number at the start of a value, with a unit that cannot be negative.
_NEGATIVE = re.compile(
    r"(?<![\w.)%])-\s?[0-9]{1,12}(?:\.[0-9]{1,9})?\s?(mAU\W?\w?|cells|events|particles|colonies|counts?|bp|µS|mS|mOsm|cP|bands?)?"
)
# At most 4 g of a substance fit in a millilitre; pure water has 55.5 mol/L.
_MAX_CONCENTRATION = {"mass_concentration": Decimal(4_000_000), "molar_concentration": Decimal(60_000_000)}
_MAX_TEMPERATURE = Decimal(400)  # °C; about the upper limit of melting point instruments
_MIN_TEMPERATURE = Decimal("-273.15")  # °C, absolute zero
# Measurements whose readings are never negative.
_POSITIVE_ONLY = word_set(
    "HPLC CellCounter FlowCytometry MeasureVolume MeasureWeight NucleicAcidQuantification TotalProteinQuantification MeasureOsmolality "
    "MeasureConductivity MeasureViscosity MeasureDensity MeasureCount QuantifyColonies CoulterCount CountLiquidParticles qPCR MeasureSurfaceTension "
    "MeasureRefractiveIndex MassSpectrometry MeasurepH MeasureDissolvedOxygen"
)


def check_ranges(transition: Transition) -> Findings:
    """L23: check the range of every property of an output and of every observation."""
    for view in transition.outputs:
        for leaf in view.leaves:
            yield from _check_property_range(view, leaf)
    for seen in transition.observations:
        yield from _check_observation(transition, seen)


def _check_property_range(view: MaterialView, leaf: Leaf) -> Findings:
    key_words = set(leaf.words)
    number = units.parse_number(leaf.value)
    if number is None:
        return
    statement = f"{leaf.key} of {view.name} is {leaf.value_text[:40]}"
    if "ph" in key_words and len(key_words) <= 2 and not key_words & {"meter", "probe"}:
        yield Decided("L23")
        if not 0 <= number <= 14:
            yield error_finding("L23", view.name, "0 to 14", leaf.value_text[:40], statement)
    amount = leaf.parse_amount()
    if properties.is_temperature(leaf) and amount is not None and amount.dimension == "temperature":
        yield from _check_temperature_range(view.name, amount.value, statement)
    if amount is not None and amount.dimension in _NEVER_NEGATIVE and amount.value < 0:
        yield error_finding("L23", view.name, "zero or more", leaf.value_text[:40], statement)
    maximum = _MAX_CONCENTRATION.get(amount.dimension) if amount is not None else None
    if amount is not None and maximum is not None and amount.value > maximum:
        yield error_finding(
            "L23",
            view.name,
            f"at most {units.format_value(maximum, amount.dimension)}",
            leaf.value_text[:40],
            f"{statement}, which is more than fits in that volume",
        )
    is_ratio = amount is not None and amount.dimension == "ratio"
    # A bare "95" is a percentage; a bare number up to 1 may be a fraction, which needs no check.
    if key_words & _PERCENT and (
        is_ratio or (number > 1 and not leaf.unit and leaf.value_text.strip().replace(".", "").isdigit())
    ):
        yield Decided("L23")
        if not 0 <= number <= 100:
            yield error_finding("L23", view.name, "0 to 100 %", leaf.value_text[:40], statement)


def _check_temperature_range(subject: str, value: Decimal, text: str) -> Findings:
    yield Decided("L23")
    if value < _MIN_TEMPERATURE or value > _MAX_TEMPERATURE:
        yield error_finding(
            "L23",
            subject,
            f"{_MIN_TEMPERATURE} to {_MAX_TEMPERATURE} °C",
            units.format_value(value, "temperature"),
            text,
        )


def _check_observation(transition: Transition, seen: ObservationView) -> Findings:
    yield from _check_ph_range(transition, seen)
    is_negative = False
    for amount in _iter_values(seen):
        statement = f"{amount.text[:40]} was read"
        if amount.dimension == "temperature":
            yield from _check_temperature_range(seen.path, amount.value, statement)
        is_share = amount.dimension == "ratio" and set(words.tokenize(seen.description)) & _PERCENT
        if is_share and not 0 <= amount.value <= 100:
            yield error_finding(
                "L23", seen.path, "0 to 100 %", amount.text[:40], f"{statement}, which is not between 0 and 100 %"
            )
        is_negative = is_negative or (
            amount.dimension in _NEVER_NEGATIVE and amount.value < 0 and not _is_measuring_noise(amount.text)
        )
    bare_negative = (
        _NEGATIVE.match(seen.value.strip())
        and transition.action in _POSITIVE_ONLY
        and not _is_measuring_noise(seen.value)
    )
    # The difference of two readings may be negative.
    if is_negative or (bare_negative and "difference" not in seen.description.lower()):
        yield error_finding(
            "L23", seen.path, "zero or more", seen.value[:40], f"{seen.value[:40]} was read, which is below zero"
        )


def _is_measuring_noise(text: str) -> bool:
    """Return whether a reading is negative only by noise. With a blank subtracted it may be slightly below zero."""
    number_parts = units.split_number(text)
    if number_parts is None or abs(number_parts[0]) >= 1 or units.normalise_text(text).lstrip()[:2] != "-0":
        return False
    is_concentration = "L" in text and "/" in text
    # Four times half a unit of the last digit is two units, by which the display of a balance may fluctuate.
    return is_concentration or abs(number_parts[0]) <= min(4 * number_parts[1], Decimal("0.002"))


def _check_ph_range(transition: Transition, seen: ObservationView) -> Findings:
    values = [Decimal(found[1]) for found in _PH.finditer(seen.full_text[:2000])]
    number_parts = units.split_number(seen.value)
    if transition.action in ("MeasurepH", "AdjustpH") and re.search(r"\bpH\b", seen.description):
        values += [number_parts[0]] if number_parts and not number_parts[2].strip(" ,.;pPH0123456789") else []
    for value in values:
        yield Decided("L23")
        if not 0 <= value <= 14:
            yield error_finding("L23", seen.path, "pH 0 to 14", str(value), f"a pH of {value} was read")


def _iter_values(seen: ObservationView) -> Iterator[Amount]:
    """Yield the amounts in an observed value, whose parts are separated by commas or semicolons."""
    for part in re.split(r"[,;]\s", seen.value[:1000]):
        if amount := units.parse_amount(part):
            yield amount


_DIMENSIONS = {
    "volume": ("volume",), "vol": ("volume",), "mass": ("mass",), "weight": ("mass",), "temperature": ("temperature",), "temp": ("temperature",),
    "concentration": units.CONCENTRATIONS, "conc": units.CONCENTRATIONS,
}  # fmt: skip
# A unit in a text without any number: "some mL".
_UNIT_WORD = re.compile(r"\b(?:mL|ml|µL|uL|ul|mg|µg|kg|mM|µM)\b")
_RATE = re.compile(r"[A-Za-zµ%/·]{1,12}/(?:s|sec|min|h|hr|hour|day|cm2|m2)")
# Things that are counted; a number of them is not an error of units.
_COUNTABLE_THINGS = word_set("drop droplet tube vial well aliquot portion plate column bed dose bottle piece equivalent equiv cv time fold "
                 "sample cup spoon pipette tip scoop pinch flask gram")  # fmt: skip
# A stated lack of a value needs no unit.
_UNKNOWN_VALUES = word_set("unknown undetermined unmeasured na none tbd not variable nominal varied trace saturated")
# "molecular weight" and "number average mass" are no masses of the material.
_OTHER_QUANTITIES = word_set("molecular molar number average tare dry")
# Dimensions whose units are unambiguous; a ratio or a count may fit several keys.
_DISTINCT_DIMENSIONS = word_set("volume mass temperature duration length mass_concentration molar_concentration")


def check_units(transition: Transition) -> Findings:
    """L12: yield a finding if a property has no unit or one of another dimension, or an amount has a wrong prefix."""
    if not transition.is_success:
        return
    for view in transition.outputs:
        for leaf in view.leaves:
            yield from _check_unit(transition, view, leaf)
    for before, after in transition.list_pairs():
        for leaf_before, leaf_after in _iter_changed_values(before, after):
            yield from _check_changed_unit(after, leaf_before, leaf_after)
    yield from _check_prefixes(transition)


def _iter_changed_values(before: MaterialView, after: MaterialView) -> Iterator[tuple[Leaf, Leaf]]:
    """Yield (leaf before, leaf after) of every property that has the same key before and after, but another text."""
    leaves_before = {leaf.words: leaf for leaf in before.leaves}
    for leaf in after.leaves:
        if leaf.words in leaves_before and leaves_before[leaf.words].value_text != leaf.value_text:
            yield leaves_before[leaf.words], leaf


def _check_changed_unit(view: MaterialView, leaf_before: Leaf, leaf_after: Leaf) -> Findings:
    """Yield an error if a concentration gets a unit per time or per area."""
    amount_before, number_parts = leaf_before.parse_amount(*units.CONCENTRATIONS), units.split_number(leaf_after.value)
    if amount_before is None or number_parts is None or "/" not in number_parts[2]:
        return
    yield Decided("L12")
    is_rate = _RATE.fullmatch(number_parts[2].strip())
    if is_rate and leaf_after.parse_amount() is None:
        text = (
            f"{leaf_after.key} of {view.name} was {leaf_before.value_text[:40]} and is now {leaf_after.value_text[:40]}"
        )
        yield error_finding(
            "L12", view.name, f"a unit of {amount_before.dimension.replace('_', ' ')}", leaf_after.value_text[:40], text
        )


def _check_unit(transition: Transition, view: MaterialView, leaf: Leaf) -> Findings:
    dimension_words = [word for word in leaf.words if word in _DIMENSIONS]
    if len(dimension_words) != 1 or set(leaf.words) & _OTHER_QUANTITIES or isinstance(leaf.value, bool):
        return
    dimensions = _DIMENSIONS[dimension_words[0]]
    number_parts = units.split_number(leaf.value)
    has_unit_word = isinstance(leaf.value, str) and _UNIT_WORD.search(leaf.value[:100])
    if number_parts is None and has_unit_word and not any(c.isdigit() for c in leaf.value_text):
        statement = f"{leaf.key} of {view.name} is {leaf.value_text[:40]}, which is not an amount"
        yield error_finding("L12", view.name, "a number and a unit", leaf.value_text[:40], statement)
    if number_parts is None or set(words.tokenize(leaf.value_text)) & _UNKNOWN_VALUES:
        return
    amount = leaf.parse_amount()
    yield Decided("L12")
    statement_of_value = f"{leaf.key} of {view.name} is {leaf.value_text[:40]}"
    if amount is None and leaf.parse_amount(*dimensions) is None:
        yield from _check_missing_unit(transition, view, leaf, number_parts[2], statement_of_value, dimensions)
    elif (
        amount is not None
        and amount.dimension not in dimensions
        and leaf.parse_amount(*dimensions) is None
        and amount.dimension in (*_DISTINCT_DIMENSIONS, "centrifugal_force", "voltage")
    ):
        yield error_finding(
            "L12", view.name, f"a unit of {dimensions[0].replace('_', ' ')}", leaf.value_text[:40], statement_of_value
        )


def _check_missing_unit(
    transition: Transition, view: MaterialView, leaf: Leaf, unit_text: str, statement: str, dimensions: tuple[str, ...]
) -> Iterator[Finding]:
    """Yield an error or a warning for a missing or unknown unit.

    It is an error only if similar properties of the inputs have a unit.
    """
    similar_leaves = [
        o
        for v in transition.inputs
        for o in v.leaves
        if set(o.words) & set(leaf.words) & set(_DIMENSIONS) and o.parse_amount(*dimensions)
    ]
    if unit_text.strip():
        if (
            dimensions in (("volume",), ("mass",), ("temperature",))
            and re.fullmatch(r"\s*[A-Za-zµ°]{1,4}\s*", unit_text)
            and unit_text.strip() not in ("K", "F", "°F", "x", "X")
        ):
            yield warning_finding(
                "L12", view.name, f"a unit of {dimensions[0]}", leaf.value_text[:40], statement, decidable=False
            )
        elif similar_leaves and dimensions in (("volume",), ("mass",)) and _is_invented_unit(unit_text):
            yield error_finding("L12", view.name, f"a unit of {dimensions[0]}", leaf.value_text[:40], statement)
        return
    # Zero is zero in every unit.
    is_zero = units.parse_number(leaf.value) == 0
    if similar_leaves and not is_zero:
        yield error_finding(
            "L12",
            view.name,
            f"a unit of {dimensions[0].replace('_', ' ')}",
            leaf.value_text[:40],
            f"{statement}, without a unit",
        )
    elif not is_zero:
        yield warning_finding(
            "L12",
            view.name,
            f"a unit of {dimensions[0].replace('_', ' ')}",
            leaf.value_text[:40],
            f"{statement}, without a unit",
        )


def _is_invented_unit(rest: str) -> bool:
    """Return whether a text is a single word that is neither a unit nor the name of something that is counted."""
    unit_words = words.tokenize(rest)
    return (
        len(unit_words) == 1
        and unit_words[0].isalpha()
        and unit_words[0] not in _COUNTABLE_THINGS
        and not units.find_dimension(unit_words[0])
    )


def _check_prefixes(transition: Transition) -> Iterator[Finding]:
    """Yield an error if an amount is wrong by a factor of a thousand or a million, as with a wrong prefix."""
    for fill in flows.trace_liquids(transition).fills:
        if fill.total_volume and fill.output.volume is not None:
            yield from _check_prefix(fill.output, fill.total_volume, fill.output.volume)
    for draw in flows.trace_liquids(transition).withdrawals:
        if (
            draw.is_stated
            and draw.remainder is not None
            and draw.remainder.volume is not None
            and draw.source.liquid_volume
            and draw.volume is not None
        ):
            yield from _check_prefix(draw.remainder, draw.source.liquid_volume - draw.volume, draw.remainder.volume)
    if transition.family in (families.INERT, families.HEAT, *families.MEASUREMENTS):
        for before, after in transition.list_pairs():
            if before.volume is not None and after.volume is not None:
                yield from _check_prefix(after, before.volume.value, after.volume)
            if before.mass is not None and after.mass is not None:
                yield from _check_prefix(after, before.mass.value, after.mass)
            for _, amount_before, amount_after in concentrations.iter_shared_concentrations(before, after):
                yield from _check_prefix(after, amount_before.value, amount_after)


def _check_prefix(view: MaterialView, expected: Decimal, got: Amount) -> Iterator[Finding]:
    if expected <= 0 or got.value <= 0:
        return
    ratio = got.value / expected
    if any(
        # 2 %: rounding of both values. Other ratios are errors of other checks.
        abs(ratio / prefix_ratio - 1) < Decimal("0.02")
        for prefix_ratio in (Decimal(1000), Decimal("0.001"), Decimal(1000000), Decimal("0.000001"))
    ):
        value_text = units.format_value(got.value, got.dimension)
        yield error_finding(
            "L12",
            view.name,
            units.format_value(expected, got.dimension),
            value_text,
            f"{value_text} in {view.name} is {quantities.format_number(ratio)} times the expected value: probably a wrong unit prefix",
        )
