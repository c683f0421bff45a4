"""L16 in plain sentences: volumes moved, times, temperatures and cycles that a record tells of."""

import re
from decimal import Decimal

from simulation.checker.findings import Finding, Ran, Said, error
from simulation.checker.reading import families, flows, units
from simulation.checker.reading.transition import Seen, Transition
from simulation.checker.reading.units import Amount

_FIGURE = re.compile(r"(?<![\w.,:/-])-?[0-9]{1,9}(?:\.[0-9]{1,6})?\s?(?=[A-Za-z°µμ%])")
_G = re.compile(r"(?<![\w.,:/-])([0-9]{2,6})\s?g(?![\w/])")
_MOVED = re.compile(r"\b(?:transferred|dispensed|aliquoted|pipetted|moved)\b", re.IGNORECASE)
_LASTED = re.compile(
    r"\b(?:incubated|mixed|spun|centrifuged|waited|heated|stirred|shaken|vortexed|held|incubation|spin|cultured)\b[^.;]{0,20}?\bfor\s",
    re.IGNORECASE,
)
_AFTER = re.compile(r"\bafter\b", re.IGNORECASE)
_CYCLES = re.compile(r"(?<![\w.])([0-9]{1,3}) (?:PCR |thermal |amplification |wash )?cycles\b")
_TIMED = ("Incubate", "CellCultureIncubate", "Mix", "Centrifuge", "Wait")
_HELD = ("Incubate", "CellCultureIncubate")


def told(transition: Transition) -> Said:
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
    """The one volume of a sentence about moving is one the action named or one that came about."""
    moved = transition.parameters.moved()
    told = amounts(seen.description, "volume")
    if moved is None or transition.family != families.MOVE or len(told) != 1 or not _MOVED.search(seen.description):
        return
    known = [moved.value, *transition.parameters.volumes()]
    known += [view.held for view in (*transition.inputs, *transition.outputs) if view.held is not None]
    known += [draw.volume for draw in flows.of(transition).draws if draw.volume is not None]
    yield Ran("L16", quantity=True)
    if all(abs(told[0].value - value) > value / 50 for value in known):
        yield _other(seen, moved, told[0])


def _cycles(transition: Transition, seen: Seen) -> Said:
    asked = [
        n
        for leaf in transition.parameters.leaves
        if set(leaf.words) <= {"cycle", "number", "of", "num", "pcr", "n"}
        and "cycle" in leaf.words
        and (n := units.number(leaf.value))
    ]
    told = [Decimal(number) for number in _CYCLES.findall(seen.text[:1500])]
    if len(asked) == 1 and told:
        yield Ran("L16", quantity=True)
        if asked[0] not in told:
            yield error(
                "L16",
                seen.place,
                f"{asked[0]} cycles",
                f"{told[0]} cycles",
                f"{asked[0]} cycles were set and {told[0]} are told of",
            )


def _time(transition: Transition, seen: Seen) -> Said:
    """Done for so long: as long as was set. Seen after so long: not later than the end."""
    asked = [amount for leaf, amount in transition.parameters.amounts("duration")]
    if len(asked) != 1:
        return
    for pattern, later_only in ((_LASTED, False), (_AFTER, True)):
        found = pattern.search(seen.text[:1500])
        told = amounts(seen.text[found.end() : found.end() + 60], "duration")[:1] if found else []
        for one in told:
            yield Ran("L16", quantity=True)
            off = one.value - asked[0].value
            if off > asked[0].value / 20 or (not later_only and -off > asked[0].value / 20):
                yield _other(seen, asked[0], one)
                return


def _degrees(transition: Transition, seen: Seen) -> Said:
    """What an incubator shows is what it was set to."""
    asked = [amount for _, amount in transition.parameters.amounts("temperature")]
    told = units.read(seen.value)
    if not asked or told is None or told.dimension != "temperature":
        return
    yield Ran("L16", quantity=True)
    if all(abs(told.value - amount.value) > 3 for amount in asked):
        yield _other(seen, asked[0], told)


def amounts(text: str, dimension: str) -> list[Amount]:
    """Every amount of a dimension in a text."""
    folded = units.fold(text[:2000])
    found = [units.read(folded[at.start() : at.start() + 40], "", (dimension,)) for at in _FIGURE.finditer(folded)]
    return [amount for amount in found if amount and amount.dimension == dimension]


def forces(text: str) -> list[Amount]:
    """ "300g" and "at 3000 g" of a centrifuge are forces, not grams."""
    folded = units.fold(text[:2000])
    found = [units.read(f"{at[1]} x g", "", ("centrifugal_force",)) for at in _G.finditer(folded)]
    return [amount for amount in found if amount]


def _other(seen: Seen, wanted: Amount, got: Amount) -> Finding:
    shown, told = units.show(wanted.value, wanted.dimension), units.show(got.value, got.dimension)
    return error("L16", seen.place, shown, told, f"the action set {shown}; {seen.place} tells of {told}")
