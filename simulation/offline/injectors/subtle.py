"""Subtle errors (Error Type 2): each outcome looks like a good one and is wrong in a single figure or setting.

Each kind looks at a case and gives its planted error, or None where it does not apply.
"""

import random
from collections.abc import Callable, Iterator
from decimal import Decimal

from simulation.lab.materials import Draft, Material
from simulation.offline.injectors.changes import (
    Case,
    Planted,
    amount,
    concentrations,
    place,
    with_field,
    with_property,
    written_like,
)
from simulation.offline.injectors.instruments import reading_off, replicate_off, swapped_readings
from simulation.offline.injectors.settings import wrong_setting, wrong_temperature

_NOT_STALE = ("volume", "mass", "phase", "container", "container_capacity")
_COOL = ("4C", "ice")
# A dilution of more than 1 in 12 leaves a slip too small to be told from rounding.
_LEAST_SHARE = Decimal(1) / 12
# In these a substance may be used up, so that less of it is no error.
_REACTING = ("Thermocycler",)
_GAINS = (Decimal("1.1"), Decimal("1.15"), Decimal("1.2"), Decimal("1.3"))


def residual_not_reduced(case: Case, rng: random.Random) -> Planted | None:
    """What is left of a source still shows the volume or mass it had before some was taken."""
    fits = [(i, d, b, name) for i, d, b in _continued(case) for name in ("volume", "mass") if _less(d, b, name)]
    if not fits:
        return None
    index, draft, before, name = rng.choice(fits)
    stale, right = str(before.properties[name]), draft.properties[name]
    outcome = with_property(case.outcome, index, **{name: stale})
    why = f"{draft.name} still has {stale}; after what was taken from it {right} are left"
    return Planted(outcome, "what is taken out is missing afterwards", place(index, name), why)


def _continued(case: Case) -> Iterator[tuple[int, Draft, Material]]:
    for index, draft in case.drafts():
        if before := case.before(draft):
            yield index, draft, before


def _less(draft: Draft, before: Material, name: str) -> bool:
    now, then = (amount(holder.properties.get(name), name) for holder in (draft, before))
    return bool(now and then and 0 < now.value < then.value)


def dilution_slip(case: Case, rng: random.Random) -> Planted | None:
    """The volume taken is divided by the solvent added, not by the total: 1 part and 9 parts give a ninth."""
    fits = [
        (i, name, right, slipped)
        for i, d in case.drafts()
        for name, right in concentrations(d.properties).items()
        for source in _sources(case, d, name)
        if (full := concentrations(source.properties).get(name)) and full.dimension == right.dimension
        if full.value * _LEAST_SHARE < right.value < full.value / 2
        for slipped in (_slipped(full.value, right.value),)
    ]
    if not fits:
        return None
    index, name, right, slipped = rng.choice(fits)
    shown = case.outcome.new_materials[index].properties[name]
    wrong = written_like(shown, slipped, right.dimension, digits=3)
    if wrong == shown:
        return None
    outcome = with_property(case.outcome, index, **{name: wrong})
    why = f"{name} is {wrong}; the amount taken over the total volume is {shown}"
    return Planted(outcome, "a concentration is the amount over the total volume", place(index, name), why)


def _sources(case: Case, draft: Draft, name: str) -> list[Material]:
    """What a concentration the step made was made from; nothing where the step left the concentration alone."""
    before = case.before(draft)
    if before and before.properties.get(name) == draft.properties[name]:
        return []
    return [material for material in case.inputs() if material.barcode in (draft.replaces, *draft.derived_from)]


def _slipped(full: Decimal, right: Decimal) -> Decimal:
    # right = full * v / V, so full * v / (V - v) = full * right / (full - right)
    return full * right / (full - right)


def off_by_ten(case: Case, rng: random.Random) -> Planted | None:
    """A concentration with the point one place off, downwards, so that no input was weaker than the output."""
    fits = [
        (i, name, quantity)
        for i, d in case.drafts()
        for name, quantity in concentrations(d.properties).items()
        if quantity.dimension != "ratio" and case.action.name not in _REACTING
    ]
    if not fits:
        return None
    index, name, right = rng.choice(fits)
    shown = case.outcome.new_materials[index].properties[name]
    wrong = written_like(shown, right.value / 10, right.dimension)
    outcome = with_property(case.outcome, index, **{name: wrong})
    why = f"{name} is {wrong}; computed from what went in it is {shown}, ten times that"
    return Planted(outcome, "amounts balance", place(index, name), why)


def volume_gained(case: Case, rng: random.Random) -> Planted | None:
    """A material to which the step adds nothing holds somewhat more afterwards."""
    fits = [
        (i, d, name, now.value)
        for i, d, before in _continued(case)
        for name in ("volume", "mass")
        if (now := amount(d.properties.get(name), name)) and now.value > 0
        if before.properties.get(name) == d.properties[name]
    ]
    if not fits:
        return None
    index, draft, name, right = rng.choice(fits)
    shown = draft.properties[name]
    wrong = written_like(shown, right * rng.choice(_GAINS), name)
    if wrong == shown:
        return None
    outcome = with_property(case.outcome, index, **{name: wrong})
    why = f"{draft.name} holds {wrong} after the step and held {shown} before; nothing was added to it"
    return Planted(outcome, "nothing grows by itself", place(index, name), why)


def frozen_reagent_used(case: Case, rng: random.Random) -> Planted | None:
    """A reagent kept cold, of which a liquid volume was just drawn, stands there frozen."""
    fits = [
        (i, d)
        for i, d, before in _continued(case)
        if d.properties.get("phase") == "liquid" and d.environmental_condition in _COOL and _less(d, before, "volume")
    ]
    if not fits:
        return None
    index, draft = rng.choice(fits)
    outcome = with_property(case.outcome, index, phase="frozen")
    outcome = with_field(outcome, index, environmental_condition="-20C")
    why = f"{draft.name} is frozen at -20 °C, yet a liquid volume was drawn from it in this step"
    return Planted(outcome, "a frozen reagent is thawed before it is used", place(index, "phase"), why)


def stale_property(case: Case, rng: random.Random) -> Planted | None:
    """A property the step changes is carried over from before."""
    fits = [
        (i, d, name, str(before.properties[name]))
        for i, d, before in _continued(case)
        for name, value in d.properties.items()
        if name not in _NOT_STALE and str(before.properties.get(name, value)) not in str(value)
    ]
    if not fits:
        return None
    index, draft, name, stale = rng.choice(fits)
    outcome = with_property(case.outcome, index, **{name: stale})
    why = f"{name} of {draft.name} is {stale} as before; this step makes it {draft.properties[name]}"
    return Planted(outcome, "what a step changes is changed afterwards", place(index, name), why)


KINDS: dict[str, Callable[[Case, random.Random], Planted | None]] = {
    kind.__name__: kind
    for kind in (
        residual_not_reduced,
        dilution_slip,
        off_by_ten,
        wrong_setting,
        wrong_temperature,
        volume_gained,
        frozen_reagent_used,
        stale_property,
        reading_off,
        replicate_off,
        swapped_readings,
    )
}
