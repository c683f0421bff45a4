"""Subtle errors in amounts: arithmetic slips in volumes, masses and concentrations."""

import random
from collections.abc import Iterator
from decimal import Decimal

from simulation.lab import quantities
from simulation.lab.materials import Material, NewMaterial
from simulation.offline.injectors.edits import Case, Plan, edit_property, parse_amount, sample_places
from simulation.offline.injectors.numbers import (
    Bulk,
    Solute,
    iter_spellings,
    list_bulks,
    list_solutes,
    parse_concentrations,
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


def residual_not_reduced(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a source still has the volume or mass that it had before some of it was taken."""
    for bulk, previous in sample_places(rng, _list_changed_bulks(case)):
        if bulk.value < previous:
            yield _plan_stale_bulk(case, bulk, "what is taken out is missing afterwards")


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


INJECTORS = (
    residual_not_reduced,
    addition_ignored,
    portion_slip,
    volume_gained,
    dilution_slip,
    off_by_ten,
    wrong_unit,
)
