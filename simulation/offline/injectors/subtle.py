"""Subtle errors (Error Type 2): each outcome looks like a good one and is wrong in a single figure or setting.

Each kind looks at a case and gives its planted error, or None where it does not apply.
"""

import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import Parameter
from simulation.lab.materials import Draft, Material
from simulation.offline.injectors.changes import (
    Case,
    Planted,
    amount,
    concentrations,
    place,
    with_field,
    with_observation,
    with_property,
    written_like,
)

_NOT_STALE = ("volume", "mass", "phase", "container", "container_capacity")
_NEARBY = (Decimal("0.8"), Decimal("0.9"), Decimal("1.1"), Decimal("1.2"))
_COOLER = (-15, -12, -8, 5, 8)


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
        for source in case.inputs()
        if (full := concentrations(source.properties).get(name)) and full.dimension == right.dimension
        if full.value > right.value * Decimal("1.5") and (slipped := _slipped(full.value, right.value)) != right.value
    ]
    if not fits:
        return None
    index, name, right, slipped = rng.choice(fits)
    shown = case.outcome.new_materials[index].properties[name]
    wrong = written_like(shown, slipped, right.dimension)
    if wrong == shown:
        return None
    outcome = with_property(case.outcome, index, **{name: wrong})
    why = f"{name} is {wrong}; the amount taken over the total volume is {shown}"
    return Planted(outcome, "a concentration is the amount over the total volume", place(index, name), why)


def _slipped(full: Decimal, right: Decimal) -> Decimal:
    # right = full * v / V, so full * v / (V - v) = full * right / (full - right)
    return full * right / (full - right)


def off_by_ten(case: Case, rng: random.Random) -> Planted | None:
    """A concentration with the point one place off, downwards, so that no input was weaker than the output."""
    fits = [
        (i, name, quantity)
        for i, d in case.drafts()
        for name, quantity in concentrations(d.properties).items()
        if quantity.dimension != "ratio"
    ]
    if not fits:
        return None
    index, name, right = rng.choice(fits)
    shown = case.outcome.new_materials[index].properties[name]
    wrong = written_like(shown, right.value / 10, right.dimension)
    outcome = with_property(case.outcome, index, **{name: wrong})
    why = f"{name} is {wrong}; computed from what went in it is {shown}, ten times that"
    return Planted(outcome, "amounts balance", place(index, name), why)


def wrong_setting(case: Case, rng: random.Random) -> Planted | None:
    """A record or material names another objective, wavelength, filter, column or time than the one that was set."""
    return _echo(case, rng, lambda parameter: parameter.dimension != "temperature", "what was set is what was done")


def wrong_temperature(case: Case, rng: random.Random) -> Planted | None:
    """A record or material tells of another temperature than the one that was set."""
    return _echo(
        case, rng, lambda parameter: parameter.dimension == "temperature", "the temperature set is the one held"
    )


def _echo(case: Case, rng: random.Random, wanted: Callable[[Parameter], bool], rule: str) -> Planted | None:
    known = case.situation.catalogue.find(case.action.name)
    parameters = (
        [p for p in known.parameters if p.type in ("select", "range_with_units") and wanted(p)] if known else []
    )
    fits = []
    for parameter in parameters:
        written = case.action.parameters.get(parameter.name, parameter.default)
        for text in _spellings(parameter, written):
            fits += [(parameter, text, where) for where in _mentions(case, text)]
    if not fits:
        return None
    parameter, text, (index, name) = rng.choice(fits)
    wrong = _other(parameter, text, rng)
    if wrong is None:
        return None
    why = f"{parameter.name} was set to {text}, and here it is {wrong}"
    if index < 0:
        return _misread(case, -index - 1, text, wrong, rule, why)
    old = str(case.outcome.new_materials[index].properties[name])
    outcome = with_property(case.outcome, index, **{name: _swap(old, text, wrong)})
    return Planted(outcome, rule, place(index, name), why)


def _misread(case: Case, index: int, text: str, wrong: str, rule: str, why: str) -> Planted:
    """Every observation of the step that tells the setting tells the wrong one: the record agrees with itself."""
    outcome = case.outcome
    for other, seen in enumerate(case.outcome.new_observations):
        fields = {"description": _swap(seen.description, text, wrong), "value": _swap(seen.value, text, wrong)}
        outcome = with_observation(outcome, other, **fields)
    return Planted(outcome, rule, f"new_observations[{index}].description", why)


def _spellings(parameter: Parameter, written: Any) -> list[str]:
    """How a setting may stand in a record: as written by the agent, and as our own formats write it."""
    if not isinstance(written, str):
        return []
    if parameter.type == "select":
        return [written]
    value = quantities.parse(written, parameter.dimension).value
    own_unit = quantities.unit(written, parameter.dimension)
    forms = (
        written,
        quantities.show(value, parameter.dimension, own_unit),
        quantities.show(value, parameter.dimension),
    )
    return list(dict.fromkeys(forms))


def _mentions(case: Case, text: str) -> Iterator[tuple[int, str]]:
    """Where the outcome tells this text: (place of a material, property), or (-1 - place of an observation, "")."""
    for index, draft in case.drafts():
        for name, value in draft.properties.items():
            if name not in _NOT_STALE and _told(text, str(value)):
                yield index, name
    for index, seen in enumerate(case.outcome.new_observations):
        if _told(text, seen.description) or _told(text, seen.value):
            yield -index - 1, ""


def _told(text: str, value: str) -> bool:
    return re.search(_whole(text), value) is not None


def _swap(value: str, text: str, wrong: str) -> str:
    return re.sub(_whole(text), lambda _: wrong, value)


def _whole(text: str) -> str:
    return rf"(?<![\w.-]){re.escape(text)}(?!\w)"


def _other(parameter: Parameter, text: str, rng: random.Random) -> str | None:
    if parameter.type == "select":
        others = [option for option in parameter.options if option != text]
        return rng.choice(others) if others else None
    right = quantities.parse(text, parameter.dimension).value
    temperature = parameter.dimension == "temperature"
    nearby = [right + step for step in _COOLER] if temperature else [right * factor for factor in _NEARBY]
    low, high = parameter.read(parameter.minimum), parameter.read(parameter.maximum)
    written = [written_like(text, value, parameter.dimension) for value in nearby if low <= value <= high]
    written = [other for other in written if other != text]
    return rng.choice(written) if written else None


def frozen_reagent_used(case: Case, rng: random.Random) -> Planted | None:
    """The reagent a liquid was just drawn from stands there frozen in its cold place."""
    fits = [
        (i, d)
        for i, d, before in _continued(case)
        if d.properties.get("phase") == "liquid" and _less(d, before, "volume") and "temperature" not in d.properties
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
        if name not in _NOT_STALE and before.properties.get(name, value) != value
    ]
    if not fits:
        return None
    index, draft, name, stale = rng.choice(fits)
    outcome = with_property(case.outcome, index, **{name: stale})
    why = f"{name} of {draft.name} is {stale} as before; this step makes it {draft.properties[name]}"
    return Planted(outcome, "what a step changes is changed afterwards", place(index, name), why)


def reading_off(case: Case, rng: random.Random) -> Planted | None:
    """An instrument reads a volume or mass a good part away from what lies on the bench."""
    known = [
        quantity
        for _, d in case.drafts()
        for name in ("volume", "mass")
        if (quantity := amount(d.properties.get(name), name))
    ]
    fits = [
        (i, reading, near)
        for i, seen in enumerate(case.outcome.new_observations)
        for near in known
        if (reading := amount(seen.value, near.dimension)) and abs(reading.value - near.value) * 20 < near.value
    ]
    if not fits:
        return None
    index, reading, near = rng.choice(fits)
    seen = case.outcome.new_observations[index]
    wrong = written_like(seen.value, reading.value * rng.choice((Decimal("0.82"), Decimal("1.23"))), near.dimension)
    outcome = with_observation(
        case.outcome, index, value=wrong, description=seen.description.replace(seen.value, wrong)
    )
    why = f"the reading is {wrong}, the material holds {quantities.show(near.value, near.dimension)}"
    return Planted(outcome, "readings and materials agree", f"new_observations[{index}].value", why)


KINDS: dict[str, Callable[[Case, random.Random], Planted | None]] = {
    kind.__name__: kind
    for kind in (
        residual_not_reduced,
        dilution_slip,
        off_by_ten,
        wrong_setting,
        wrong_temperature,
        frozen_reagent_used,
        stale_property,
        reading_off,
    )
}
