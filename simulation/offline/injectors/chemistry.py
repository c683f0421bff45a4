"""Errors that chemistry shows: acids and bases, counter-ions, filters, electrode reactions, chromatography and standards."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

from simulation.lab import quantities
from simulation.offline.injectors import edits, precision, sizes

_NEUTRAL = Decimal(7)
_LEAST_ACIDITY = Decimal("0.8")  # pH units from neutral, so that the wrong direction is seen
_NOMINAL_PH = re.compile(r"\bpH (?P<value>[0-9.]+)")
_NOMINAL_OSMOLALITY = re.compile(r"(?P<value>[0-9]+) mOsm/kg")
_PH_OFF, _PH_FAR = (0.3, 0.9), (3.2, 5.0)  # pH units
_SALTS = (("potassium", "chloride"), ("sodium", "chloride"), ("silver", "nitrate"), ("calcium", "chloride"))
# A reversible transfer of one electron at 25 °C separates the peaks by at least 57 mV (Bard and Faulkner, table 6.2.1).
_TOO_NARROW = (0.004, 0.040)  # V
_DILUTION = re.compile(r"1:(?P<times>[0-9]+)\b")


@edits.plants(edits.OBVIOUS, "acids lower the pH and bases raise it", science=True)
def ph_direction_reversed(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a sample that is acidic is as basic instead, or the other way round."""
    for reading in edits.sample_places(rng, [one for one in case.readings if one.description.endswith(": pH")]):
        numbers = [Decimal(number) for number in edits.NUMBER.findall(reading.value)]
        if numbers and min(abs(number - _NEUTRAL) for number in numbers) >= _LEAST_ACIDITY:
            wrong = edits.NUMBER.sub(lambda match: str(2 * _NEUTRAL - Decimal(match[0])), reading.value)
            yield f"the pH is {wrong}; what is in the sample makes it {reading.value}", reading.change(wrong)


@edits.plants(edits.SUBTLE, "a buffer keeps its pH", science=True)
def ph_drifts(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the pH differs from the one that the buffer's name or the step's setting states."""
    yield from _change_ph(case, rng, _PH_OFF)


@edits.plants(edits.OBVIOUS, "a buffer keeps its pH", science=True)
def ph_far_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a neutral buffer is a strong acid or base."""
    yield from _change_ph(case, rng, _PH_FAR)


def _change_ph(case: edits.Case, rng: random.Random, distance: tuple[float, float]) -> edits.Errors:
    """Yield errors of the readings of named or adjusted buffers, and of the property."""
    for sign in (1, -1):
        shift = sign * Decimal(str(round(rng.uniform(*distance), 2)))
        is_subtle = distance == _PH_OFF
        for reading in edits.sample_places(rng, case.readings):
            nominal = _NOMINAL_PH.search(reading.description)
            is_adjusted = "target ph" in reading.description
            if reading.description.endswith("pH") and (nominal or is_adjusted):
                head, _, last = reading.value.rpartition("=> ") if "=>" in reading.value else ("", "", reading.value)
                by = sign * precision.draw_distance(case, reading, distance, rng) if is_subtle else shift
                wrong = head + sizes.shift_reading(last, by)
                yield f"the pH is {wrong}; the buffer has {reading.value}", reading.change(wrong)
        for material in edits.sample_places(rng, [one for one in case.materials if "pH" in one.draft.properties]):
            right = str(material.draft.properties["pH"])
            if edits.NUMBER.fullmatch(right):
                wrong = sizes.shift_reading(right, shift)
                if wrong.endswith("0"):
                    continue  # the label of a buffer has no padded digits
                yield f"the pH of {material.name} is {wrong}; it is still {right}", material.change("pH", wrong)


@edits.plants(edits.SUBTLE, "a reference standard gives its certified value", science=True)
def standard_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a standard with a known value reads clearly more or less than that."""
    for reading, right in _list_standards(case):
        for factor in precision.draw_reading_factors(case, reading, rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"the standard of {right} reads {wrong}", reading.change(wrong)


@edits.plants(edits.OBVIOUS, "a reference standard gives its certified value", science=True)
def standard_far_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a standard with a known value reads several times that."""
    for reading, right in _list_standards(case):
        for factor in sizes.draw_large_factors(rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"the standard of {right} reads {wrong}", reading.change(wrong)


def _list_standards(case: edits.Case) -> Iterator[tuple[edits.Reading, str]]:
    for reading in case.readings:
        match = _NOMINAL_OSMOLALITY.search(reading.description)
        if match and reading.value.endswith("mOsm/kg"):
            yield reading, match[0]


@edits.plants(edits.SUBTLE, "a salt adds both of its ions", edits.SCARCE, science=True)
def counter_ion_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the solution of one salt has more of one ion than of the other."""
    for first, second in _list_salts(case):
        for changed, other in ((first, second), (second, first)):
            for factor in sizes.draw_factors(case.sizes, rng):
                for text in sizes.iter_spellings(changed.text, changed.value * factor, changed.dimension, exact=True):
                    yield f"{changed.name} is {text} beside {other.text} of its counter-ion", changed.change(text)


@edits.plants(edits.OBVIOUS, "a solution is electrically neutral", edits.SCARCE, science=True)
def counter_ion_missing(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the solution of one salt has hardly any of one of its ions."""
    for first, second in _list_salts(case):
        for changed, other in ((first, second), (second, first)):
            for factor in sizes.draw_large_factors(rng, 2):
                for text in sizes.iter_spellings(changed.text, changed.value / factor, changed.dimension, exact=True):
                    yield f"{changed.name} is {text} beside {other.text} of its counter-ion", changed.change(text)


def _list_salts(case: edits.Case) -> Iterator[tuple[edits.Amount, edits.Amount]]:
    """Yield the two ions of each material that is a solution of one salt alone."""
    for material in case.materials:
        solutes = [solute for solute in case.solutes if solute.material.position == material.position]
        for names in _SALTS:
            ions = [solute for name in names for solute in solutes if solute.name == f"{name} concentration"]
            if len(ions) == 2 and len(solutes) == 2 and ions[0].value == ions[1].value:
                yield ions[0], ions[1]


@edits.plants(edits.SUBTLE, "a membrane filter passes dissolved substances", edits.SCARCE, science=True)
def solute_held_by_filter(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a filtrate has clearly less of a dissolved substance than what was filtered."""
    for solute in _list_filtered(case):
        for factor in sizes.draw_factors(case.sizes, rng):
            for text in sizes.iter_spellings(solute.text, solute.value * factor, solute.dimension, exact=True):
                if factor < 1:
                    yield f"{solute.name} is {text} after filtration; all {solute.text} pass", solute.change(text)


@edits.plants(edits.OBVIOUS, "a membrane filter passes dissolved substances", edits.SCARCE, science=True)
def filter_holds_all(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a filter retains nearly all of a dissolved substance."""
    for solute in _list_filtered(case):
        for factor in sizes.draw_large_factors(rng):
            for text in sizes.iter_spellings(solute.text, solute.value / (2 * factor), solute.dimension):
                yield f"{solute.name} is {text} after filtration; all {solute.text} pass", solute.change(text)


def _list_filtered(case: edits.Case) -> list[edits.Amount]:
    """Return the dissolved substances of what passed a filter in this step."""
    is_filtering = case.action.name == "Filter"
    return [one for one in case.solutes if one.dimension != "number_density"] if is_filtering else []


@edits.plants(edits.OBVIOUS, "an oxidation gives the anodic peak, at the higher potential", edits.SCARCE, science=True)
def redox_order_reversed(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the two peaks of a voltammogram have each other's potential or sign of the current."""
    for quantity in ("potential", "current"):
        for anodic, cathodic in _list_peaks(case, quantity):
            if quantity == "potential":
                explanation = f"the oxidation peaks at {cathodic.value} and the reduction at {anodic.value}"
                yield explanation, anodic.change(cathodic.value), cathodic.change(anodic.value)
            elif cathodic.value.startswith("-"):
                changes = anodic.change(f"-{anodic.value}"), cathodic.change(cathodic.value[1:])
                yield f"the oxidation gives a current of -{anodic.value}", *changes


@edits.plants(edits.SUBTLE, "the peaks of a one-electron transfer are at least 57 mV apart", edits.SCARCE, science=True)
def peaks_too_close(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which anodic and cathodic peak are closer than thermodynamics allows."""
    for anodic, cathodic in _list_peaks(case, "potential"):
        high, low = (Decimal(one.value.removesuffix(" V")) for one in (anodic, cathodic))
        distance = Decimal(str(round(rng.uniform(*_TOO_NARROW), 4)))
        for reading, wrong in ((cathodic, high - distance), (anodic, low + distance)):
            explanation = f"the peaks are {distance * 1000} mV apart; a one-electron transfer gives at least 57 mV"
            yield explanation, reading.change(f"{wrong.quantize(high)} V")


def _list_peaks(case: edits.Case, quantity: str) -> Iterator[tuple[edits.Reading, edits.Reading]]:
    """Yield the anodic and the cathodic reading of each voltammogram, where both have a number."""
    for first, second in pairwise(one for one in case.readings if f"peak {quantity}" in one.description):
        same = first.description.replace("anodic", "cathodic") == second.description != first.description
        if same and all(edits.NUMBER.search(one.value) for one in (first, second)):
            yield first, second


@edits.plants(edits.SUBTLE, "a substance elutes at the retention time of its standard", edits.SCARCE, science=True)
def retention_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a peak comes clearly earlier or later than that of the same substance in other runs."""
    for reading in _list_retentions(case, rng):
        for factor in precision.draw_reading_factors(case, reading, rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"the peak is at {wrong}; its standard is at {reading.value}", reading.change(wrong)


@edits.plants(edits.OBVIOUS, "nothing elutes before the solvent front", edits.SCARCE, science=True)
def before_the_void(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a peak comes before the mobile phase has passed the column."""
    for reading in _list_retentions(case, rng):
        for factor in sizes.draw_large_factors(rng):
            wrong = sizes.scale_reading(reading.value, 1 / (4 * factor))
            yield f"the peak is at {wrong}, before the solvent front", reading.change(wrong)


def _list_retentions(case: edits.Case, rng: random.Random) -> list[edits.Reading]:
    readings = [one for one in case.readings if one.description.endswith("retention time")]
    return edits.sample_places(rng, [one for one in readings if edits.NUMBER.search(one.value)])


@edits.plants(edits.SUBTLE, "readings of a dilution series are proportional", edits.SCARCE, science=True)
def off_the_line(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which one dilution, in all its readings, is off the line through the others."""
    series: dict[str, list[edits.Reading]] = {}
    for reading in case.readings:
        if _DILUTION.search(reading.description) and edits.NUMBER.search(reading.value):
            series.setdefault(_DILUTION.sub("1:#", reading.description), []).append(reading)
    members = [
        one for group in series.values() if len(group) > 2 for one in group if "retention" not in one.description
    ]
    for reading in edits.sample_places(rng, members):
        for factor in precision.draw_reading_factors(case, reading, rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"{wrong} is off the line of the other dilutions, which gives {reading.value}", reading.change(wrong)


@edits.plants(edits.SUBTLE, "nucleic acids and proteins have characteristic absorbance ratios", science=True)
def impure_ratio(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the ratio of absorbances shows protein, or no nucleic acid, in a pure extract."""
    for reading in edits.sample_places(rng, [one for one in case.readings if "A260/A280" in one.description]):
        for factor in precision.draw_reading_factors(case, reading, rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"A260/A280 is {wrong}; the extract has {reading.value}", reading.change(wrong)


@edits.plants(edits.SUBTLE, "the share of a solvent is its volume over that of the mixture", science=True)
def solvent_share_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a solvent makes up a share of the mixture that the volumes do not give."""
    for solute in edits.sample_places(rng, case.solutes):
        if solute.dimension == "ratio" and solute.value < 100:
            for factor in sizes.draw_factors(case.sizes, rng):
                for text in sizes.iter_spellings(solute.text, solute.value * factor, "ratio", exact=True):
                    if quantities.parse_quantity(text, "ratio").value < 100:
                        yield f"{solute.name} is {text}; the volumes give {solute.text}", solute.change(text)


@edits.plants(edits.SUBTLE, "a non-aqueous electrode is filled with the solvent of its cell", science=True)
def incompatible_solvent(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a solution of a non-aqueous cell is made with water."""
    yield from _change_solvent(case, rng, ("water", "ethanol"))


@edits.plants(edits.OBVIOUS, "salts dissolve in polar solvents", science=True)
def insoluble_salt(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which salts are dissolved in a hydrocarbon."""
    yield from _change_solvent(case, rng, ("hexane", "toluene"))


def _change_solvent(case: edits.Case, rng: random.Random, solvents: tuple[str, ...]) -> edits.Errors:
    for material in edits.sample_places(rng, case.materials):
        right = str(material.draft.properties.get("filling solution", ""))
        for solvent in solvents if " in acetonitrile" in right else ():
            wrong = right.replace(" in acetonitrile", f" in {solvent}")
            yield f"{material.name} is filled with {wrong}, not {right}", material.change("filling solution", wrong)
