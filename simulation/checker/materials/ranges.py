"""L23: pH 0 to 14, temperature above -273.15 °C, parts within the whole, nothing below zero."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.reading import property_meaning, units, words
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.property_tree import Leaf
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

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
    if property_meaning.is_temperature(leaf) and amount is not None and amount.dimension == "temperature":
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
