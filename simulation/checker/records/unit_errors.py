"""L12: units that are missing, of another dimension, or wrong by a prefix."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.amounts import concentrations
from simulation.checker.findings import Decided, Finding, Findings, error_finding, warning_finding
from simulation.checker.reading import families, flows, units, words
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.property_tree import Leaf
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab import quantities

_DIMENSIONS = {
    "volume": ("volume",), "vol": ("volume",), "mass": ("mass",), "weight": ("mass",), "temperature": ("temperature",), "temp": ("temperature",),
    "concentration": units.CONCENTRATIONS, "conc": units.CONCENTRATIONS,
}  # fmt: skip
# A unit in a text without any number: "some mL".
_UNIT_WORD = re.compile(r"\b(?:mL|ml|µL|uL|ul|mg|µg|kg|mM|µM)\b")
_RATE = re.compile(r"[A-Za-zµ%/·]{1,12}/(?:s|sec|min|h|hr|hour|day|cm2|m2)")
# Things that are counted; a number of them is not an error of units.
_COUNTABLE_THINGS = word_set("drop droplet tube vial well aliquot portion plate column bed dose bottle piece equivalent equiv cv time fold "
                 "sample cup spoon pipette tip scoop pinch flask gram")  # fmt: skip
# A stated lack of a value needs no unit.
_UNKNOWN_VALUES = word_set("unknown undetermined unmeasured na none tbd not variable nominal varied trace saturated")
# "molecular weight" and "number average mass" are no masses of the material.
_OTHER_QUANTITIES = word_set("molecular molar number average tare dry")
# Dimensions whose units are unambiguous; a ratio or a count may fit several keys.
_DISTINCT_DIMENSIONS = word_set("volume mass temperature duration length mass_concentration molar_concentration")


def check_units(transition: Transition) -> Findings:
    """L12: yield a finding if a property has no unit or one of another dimension, or an amount has a wrong prefix."""
    if not transition.is_success:
        return
    for view in transition.outputs:
        for leaf in view.leaves:
            yield from _check_unit(transition, view, leaf)
    for before, after in transition.list_pairs():
        for leaf_before, leaf_after in _iter_changed_values(before, after):
            yield from _check_changed_unit(after, leaf_before, leaf_after)
    yield from _check_prefixes(transition)


def _iter_changed_values(before: MaterialView, after: MaterialView) -> Iterator[tuple[Leaf, Leaf]]:
    """Yield (leaf before, leaf after) of every property that has the same key before and after, but another text."""
    leaves_before = {leaf.words: leaf for leaf in before.leaves}
    for leaf in after.leaves:
        if leaf.words in leaves_before and leaves_before[leaf.words].value_text != leaf.value_text:
            yield leaves_before[leaf.words], leaf


def _check_changed_unit(view: MaterialView, leaf_before: Leaf, leaf_after: Leaf) -> Findings:
    """Yield an error if a concentration gets a unit per time or per area."""
    amount_before, number_parts = leaf_before.parse_amount(*units.CONCENTRATIONS), units.split_number(leaf_after.value)
    if amount_before is None or number_parts is None or "/" not in number_parts[2]:
        return
    yield Decided("L12")
    is_rate = _RATE.fullmatch(number_parts[2].strip())
    if is_rate and leaf_after.parse_amount() is None:
        text = (
            f"{leaf_after.key} of {view.name} was {leaf_before.value_text[:40]} and is now {leaf_after.value_text[:40]}"
        )
        yield error_finding(
            "L12", view.name, f"a unit of {amount_before.dimension.replace('_', ' ')}", leaf_after.value_text[:40], text
        )


def _check_unit(transition: Transition, view: MaterialView, leaf: Leaf) -> Findings:
    dimension_words = [word for word in leaf.words if word in _DIMENSIONS]
    if len(dimension_words) != 1 or set(leaf.words) & _OTHER_QUANTITIES or isinstance(leaf.value, bool):
        return
    dimensions = _DIMENSIONS[dimension_words[0]]
    number_parts = units.split_number(leaf.value)
    has_unit_word = isinstance(leaf.value, str) and _UNIT_WORD.search(leaf.value[:100])
    if number_parts is None and has_unit_word and not any(c.isdigit() for c in leaf.value_text):
        statement = f"{leaf.key} of {view.name} is {leaf.value_text[:40]}, which is not an amount"
        yield error_finding("L12", view.name, "a number and a unit", leaf.value_text[:40], statement)
    if number_parts is None or set(words.tokenize(leaf.value_text)) & _UNKNOWN_VALUES:
        return
    amount = leaf.parse_amount()
    yield Decided("L12")
    statement_of_value = f"{leaf.key} of {view.name} is {leaf.value_text[:40]}"
    if amount is None and leaf.parse_amount(*dimensions) is None:
        yield from _check_missing_unit(transition, view, leaf, number_parts[2], statement_of_value, dimensions)
    elif (
        amount is not None
        and amount.dimension not in dimensions
        and leaf.parse_amount(*dimensions) is None
        and amount.dimension in (*_DISTINCT_DIMENSIONS, "centrifugal_force", "voltage")
    ):
        yield error_finding(
            "L12", view.name, f"a unit of {dimensions[0].replace('_', ' ')}", leaf.value_text[:40], statement_of_value
        )


def _check_missing_unit(
    transition: Transition, view: MaterialView, leaf: Leaf, unit_text: str, statement: str, dimensions: tuple[str, ...]
) -> Iterator[Finding]:
    """Yield an error or a warning for a missing or unknown unit.

    It is an error only if similar properties of the inputs have a unit.
    """
    similar_leaves = [
        o
        for v in transition.inputs
        for o in v.leaves
        if set(o.words) & set(leaf.words) & set(_DIMENSIONS) and o.parse_amount(*dimensions)
    ]
    if unit_text.strip():
        if (
            dimensions in (("volume",), ("mass",), ("temperature",))
            and re.fullmatch(r"\s*[A-Za-zµ°]{1,4}\s*", unit_text)
            and unit_text.strip() not in ("K", "F", "°F", "x", "X")
        ):
            yield warning_finding(
                "L12", view.name, f"a unit of {dimensions[0]}", leaf.value_text[:40], statement, decidable=False
            )
        elif similar_leaves and dimensions in (("volume",), ("mass",)) and _is_invented_unit(unit_text):
            yield error_finding("L12", view.name, f"a unit of {dimensions[0]}", leaf.value_text[:40], statement)
        return
    # Zero is zero in every unit.
    is_zero = units.parse_number(leaf.value) == 0
    if similar_leaves and not is_zero:
        yield error_finding(
            "L12",
            view.name,
            f"a unit of {dimensions[0].replace('_', ' ')}",
            leaf.value_text[:40],
            f"{statement}, without a unit",
        )
    elif not is_zero:
        yield warning_finding(
            "L12",
            view.name,
            f"a unit of {dimensions[0].replace('_', ' ')}",
            leaf.value_text[:40],
            f"{statement}, without a unit",
        )


def _is_invented_unit(rest: str) -> bool:
    """Return whether a text is a single word that is neither a unit nor the name of something that is counted."""
    unit_words = words.tokenize(rest)
    return (
        len(unit_words) == 1
        and unit_words[0].isalpha()
        and unit_words[0] not in _COUNTABLE_THINGS
        and not units.find_dimension(unit_words[0])
    )


def _check_prefixes(transition: Transition) -> Iterator[Finding]:
    """Yield an error if an amount is wrong by a factor of a thousand or a million, as with a wrong prefix."""
    for fill in flows.trace_liquids(transition).fills:
        if fill.total_volume and fill.output.volume is not None:
            yield from _check_prefix(fill.output, fill.total_volume, fill.output.volume)
    for draw in flows.trace_liquids(transition).withdrawals:
        if (
            draw.is_stated
            and draw.remainder is not None
            and draw.remainder.volume is not None
            and draw.source.liquid_volume
            and draw.volume is not None
        ):
            yield from _check_prefix(draw.remainder, draw.source.liquid_volume - draw.volume, draw.remainder.volume)
    if transition.family in (families.INERT, families.HEAT, *families.MEASUREMENTS):
        for before, after in transition.list_pairs():
            if before.volume is not None and after.volume is not None:
                yield from _check_prefix(after, before.volume.value, after.volume)
            if before.mass is not None and after.mass is not None:
                yield from _check_prefix(after, before.mass.value, after.mass)
            for _, amount_before, amount_after in concentrations.iter_shared_concentrations(before, after):
                yield from _check_prefix(after, amount_before.value, amount_after)


def _check_prefix(view: MaterialView, expected: Decimal, got: Amount) -> Iterator[Finding]:
    if expected <= 0 or got.value <= 0:
        return
    ratio = got.value / expected
    if any(
        # 2 %: rounding of both values. Other ratios are errors of other checks.
        abs(ratio / prefix_ratio - 1) < Decimal("0.02")
        for prefix_ratio in (Decimal(1000), Decimal("0.001"), Decimal(1000000), Decimal("0.000001"))
    ):
        value_text = units.format_value(got.value, got.dimension)
        yield error_finding(
            "L12",
            view.name,
            units.format_value(expected, got.dimension),
            value_text,
            f"{value_text} in {view.name} is {quantities.format_number(ratio)} times the expected value: probably a wrong unit prefix",
        )
