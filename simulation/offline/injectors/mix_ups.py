"""Subtle mix-ups: what belongs to one material or substance is attributed to another."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations

from simulation.offline.injectors.edits import Case, Plan, edit_property, is_mentioned, sample_places
from simulation.offline.injectors.numbers import list_solutes

_NOT_IDENTIFYING = ("volume", "mass", "phase", "container", "container_capacity", "medium", "temperature")


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


INJECTORS = (swapped_solutes, swapped_samples, swapped_identities)
