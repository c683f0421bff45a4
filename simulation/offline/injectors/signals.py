"""Errors that the logic of an assay shows: controls, dose, the direction of a response, and light."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from simulation.lab.outcomes import NOTE
from simulation.offline.injectors import edits, precision, sizes

_CONTROL = re.compile(
    r"\b(blank|sterile|uninoculated|untransduced|untransfected|without|empty|mock|no-\w+|water|electrolyte only)\b",
    re.IGNORECASE,
)
_NONE = "not detected"
_CLEAR_FACTOR = 3  # a sample reads at least so many times what its control reads
_NO_SIGNAL = ("retention", "potential", "time constant", "rise time", ": pH")
_BAND, _NO_BAND = re.compile(r"one band at about [0-9]+ bp"), "no band"
_TRACE = (0.04, 0.09)  # of the weakest sample: too much for a clean blank, too little to be taken for a sample
_DARKER = (1.05, 1.9)  # ΔF/F below -1 would be less light than none
_STRONG = Decimal("0.2")  # ΔF/F of a response that nobody takes for noise
_DELTA_F, _FRET = "ΔF/F", "R/R0"


class _Contrast(NamedTuple):
    """A control and a sample of which the same quantity was read, the sample far higher."""

    control: edits.Reading
    sample: edits.Reading


def _list_contrasts(case: edits.Case) -> list[_Contrast]:
    """Return the pairs of controls and samples with different readings of one quantity."""
    by_quantity: dict[str, list[edits.Reading]] = defaultdict(list)
    for reading in case.readings:
        if reading.subject is not None and reading.measurement_type != NOTE:
            name = case.all_materials[reading.subject].name
            by_quantity[reading.description.replace(name, "#")].append(reading)
    contrasts = []
    for quantity, readings in by_quantity.items():
        if any(word in quantity for word in _NO_SIGNAL):
            continue
        controls = [one for one in readings if _CONTROL.search(case.all_materials[one.subject or 0].name)]
        samples = [one for one in readings if one not in controls]
        contrasts += [_Contrast(low, high) for low in controls for high in samples if _is_above(high, low)]
    return contrasts


def _is_above(high: edits.Reading, low: edits.Reading) -> bool:
    level = _read_level(high)
    if level is None or level <= 0:
        return False
    floor = _read_level(low)
    return low.value == _NONE or (floor is not None and 0 <= floor * _CLEAR_FACTOR < level)


def _read_level(reading: edits.Reading) -> Decimal | None:
    """Return the first number of a reading."""
    number = edits.NUMBER.search(reading.value)
    return Decimal(number[0]) if number else None


def _vary(text: str, rng: random.Random) -> str:
    """Return the reading of another sample with some noise, so that it is no copy."""
    return sizes.scale_reading(text, Decimal(str(round(rng.uniform(0.92, 1.08), 3))))


@edits.plants(edits.OBVIOUS, "a control without the agent gives no signal", edits.SCARCE, science=True)
def control_gives_signal(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a blank or untreated control reads as a sample does, without a source of the signal."""
    for control, sample in edits.sample_places(rng, _list_contrasts(case)):
        wrong = _vary(sample.value, rng)
        yield f"the control reads {wrong}, as if it were a sample; it has {control.value}", control.change(wrong)


@edits.plants(edits.OBVIOUS, "a sample that was treated gives its signal", edits.SCARCE, science=True)
def sample_gives_none(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a sample reads as the control without the agent does."""
    for control, sample in edits.sample_places(rng, _list_contrasts(case)):
        wrong = control.value if control.value == _NONE else _vary(control.value, rng)
        yield f"the sample reads {wrong}, as if it were the control; it has {sample.value}", sample.change(wrong)


@edits.plants(edits.SUBTLE, "a blank is clean unless something was carried over", edits.SCARCE, science=True)
def trace_in_blank(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a blank in which nothing is detected shows a small carryover."""
    blank = [(low, high) for low, high in _list_contrasts(case) if low.value == _NONE]
    for control, sample in edits.sample_places(rng, blank):
        share = Decimal(str(round(rng.uniform(*_TRACE), 4)))
        wrong = sizes.scale_reading(sample.value, share)
        yield f"the blank reads {wrong}, but nothing was carried over into it", control.change(wrong)


@edits.plants(edits.SUBTLE, "a product needs a template, and a template gives its product", edits.SCARCE, science=True)
def band_without_template(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the reaction without DNA has a band, or one with DNA has none."""
    lanes = [one for one in case.readings if one.value == _NO_BAND or _BAND.fullmatch(one.value)]
    bands = [one.value for one in lanes if one.value != _NO_BAND]
    for reading in edits.sample_places(rng, lanes):
        wrong = _NO_BAND if reading.value != _NO_BAND else bands[0] if bands else ""
        if wrong:
            yield f"{reading.description}: {wrong}; the reaction gave {reading.value}", reading.change(wrong)


@edits.plants(edits.SUBTLE, "primers give a product of one length", science=True)
def band_of_wrong_length(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a band is longer or shorter than the primers of the reaction make it."""
    for reading in edits.sample_places(rng, [one for one in case.readings if _BAND.fullmatch(one.value)]):
        for factor in sizes.draw_factors(case.sizes, rng):
            length = int(re.search("[0-9]+", reading.value)[0])  # type: ignore[index]  # the pattern has a number
            wrong = reading.value.replace(str(length), str(round(length * factor / 10) * 10))
            yield f"{wrong}; these primers give {reading.value}", reading.change(wrong)


@edits.plants(edits.OBVIOUS, "fluorescence does not fall below zero", edits.COMMON, science=True)
def darker_than_dark(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a relative change of fluorescence is below -1."""
    for reading in edits.sample_places(rng, [one for one in case.readings if one.value.endswith(f" {_DELTA_F}")]):
        number = Decimal(reading.value.partition(" ")[0])
        for _ in range(2 if number > _STRONG else 0):
            wrong = -Decimal(str(round(rng.uniform(*_DARKER), 3))).quantize(number)
            yield f"a ΔF/F of {wrong} means fluorescence below zero", reading.change(f"{wrong} {_DELTA_F}")


@edits.plants(edits.SUBTLE, "a sensor brightens or dims as its ligand makes it", edits.SCARCE, science=True)
def fret_change_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the change of a FRET ratio differs from that of the raw ratio of the same cells."""
    for reading in edits.sample_places(rng, [one for one in case.readings if one.value.endswith(f" {_FRET}")]):
        for factor in precision.draw_reading_factors(case, reading, rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"the ratio changes by {wrong}; the same cells gave {reading.value}", reading.change(wrong)


@edits.plants(edits.OBVIOUS, "calcium sensors rise faster than they decay", edits.SCARCE, science=True)
def slower_rise_than_decay(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the rise time and the decay of a response are exchanged."""
    for rise, decay in _list_related(case, "rise time", "decay time constant"):
        explanation = f"the response rises in {decay.value} and decays in {rise.value}"
        yield explanation, rise.change(decay.value), decay.change(rise.value)


@edits.plants(edits.SUBTLE, "the mean of a trace lies below its peak", edits.SCARCE, science=True)
def mean_above_peak(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the mean fluorescence exceeds the first frame times one plus the peak change."""
    for mean, peak in _list_related(case, "mean fluorescence", _DELTA_F):
        firsts = [one for one in case.readings if one.subject == mean.subject and "first frame" in one.description]
        level, change = _read_level(mean), _read_level(peak)
        first = _read_level(firsts[0]) if len(firsts) == 1 else None
        if level is None or change is None or first is None or not mean.value.endswith(" counts"):
            continue
        for factor in precision.draw_reading_factors(case, mean, rng):
            if level * factor > first * (1 + max(change, Decimal(0))) * Decimal("1.05"):
                wrong = sizes.scale_reading(mean.value, factor)
                yield f"the mean is {wrong}; first frame and peak allow less", mean.change(wrong)


def _list_related(case: edits.Case, first: str, second: str) -> Iterator[tuple[edits.Reading, edits.Reading]]:
    """Yield the readings of two quantities of the same subject, where both have a number."""
    readings = [one for one in case.readings if one.subject is not None and edits.NUMBER.search(one.value)]
    for one in readings:
        matches: Sequence[edits.Reading] = [
            other
            for other in readings
            if other.subject == one.subject and second in other.description.rpartition(": ")[2]
        ]
        if first in one.description.rpartition(": ")[2] and matches:
            yield one, matches[0]


@edits.plants(edits.OBVIOUS, "a fluorescent reporter bleaches, and is not brightened by light", science=True)
def brightened_by_light(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the field is many times as bright as in the first frame, without any response."""
    for mean, peak in _list_related(case, "mean fluorescence", _DELTA_F):
        change = _read_level(peak)
        if change is not None and abs(change) < Decimal("0.1"):
            for factor in sizes.draw_large_factors(rng):
                wrong = sizes.scale_reading(mean.value, factor)
                explanation = f"the mean is {wrong} although the response is {peak.value}: light bleaches the reporter"
                yield explanation, mean.change(wrong)


@edits.plants(edits.SUBTLE, "proteins of one lysate are loaded together", science=True, systematic=False)
def loading_control_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the loading control of a lane differs from that of equally loaded lanes."""
    bands = [one for one in case.readings if "near 42 kDa" in one.description and edits.NUMBER.search(one.value)]
    for reading in edits.sample_places(rng, bands):
        for factor in precision.draw_reading_factors(case, reading, rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"beta-actin reads {wrong}; equal loading gives {reading.value}", reading.change(wrong)


@edits.plants(edits.OBVIOUS, "every lysate has its housekeeping protein", science=True)
def loading_control_missing(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which beta-actin is not detected in a lysate that has other bands, or as much protein."""
    bands = [one for one in case.readings if "near 42 kDa" in one.description and edits.NUMBER.search(one.value)]
    for reading in edits.sample_places(rng, bands):
        yield f"no beta-actin, although the lysate has {reading.value}", reading.change(_NONE)


@edits.plants(edits.SUBTLE, "each element gives counts for its own amount", science=True, systematic=False)
def isotope_interference(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which one element of a digest reads off while the other keeps its ratio to the standards."""
    signals = [one for one in case.readings if one.value.endswith(" counts/s") and "blank" not in one.description]
    for reading in edits.sample_places(rng, signals):
        for factor in precision.draw_reading_factors(case, reading, rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"{wrong}, but the sample gives {reading.value}", reading.change(wrong)
