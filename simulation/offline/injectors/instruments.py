"""Subtle errors in records: a reading that does not fit its sample."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple

from simulation.lab import quantities
from simulation.lab.outcomes import Observation
from simulation.offline.injectors.edits import (
    NUMBER,
    OBVIOUS,
    SCARCE,
    SHARE,
    SUBTLE,
    Case,
    Plan,
    edit_value,
    list_shown_amounts,
    multiply_numbers,
    parse_readings,
    plants,
    sample_places,
)
from simulation.offline.injectors.settings import change_setting, find_setting_values

_PLAIN_NUMBER = re.compile(r"-?[0-9.]+( \D+)?")
_TENTH, _TEN = Decimal("0.1"), Decimal(10)
_DEVIATIONS = tuple(Decimal(factor) for factor in ("0.72", "0.79", "0.82", "0.87", "1.14", "1.19", "1.23", "1.31"))
_OTHER_UNITS = {
    "V": ("mV",), "µA": ("mA", "nA"), "nA": ("µA",), "mA": ("µA",), "g": ("mg",), "mg": ("µg",), "mL": ("µL",),
    "µL": ("mL",), "ng/µL": ("µg/µL", "ng/mL"), "min": ("s", "h"), "s": ("min",), "AU": ("mAU",),
    "µS/cm": ("mS/cm",), "mS/cm": ("µS/cm",), "mOsm/kg": ("µOsm/kg",), "cells/mL": ("cells/µL",),
    "mg/L": ("µg/L",), "ng/mL": ("pg/mL",), "µg/mL": ("ng/mL",), "nm": ("µm",), "µm": ("nm",),
}  # fmt: skip


@plants(SUBTLE)
def reading_off(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a reading clearly differs from the volume or mass of the material."""
    known = list_shown_amounts(case)
    fits = [
        (index, observation, expected)
        for index, observation in case.iter_observations()
        for expected in known
        if any(
            abs(reading - expected.value) * 20 < expected.value
            for reading in parse_readings(observation.value, expected.dimension)
        )
    ]
    for index, observation, expected in sample_places(rng, fits):
        for factor in _DEVIATIONS:
            wrong = multiply_numbers(observation.value, factor)
            explanation = f"the reading is {wrong}, the material holds {quantities.format_quantity(expected.value, expected.dimension)}"
            yield Plan("readings and materials agree", explanation, (edit_value(index, observation, wrong),))


@plants(SUBTLE)
def replicate_off(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which one of several readings of the same sample is far from the others, which agree."""
    for index, observation in sample_places(
        rng, [(i, observation) for i, observation in case.iter_observations() if _are_replicates(observation.value)]
    ):
        parts = observation.value.split(", ")
        for position, factor in (
            (position, factor)
            for position in range(len(parts))
            for factor in (_TENTH, _TEN, *_DEVIATIONS[:2], *_DEVIATIONS[-2:])
        ):
            wrong = multiply_numbers(parts[position], factor)
            value = ", ".join([*parts[:position], wrong, *parts[position + 1 :]])
            explanation = (
                f"reading {position + 1} is {wrong} where it was {parts[position]}; the others of this sample agree"
            )
            yield Plan(
                "readings of one sample agree within the noise", explanation, (edit_value(index, observation, value),)
            )


def _are_replicates(value: str) -> bool:
    """Return whether a value consists of readings within 20 %, such as "101 AU, 102 AU" or "101, 102 AU"."""
    parts = value.split(", ")
    if len(parts) < 2 or not all(_PLAIN_NUMBER.fullmatch(part) for part in parts):
        return False
    numbers = [Decimal(part.partition(" ")[0]) for part in parts]
    # Readings of different things may share a unit; only those within 20 % are replicates.
    return min(numbers) > 0 and max(numbers) < min(numbers) * Decimal("1.2")


@plants(SUBTLE)
def odd_one_out(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which one of several replicate samples reads ten times or a tenth of what the others read."""
    for fellows in sample_places(rng, _group_replicate_vessels(case)):
        for index, observation in fellows:
            for factor in (_TENTH, _TEN):
                wrong = multiply_numbers(observation.value, factor)
                explanation = (
                    f"{observation.description}: {wrong}, where {observation.value} agrees with its replicate vessels"
                )
                yield Plan(
                    "replicate vessels agree within the noise", explanation, (edit_value(index, observation, wrong),)
                )


def _group_replicate_vessels(case: Case) -> list[list[tuple[int, Observation]]]:
    """Return groups of agreeing readings of one quantity, from three or more vessels that differ only in number."""
    groups: dict[str, list[tuple[int, Observation]]] = defaultdict(list)
    for index, observation in case.iter_observations():
        draft = case.find_named_material(index)
        if (
            draft
            and re.search(r" [0-9]+$", draft.name)
            and NUMBER.match(observation.value)
            and "(" not in observation.value
        ):
            base = re.sub(r" [0-9]+$", "", draft.name)
            groups[observation.description.replace(draft.name, base)].append((index, observation))
    return [group for group in groups.values() if len(group) > 2 and _readings_agree(group)]


def _readings_agree(group: list[tuple[int, Observation]]) -> bool:
    numbers = [Decimal(number) for _, observation in group for number in NUMBER.findall(observation.value)]
    return min(numbers) > 0 and max(numbers) < min(numbers) * Decimal("1.5")


@plants(SUBTLE, SCARCE)
def swapped_readings(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which the readings of two samples that are known to differ are exchanged."""
    observations = [(index, first, _find_known_properties(case, index)) for index, first in case.iter_observations()]
    pairs = [
        (i, first, j, second, name)
        for (i, first, first_known), (j, second, second_known) in combinations(observations, 2)
        for name in first_known.keys() | second_known.keys()
        if first_known.get(name) != second_known.get(name)
        and _measure_same_quantity(first, second)
        and _differs_by_property(name, first, second)
    ]
    # Sorted, because the names come from a set, whose order differs between processes.
    for i, first, j, second, name in sample_places(rng, sorted(pairs, key=lambda pair: (pair[0], pair[2], pair[4]))):
        edits = (edit_value(i, first, second.value), edit_value(j, second, first.value))
        explanation = f"{first.value} and {second.value} were read the other way round; the samples differ in {name}"
        yield Plan("a reading stands with the sample it was read of", explanation, edits)


def _find_known_properties(case: Case, index: int) -> dict[str, str]:
    """Return the visible properties that distinguish an observed sample: concentrations, genotype, being a ladder."""
    draft = case.find_named_material(index)
    known = {name: str(value) for name, value in draft.properties.items() if _is_distinguishing(name)} if draft else {}
    ladder = "ladder" in case.outcome.new_observations[index].description
    return {**known, "ladder": str(ladder)}


def _is_distinguishing(name: str) -> bool:
    return name == "genotype" or name.endswith(" concentration")


def _differs_by_property(name: str, first: Observation, second: Observation) -> bool:
    """Return whether this property explains why two readings differ.

    A concentration explains different numbers; a genotype or a ladder explains different visible observations.
    """
    if name in ("genotype", "ladder"):
        return first.value != second.value and "quantitative" not in (first.measurement_type, second.measurement_type)
    substance = name.removesuffix(" concentration")
    if substance not in first.description.rpartition(": ")[2]:
        return False
    figures = [re.match(r"[0-9]+(?:\.[0-9]+)?", observation.value) for observation in (first, second)]
    numbers = sorted(Decimal(figure[0]) for figure in figures if figure)
    return len(numbers) == 1 or (len(numbers) == 2 and numbers[1] > numbers[0] * Decimal("1.5"))


def _measure_same_quantity(first: Observation, second: Observation) -> bool:
    """Return whether two observations have the same heading, so that they measure the same quantity."""
    measurements = (
        observation.description.rpartition(": ")[2] if ": " in observation.description else ""
        for observation in (first, second)
    )
    return next(measurements) == next(measurements)


@plants(SUBTLE, SCARCE)
def share_and_count(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which the percentage of positive events contradicts their number."""
    shares = [
        (i, observation, match)
        for i, observation in case.iter_observations()
        if (match := SHARE.fullmatch(observation.value))
    ]
    for index, observation, match in sample_places(rng, shares):
        percent, positive = Decimal(match["percent"]), int(match["positive"])
        for factor in (_TENTH, _TEN, *_DEVIATIONS, Decimal(2), Decimal("0.5"), Decimal(3)):
            share, count = multiply_numbers(match["percent"], factor), str(int(positive * factor))
            for wrong in (
                observation.value.replace(f"{match['percent']} %", f"{share} %", 1),
                observation.value.replace(f"({match['positive']} of", f"({count} of", 1),
            ):
                if percent * factor <= 100 and positive and wrong != observation.value:
                    explanation = f"{wrong}: {positive} of {match['events']} are {match['percent']} %"
                    yield Plan(
                        "a share is the part over the whole", explanation, (edit_value(index, observation, wrong),)
                    )


@plants(SUBTLE, changes_unit=True)
def reading_in_wrong_unit(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a record has the right numbers and a unit that is off by a factor of 1000 or 60."""
    for index, observation in sample_places(
        rng, [(i, observation) for i, observation in case.iter_observations() if NUMBER.match(observation.value)]
    ):
        unit = observation.value.rpartition(" ")[2]
        for other in _OTHER_UNITS.get(unit, ()):
            wrong = re.sub(rf"(?<=[0-9] ){re.escape(unit)}(?=,|$)", other, observation.value)
            explanation = f"the record says {wrong}; the instrument read {observation.value}"
            yield Plan("a figure stands with its unit", explanation, (edit_value(index, observation, wrong),))


_BAND = re.compile(r"(?<=[0-9]) bp\b")
_EXCESS_FACTORS = tuple(Decimal(factor) for factor in (10, 14, 17, 19, 23, 26, 31, 38, 44, 52, 63, 100, 1000))

_HUGE_UNITS = {
    "cells/mL": ("cells/nL",), "ng/µL": ("mg/µL", "g/µL"), "mAU·s": ("MAU·s",), "V": ("kV", "MV"), "µA": ("kA", "A"),
    "mS/cm": ("MS/cm",), "mOsm/kg": ("kOsm/kg", "Osm/g"), "g": ("kg", "t"), "nm": ("mm", "m"), "min": ("day", "week"),
    "AU": ("kAU",), "mL": ("m³", "hL"), "bp": ("kb",),
}  # fmt: skip


class Limit(NamedTuple):
    """The largest possible value of a kind of reading.

    `description_pattern` matches the record's description; `unit` follows the number.
    """

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
    Limit("", "cells/mL", Decimal(10**11), "there is no room for so many in a millilitre"),
    Limit("balance", "g", Decimal(320), "the balance carries no more"),
)


@plants(OBVIOUS, SCARCE)
def negative_reading(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which the reading of a quantity that cannot be negative is far below zero."""
    candidates = [
        (index, observation)
        for index, observation in case.iter_observations()
        if observation.measurement_type == "quantitative"
        and re.match("[0-9]", observation.value)
        and "(" not in observation.value
        # Potentials, changes of fluorescence and absorbances after blank subtraction can be negative.
        if not observation.value.endswith((" V", "ΔF/F", "AU"))
    ]
    for index, observation in sample_places(rng, candidates):
        wrong = NUMBER.sub(lambda match: f"-{match[0]}", observation.value)
        explanation = f"the reading is {wrong}, not {observation.value}; there is no less than nothing of it"
        yield Plan(
            "amounts, times and ratios read are not negative", explanation, (edit_value(index, observation, wrong),)
        )


@plants(OBVIOUS)
def contradicting_observation(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a reading is many times the volume or mass of the material."""
    known = list_shown_amounts(case)
    candidates = [
        (index, observation, expected)
        for index, observation in case.iter_observations()
        for expected in known
        if any(
            expected.value * 2 > reading > expected.value / 2 > 0
            for reading in parse_readings(observation.value, expected.dimension)
        )
    ]
    for index, observation, expected in sample_places(rng, candidates):
        for factor in _EXCESS_FACTORS:
            wrong = multiply_numbers(observation.value, factor)
            shown_amount = quantities.format_quantity(expected.value, expected.dimension)
            explanation = f"the reading is {wrong}, not {observation.value}; the material's {expected.dimension} is {shown_amount}"
            yield Plan("readings and materials agree", explanation, (edit_value(index, observation, wrong),))


@plants(OBVIOUS)
def beyond_the_instrument(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a reading exceeds what exists, or what the instrument or the run can measure."""
    candidates = [
        (index, observation, limit)
        for index, observation in case.iter_observations()
        for limit in _LIMITS
        if _matches_limit(observation, limit)
    ]
    for index, observation, limit in sample_places(rng, candidates):
        for factor in _EXCESS_FACTORS:
            wrong = multiply_numbers(observation.value, factor)
            if min(abs(Decimal(number)) for number in NUMBER.findall(wrong)) > _find_limit(case, limit):
                explanation = f"the reading is {wrong}, not {observation.value}; {limit.reason}"
                yield Plan(
                    "readings stay within what can be read", explanation, (edit_value(index, observation, wrong),)
                )


def _matches_limit(observation: Observation, limit: Limit) -> bool:
    unit = observation.value.rpartition(" ")[2] if " " in observation.value else ""
    plain = re.fullmatch(r"-?[0-9.]+( \S+)?(, -?[0-9.]+( \S+)?)*", observation.value) is not None
    bare = re.fullmatch(r"[0-9., -]+", observation.value) is not None
    return (
        plain
        and (bare if not limit.unit else unit == limit.unit)
        and re.search(limit.description_pattern, observation.description) is not None
    )


def _find_limit(case: Case, limit: Limit) -> Decimal:
    """Return the largest possible value. For retention times and swept potentials, it follows from the settings."""
    known = {parameter.name: parameter for parameter in case.action_type.parameters} if case.action_type else {}
    settings = {name: setting.parse_value(case.action.parameters.get(name, setting.default)) for name, setting in known.items()
             if name == "run_time" or name.endswith("_potential") if case.action.parameters.get(name, setting.default)}  # fmt: skip
    if limit.description_pattern == "retention time" and "run_time" in settings:
        return Decimal(settings["run_time"]) / 60
    if limit.description_pattern == "potential" and len(settings) > 1:
        return max(abs(Decimal(value)) for value in settings.values())
    return limit.maximum


@plants(OBVIOUS, changes_unit=True)
def band_too_long(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a band has a length that no polymerase copies and no plain gel resolves."""
    for index, observation in sample_places(
        rng, [(i, observation) for i, observation in case.iter_observations() if _BAND.search(observation.value)]
    ):
        wrong = _BAND.sub(" kb", observation.value)
        explanation = f"{wrong} is a thousand times {observation.value}; neither this reaction nor this gel goes so far"
        yield Plan(
            "a fragment is as long as it can be copied and resolved",
            explanation,
            (edit_value(index, observation, wrong),),
        )


@plants(OBVIOUS)
def more_than_all(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which more events are positive than there were events."""
    shares = [
        (i, observation, match)
        for i, observation in case.iter_observations()
        if (match := SHARE.fullmatch(observation.value))
    ]
    for index, observation, match in sample_places(rng, shares):
        positive, events = int(match["positive"]), int(match["events"])
        texts = [f"{match['percent']} % ({events} of {positive} events)"]
        for factor in range(2, 10):
            if positive * factor > events:
                percent = quantities.format_number(Decimal(match["percent"]) * factor)
                texts.append(f"{percent} % ({positive * factor} of {events} events)")
        for wrong in texts if positive < events else ():
            explanation = f"{wrong} are positive, which is more than all; the record is {observation.value}"
            yield Plan("a part is not larger than the whole", explanation, (edit_value(index, observation, wrong),))


@plants(OBVIOUS, changes_unit=True)
def impossible_setting(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which the outcome states a setting that the instrument does not have."""
    # The volume of a material is an amount, not a setting; errors in it are of another kind.
    for echo in sample_places(
        rng, [echo for echo in find_setting_values(case) if echo.location is None or echo.location[1] != "volume"]
    ):
        for wrong in echo.list_beyond():
            explanation = f"{echo.setting_name} is {wrong}; it was set to {echo.text}, and the instrument goes {echo.allowed_range}"
            yield Plan("a setting is one the instrument has", explanation, change_setting(case, echo, wrong))


@plants(OBVIOUS, changes_unit=True)
def unit_out_of_reach(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a record has a unit so large that its numbers exceed anything that exists."""
    for index, observation in sample_places(
        rng, [(i, observation) for i, observation in case.iter_observations() if NUMBER.match(observation.value)]
    ):
        unit = observation.value.rpartition(" ")[2]
        for other in _HUGE_UNITS.get(unit, ()):
            wrong = re.sub(rf"(?<=[0-9] ){re.escape(unit)}(?=,|$)", other, observation.value)
            explanation = f"the record says {wrong}; the instrument read {observation.value}, and nothing of this size could be there"
            yield Plan("readings stay within what can be read", explanation, (edit_value(index, observation, wrong),))
