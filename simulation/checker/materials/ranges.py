"""L23: pH 0 to 14, no temperature below -273.15 °C, no part larger than the whole, no amount below nothing."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.findings import Ran, Said, error
from simulation.checker.reading import meaning, units, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Seen, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

_PH = re.compile(
    r"\bpH\s?(?:of|is|was|=|:|reads?|reading|value)?\s?(-?[0-9]{1,4}(?:\.[0-9]{1,4})?)(?![0-9])", re.IGNORECASE
)


_PERCENT = listed(
    "viability confluence confluency purity humidity co2 efficiency positive fraction identity homology coverage saturation"
)


_NEVER_NEGATIVE = listed(
    "volume mass amount mass_concentration molar_concentration number_density count base_pairs duration rotation centrifugal_force"
)


_NEGATIVE = re.compile(
    r"(?<![\w.)%])-\s?[0-9]{1,12}(?:\.[0-9]{1,9})?\s?(mAU\W?\w?|cells|events|particles|colonies|counts?|bp|µS|mS|mOsm|cP|bands?)?"
)


# More of a substance than 4 g in a millilitre, or more moles than pure water has, fits nowhere.
_MOST = {"mass_concentration": Decimal(4_000_000), "molar_concentration": Decimal(60_000_000)}
_HOTTEST = Decimal(400)


_COLDEST = Decimal("-273.15")


_POSITIVE_ONLY = listed(
    "HPLC CellCounter FlowCytometry MeasureVolume MeasureWeight NucleicAcidQuantification TotalProteinQuantification MeasureOsmolality "
    "MeasureConductivity MeasureViscosity MeasureDensity MeasureCount QuantifyColonies CoulterCount CountLiquidParticles qPCR MeasureSurfaceTension "
    "MeasureRefractiveIndex MassSpectrometry MeasurepH MeasureDissolvedOxygen"
)


def ranges(transition: Transition) -> Said:
    """L23: pH 0 to 14, no temperature below -273.15 °C, no part larger than the whole, no amount below nothing."""
    for view in transition.outputs:
        for leaf in view.leaves:
            yield from _property(view, leaf)
    for seen in transition.seen:
        yield from _observed(transition, seen)


def _property(view: View, leaf: Leaf) -> Said:
    said = set(leaf.words)
    number = units.number(leaf.value)
    if number is None:
        return
    shown = f"{leaf.key} of {view.name} is {leaf.text[:40]}"
    if "ph" in said and len(said) <= 2 and not said & {"meter", "probe"}:
        yield Ran("L23")
        if not 0 <= number <= 14:
            yield error("L23", view.name, "0 to 14", leaf.text[:40], shown)
    amount = leaf.amount()
    if meaning.is_temperature(leaf) and amount is not None and amount.dimension == "temperature":
        yield from _degrees(view.name, amount.value, shown)
    if amount is not None and amount.dimension in _NEVER_NEGATIVE and amount.value < 0:
        yield error("L23", view.name, "zero or more", leaf.text[:40], shown)
    most = _MOST.get(amount.dimension) if amount is not None else None
    if amount is not None and most is not None and amount.value > most:
        yield error(
            "L23",
            view.name,
            f"at most {units.show(most, amount.dimension)}",
            leaf.text[:40],
            f"{shown}, more than fits in a volume",
        )
    percent = amount is not None and amount.dimension == "ratio"
    if said & _PERCENT and (percent or (number > 1 and not leaf.unit and leaf.text.strip().replace(".", "").isdigit())):
        yield Ran("L23")
        if not 0 <= number <= 100:
            yield error("L23", view.name, "0 to 100 %", leaf.text[:40], shown)


def _degrees(subject: str, value: Decimal, text: str) -> Said:
    yield Ran("L23")
    if value < _COLDEST or value > _HOTTEST:
        yield error("L23", subject, f"{_COLDEST} to {_HOTTEST} °C", units.show(value, "temperature"), text)


def _observed(transition: Transition, seen: Seen) -> Said:
    yield from _acidity(transition, seen)
    nothing_less = False
    for amount in _leading(seen):
        told = f"{amount.text[:40]} was read"
        if amount.dimension == "temperature":
            yield from _degrees(seen.place, amount.value, told)
        percent = amount.dimension == "ratio" and set(words.cut(seen.description)) & _PERCENT
        if percent and not 0 <= amount.value <= 100:
            yield error(
                "L23", seen.place, "0 to 100 %", amount.text[:40], f"{told}, more than all or less than nothing"
            )
        nothing_less = nothing_less or (
            amount.dimension in _NEVER_NEGATIVE and amount.value < 0 and not _trifle(amount.text)
        )
    bare = _NEGATIVE.match(seen.value.strip()) and transition.action in _POSITIVE_ONLY and not _trifle(seen.value)
    if nothing_less or (bare and "difference" not in seen.description.lower()):
        yield error(
            "L23", seen.place, "zero or more", seen.value[:40], f"{seen.value[:40]} was read, less than nothing"
        )


def _trifle(text: str) -> bool:
    """An instrument that subtracts a blank may read a little below nothing."""
    found = units.number_and_rest(text)
    if found is None or abs(found[0]) >= 1 or units.fold(text).lstrip()[:2] != "-0":
        return False
    blank = "L" in text and "/" in text
    # A step is half of the last digit; the pan of a balance is never quite still.
    return blank or abs(found[0]) <= min(4 * found[1], Decimal("0.002"))


def _acidity(transition: Transition, seen: Seen) -> Said:
    read = [Decimal(found[1]) for found in _PH.finditer(seen.text[:2000])]
    bare = units.number_and_rest(seen.value)
    if transition.action in ("MeasurepH", "AdjustpH") and re.search(r"\bpH\b", seen.description):
        read += [bare[0]] if bare and not bare[2].strip(" ,.;pPH0123456789") else []
    for value in read:
        yield Ran("L23")
        if not 0 <= value <= 14:
            yield error("L23", seen.place, "pH 0 to 14", str(value), f"a pH of {value} was read")


def _leading(seen: Seen) -> Iterator[Amount]:
    for part in re.split(r"[,;]\s", seen.value[:1000]):
        if amount := units.read(part):
            yield amount
