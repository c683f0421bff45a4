"""L12: units that are missing, of another dimension, or wrong by a prefix."""

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
# A unit in a text without any number: "some mL".
_WORDY = re.compile(r"\b(?:mL|ml|µL|uL|ul|mg|µg|kg|mM|µM)\b")
_RATE = re.compile(r"[A-Za-zµ%/·]{1,12}/(?:s|sec|min|h|hr|hour|day|cm2|m2)")
# People count these; an amount in them is no error of units.
_PIECES = listed("drop droplet tube vial well aliquot portion plate column bed dose bottle piece equivalent equiv cv time fold "
                 "sample cup spoon pipette tip scoop pinch flask gram")  # fmt: skip
# A stated lack of a value needs no unit.
_UNKNOWN = listed("unknown undetermined unmeasured na none tbd not variable nominal varied trace saturated")
# "molecular weight" and "number average mass" are no masses of the material.
_PARTS_OF_NAMES = listed("molecular molar number average tare dry")
# Dimensions with units of their own; that of a ratio or a count may fit several keys.
_OWN_UNITS = listed("volume mass temperature duration length mass_concentration molar_concentration")


def unit_slips(transition: Transition) -> Said:
    """L12: a property has a unit of its dimension, and amounts do not change their prefix."""
    if not transition.success:
        return
    for view in transition.outputs:
        for leaf in view.leaves:
            yield from _unit(transition, view, leaf)
    for before, after in transition.pairs():
        for leaf_before, leaf_after in _same_keys(before, after):
            yield from _no_such_unit(after, leaf_before, leaf_after)
    yield from _thousandfold(transition)


def _same_keys(before: View, after: View) -> Iterator[tuple[Leaf, Leaf]]:
    """Yield (before, after) of the leaves that have one key on both sides and different texts."""
    leaves_before = {leaf.words: leaf for leaf in before.leaves}
    for leaf in after.leaves:
        if leaf.words in leaves_before and leaves_before[leaf.words].text != leaf.text:
            yield leaves_before[leaf.words], leaf


def _no_such_unit(view: View, had: Leaf, has: Leaf) -> Said:
    """A value that was a concentration does not get a unit per time, per area or similar."""
    amount_before, number_parts = had.amount(*units.CONCENTRATIONS), units.number_and_rest(has.value)
    if amount_before is None or number_parts is None or "/" not in number_parts[2]:
        return
    yield Ran("L12")
    is_rate = _RATE.fullmatch(number_parts[2].strip())
    if is_rate and has.amount() is None:
        text = f"{has.key} of {view.name} was {had.text[:40]} and is now {has.text[:40]}"
        yield error("L12", view.name, f"a unit of {amount_before.dimension.replace('_', ' ')}", has.text[:40], text)


def _unit(transition: Transition, view: View, leaf: Leaf) -> Said:
    dimension_words = [word for word in leaf.words if word in _DIMENSIONS]
    if len(dimension_words) != 1 or set(leaf.words) & _PARTS_OF_NAMES or isinstance(leaf.value, bool):
        return
    dimensions = _DIMENSIONS[dimension_words[0]]
    number_parts = units.number_and_rest(leaf.value)
    has_unit_word = isinstance(leaf.value, str) and _WORDY.search(leaf.value[:100])
    if number_parts is None and has_unit_word and not any(c.isdigit() for c in leaf.text):
        statement = f"{leaf.key} of {view.name} is {leaf.text[:40]}, which is not an amount"
        yield error("L12", view.name, "a number and a unit", leaf.text[:40], statement)
    if number_parts is None or set(words.cut(leaf.text)) & _UNKNOWN:
        return
    amount = leaf.amount()
    yield Ran("L12")
    statement_of_value = f"{leaf.key} of {view.name} is {leaf.text[:40]}"
    if amount is None and leaf.amount(*dimensions) is None:
        yield from _no_unit(transition, view, leaf, number_parts[2], statement_of_value, dimensions)
    elif (
        amount is not None
        and amount.dimension not in dimensions
        and leaf.amount(*dimensions) is None
        and amount.dimension in (*_OWN_UNITS, "centrifugal_force", "voltage")
    ):
        yield error(
            "L12", view.name, f"a unit of {dimensions[0].replace('_', ' ')}", leaf.text[:40], statement_of_value
        )


def _no_unit(
    transition: Transition, view: View, leaf: Leaf, rest: str, shown: str, wanted: tuple[str, ...]
) -> Iterator[Finding]:
    """A missing unit is an error if the same simulator writes units elsewhere; an unknown unit only warns."""
    similar_leaves = [
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
        elif similar_leaves and wanted in (("volume",), ("mass",)) and _is_made_up(rest):
            yield error("L12", view.name, f"a unit of {wanted[0]}", leaf.text[:40], shown)
        return
    # Zero is zero in every unit.
    is_zero = units.number(leaf.value) == 0
    if similar_leaves and not is_zero:
        yield error(
            "L12", view.name, f"a unit of {wanted[0].replace('_', ' ')}", leaf.text[:40], f"{shown}, without a unit"
        )
    elif not is_zero:
        yield warning(
            "L12", view.name, f"a unit of {wanted[0].replace('_', ' ')}", leaf.text[:40], f"{shown}, without a unit"
        )


def _is_made_up(rest: str) -> bool:
    """Return whether a text is one word that is neither a unit nor something people count."""
    unit_words = words.cut(rest)
    return (
        len(unit_words) == 1
        and unit_words[0].isalpha()
        and unit_words[0] not in _PIECES
        and not units.unit_of(unit_words[0])
    )


def _thousandfold(transition: Transition) -> Iterator[Finding]:
    """An amount that is wrong by exactly a thousand or a million has a wrong prefix."""
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
            for _, amount_before, amount_after in concentrations.shared(before, after):
                yield from _slip(after, amount_before.value, amount_after)


def _slip(view: View, expected: Decimal, got: Amount) -> Iterator[Finding]:
    if expected <= 0 or got.value <= 0:
        return
    ratio = got.value / expected
    if any(
        # 2 %: rounding of both values. Other ratios are errors of other checks.
        abs(ratio / prefix_ratio - 1) < Decimal("0.02")
        for prefix_ratio in (Decimal(1000), Decimal("0.001"), Decimal(1000000), Decimal("0.000001"))
    ):
        value_text = units.show(got.value, got.dimension)
        yield error(
            "L12",
            view.name,
            units.show(expected, got.dimension),
            value_text,
            f"{value_text} in {view.name} is {quantities.plain(ratio)} times the expected value: probably a wrong unit prefix",
        )
