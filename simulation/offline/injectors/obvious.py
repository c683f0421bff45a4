"""Obvious errors (Error Type 1): anyone who knows a laboratory sees that this cannot have happened.

Each kind looks at a case and gives its planted error, or None where it does not apply.
"""

import random
import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from simulation.lab import quantities
from simulation.lab.materials import AVAILABLE, NOT_AVAILABLE, UNLIMITED, Draft
from simulation.offline.injectors.changes import (
    Case,
    Planted,
    amount,
    concentrations,
    place,
    readings,
    scaled,
    with_field,
    with_observation,
    with_property,
    written_like,
)

_WARM = ("room_temp", "4C", "incubating_conditions", "cell_culture_conditions")
_FLUID = ("liquid", "suspension")
_OTHER_PHASE = {"liquid": "powder", "suspension": "powder", "tissue": "liquid", "solid": "liquid", "powder": "liquid"}
_READ = re.compile(r"(?<![\w.:/-])[0-9]+(?:\.[0-9]+)?(?=,| |$)")
_COLD = ("-80C", "-196C", "dry_ice")
_SHARE = re.compile(r"(?P<percent>[0-9.]+) % \((?P<positive>[0-9]+) of (?P<events>[0-9]+) events\)")
_ABSURD_TEMPERATURES = (-340, -310, 410, 640, 870)


def matter_from_nothing(case: Case, rng: random.Random) -> Planted | None:
    """A liquid or a solid comes out many times larger than all that went in."""
    most = {name: _total(case, name) for name in ("volume", "mass")}
    fits = [
        (i, d, name, factor)
        for i, d in case.drafts()
        for name in ("volume", "mass")
        if (quantity := amount(d.properties.get(name), name)) and quantity.value > 0
        for factor in range(15, 61)
        if quantity.value * factor > max(most[name], _capacity(d, name))
    ]
    if not fits:
        return None
    index, draft, name, factor = rng.choice(fits)
    shown = draft.properties[name]
    wrong = written_like(shown, quantities.parse(shown, name).value * factor, name)
    all_in = quantities.show(most[name], name)
    why = f"the {name} is {wrong}; the step leaves {shown}, and all that went in together is {all_in}"
    outcome = with_property(case.outcome, index, **{name: wrong})
    return Planted(outcome, f"{name} does not come from nothing", place(index, name), why)


def _total(case: Case, name: str) -> Decimal:
    """The volume or mass of all limited materials that went in."""
    found = (amount(m.properties.get(name), name) for m in case.inputs() if m.available_for_use != UNLIMITED)
    return sum((quantity.value for quantity in found if quantity), Decimal(0))


def _capacity(draft: Draft, name: str) -> Decimal:
    held = amount(draft.properties.get("container_capacity"), "volume") if name == "volume" else None
    return held.value if held else Decimal(0)


def consumed_comes_back(case: Case, rng: random.Random) -> Planted | None:
    """What the step used up is handed back as it was before; an instrument might well have left some of its sample."""
    known = case.situation.catalogue.find(case.action.name)
    if known is None or known.kind == "measurement":
        return None
    fits = [
        (i, d, b)
        for i, d in enumerate(case.outcome.new_materials)
        if d.available_for_use == NOT_AVAILABLE and (b := case.before(d))
    ]
    if not fits:
        return None
    index, draft, before = rng.choice(fits)
    restored = {name: before.properties.get(name, value) for name, value in draft.properties.items()}
    outcome = with_field(case.outcome, index, available_for_use=AVAILABLE, properties=restored)
    why = f"{draft.name} was used up in this step and cannot be there for further use"
    return Planted(outcome, "a consumed material is gone", f"new_materials[{index}].available_for_use", why)


def frozen_in_the_warm(case: Case, rng: random.Random) -> Planted | None:
    """A liquid is said to be frozen though it stands in the warm."""
    fits = [
        (i, d) for i, d in case.drafts() if d.properties.get("phase") in _FLUID and d.environmental_condition in _WARM
    ]
    if not fits:
        return None
    index, draft = rng.choice(fits)
    why = f"{draft.name} is frozen at condition {draft.environmental_condition}, and no step froze it"
    outcome = with_property(case.outcome, index, phase="frozen")
    return Planted(outcome, "a watery liquid is not frozen above 0 °C", place(index, "phase"), why)


def impossible_temperature(case: Case, rng: random.Random) -> Planted | None:
    """A temperature no bench reaches."""
    fits = [
        (i, name)
        for i, d in case.drafts()
        for name, text in d.properties.items()
        if "temperature" in name and amount(text, "temperature")
    ]
    if not fits:
        return None
    index, name = rng.choice(fits)
    right = case.outcome.new_materials[index].properties[name]
    absurd = quantities.parse(f"{rng.choice(_ABSURD_TEMPERATURES)} °C", "temperature").value
    wrong = quantities.show(absurd, "temperature")
    outcome = with_property(case.outcome, index, **{name: wrong})
    return Planted(
        outcome, "temperatures stay within what can be", place(index, name), f"{name} is {wrong}, not {right}"
    )


def impossible_place(case: Case, rng: random.Random) -> Planted | None:
    """A liquid lies in the deep cold though no step put it there, and is liquid still."""
    fits = [
        (i, d)
        for i, d in case.drafts()
        if d.environmental_condition in _WARM
        and d.properties.get("phase") in _FLUID
        and case.action.name not in ("Storage", "FlashFreeze", "FreezeCells")
    ]
    if not fits:
        return None
    index, draft = rng.choice(fits)
    wrong = rng.choice(_COLD)
    outcome = with_field(case.outcome, index, environmental_condition=wrong)
    why = f"{draft.name} is liquid at {wrong}; {case.action.name} leaves it at {draft.environmental_condition}"
    field = f"new_materials[{index}].environmental_condition"
    return Planted(outcome, "nothing changes its place by itself, nor stays liquid in the deep cold", field, why)


def substance_from_nothing(case: Case, rng: random.Random) -> Planted | None:
    """A concentration above that of anything that went in."""
    highest = _highest(case)
    fits = [
        (i, name)
        for i, d in case.drafts()
        for name, quantity in concentrations(d.properties).items()
        if name in highest and highest[name].dimension == quantity.dimension != "ratio"
    ]
    if not fits:
        return None
    index, name = rng.choice(fits)
    right = case.outcome.new_materials[index].properties[name]
    top = highest[name]
    wrong = written_like(right, top.value * rng.randint(12, 45), top.dimension)
    outcome = with_property(case.outcome, index, **{name: wrong})
    most = quantities.show(top.value, top.dimension)
    why = f"{name} is {wrong}; it should be {right}, and no input held more than {most}"
    return Planted(outcome, "a substance is neither made nor concentrated by this step", place(index, name), why)


def _highest(case: Case) -> Mapping[str, quantities.Quantity]:
    found: dict[str, quantities.Quantity] = {}
    for material in case.inputs():
        for name, quantity in concentrations(material.properties).items():
            if name not in found or quantity.value > found[name].value:
                found[name] = quantity
    return found


def another_phase(case: Case, rng: random.Random) -> Planted | None:
    """What is liquid after the step is a powder, or what is solid a liquid, and was not so before the step either."""
    fits = [
        (i, d, wrong)
        for i, d in case.drafts()
        if (wrong := _OTHER_PHASE.get(str(d.properties.get("phase")), ""))
        and not ((before := case.before(d)) and before.properties.get("phase") == wrong)
    ]
    if not fits:
        return None
    index, draft, wrong = rng.choice(fits)
    outcome = with_property(case.outcome, index, phase=wrong)
    why = f"{draft.name} is {wrong}; after {case.action.name} it is {draft.properties['phase']}"
    return Planted(outcome, "matter keeps its state unless something changes it", place(index, "phase"), why)


def negative_reading(case: Case, rng: random.Random) -> Planted | None:
    """A quantity that cannot be below zero is read far below it."""
    fits = [
        (i, seen)
        for i, seen in enumerate(case.outcome.new_observations)
        if seen.measurement_type == "quantitative" and _READ.search(seen.value) and "(" not in seen.value
    ]
    if not fits:
        return None
    index, seen = rng.choice(fits)
    wrong = _READ.sub(lambda found: f"-{found[0]}", seen.value)
    outcome = with_observation(case.outcome, index, value=wrong)
    why = f"the reading is {wrong}, not {seen.value}; there is no less than nothing of it"
    return Planted(outcome, "amounts, times and ratios read are not negative", f"new_observations[{index}].value", why)


def contradicting_observation(case: Case, rng: random.Random) -> Planted | None:
    """An instrument reads something quite different from what lies on the bench."""
    known = [
        (quantity, name)
        for _, d in case.drafts()
        for name, dimension in (("volume", "volume"), ("mass", "mass"))
        if (quantity := amount(d.properties.get(name), dimension))
    ]
    fits = [
        (i, near, name)
        for i, seen in enumerate(case.outcome.new_observations)
        for near, name in known
        if any(near.value * 2 > reading > near.value / 2 > 0 for reading in readings(seen, near.dimension))
    ]
    if not fits:
        return None
    index, near, name = rng.choice(fits)
    seen = case.outcome.new_observations[index]
    wrong = scaled(seen, Decimal(rng.randint(15, 60)), near.dimension)
    outcome = with_observation(case.outcome, index, value=wrong)
    there = quantities.show(near.value, near.dimension)
    why = f"the reading is {wrong}, not {seen.value}; the material's {name} is {there}"
    return Planted(outcome, "readings and materials agree", f"new_observations[{index}].value", why)


def more_than_all(case: Case, rng: random.Random) -> Planted | None:
    """More events are positive than there were events."""
    fits = [
        (i, found) for i, seen in enumerate(case.outcome.new_observations) if (found := _SHARE.fullmatch(seen.value))
    ]
    fits = [(i, found) for i, found in fits if int(found["positive"]) * 5 > int(found["events"])]
    if not fits:
        return None
    index, found = rng.choice(fits)
    factor = rng.randint(6, 9)
    percent, positive = quantities.plain(Decimal(found["percent"]) * factor), int(found["positive"]) * factor
    wrong = f"{percent} % ({positive} of {found['events']} events)"
    outcome = with_observation(case.outcome, index, value=wrong)
    why = f"{wrong} are positive, which is more than all; the record is {found[0]}"
    return Planted(outcome, "a part is not larger than the whole", f"new_observations[{index}].value", why)


KINDS: dict[str, Callable[[Case, random.Random], Planted | None]] = {
    kind.__name__: kind
    for kind in (
        matter_from_nothing,
        consumed_comes_back,
        frozen_in_the_warm,
        impossible_temperature,
        impossible_place,
        substance_from_nothing,
        another_phase,
        negative_reading,
        contradicting_observation,
        more_than_all,
    )
}
