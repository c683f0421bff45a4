"""L12: units that are missing, of another dimension, or a prefix off."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.amounts import concentrations
from simulation.checker.findings import Finding, Ran, Said, error, warning
from simulation.checker.reading import families, flows, units, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed
from simulation.lab import quantities

_DIMENSIONS = {
    "volume": ("volume",), "vol": ("volume",), "mass": ("mass",), "weight": ("mass",), "temperature": ("temperature",), "temp": ("temperature",),
    "concentration": units.CONCENTRATIONS, "conc": units.CONCENTRATIONS,
}  # fmt: skip
_WORDY = re.compile(r"\b(?:mL|ml|µL|uL|ul|mg|µg|kg|mM|µM)\b")
_RATE = re.compile(r"[A-Za-zµ%/·]{1,12}/(?:s|sec|min|h|hr|hour|day|cm2|m2)")
# People count these; a volume in them is no slip.
_PIECES = listed("drop droplet tube vial well aliquot portion plate column bed dose bottle piece equivalent equiv cv time fold "
                 "sample cup spoon pipette tip scoop pinch flask gram")  # fmt: skip
_UNKNOWN = listed("unknown undetermined unmeasured na none tbd not variable nominal varied trace saturated")
_PARTS_OF_NAMES = listed("molecular molar number average tare dry")
_OWN_UNITS = listed("volume mass temperature duration length mass_concentration molar_concentration")


def unit_slips(transition: Transition) -> Said:
    """L12: a property's unit is one of its dimension, and figures do not change their prefix."""
    if not transition.success:
        return
    for view in transition.outputs:
        for leaf in view.leaves:
            yield from _unit(transition, view, leaf)
    for before, after in transition.pairs():
        for had, has in _same_keys(before, after):
            yield from _no_such_unit(after, had, has)
    yield from _thousandfold(transition)


def _same_keys(before: View, after: View) -> Iterator[tuple[Leaf, Leaf]]:
    """Leaves that stand on both under one key, written differently."""
    old = {leaf.words: leaf for leaf in before.leaves}
    for leaf in after.leaves:
        if leaf.words in old and old[leaf.words].text != leaf.text:
            yield old[leaf.words], leaf


def _no_such_unit(view: View, had: Leaf, has: Leaf) -> Said:
    """What was a concentration has no unit that divides by time, area or the like."""
    amount, number = had.amount(*units.CONCENTRATIONS), units.number_and_rest(has.value)
    if amount is None or number is None or "/" not in number[2]:
        return
    yield Ran("L12")
    rate = _RATE.fullmatch(number[2].strip())
    if rate and has.amount() is None:
        text = f"{has.key} of {view.name} was {had.text[:40]} and is {has.text[:40]}"
        yield error("L12", view.name, f"a unit of {amount.dimension.replace('_', ' ')}", has.text[:40], text)


def _unit(transition: Transition, view: View, leaf: Leaf) -> Said:
    last = [word for word in leaf.words if word in _DIMENSIONS]
    if len(last) != 1 or set(leaf.words) & _PARTS_OF_NAMES or isinstance(leaf.value, bool):
        return
    wanted = _DIMENSIONS[last[0]]
    number = units.number_and_rest(leaf.value)
    wordy = isinstance(leaf.value, str) and _WORDY.search(leaf.value[:100])
    if number is None and wordy and not any(c.isdigit() for c in leaf.text):
        said = f"{leaf.key} of {view.name} is {leaf.text[:40]}, which is no amount"
        yield error("L12", view.name, "a number and a unit", leaf.text[:40], said)
    if number is None or set(words.cut(leaf.text)) & _UNKNOWN:
        return
    amount = leaf.amount()
    yield Ran("L12")
    shown = f"{leaf.key} of {view.name} is {leaf.text[:40]}"
    if amount is None and leaf.amount(*wanted) is None:
        yield from _no_unit(transition, view, leaf, number[2], shown, wanted)
    elif (
        amount is not None
        and amount.dimension not in wanted
        and leaf.amount(*wanted) is None
        and amount.dimension in (*_OWN_UNITS, "centrifugal_force", "voltage")
    ):
        yield error("L12", view.name, f"a unit of {wanted[0].replace('_', ' ')}", leaf.text[:40], shown)


def _no_unit(
    transition: Transition, view: View, leaf: Leaf, rest: str, shown: str, wanted: tuple[str, ...]
) -> Iterator[Finding]:
    """No unit at all is an error where the same simulator writes units; a unit nobody knows is only noted."""
    others = [
        o
        for v in transition.inputs
        for o in v.leaves
        if set(o.words) & set(leaf.words) & set(_DIMENSIONS) and o.amount(*wanted)
    ]
    if rest.strip():
        if (
            wanted in (("volume",), ("mass",), ("temperature",))
            and re.fullmatch(r"\s*[A-Za-zµ°]{1,4}\s*", rest)
            and rest.strip() not in ("K", "F", "°F", "x", "X")
        ):
            yield warning("L12", view.name, f"a unit of {wanted[0]}", leaf.text[:40], shown, decidable=False)
        elif others and wanted in (("volume",), ("mass",)) and _is_made_up(rest):
            yield error("L12", view.name, f"a unit of {wanted[0]}", leaf.text[:40], shown)
        return
    zero = units.number(leaf.value) == 0
    if others and not zero:
        yield error(
            "L12", view.name, f"a unit of {wanted[0].replace('_', ' ')}", leaf.text[:40], f"{shown}, without a unit"
        )
    elif not zero:
        yield warning(
            "L12", view.name, f"a unit of {wanted[0].replace('_', ' ')}", leaf.text[:40], f"{shown}, without a unit"
        )


def _is_made_up(rest: str) -> bool:
    """One word that is neither a unit of anything nor a thing one counts."""
    said = words.cut(rest)
    return len(said) == 1 and said[0].isalpha() and said[0] not in _PIECES and not units.unit_of(said[0])


def _thousandfold(transition: Transition) -> Iterator[Finding]:
    """An amount that is wrong by exactly a thousand has slipped from one prefix to the next."""
    for fill in flows.of(transition).fills:
        if fill.volume and fill.output.volume is not None:
            yield from _slip(fill.output, fill.volume, fill.output.volume)
    for draw in flows.of(transition).draws:
        if (
            draw.stated
            and draw.left is not None
            and draw.left.volume is not None
            and draw.source.held
            and draw.volume is not None
        ):
            yield from _slip(draw.left, draw.source.held - draw.volume, draw.left.volume)
    if transition.family in (families.INERT, families.HEAT, *families.MEASUREMENTS):
        for before, after in transition.pairs():
            if before.volume is not None and after.volume is not None:
                yield from _slip(after, before.volume.value, after.volume)
            if before.mass is not None and after.mass is not None:
                yield from _slip(after, before.mass.value, after.mass)
            for _, had, has in concentrations.shared(before, after):
                yield from _slip(after, had.value, has)


def _slip(view: View, expected: Decimal, got: Amount) -> Iterator[Finding]:
    if expected <= 0 or got.value <= 0:
        return
    ratio = got.value / expected
    if any(
        abs(ratio / slip - 1) < Decimal("0.02")
        for slip in (Decimal(1000), Decimal("0.001"), Decimal(1000000), Decimal("0.000001"))
    ):
        shown = units.show(got.value, got.dimension)
        yield error(
            "L12",
            view.name,
            units.show(expected, got.dimension),
            shown,
            f"{shown} in {view.name} is {quantities.plain(ratio)} times what it should be: a slip of units",
        )
