"""L16 in sentences: volumes moved, times, temperatures and cycles that a record mentions."""

import re
from decimal import Decimal

from simulation.checker.findings import Decided, Finding, Findings, error_finding
from simulation.checker.reading import families, flows, units
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount

# A number before a unit; not part of a range, ratio, date or version.
_NUMBER = re.compile(r"(?<![\w.,:/-])-?[0-9]{1,9}(?:\.[0-9]{1,6})?\s?(?=[A-Za-z°µμ%])")
# "300g" of a centrifuge; one digit would be grams.
_G_FORCE = re.compile(r"(?<![\w.,:/-])([0-9]{2,6})\s?g(?![\w/])")
_MOVED = re.compile(r"\b(?:transferred|dispensed|aliquoted|pipetted|moved)\b", re.IGNORECASE)
# "incubated at 37 °C for 2 h": the duration is that of the action.
_DURATION_PHRASE = re.compile(
    r"\b(?:incubated|mixed|spun|centrifuged|waited|heated|stirred|shaken|vortexed|held|incubation|spin|cultured)\b[^.;]{0,20}?\bfor\s",
    re.IGNORECASE,
)
_AFTER_PHRASE = re.compile(r"\bafter\b", re.IGNORECASE)
_CYCLES = re.compile(r"(?<![\w.])([0-9]{1,3}) (?:PCR |thermal |amplification |wash )?cycles\b")
_TIMED_ACTIONS = ("Incubate", "CellCultureIncubate", "Mix", "Centrifuge", "Wait")
_TEMPERED_ACTIONS = ("Incubate", "CellCultureIncubate")


def check_sentences(transition: Transition) -> Findings:
    """L16: yield an error if volumes, cycles, durations or temperatures in sentences are not those that were set."""
    if not transition.is_success:
        return
    for seen in transition.observations:
        yield from _check_moved_volume(transition, seen)
        yield from _check_cycles(transition, seen)
        if transition.action in _TIMED_ACTIONS:
            yield from _check_duration(transition, seen)
        if transition.action in _TEMPERED_ACTIONS:
            yield from _check_temperature(transition, seen)


def _check_moved_volume(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if the only volume in a sentence about moving is neither a setting nor a known volume."""
    moved_volume = transition.parameters.find_moved_volume()
    volumes = find_amounts(seen.description, "volume")
    if (
        moved_volume is None
        or transition.family != families.MOVE
        or len(volumes) != 1
        or not _MOVED.search(seen.description)
    ):
        return
    known_volumes = [moved_volume.value, *transition.parameters.list_volumes()]
    known_volumes += [
        view.liquid_volume for view in (*transition.inputs, *transition.outputs) if view.liquid_volume is not None
    ]
    known_volumes += [draw.volume for draw in flows.trace_liquids(transition).withdrawals if draw.volume is not None]
    yield Decided("L16", quantity=True)
    if all(abs(volumes[0].value - value) > value / 50 for value in known_volumes):
        yield _mismatch_error(seen, moved_volume, volumes[0])


def _check_cycles(transition: Transition, seen: ObservationView) -> Findings:
    set_counts = [
        n
        for leaf in transition.parameters.leaves
        if set(leaf.words) <= {"cycle", "number", "of", "num", "pcr", "n"}
        and "cycle" in leaf.words
        and (n := units.parse_number(leaf.value))
    ]
    recorded_counts = [Decimal(number) for number in _CYCLES.findall(seen.full_text[:1500])]
    if len(set_counts) == 1 and recorded_counts:
        yield Decided("L16", quantity=True)
        if set_counts[0] not in recorded_counts:
            yield error_finding(
                "L16",
                seen.path,
                f"{set_counts[0]} cycles",
                f"{recorded_counts[0]} cycles",
                f"{set_counts[0]} cycles were set, but {recorded_counts[0]} are recorded",
            )


def _check_duration(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if "incubated for" does not give the duration that was set, or "after" gives a longer one."""
    set_durations = [amount for leaf, amount in transition.parameters.list_amounts("duration")]
    if len(set_durations) != 1:
        return
    for pattern, later_only in ((_DURATION_PHRASE, False), (_AFTER_PHRASE, True)):
        found = pattern.search(seen.full_text[:1500])
        recorded = find_amounts(seen.full_text[found.end() : found.end() + 60], "duration")[:1] if found else []
        for duration in recorded:
            yield Decided("L16", quantity=True)
            difference = duration.value - set_durations[0].value
            if difference > set_durations[0].value / 20 or (
                not later_only and -difference > set_durations[0].value / 20
            ):
                yield _mismatch_error(seen, set_durations[0], duration)
                return


def _check_temperature(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if the temperature shown by an incubator is not the one that was set."""
    set_temperatures = [amount for _, amount in transition.parameters.list_amounts("temperature")]
    recorded = units.parse_amount(seen.value)
    if not set_temperatures or recorded is None or recorded.dimension != "temperature":
        return
    yield Decided("L16", quantity=True)
    # 3 °C: an incubator regulates, and doors are opened.
    if all(abs(recorded.value - amount.value) > 3 for amount in set_temperatures):
        yield _mismatch_error(seen, set_temperatures[0], recorded)


def find_amounts(text: str, dimension: str) -> list[Amount]:
    """Return all amounts of a dimension in a text."""
    normalised = units.normalise_text(text[:2000])
    parsed = [
        units.parse_amount(normalised[match.start() : match.start() + 40], "", (dimension,))
        for match in _NUMBER.finditer(normalised)
    ]
    return [amount for amount in parsed if amount and amount.dimension == dimension]


def find_forces(text: str) -> list[Amount]:
    """Return the centrifugal forces in a text like "300g" or "at 3000 g", which does not mean grams."""
    normalised = units.normalise_text(text[:2000])
    parsed = [
        units.parse_amount(f"{match[1]} x g", "", ("centrifugal_force",)) for match in _G_FORCE.finditer(normalised)
    ]
    return [amount for amount in parsed if amount]


def _mismatch_error(seen: ObservationView, set_amount: Amount, recorded_amount: Amount) -> Finding:
    set_text, recorded_text = (
        units.format_value(set_amount.value, set_amount.dimension),
        units.format_value(recorded_amount.value, recorded_amount.dimension),
    )
    return error_finding(
        "L16", seen.path, set_text, recorded_text, f"the action set {set_text}, but {seen.path} has {recorded_text}"
    )
