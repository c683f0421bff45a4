"""Subtle errors in amounts: arithmetic slips in volumes, masses and concentrations."""

import random
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import combinations

from simulation.lab import quantities
from simulation.lab.materials import AVAILABLE, NOT_AVAILABLE, Material, NewMaterial
from simulation.offline.injectors.edits import (
    COMMON,
    OBVIOUS,
    SCARCE,
    SUBTLE,
    Bulk,
    Case,
    Edit,
    Plan,
    Solute,
    edit_material,
    edit_property,
    is_mentioned,
    iter_spellings,
    list_bulks,
    list_solutes,
    parse_amount,
    parse_concentrations,
    plants,
    sample_places,
)

# If a dilution is greater than 1 in 12, the slip is too small to be distinguished from rounding.
_LEAST_SHARE = Decimal(1) / 12
# In these actions a substance may be consumed, so less of it is not an error.
_REACTING = ("Thermocycler", "qPCR", "CellCultureIncubate", "Incubate", "Wait", "Storage")
# In these actions some liquid may evaporate, so less of it is not an error.
_EVAPORATING = (
    "Incubate", "CellCultureIncubate", "Wait", "Storage", "DryingOven", "Evaporate", "Lyophilize", "Desiccate",
    "Degas", "Autoclave", "Microwave", "Thermocycler", "VisualInspection",
)  # fmt: skip
_GAINS = tuple(Decimal(gain) for gain in ("1.07", "1.1", "1.15", "1.2", "1.3", "1.4", "1.6"))
# In ascending order. The units at positions 0 and 3 are the smallest of their dimension here.
_UNITS = ("ng/mL", "µg/mL", "mg/mL", "nM", "µM", "mM", "M")


@plants(SUBTLE)
def residual_not_reduced(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a source still has the volume or mass that it had before some of it was taken."""
    for bulk, previous in sample_places(rng, _list_changed_bulks(case)):
        if bulk.value < previous:
            yield _plan_stale_bulk(case, bulk, "what is taken out is missing afterwards")


@plants(SUBTLE)
def addition_ignored(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a material still has the volume or mass that it had before something was added to it."""
    for bulk, previous in sample_places(rng, _list_changed_bulks(case)):
        if bulk.value > previous:
            yield _plan_stale_bulk(case, bulk, "what is put in is there afterwards")


def _list_changed_bulks(case: Case) -> list[tuple[Bulk, Decimal]]:
    """Return the volumes and masses that the step changed, each with its previous value."""
    candidates = [(bulk, _find_previous_value(case, bulk)) for bulk in list_bulks(case)]
    return [(bulk, previous) for bulk, previous in candidates if previous is not None and previous != bulk.value]


def _find_previous_value(case: Case, bulk: Bulk) -> Decimal | None:
    before = case.find_previous(bulk.draft)
    previous = parse_amount(before.properties.get(bulk.name), bulk.name) if before else None
    return previous.value if previous else None


def _plan_stale_bulk(case: Case, bulk: Bulk, rule: str) -> Plan:
    before = case.find_previous(bulk.draft)
    stale = str(before.properties[bulk.name]) if before else ""
    explanation = f"{bulk.draft.name} still has {stale}; the step leaves {bulk.displayed_text}"
    return Plan(rule, explanation, (edit_property(bulk.position, bulk.draft, bulk.name, stale),))


@plants(SUBTLE, COMMON)
def portion_slip(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which one of several moved portions is counted twice or not at all."""
    portions = {2, 4, 5, 10, max(2, len(case.outcome.new_materials) - 1)}
    for bulk, previous in sample_places(rng, _list_changed_bulks(case)):
        moved = abs(previous - bulk.value)
        for wrong in (bulk.value + sign * moved / count for count in sorted(portions) for sign in (1, -1)):
            # A change below 4 % could be rounding or pipetting.
            if wrong > 0 and abs(wrong - bulk.value) * 25 > bulk.value:
                for text in iter_spellings(bulk.displayed_text, wrong, bulk.name, exact=True):
                    known = f"{quantities.format_quantity(previous, bulk.name)} before, {quantities.format_quantity(moved, bulk.name)} moved"
                    explanation = f"{bulk.draft.name} has {text}; {known}: {bulk.displayed_text}"
                    edit = edit_property(bulk.position, bulk.draft, bulk.name, text)
                    yield Plan("volumes and masses balance", explanation, (edit,))


@plants(SUBTLE, COMMON)
def volume_gained(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a volume or mass is somewhat larger or smaller although the step did not change it."""
    unchanged = [bulk for bulk in list_bulks(case) if _find_previous_value(case, bulk) == bulk.value]
    for bulk in sample_places(rng, unchanged):
        for gain in _GAINS:
            for wrong in (bulk.value * gain, *(() if case.action.name in _EVAPORATING else (bulk.value / gain,))):
                for text in iter_spellings(bulk.displayed_text, wrong, bulk.name):
                    explanation = f"{bulk.draft.name} holds {text} after the step and held {bulk.displayed_text} before"
                    rule = "nothing grows or shrinks by itself"
                    yield Plan(rule, explanation, (edit_property(bulk.position, bulk.draft, bulk.name, text),))


@plants(SUBTLE, SCARCE)
def dilution_slip(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a dilution divides by the solvent, not the total: 1 part in 9 parts gives 1/9, not 1/10."""
    for solute in sample_places(rng, list_solutes(case)):
        for source in _find_sources(case, solute.draft, solute.name):
            stock, diluted = parse_concentrations(source.properties).get(solute.name), solute.quantity
            if stock is None or stock.dimension != diluted.dimension:
                continue
            if stock.value * _LEAST_SHARE < diluted.value < stock.value / 2:
                # right = full * v / V, so full * v / (V - v) = full * right / (full - right)
                slipped = stock.value * diluted.value / (stock.value - diluted.value)
                rule = "a concentration is the amount over the total volume"
                yield from _plan_concentration(solute, slipped, rule, "the amount taken over the total volume is")


def _find_sources(case: Case, draft: NewMaterial, name: str) -> list[Material]:
    """Return the one input from which the step made this concentration.

    The list is empty if the concentration is unchanged, or if several inputs or none contain the substance.
    """
    before = case.find_previous(draft)
    if before and before.properties.get(name) == draft.properties[name]:
        return []
    sources = [m for m in case.list_inputs() if m.barcode in (draft.replaces, *draft.derived_from)]
    containing = [material for material in sources if name in material.properties]
    # With two sources of the same substance the slip would have another value.
    return containing if len(containing) == 1 else []


@plants(SUBTLE, COMMON)
def off_by_ten(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which the decimal point of a concentration is one place off."""
    for solute in sample_places(rng, list_solutes(case)):
        if case.action.name not in _REACTING and solute.quantity.dimension != "ratio":
            for wrong in (solute.quantity.value / 10, solute.quantity.value * 10):
                yield from _plan_concentration(solute, wrong, "amounts balance", "computed from what went in it is")


def _plan_concentration(solute: Solute, wrong: Decimal, rule: str, because: str) -> Iterator[Plan]:
    for text in iter_spellings(solute.displayed_text, wrong, solute.quantity.dimension, exact=True):
        explanation = f"{solute.name} is {text}; {because} {solute.displayed_text}"
        yield Plan(rule, explanation, (edit_property(solute.position, solute.draft, solute.name, text),))


@plants(SUBTLE, changes_unit=True)
def wrong_unit(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a concentration has the right number and a unit that is a thousand times too small."""
    for solute in sample_places(rng, list_solutes(case)):
        number, _, unit = solute.displayed_text.partition(" ")
        unit_index = _UNITS.index(unit) if unit in _UNITS else 0
        if unit_index not in (0, 3) and case.action.name not in _REACTING:
            text = f"{number} {_UNITS[unit_index - 1]}"
            explanation = f"{solute.name} is {text}; with the right unit it is {solute.displayed_text}"
            yield Plan(
                "amounts balance", explanation, (edit_property(solute.position, solute.draft, solute.name, text),)
            )


_DRYING = ("Evaporate", "Lyophilize", "DryingOven", "Desiccate")
_CONSUMING_ALL = ("CellCounter",)
_LEAST_EXCESS = 4
_THOUSANDFOLD = Decimal(1000)
# No solution can contain more than this. Numbers are in base units: µg/mL, µM, 1/mL, %.
_MOST_CELLS = (10**11, "a millilitre packed full of the smallest")
_MOST = {
    "mass_concentration": (2 * 10**6, "two grams in a millilitre"),
    "molar_concentration": (6 * 10**7, "60 M, and water itself is 55 M"),
    "number_density": (10**16, "a millilitre packed full, were they viruses"),
    "ratio": (100, "the whole"),
}


@plants(OBVIOUS)
def matter_from_nothing(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a liquid or solid is larger than all inputs together and than the vessel's capacity."""
    for bulk in sample_places(rng, list_bulks(case)):
        largest_input = max(_sum_inputs(case, bulk), _get_capacity(bulk))
        for factor in (*rng.sample(range(12, 90), 12), 5, 7, 9, 1000):
            threshold = largest_input * (_LEAST_EXCESS if factor < 12 else 1)
            for plan in _plan_bulk(case, bulk, bulk.value * factor, f"{bulk.name} does not come from nothing"):
                if quantities.parse_quantity(plan.edits[0].new, bulk.name).value > threshold:
                    yield plan


@plants(OBVIOUS)
def matter_vanishes(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which nearly all of a liquid or solid is gone although nothing removed it."""
    if case.action.name in _DRYING:
        return
    for bulk in sample_places(rng, list_bulks(case)):
        for part in (*rng.sample(range(12, 90), 6), 100, 1000):
            yield from _plan_bulk(case, bulk, bulk.value / part, f"{bulk.name} does not vanish")


def _plan_bulk(case: Case, bulk: Bulk, wrong: Decimal, rule: str) -> Iterator[Plan]:
    all_in = quantities.format_quantity(_sum_inputs(case, bulk), bulk.name)
    for text in iter_spellings(bulk.displayed_text, wrong, bulk.name):
        explanation = f"the {bulk.name} is {text}; the step leaves {bulk.displayed_text}, and all that went in together is {all_in}"
        yield Plan(rule, explanation, (edit_property(bulk.position, bulk.draft, bulk.name, text),))


def _sum_inputs(case: Case, bulk: Bulk) -> Decimal:
    """Return the total volume or mass of all inputs, or that of the new material if no input has any."""
    amounts = [parse_amount(material.properties.get(bulk.name), bulk.name) for material in case.list_inputs()]
    return sum((quantity.value for quantity in amounts if quantity), Decimal(0)) or bulk.value


def _get_capacity(bulk: Bulk) -> Decimal:
    capacity = (
        parse_amount(bulk.draft.properties.get("container_capacity"), "volume") if bulk.name == "volume" else None
    )
    return capacity.value if capacity else Decimal(0)


@plants(OBVIOUS)
def substance_from_nothing(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a concentration is many times as high as that of any input."""
    highest = _find_highest_inputs(case)
    for index, draft, name, right in sample_places(rng, list_solutes(case)):
        top = highest.get(name)
        if top is None or not top.dimension == right.dimension != "ratio":
            continue
        factors = [Decimal(factor) for factor in rng.sample(range(12, 90), 6)]
        for wrong in (*(top.value * factor for factor in factors), right.value * _THOUSANDFOLD):
            # A concentration above the solubility is another kind of error, `beyond_solubility`.
            if wrong < top.value * 12 or wrong > _MOST[top.dimension][0]:
                continue
            for text in iter_spellings(draft.properties[name], wrong, top.dimension):
                most = quantities.format_quantity(top.value, top.dimension)
                explanation = (
                    f"{name} is {text}; it should be {draft.properties[name]}, and no input held more than {most}"
                )
                rule = "a substance is neither made nor concentrated by this step"
                yield Plan(rule, explanation, (edit_property(index, draft, name, text),))


def _find_highest_inputs(case: Case) -> Mapping[str, quantities.Quantity]:
    highest: dict[str, quantities.Quantity] = {}
    for material in case.list_inputs():
        for name, quantity in parse_concentrations(material.properties).items():
            if name not in highest or quantity.value > highest[name].value:
                highest[name] = quantity
    return highest


@plants(OBVIOUS)
def beyond_solubility(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which more is dissolved or suspended than there is room for."""
    for index, draft, name, right in sample_places(rng, list_solutes(case)):
        most, measure = _MOST_CELLS if name.endswith("cells concentration") else _MOST[right.dimension]
        for factor in (*rng.sample(range(11, 90), 8), 5, 7):
            for text in iter_spellings(draft.properties[name], Decimal(most * factor) / 10, right.dimension):
                wrong = quantities.parse_quantity(text, right.dimension).value
                if wrong > most:
                    explanation = f"{name} is {text}, more than {measure}; it should be {draft.properties[name]}"
                    rule = "no more is dissolved than there is room for"
                    yield Plan(rule, explanation, (edit_property(index, draft, name, text),))


@plants(OBVIOUS)
def cells_in_no_time(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a culture doubles ten times or more, or dies out, in a step too short for either."""
    for index, draft, name, right in sample_places(rng, list_solutes(case)):
        if right.dimension != "number_density" or not name.endswith("cells concentration"):
            continue
        for doublings in (10, 11, 13, 20, -10, -11):
            for text in iter_spellings(draft.properties[name], right.value * Decimal(2) ** doublings, right.dimension):
                known = f"{doublings} doublings" if doublings > 0 else "not one in a thousand left"
                explanation = f"{name} is {text}, where {draft.properties[name]} are right: {known} within this step"
                rule = "cells double in their own time and do not vanish"
                yield Plan(rule, explanation, (edit_property(index, draft, name, text),))


@plants(OBVIOUS, SCARCE)
def consumed_comes_back(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a material that the step used up is available again."""
    # Most measurements could leave some of their sample, so it is no error there that a sample is available again.
    if case.action_type is None or (case.action_type.kind == "measurement" and case.action.name not in _CONSUMING_ALL):
        return
    for index, draft in enumerate(case.outcome.new_materials):
        if draft.available_for_use == NOT_AVAILABLE and (before := case.find_previous(draft)):
            edits = [edit_material(index, draft, "available_for_use", AVAILABLE)]
            edits += _restore_properties(index, draft.properties, before.properties)
            explanation = f"{draft.name} was used up in this step and cannot be there for further use"
            yield Plan("a consumed material is gone", explanation, tuple(edits))


def _restore_properties(index: int, now: Mapping[str, object], before: Mapping[str, object]) -> list[Edit]:
    return [
        Edit("new_materials", index, f"properties.{name}", str(value), str(before[name]))
        for name, value in now.items()
        if name in before and str(before[name]) != str(value)
    ]


_NOT_IDENTIFYING = ("volume", "mass", "phase", "container", "container_capacity", "medium", "temperature")


@plants(SUBTLE, COMMON)
def swapped_solutes(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which two substances of one material have each other's concentration."""
    pairs = [
        (first, second)
        for first, second in combinations(list_solutes(case), 2)
        if first.position == second.position and first.quantity.dimension == second.quantity.dimension
        if not _is_near(first.quantity.value, second.quantity.value)
    ]
    for first, second in sample_places(rng, pairs):
        edits = (
            edit_property(first.position, first.draft, first.name, second.displayed_text),
            edit_property(second.position, second.draft, second.name, first.displayed_text),
        )
        explanation = (
            f"{first.name} is {first.displayed_text} and {second.name} {second.displayed_text}; here they are exchanged"
        )
        yield Plan("each substance is conserved by itself", explanation, edits)


@plants(SUBTLE, COMMON)
def swapped_samples(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which two materials have each other's concentration, as if their labels were exchanged."""
    pairs = [
        (first, second)
        for first, second in combinations(list_solutes(case), 2)
        if first.position != second.position and first.name == second.name
        if first.quantity.dimension == second.quantity.dimension
        if not _is_near(first.quantity.value, second.quantity.value)
    ]
    for first, second in sample_places(rng, pairs):
        edits = (
            edit_property(first.position, first.draft, first.name, second.displayed_text),
            edit_property(second.position, second.draft, second.name, first.displayed_text),
        )
        explanation = f"{first.name} is {first.displayed_text} in {first.draft.name} and {second.displayed_text} in {second.draft.name}, not exchanged"
        yield Plan("a concentration stands with its own material", explanation, edits)


@plants(SUBTLE, COMMON)
def swapped_identities(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which two materials have each other's origin, which contradicts their names."""
    told_by_name = [
        (first_index, draft, name)
        for first_index, draft in case.iter_available()
        for name, value in draft.properties.items()
        # The name must contain a number of the property; otherwise nothing in the outcome would show the
        # exchange.
        if any(is_mentioned(number, draft.name) for number in re.findall(r"[0-9]+", str(value)))
        if name not in _NOT_IDENTIFYING and not name.endswith(" concentration")
    ]
    pairs = [
        (first_index, first_draft, second_index, second_draft, name)
        for (first_index, first_draft, name), (second_index, second_draft, other_name) in combinations(told_by_name, 2)
        if name == other_name and first_draft.properties[name] != second_draft.properties[name]
    ]
    for first_index, first_draft, second_index, second_draft, name in sample_places(rng, pairs):
        first_value, second_value = str(first_draft.properties[name]), str(second_draft.properties[name])
        edits = (
            edit_property(first_index, first_draft, name, second_value),
            edit_property(second_index, second_draft, name, first_value),
        )
        explanation = f"{name} of {first_draft.name} is {first_value} and that of {second_draft.name} {second_value}, not the other way round"
        yield Plan("a material keeps its own origin", explanation, edits)


def _is_near(first: Decimal, second: Decimal) -> bool:
    # Below 20 % difference nobody would notice the exchange.
    return max(first, second) < min(first, second) * Decimal("1.2")
