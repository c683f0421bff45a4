"""Subtle errors of order: what belongs to one material or substance stands with another."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations

from simulation.offline.injectors.changes import Case, Plan, of_property, some, told
from simulation.offline.injectors.figures import solutes

_NO_IDENTITY = ("volume", "mass", "phase", "container", "container_capacity", "medium", "temperature")


def swapped_solutes(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Two substances of one material stand with each other's concentration."""
    pairs = [
        (one, other)
        for one, other in combinations(solutes(case), 2)
        if one.at == other.at and one.quantity.dimension == other.quantity.dimension
        if not _near(one.quantity.value, other.quantity.value)
    ]
    for one, other in some(rng, pairs):
        edits = (
            of_property(one.at, one.draft, one.name, other.shown),
            of_property(other.at, other.draft, other.name, one.shown),
        )
        why = f"{one.name} is {one.shown} and {other.name} {other.shown}; here they are exchanged"
        yield Plan("each substance is conserved by itself", why, edits)


def swapped_samples(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Two materials of the step stand with each other's concentration: their labels are exchanged."""
    pairs = [
        (one, other)
        for one, other in combinations(solutes(case), 2)
        if one.at != other.at and one.name == other.name
        if one.quantity.dimension == other.quantity.dimension
        if not _near(one.quantity.value, other.quantity.value)
    ]
    for one, other in some(rng, pairs):
        edits = (
            of_property(one.at, one.draft, one.name, other.shown),
            of_property(other.at, other.draft, other.name, one.shown),
        )
        why = f"{one.name} is {one.shown} in {one.draft.name} and {other.shown} in {other.draft.name}, not exchanged"
        yield Plan("a concentration stands with its own material", why, edits)


def swapped_identities(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Two materials of the step stand with what is known of each other's origin, against their own names."""
    told_by_name = [
        (at, draft, name)
        for at, draft in case.drafts()
        for name, value in draft.properties.items()
        if any(told(number, draft.name) for number in re.findall(r"[0-9]+", str(value)))
        if name not in _NO_IDENTITY and not name.endswith(" concentration")
    ]
    pairs = [
        (at, one, other_at, other, name)
        for (at, one, name), (other_at, other, also) in combinations(told_by_name, 2)
        if name == also and one.properties[name] != other.properties[name]
    ]
    for at, one, other_at, other, name in some(rng, pairs):
        first, second = str(one.properties[name]), str(other.properties[name])
        edits = (of_property(at, one, name, second), of_property(other_at, other, name, first))
        why = f"{name} of {one.name} is {first} and that of {other.name} {second}, not the other way round"
        yield Plan("a material keeps its own origin", why, edits)


def _near(one: Decimal, other: Decimal) -> bool:
    return max(one, other) < min(one, other) * Decimal("1.2")


KINDS = (swapped_solutes, swapped_samples, swapped_identities)
