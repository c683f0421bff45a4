"""L16 in sentences: volumes moved, times, temperatures and cycles that a record mentions."""

import re
from decimal import Decimal

from simulation.checker.findings import Finding, Ran, Said, error
from simulation.checker.reading import families, flows, units
from simulation.checker.reading.transition import Seen, Transition
from simulation.checker.reading.units import Amount

# A number before a unit; not part of a range, ratio, date or version.
_FIGURE = re.compile(r"(?<![\w.,:/-])-?[0-9]{1,9}(?:\.[0-9]{1,6})?\s?(?=[A-Za-z°µμ%])")
# "300g" of a centrifuge; one digit would be grams.
_G = re.compile(r"(?<![\w.,:/-])([0-9]{2,6})\s?g(?![\w/])")
_MOVED = re.compile(r"\b(?:transferred|dispensed|aliquoted|pipetted|moved)\b", re.IGNORECASE)
# "incubated at 37 °C for 2 h": the duration is that of the action.
_LASTED = re.compile(
    r"\b(?:incubated|mixed|spun|centrifuged|waited|heated|stirred|shaken|vortexed|held|incubation|spin|cultured)\b[^.;]{0,20}?\bfor\s",
    re.IGNORECASE,
)
_AFTER = re.compile(r"\bafter\b", re.IGNORECASE)
_CYCLES = re.compile(r"(?<![\w.])([0-9]{1,3}) (?:PCR |thermal |amplification |wash )?cycles\b")
_TIMED = ("Incubate", "CellCultureIncubate", "Mix", "Centrifuge", "Wait")
_HELD = ("Incubate", "CellCultureIncubate")


def told(transition: Transition) -> Said:
    """L16: volumes, cycles, durations and temperatures in sentences are those that were set."""
    if not transition.success:
        return
    for seen in transition.seen:
        yield from _volume(transition, seen)
        yield from _cycles(transition, seen)
        if transition.action in _TIMED:
            yield from _time(transition, seen)
        if transition.action in _HELD:
            yield from _degrees(transition, seen)


def _volume(transition: Transition, seen: Seen) -> Said:
    """The only volume of a sentence about moving is one that the action set or that resulted."""
    moved_volume = transition.parameters.moved()
    volumes = amounts(seen.description, "volume")
    if (
        moved_volume is None
        or transition.family != families.MOVE
        or len(volumes) != 1
        or not _MOVED.search(seen.description)
    ):
        return
    known_volumes = [moved_volume.value, *transition.parameters.volumes()]
    known_volumes += [view.held for view in (*transition.inputs, *transition.outputs) if view.held is not None]
    known_volumes += [draw.volume for draw in flows.of(transition).draws if draw.volume is not None]
    yield Ran("L16", quantity=True)
    if all(abs(volumes[0].value - value) > value / 50 for value in known_volumes):
        yield _other(seen, moved_volume, volumes[0])


def _cycles(transition: Transition, seen: Seen) -> Said:
    set_counts = [
        n
        for leaf in transition.parameters.leaves
        if set(leaf.words) <= {"cycle", "number", "of", "num", "pcr", "n"}
        and "cycle" in leaf.words
        and (n := units.number(leaf.value))
    ]
    recorded_counts = [Decimal(number) for number in _CYCLES.findall(seen.text[:1500])]
    if len(set_counts) == 1 and recorded_counts:
        yield Ran("L16", quantity=True)
        if set_counts[0] not in recorded_counts:
            yield error(
                "L16",
                seen.place,
                f"{set_counts[0]} cycles",
                f"{recorded_counts[0]} cycles",
                f"{set_counts[0]} cycles were set, but {recorded_counts[0]} are recorded",
            )


def _time(transition: Transition, seen: Seen) -> Said:
    """ "Incubated for" gives the duration that was set; "after" gives a time no later than its end."""
    set_durations = [amount for leaf, amount in transition.parameters.amounts("duration")]
    if len(set_durations) != 1:
        return
    for pattern, later_only in ((_LASTED, False), (_AFTER, True)):
        found = pattern.search(seen.text[:1500])
        recorded = amounts(seen.text[found.end() : found.end() + 60], "duration")[:1] if found else []
        for duration in recorded:
            yield Ran("L16", quantity=True)
            difference = duration.value - set_durations[0].value
            if difference > set_durations[0].value / 20 or (
                not later_only and -difference > set_durations[0].value / 20
            ):
                yield _other(seen, set_durations[0], duration)
                return


def _degrees(transition: Transition, seen: Seen) -> Said:
    """The temperature shown by an incubator is the one that was set."""
    set_temperatures = [amount for _, amount in transition.parameters.amounts("temperature")]
    recorded = units.read(seen.value)
    if not set_temperatures or recorded is None or recorded.dimension != "temperature":
        return
    yield Ran("L16", quantity=True)
    # 3 °C: an incubator regulates, and doors are opened.
    if all(abs(recorded.value - amount.value) > 3 for amount in set_temperatures):
        yield _other(seen, set_temperatures[0], recorded)


def amounts(text: str, dimension: str) -> list[Amount]:
    """Return all amounts of a dimension in a text."""
    normalised = units.fold(text[:2000])
    parsed = [
        units.read(normalised[match.start() : match.start() + 40], "", (dimension,))
        for match in _FIGURE.finditer(normalised)
    ]
    return [amount for amount in parsed if amount and amount.dimension == dimension]


def forces(text: str) -> list[Amount]:
    """Return "300g" and "at 3000 g" of a centrifuge as forces, not as grams."""
    normalised = units.fold(text[:2000])
    parsed = [units.read(f"{match[1]} x g", "", ("centrifugal_force",)) for match in _G.finditer(normalised)]
    return [amount for amount in parsed if amount]


def _other(seen: Seen, wanted: Amount, got: Amount) -> Finding:
    set_text, recorded_text = units.show(wanted.value, wanted.dimension), units.show(got.value, got.dimension)
    return error(
        "L16", seen.place, set_text, recorded_text, f"the action set {set_text}, but {seen.place} has {recorded_text}"
    )
