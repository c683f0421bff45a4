"""Errors in records: readings and settings that no instrument has (obvious), or that do not fit the sample (subtle)."""

import random
import re
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple

from simulation.lab import quantities
from simulation.lab.outcomes import NOTE
from simulation.offline.injectors import edits, precision, sizes
from simulation.offline.injectors.settings import find_setting_values

_BAND = re.compile(r"(?<=[0-9]) bp\b")
_BALANCE_UNIT = " g"
_PLAIN_NUMBER = re.compile(r"-?[0-9.]+(?:e[0-9]+)?( \D+)?")
_EXCESS_FACTORS = tuple(Decimal(factor) for factor in (3, 5, 8, 10, 14, 19, 23, 31, 44, 63))


# Least and largest difference of readings that a factor does not fit: pH units, volts, millivolts, degrees. With a declared
# noise, the largest is 15 standard deviations.
_DISTANCES = ((r"\bpH\b", (0.2, 0.9)), (r" V$", (0.01, 0.09)), (r" mV$", (10, 90)), (r"°C$", (3.0, 9.0)))


class Limit(NamedTuple):
    """The largest possible value of readings with this unit whose record's description matches the pattern."""

    description_pattern: str
    unit: str
    maximum: Decimal
    reason: str


_LIMITS = (
    Limit(r"\bpH$", "", Decimal(14), "the pH scale of water ends at 14"),
    Limit("A260/A280", "", Decimal(4), "no nucleic acid or protein has a ratio above 4"),
    Limit("", "AU", Decimal(8), "hardly one photon in a hundred million would pass"),
    Limit("", "%", Decimal(100), "there is no more than the whole"),
    Limit("", "ΔF/F", Decimal(100), "no sensor brightens a hundredfold"),
    Limit("", "R/R0", Decimal(40), "no FRET pair changes its ratio so much"),
    Limit("UseMicroscope", "counts", Decimal(65535), "a 16-bit camera ends at 65535 counts"),
    Limit("", "mOsm/kg", Decimal(12000), "a saturated salt solution has about 11000 mOsm/kg"),
    Limit("potential", "V", Decimal("1.1"), "the potential was never swept so far"),
    Limit("retention time", "min", Decimal(10**6), "the run was over by then"),
    Limit("", "ng/µL", Decimal(2 * 10**6), "a gram of DNA does not dissolve in a millilitre"),
    Limit("HEK|HeLa|rat", "cells/mL", Decimal(2 * 10**9), "an animal cell fills half a picolitre or more"),
    Limit("", "cells/mL", Decimal(10**11), "there is no room for so many in a millilitre"),
    Limit("balance", "g", Decimal(320), "the balance carries no more"),
)


@edits.plants(edits.OBVIOUS, "readings and materials agree")
def contradicting_observation(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a reading is many times the volume or mass of the material."""
    near = _list_amount_readings(case, lambda value, expected: expected * 2 > value > expected / 2 > 0)
    for reading, expected in edits.sample_places(rng, near):
        for factor in sizes.draw_large_factors(rng):
            wrong = sizes.scale_reading(reading.value, factor)
            right = f"the material's {expected.dimension} is {_format_amount(expected)}"
            yield f"the reading is {wrong}, not {reading.value}; {right}", reading.change(wrong)


def _list_amount_readings(
    case: edits.Case, fits: Callable[[Decimal, Decimal], bool]
) -> list[tuple[edits.Reading, edits.Amount]]:
    """Return each reading with a displayed volume or mass, where one of its values fits the amount."""
    return [
        (reading, expected)
        for reading in case.readings
        if reading.measurement_type != NOTE  # a note states what was set, in round numbers: see `notes.py`
        for expected in case.shown_bulks
        if any(fits(value, expected.value) for value in edits.parse_readings(reading.value, expected.dimension))
    ]


def _format_amount(amount: edits.Amount) -> str:
    return quantities.format_quantity(amount.value, amount.dimension)


@edits.plants(edits.OBVIOUS, "readings stay within the range of the instrument")
def beyond_the_instrument(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a reading exceeds what exists, or what the instrument or the run can measure."""
    candidates = [(reading, limit) for reading in case.readings for limit in _LIMITS if _matches_limit(reading, limit)]
    for reading, limit in edits.sample_places(rng, candidates):
        smallest = min(abs(Decimal(number)) for number in edits.NUMBER.findall(reading.value))
        # No count of cells is near what there is room for, so a factor leads beyond it from any count.
        base = limit.maximum / smallest if limit.unit == "cells/mL" and smallest else 1
        for factor in (base * factor for factor in _EXCESS_FACTORS):
            wrong = sizes.scale_reading(reading.value, factor)
            if min(abs(Decimal(number)) for number in edits.NUMBER.findall(wrong)) > _find_limit(case, limit):
                yield f"the reading is {wrong}, not {reading.value}; {limit.reason}", reading.change(wrong)


def _matches_limit(reading: edits.Reading, limit: Limit) -> bool:
    """Return whether a reading consists of numbers with the limit's unit and is described by its pattern."""
    if not re.fullmatch(r"-?[0-9.]+(?:e[0-9]+)?( \S+)?(, -?[0-9.]+(?:e[0-9]+)?( \S+)?)*", reading.value):
        return False
    if limit.unit:
        has_unit = " " in reading.value and reading.value.rpartition(" ")[2] == limit.unit
    else:
        has_unit = re.fullmatch(r"[0-9., -]+", reading.value) is not None
    return has_unit and re.search(limit.description_pattern, reading.description) is not None


def _find_limit(case: edits.Case, limit: Limit) -> Decimal:
    """Return the largest possible value. For retention times and swept potentials, it follows from the settings."""
    settings = {}
    for parameter in case.action_type.parameters if case.action_type else ():
        written = case.action.parameters.get(parameter.name, parameter.default)
        if written and (parameter.name == "run_time" or parameter.name.endswith("_potential")):
            settings[parameter.name] = Decimal(parameter.parse_value(written))
    if limit.description_pattern == "retention time" and "run_time" in settings:
        return settings["run_time"] / 60
    if limit.description_pattern == "potential" and len(settings) > 1:
        return max(map(abs, settings.values()))
    return limit.maximum


@edits.plants(edits.OBVIOUS, "a fragment is no longer than can be amplified and resolved", science=True)
def band_too_long(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a band has a length that no polymerase copies and no plain gel resolves."""
    for reading in edits.sample_places(rng, [reading for reading in case.readings if _BAND.search(reading.value)]):
        for factor in sizes.draw_large_factors(rng):
            wrong = sizes.scale_reading(reading.value, factor * 20)
            reason = "this reaction cannot amplify it and this gel cannot resolve it"
            yield f"{wrong} instead of {reading.value}; {reason}", reading.change(wrong)


@edits.plants(edits.OBVIOUS, "a part is not larger than the whole")
def more_than_all(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which more events are positive than there were events."""
    for reading, match in edits.sample_places(rng, case.find_shares()):
        positive, events = int(match["positive"]), int(match["events"])
        texts = [f"{match['percent']} % ({events} of {positive} events)"]
        for factor in range(2, 10):
            if positive * factor > events:
                percent = quantities.format_number(Decimal(match["percent"]) * factor)
                texts.append(f"{percent} % ({positive * factor} of {events} events)")
        for wrong in texts if positive < events else ():
            explanation = f"{wrong} are positive, which is more than all; the record is {reading.value}"
            yield explanation, reading.change(wrong)


@edits.plants(edits.OBVIOUS, "a setting is one that the instrument offers")
def impossible_setting(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the outcome states a setting that the instrument does not have."""
    # The volume of a material is an amount, not a setting; errors in it are of another kind.
    echoes = [echo for echo in find_setting_values(case) if echo.property_name != "volume"]
    for echo in edits.sample_places(rng, echoes):
        for wrong in echo.list_beyond():
            right = f"it was set to {echo.text}, and the instrument goes {echo.allowed_range}"
            yield f"{echo.setting_name} is {wrong}; {right}", *echo.change(case, wrong)


@edits.plants(edits.SUBTLE, "readings and materials agree")
def reading_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a reading clearly differs from the volume or mass of the material."""
    near = _list_amount_readings(case, lambda value, expected: abs(value - expected) * 20 < expected)
    for reading, expected in edits.sample_places(rng, near):
        for factor in precision.draw_reading_factors(case, reading, rng):
            wrong = sizes.scale_reading(reading.value, factor)
            yield f"the reading is {wrong}, the material holds {_format_amount(expected)}", reading.change(wrong)


@edits.plants(edits.SUBTLE, "readings of one sample agree within the noise", systematic=False)
def replicate_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which one of several readings of the same sample is far from the others, which agree."""
    for reading in edits.sample_places(rng, [reading for reading in case.readings if _are_replicates(reading.value)]):
        parts = reading.value.split(", ")
        for position, part in enumerate(parts):
            others = [_read_first(other) for place, other in enumerate(parts) if place != position]
            for factor in _draw_moves(case, reading, rng):
                wrong = _move_reading(case, reading, part, factor, rng)
                if wrong.endswith(" %") and Decimal(wrong[:-2]) > 100:
                    continue  # more than the whole would be obvious
                if not precision.stands_out(case, reading, _read_first(wrong), others):
                    continue
                value = ", ".join([*parts[:position], wrong, *parts[position + 1 :]])
                right = f"where it was {part}; the others of this sample agree"
                yield f"reading {position + 1} is {wrong} {right}", reading.change(value)


def _draw_moves(case: edits.Case, reading: edits.Reading, rng: random.Random) -> list[Decimal]:
    """Return factors, or 1 up and 1 down where a reading is moved by a distance instead."""
    if _find_distances(reading.description, reading.value):
        return [Decimal(2), Decimal("0.5")]
    return precision.draw_reading_factors(case, reading, rng)


def _move_reading(case: edits.Case, reading: edits.Reading, value: str, factor: Decimal, rng: random.Random) -> str:
    """Return a part of a reading times the factor, or, on a scale whose zero does not mean none, at a distance from it."""
    if distances := _find_distances(reading.description, reading.value):
        distance = precision.draw_distance(case, reading, distances, rng)
        return sizes.shift_reading(value, distance if factor > 1 else -distance)
    return sizes.scale_reading(value, factor)


def _find_distances(description: str, value: str) -> tuple[float, float] | None:
    """Return the least and largest subtle difference of such a reading, or None if it is changed by a factor."""
    quantity = description.rpartition(": ")[2]
    return next((ends for pattern, ends in _DISTANCES if re.search(pattern, f"{quantity} = {value}")), None)


def _read_first(text: str) -> Decimal:
    return Decimal(edits.NUMBER.findall(text)[0])


def _are_replicates(value: str, weighed: bool = False) -> bool:
    """Return whether a value consists of readings within 20 %, such as "101 AU, 102 AU" or "101, 102 AU".

    Those of a balance do only if `weighed`.
    """
    parts = value.split(", ")
    # The smallest subtle deviation is some ten thousand times what a balance scatters, so it would be seen at a glance.
    if value.endswith(_BALANCE_UNIT) and not weighed:
        return False
    if len(parts) < 2 or not all(_PLAIN_NUMBER.fullmatch(part) for part in parts):
        return False
    numbers = [Decimal(part.partition(" ")[0]) for part in parts]
    # Readings of different things may share a unit; only those within 20 % are replicates.
    return min(numbers) > 0 and max(numbers) < min(numbers) * Decimal("1.2")


@edits.plants(edits.SUBTLE, "replicate vessels agree within the noise", systematic=False)
def odd_one_out(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which one of several replicate samples reads more or less than the others by more than the noise."""
    for fellows in edits.sample_places(rng, _group_replicate_vessels(case)):
        for reading in fellows:
            others = [_read_first(other.value) for other in fellows if other is not reading]
            for factor in _draw_moves(case, reading, rng):
                wrong = _move_reading(case, reading, reading.value, factor, rng)
                if not precision.stands_out(case, reading, _read_first(wrong), others):
                    continue
                right = f"where {reading.value} agrees with its replicate vessels"
                yield f"{reading.description}: {wrong}, {right}", reading.change(wrong)


@edits.plants(edits.OBVIOUS, "readings of one sample agree within the noise", edits.COMMON, systematic=False)
def far_from_its_replicates(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which one of several readings of the same sample is several times, or a fraction of, the others."""
    for reading in edits.sample_places(rng, [one for one in case.readings if _are_replicates(one.value, weighed=True)]):
        parts = reading.value.split(", ")
        for position, part in enumerate(parts) if not _find_distances(reading.description, reading.value) else ():
            for factor in sizes.draw_large_factors(rng, 1):
                for wrong in (sizes.scale_reading(part, factor), sizes.scale_reading(part, 1 / factor)):
                    if wrong.endswith(" %") and Decimal(wrong[:-2]) > 100:
                        continue  # another kind of error, `more_than_all`
                    value = ", ".join([*parts[:position], wrong, *parts[position + 1 :]])
                    explanation = (
                        f"reading {position + 1} is {wrong} where it was {part}; the others of this sample agree"
                    )
                    yield explanation, reading.change(value)


def _group_replicate_vessels(case: edits.Case) -> list[list[edits.Reading]]:
    """Return groups of agreeing readings of one quantity, from three or more vessels that differ only in number."""
    groups: dict[str, list[edits.Reading]] = defaultdict(list)
    for reading in case.readings:
        name = "" if reading.subject is None else case.all_materials[reading.subject].name
        base = re.sub(r" [0-9]+$", "", name)
        is_weighed = reading.value.endswith(_BALANCE_UNIT)
        if base != name and edits.NUMBER.match(reading.value) and "(" not in reading.value and not is_weighed:
            groups[reading.description.replace(name, base)].append(reading)
    agreeing = []
    for group in groups.values():
        numbers = [Decimal(number) for reading in group for number in edits.NUMBER.findall(reading.value)]
        if len(group) > 2 and min(numbers) > 0 and max(numbers) < min(numbers) * Decimal("1.5"):
            agreeing.append(group)
    return agreeing


@edits.plants(edits.SUBTLE, "a reading belongs to the sample that was measured", edits.SCARCE)
def swapped_readings(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the readings of two samples that are known to differ are exchanged."""
    known = [_find_known_properties(case, reading) for reading in case.readings]
    pairs = [
        (first, second, name)
        for first, second in combinations(case.readings, 2)
        # Sorted, because a set has another order in another process.
        for name in sorted(known[first.position].keys() | known[second.position].keys())
        if known[first.position].get(name) != known[second.position].get(name)
        and _find_measurement(first) == _find_measurement(second)
        and _differs_by_property(name, first, second)
        and _is_only_reading(case, first)
        and _is_only_reading(case, second)
    ]
    for first, second, name in edits.sample_places(rng, pairs):
        explanation = f"{first.value} and {second.value} were read the other way round; the samples differ in {name}"
        yield explanation, first.change(second.value), second.change(first.value)


def _is_only_reading(case: edits.Case, reading: edits.Reading) -> bool:
    """Return whether nothing else was read of the sample; otherwise its other readings would contradict the exchange."""
    return reading.subject is None or not any(
        other.subject == reading.subject and other is not reading and other.measurement_type != NOTE
        for other in case.readings
    )


def _find_known_properties(case: edits.Case, reading: edits.Reading) -> dict[str, str]:
    """Return the visible properties that distinguish an observed sample: concentrations, genotype, being a ladder."""
    properties = {} if reading.subject is None else case.all_materials[reading.subject].draft.properties
    known = {
        name: str(value) for name, value in properties.items() if name == "genotype" or name.endswith(" concentration")
    }
    return {**known, "ladder": str("ladder" in reading.description)}


def _find_measurement(reading: edits.Reading) -> str:
    """Return the end of a reading's heading, which is the quantity measured, or "" if it has none."""
    return reading.description.rpartition(": ")[2] if ": " in reading.description else ""


def _differs_by_property(name: str, first: edits.Reading, second: edits.Reading) -> bool:
    """Return whether a concentration explains different numbers, or a genotype or ladder different observations."""
    if name in ("genotype", "ladder"):
        types = (first.measurement_type, second.measurement_type)
        return first.value != second.value and "quantitative" not in types
    if name.removesuffix(" concentration") not in first.description.rpartition(": ")[2]:
        return False
    figures = [re.match(r"[0-9]+(?:\.[0-9]+)?", reading.value) for reading in (first, second)]
    numbers = sorted(Decimal(figure[0]) for figure in figures if figure)
    # Where nothing was detected in one, exchanging them is found at once.
    return len(numbers) == 2 and numbers[1] > numbers[0] * Decimal("1.5")


@edits.plants(edits.SUBTLE, "a share is the part over the whole", edits.SCARCE)
def share_and_count(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the percentage of positive events contradicts their number."""
    for reading, match in edits.sample_places(rng, case.find_shares()):
        percent, positive = Decimal(match["percent"]), int(match["positive"])
        for factor in precision.draw_reading_factors(case, reading, rng):
            share, count = sizes.scale_reading(match["percent"], factor), str(int(positive * factor))
            for wrong in (
                reading.value.replace(f"{match['percent']} %", f"{share} %", 1),
                reading.value.replace(f"({match['positive']} of", f"({count} of", 1),
            ):
                if percent * factor <= 100 and positive and wrong != reading.value:
                    explanation = f"{wrong}: {positive} of {match['events']} are {match['percent']} %"
                    yield explanation, reading.change(wrong)
