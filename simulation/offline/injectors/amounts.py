"""Errors in amounts: matter that appears from nothing or vanishes (obvious), arithmetic slips and mix-ups (subtle)."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import combinations

from simulation.lab import quantities
from simulation.lab.materials import AVAILABLE, NOT_AVAILABLE, Material
from simulation.offline.injectors import edits, sizes

_DRYING = ("Evaporate", "Lyophilize", "DryingOven", "Desiccate")
# No solution can contain more than this. Numbers are in base units: µg/mL, µM, 1/mL, %.
_MOST_CELLS = (10**11, "a millilitre packed full of the smallest")
_MOST = {
    "mass_concentration": (2 * 10**6, "two grams in a millilitre"),
    "molar_concentration": (6 * 10**7, "60 M, and water itself is 55 M"),
    "number_density": (10**16, "a millilitre packed full, were they viruses"),
    "ratio": (100, "the whole"),
}
# If a dilution is greater than 1 in 12, the slip is too small to be distinguished from rounding.
_LEAST_SHARE = Decimal(1) / 12
# In these actions some liquid may evaporate, so less of it is not an error.
_EVAPORATING = (
    "Incubate", "CellCultureIncubate", "Wait", "Storage", "DryingOven", "Evaporate", "Lyophilize", "Desiccate",
    "Degas", "Autoclave", "Microwave", "Thermocycler", "VisualInspection",
)  # fmt: skip
_NOT_IDENTIFYING = ("volume", "mass", "phase", "container", "container_capacity", "medium", "temperature")


@edits.plants(edits.OBVIOUS, "{property} does not come from nothing")
def matter_from_nothing(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a liquid or solid is larger than all inputs together and than the vessel's capacity."""
    for bulk in edits.sample_places(rng, case.bulks):
        capacity = edits.parse_amount(bulk.material.draft.properties.get("container_capacity"), "volume")
        room = capacity.value if capacity and bulk.name == "volume" else Decimal(0)
        threshold = max(_sum_inputs(case, bulk) if case.inputs else Decimal(0), room)
        # Just above what there is room for, so that the number is absurd and not a format of its own.
        for factor in sizes.draw_large_factors(rng):
            for text in sizes.iter_spellings(bulk.text, max(bulk.value, threshold / 2) * factor, bulk.dimension):
                if quantities.parse_quantity(text, bulk.name).value > threshold:
                    yield _explain_bulk(case, bulk, text), bulk.change(text)


@edits.plants(edits.OBVIOUS, "{property} does not vanish")
def matter_vanishes(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which most of a liquid or solid is gone although nothing removed it."""
    for bulk in edits.sample_places(rng, case.bulks) if case.action.name not in _DRYING else ():
        for factor in sizes.draw_large_factors(rng):
            for text in sizes.iter_spellings(bulk.text, bulk.value / (5 * factor), bulk.dimension):
                yield _explain_bulk(case, bulk, text), bulk.change(text)


def _explain_bulk(case: edits.Case, bulk: edits.Amount, text: str) -> str:
    all_in = f"all that went in together is {quantities.format_quantity(_sum_inputs(case, bulk), bulk.name)}"
    return f"the {bulk.name} is {text}; the step leaves {bulk.text}, and {all_in}"


def _sum_inputs(case: edits.Case, bulk: edits.Amount) -> Decimal:
    """Return the total volume or mass of all inputs, or that of the new material if no input has any."""
    amounts = [edits.parse_amount(material.properties.get(bulk.name), bulk.name) for material in case.inputs]
    return sum((quantity.value for quantity in amounts if quantity), Decimal(0)) or bulk.value


@edits.plants(edits.OBVIOUS, "a substance is neither made nor concentrated by this step")
def substance_from_nothing(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a concentration is many times as high as that of any input."""
    highest: dict[str, quantities.Quantity] = {}
    for material in case.inputs:
        for name, quantity in edits.parse_concentrations(material.properties).items():
            if name not in highest or quantity.value > highest[name].value:
                highest[name] = quantity
    for solute in edits.sample_places(rng, case.solutes):
        top = highest.get(solute.name)
        if top is None or not top.dimension == solute.dimension != "ratio":
            continue
        for factor in sizes.draw_large_factors(rng):
            wrong = top.value * factor * 5
            # A concentration above the solubility is another kind of error, `beyond_solubility`.
            if wrong > _MOST[top.dimension][0]:
                continue
            for text in sizes.iter_spellings(solute.text, wrong, solute.dimension):
                most = f"no input held more than {quantities.format_quantity(top.value, top.dimension)}"
                yield f"{solute.name} is {text}; it should be {solute.text}, and {most}", solute.change(text)


@edits.plants(edits.OBVIOUS, "a substance does not vanish from a solution")
def substance_vanishes(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which nearly all of a dissolved or suspended substance is gone although nothing removed it."""
    for solute in edits.sample_places(rng, case.solutes):
        if case.action.name not in edits.REACTING:
            for factor in sizes.draw_large_factors(rng, 2):
                for text in sizes.iter_spellings(solute.text, solute.value / (5 * factor), solute.dimension):
                    yield f"{solute.name} is {text}; it should be {solute.text}", solute.change(text)


@edits.plants(edits.OBVIOUS, "a concentration stays within what can be dissolved or suspended", science=True)
def beyond_solubility(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which more is dissolved or suspended than there is room for."""
    for solute in edits.sample_places(rng, case.solutes):
        most, measure = _MOST_CELLS if solute.name.endswith("cells concentration") else _MOST[solute.dimension]
        for factor in sizes.draw_large_factors(rng):
            for text in sizes.iter_spellings(solute.text, most * factor / 2, solute.dimension):
                if quantities.parse_quantity(text, solute.dimension).value > most:
                    explanation = f"{solute.name} is {text}, more than {measure}; it should be {solute.text}"
                    yield explanation, solute.change(text)


@edits.plants(edits.OBVIOUS, "cells do not double faster than they can, and do not vanish", science=True)
def cells_in_no_time(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a culture doubles ten times or more, or dies out, in a step too short for either."""
    for solute in edits.sample_places(rng, case.solutes):
        if solute.dimension != "number_density" or not solute.name.endswith("cells concentration"):
            continue
        for doublings in (10, 11, -10, -11):
            for text in sizes.iter_spellings(solute.text, solute.value * Decimal(2) ** doublings, solute.dimension):
                known = f"{doublings} doublings" if doublings > 0 else "not one in a thousand left"
                explanation = f"{solute.name} is {text}, but {solute.text} is correct: {known} within this step"
                yield explanation, solute.change(text)


@edits.plants(edits.OBVIOUS, "a consumed material is gone", edits.SCARCE)
def consumed_comes_back(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material that the step used up is available again."""
    # A measurement could leave some of its sample, so it is no error there that a sample is available again.
    if case.action_type is None or case.action_type.kind == "measurement":
        return
    for material in case.all_materials:
        if material.draft.available_for_use != NOT_AVAILABLE or not material.before:
            continue
        before = {name: str(value) for name, value in material.before.properties.items()}
        changed = [
            name for name, value in material.draft.properties.items() if before.get(name, str(value)) != str(value)
        ]
        explanation = f"{material.name} was used up in this step and cannot be there for further use"
        changes = [material.change_field("available_for_use", AVAILABLE)]
        changes += [material.change(name, before[name]) for name in changed]
        yield explanation, *changes


@edits.plants(edits.SUBTLE, "what is taken out is missing afterwards")
def residual_not_reduced(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a source still has the volume or mass that it had before some of it was taken."""
    for bulk, previous in edits.sample_places(rng, _list_changed_bulks(case)):
        if bulk.value < previous:
            yield _restore_bulk(bulk)


@edits.plants(edits.SUBTLE, "what is put in is there afterwards")
def addition_ignored(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material still has the volume or mass that it had before something was added to it."""
    for bulk, previous in edits.sample_places(rng, _list_changed_bulks(case)):
        if bulk.value > previous:
            yield _restore_bulk(bulk)


def _list_changed_bulks(case: edits.Case) -> list[tuple[edits.Amount, Decimal]]:
    """Return the volumes and masses that the step changed, each with its previous value."""
    candidates = [(bulk, _find_previous_value(bulk)) for bulk in case.bulks]
    return [(bulk, previous) for bulk, previous in candidates if previous is not None and previous != bulk.value]


def _find_previous_value(bulk: edits.Amount) -> Decimal | None:
    before = bulk.material.before
    previous = edits.parse_amount(before.properties.get(bulk.name), bulk.name) if before else None
    return previous.value if previous else None


def _restore_bulk(bulk: edits.Amount) -> tuple[str, edits.Edit]:
    """Return the error in which a volume or mass is as before the step."""
    assert bulk.material.before, "a changed amount had a previous value"
    stale = str(bulk.material.before.properties[bulk.name])
    return f"{bulk.material.name} still has {stale}; the step leaves {bulk.text}", bulk.change(stale)


@edits.plants(edits.SUBTLE, "volumes and masses balance", edits.COMMON)
def portion_slip(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which one of several moved portions is counted twice or not at all."""
    portions = {2, 4, 5, 10, max(2, len(case.outcome.new_materials) - 1)}
    for bulk, previous in edits.sample_places(rng, _list_changed_bulks(case)):
        moved = abs(previous - bulk.value)
        before, portion = (quantities.format_quantity(value, bulk.name) for value in (previous, moved))
        for wrong in (bulk.value + sign * moved / count for count in sorted(portions) for sign in (1, -1)):
            # A change below 4 % could be rounding or pipetting.
            if wrong > 0 and abs(wrong - bulk.value) * 25 > bulk.value:
                for text in sizes.iter_spellings(bulk.text, wrong, bulk.dimension, exact=True):
                    known = f"{before} before, {portion} moved: {bulk.text}"
                    yield f"{bulk.material.name} has {text}; {known}", bulk.change(text)


@edits.plants(edits.SUBTLE, "nothing grows or shrinks by itself", edits.COMMON)
def volume_gained(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a volume or mass is somewhat larger or smaller although the step did not change it."""
    unchanged = [bulk for bulk in case.bulks if _find_previous_value(bulk) == bulk.value]
    for bulk in edits.sample_places(rng, unchanged):
        may_shrink = case.action.name not in _EVAPORATING
        volume = bulk.value if bulk.name == "volume" else None
        for factor in sizes.draw_factors(case.sizes, rng, volume):
            for text in sizes.iter_spellings(bulk.text, bulk.value * factor, bulk.dimension):
                if factor > 1 or may_shrink:
                    explanation = f"{bulk.material.name} holds {text} after the step and held {bulk.text} before"
                    yield explanation, bulk.change(text)


def _change_delivered(
    case: edits.Case, rng: random.Random, factors: Callable[[Decimal], Sequence[Decimal]]
) -> edits.Errors:
    """Yield errors in which new vessels hold another volume than was set, and their source lost as much.

    Everything in the outcome agrees: only the action states the volume that was set.
    """
    portions = [
        (bulk, source)
        for bulk in case.bulks
        if bulk.name == "volume" and bulk.material.before is None and (source := _find_only_source(case, bulk))
    ]
    for bulk, source in edits.sample_places(rng, portions):
        capacity = edits.parse_amount(bulk.material.draft.properties.get("container_capacity"), "volume")
        fellows = [each for each, other in portions if other is source and each.text == bulk.text]
        for factor in factors(bulk.value):
            for text in sizes.iter_spellings(bulk.text, bulk.value * factor, "volume"):
                wrong = quantities.parse_quantity(text, "volume").value
                for changed in ([bulk], fellows):
                    left = source.value - (wrong - bulk.value) * len(changed)
                    if left <= 0 or (capacity and wrong > capacity.value):
                        continue
                    rest = quantities.format_quantity(left, "volume", quantities.parse_unit(source.text, "volume"))
                    which = "each vessel" if len(changed) > 1 else bulk.material.name
                    explanation = f"{text} were delivered into {which}, but {bulk.text} were set"
                    ordered = [bulk, *(each for each in changed if each is not bulk)]
                    changes: list[edits.Edit] = [each.change(text) for each in ordered]
                    changes.append(source.change(rest))
                    yield explanation, *changes


def _find_only_source(case: edits.Case, bulk: edits.Amount) -> edits.Amount | None:
    """Return the volume left of the one material from which a new vessel was filled; None if several were."""
    sources = [
        one
        for one in case.shown_bulks
        if one.name == "volume" and one.material.draft.replaces in bulk.material.draft.derived_from
    ]
    codes = bulk.material.draft.derived_from
    settings = [quantities.find_quantity(value, "volume") for value in case.action.parameters.values()]
    is_set = any(setting and setting.value == bulk.value for setting in settings)
    return sources[0] if is_set and len(codes) == 1 and len(sources) == 1 and sources[0].value > 0 else None


@edits.plants(edits.SUBTLE, "the volume that was set is the volume delivered")
def wrong_volume_delivered(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the volume delivered is somewhat larger or smaller than the one that was set."""
    yield from _change_delivered(case, rng, lambda volume: sizes.draw_factors(case.sizes, rng, volume))


@edits.plants(edits.OBVIOUS, "the volume that was set is the volume delivered")
def far_from_the_set_volume(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the volume delivered is several times or a fraction of the one that was set."""
    factors = sizes.draw_large_factors(rng, 2)
    yield from _change_delivered(case, rng, lambda volume: [*factors, *(1 / factor for factor in factors)])


@edits.plants(edits.SUBTLE, "a concentration is the amount over the volume")
def concentration_slip(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a concentration is somewhat higher or lower than what went in makes it."""
    for solute in edits.sample_places(rng, case.solutes):
        if case.action.name not in edits.REACTING:
            for factor in sizes.draw_factors(case.sizes, rng):
                yield from _change_concentration(solute, solute.value * factor, "computed from what went in it is")


@edits.plants(edits.SUBTLE, "a concentration is the amount over the total volume", edits.SCARCE)
def dilution_slip(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a dilution divides by the solvent, not the total: 1 part in 9 parts gives 1/9, not 1/10."""
    for solute in edits.sample_places(rng, case.solutes):
        for source in _find_sources(case, solute.material, solute.name):
            stock = edits.parse_concentrations(source.properties).get(solute.name)
            if stock is None or stock.dimension != solute.dimension:
                continue
            if stock.value * _LEAST_SHARE < solute.value < stock.value / 2:
                # right = full * v / V, so full * v / (V - v) = full * right / (full - right)
                slipped = stock.value * solute.value / (stock.value - solute.value)
                yield from _change_concentration(solute, slipped, "the amount taken over the total volume is")


def _find_sources(case: edits.Case, material: edits.Produced, name: str) -> list[Material]:
    """Return the input from which the step made this concentration; none if it is unchanged or has several."""
    draft, before = material.draft, material.before
    if before and before.properties.get(name) == draft.properties[name]:
        return []
    sources = [source for source in case.inputs if source.barcode in (draft.replaces, *draft.derived_from)]
    containing = [source for source in sources if name in source.properties]
    # With two sources of the same substance the slip would have another value.
    return containing if len(containing) == 1 else []


@edits.plants(edits.OBVIOUS, "amounts balance", edits.COMMON)
def off_by_ten(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the decimal point of a concentration is one place off."""
    for solute in edits.sample_places(rng, case.solutes):
        if case.action.name not in edits.REACTING and solute.dimension != "ratio":
            for wrong in (solute.value / 10, solute.value * 10):
                yield from _change_concentration(solute, wrong, "computed from what went in it is")


def _change_concentration(solute: edits.Amount, wrong: Decimal, because: str) -> Iterator[tuple[str, edits.Edit]]:
    for text in sizes.iter_spellings(solute.text, wrong, solute.dimension, exact=True):
        yield f"{solute.name} is {text}; {because} {solute.text}", solute.change(text)


@edits.plants(edits.SUBTLE, "each substance is conserved by itself", edits.COMMON)
def swapped_solutes(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which two substances of one material have each other's concentration."""
    pairs = [
        (one, other) for one, other in _list_distinct_pairs(case) if one.material.position == other.material.position
    ]
    for one, other in edits.sample_places(rng, pairs):
        explanation = f"{one.name} is {one.text} and {other.name} {other.text}; here they are exchanged"
        yield explanation, one.change(other.text), other.change(one.text)


@edits.plants(edits.SUBTLE, "a concentration belongs to its own material", edits.COMMON)
def swapped_samples(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which two materials have each other's concentration, as if their labels were exchanged."""
    pairs = [
        (one, other)
        for one, other in _list_distinct_pairs(case)
        if one.material.position != other.material.position and one.name == other.name
    ]
    for one, other in edits.sample_places(rng, pairs):
        places = f"{one.text} in {one.material.name} and {other.text} in {other.material.name}"
        yield f"{one.name} is {places}, not exchanged", one.change(other.text), other.change(one.text)


def _list_distinct_pairs(case: edits.Case) -> list[tuple[edits.Amount, edits.Amount]]:
    """Return pairs of concentrations of one dimension that differ by 20 % or more. A smaller exchange goes unnoticed."""
    return [
        (one, other)
        for one, other in combinations(case.solutes, 2)
        if one.dimension == other.dimension
        and max(one.value, other.value) >= min(one.value, other.value) * Decimal("1.2")
    ]


@edits.plants(edits.SUBTLE, "a material keeps its own origin", edits.COMMON)
def swapped_identities(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which two materials have each other's origin, which contradicts their names."""
    identified = [
        (material, name, str(value))
        for material in case.materials
        for name, value in material.draft.properties.items()
        # The name must contain a number of the property; otherwise nothing in the outcome would show the exchange.
        if any(edits.is_mentioned(number, material.name) for number in re.findall(r"[0-9]+", str(value)))
        if name not in _NOT_IDENTIFYING and not name.endswith(" concentration")
    ]
    pairs = [
        (name, one, value, other, other_value)
        for (one, name, value), (other, other_name, other_value) in combinations(identified, 2)
        if name == other_name and one.draft.properties[name] != other.draft.properties[name]
    ]
    for name, one, value, other, other_value in edits.sample_places(rng, pairs):
        places = f"{name} of {one.name} is {value} and that of {other.name} {other_value}"
        yield f"{places}, not the other way round", one.change(name, other_value), other.change(name, value)
