"""Obvious errors in amounts: matter and substances that appear from nothing or vanish without a trace."""

import random
from collections.abc import Iterator, Mapping
from decimal import Decimal

from simulation.lab import quantities
from simulation.lab.materials import AVAILABLE, NOT_AVAILABLE
from simulation.offline.injectors.edits import (
    Case,
    Edit,
    Plan,
    edit_material,
    edit_property,
    parse_amount,
    sample_places,
)
from simulation.offline.injectors.numbers import Bulk, iter_spellings, list_bulks, list_solutes, parse_concentrations

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


def matter_from_nothing(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a liquid or solid is larger than all inputs together and than the vessel's capacity."""
    for bulk in sample_places(rng, list_bulks(case)):
        largest_input = max(_sum_inputs(case, bulk), _get_capacity(bulk))
        for factor in (*rng.sample(range(12, 90), 12), 5, 7, 9, 1000):
            threshold = largest_input * (_LEAST_EXCESS if factor < 12 else 1)
            for plan in _plan_bulk(case, bulk, bulk.value * factor, f"{bulk.name} does not come from nothing"):
                if quantities.parse_quantity(plan.edits[0].new, bulk.name).value > threshold:
                    yield plan


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


INJECTORS = (
    matter_from_nothing,
    matter_vanishes,
    substance_from_nothing,
    beyond_solubility,
    cells_in_no_time,
    consumed_comes_back,
)
