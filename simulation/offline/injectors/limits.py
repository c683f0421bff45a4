"""Obvious errors in records: readings that no instrument gives, and settings that no instrument has."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from simulation.lab import quantities
from simulation.lab.outcomes import Observation
from simulation.offline.injectors.edits import Case, Plan, edit_value, list_shown_amounts, sample_places
from simulation.offline.injectors.numbers import NUMBER, SHARE, multiply_numbers, parse_readings
from simulation.offline.injectors.setting_values import change_setting, find_setting_values

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


def impossible_setting(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which the outcome states a setting that the instrument does not have."""
    # The volume of a material is an amount, not a setting; errors in it are of another kind.
    for echo in sample_places(
        rng, [echo for echo in find_setting_values(case) if echo.location is None or echo.location[1] != "volume"]
    ):
        for wrong in echo.list_beyond():
            explanation = f"{echo.setting_name} is {wrong}; it was set to {echo.text}, and the instrument goes {echo.allowed_range}"
            yield Plan("a setting is one the instrument has", explanation, change_setting(case, echo, wrong))


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


INJECTORS = (
    negative_reading,
    contradicting_observation,
    beyond_the_instrument,
    unit_out_of_reach,
    band_too_long,
    more_than_all,
    impossible_setting,
)
