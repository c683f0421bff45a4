"""Subtle errors of settings: the outcome tells of another setting than the one the action gave."""

import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import Parameter
from simulation.lab.materials import Draft
from simulation.offline.injectors.changes import (
    Case,
    Planted,
    place,
    told,
    with_observation,
    with_property,
    word,
    written_like,
)

_NO_ECHO = ("mass", "phase", "container", "container_capacity")
_VOLUME_OF_ALL = ("elution_volume", "total_volume", "replacement_volume")
_FILTER = ("pore_size", "membrane")
_VOLUME_OF_NEW = ("volume", "amount")
_NEARBY = (Decimal("0.8"), Decimal("0.9"), Decimal("1.1"), Decimal("1.2"))
_COOLER = (-15, -12, -8, 5, 8)


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
            fits += [(parameter, text, where) for where in _mentions(case, parameter, text)]
    if not fits:
        return None
    parameter, text, (index, name) = rng.choice(fits)
    wrong = _other(parameter, text, rng)
    if wrong is None:
        return None
    why = f"{parameter.name.replace('_', ' ')} was set to {text}, and here it is {wrong}"
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


def _mentions(case: Case, parameter: Parameter, text: str) -> Iterator[tuple[int, str]]:
    """Where the outcome tells this text: (place of a material, property), or (-1 - place of an observation, "")."""
    for index, draft in case.drafts():
        for name, value in draft.properties.items():
            if name not in _NO_ECHO and told(text, str(value)) and _sets(parameter, draft, name):
                yield index, name
    known = case.situation.catalogue.find(case.action.name)
    if known and known.echo and parameter.name not in known.echo:
        return  # the record tells other settings, of which one may be equal by chance
    names = [material.name for material in case.inputs()] + [draft.name for draft in case.outcome.new_materials]
    if any(told(text, name) for name in names):
        return  # a record that names such a material says nothing of the setting
    for index, seen in enumerate(case.outcome.new_observations):
        if told(text, seen.description) or told(text, seen.value):
            yield -index - 1, ""


def _sets(parameter: Parameter, draft: Draft, name: str) -> bool:
    """Whether the parameter says what this property becomes: an equal figure elsewhere may well be chance."""
    if name == "filtered through":
        return parameter.name in _FILTER
    if name != "volume":
        return name == parameter.name.replace("_", " ")
    return parameter.name in (_VOLUME_OF_ALL if draft.replaces else _VOLUME_OF_NEW)


def _swap(value: str, text: str, wrong: str) -> str:
    return re.sub(word(text), lambda _: wrong, value)


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
