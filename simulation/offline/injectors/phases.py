"""Obvious errors in states: phases, temperatures and storage conditions that cannot occur together."""

import random
from collections.abc import Iterator

from simulation.lab import quantities
from simulation.offline.injectors.edits import (
    Case,
    Plan,
    edit_material,
    edit_property,
    edit_value,
    parse_amount,
    sample_places,
)

_WARM_AIR = ("room_temp", "incubating_conditions", "cell_culture_conditions")
_WARM = ("room_temp", "4C", "ice", "incubating_conditions", "cell_culture_conditions")
_COLD = ("-80C", "-196C", "dry_ice")
_FLUID = ("liquid", "suspension", "adherent culture", "pellet and supernatant")
_FLOWING, _DRY = ("liquid", "suspension"), ("powder", "solid", "tissue")
_OTHER_PHASES = {
    **dict.fromkeys(_FLUID, ("powder", "solid", "tissue")),
    **dict.fromkeys(_DRY, _FLOWING),
    "pellet": _FLOWING,
    "gel": ("liquid", "powder"),
    "consumable": ("suspension", "liquid", "powder"),
    "empty container": ("liquid", "powder", "adherent culture"),
    "plate": ("liquid", "powder"),
}
_ABSURD_TEMPERATURES = (-340, -310, 410, 640, 870)  # °C; the first two are below absolute zero
# °C at which no cell of this laboratory survives.
_COOKING = (91, 93, 94, 96, 98)


def frozen_in_the_warm(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a liquid in a warm place is frozen, or a frozen material is in a warm place."""
    for index, draft in sample_places(rng, list(case.iter_available())):
        rule, where = "a watery liquid is not frozen above 0 °C", draft.environmental_condition
        phase = draft.properties.get("phase")
        if phase in _FLUID and where in _WARM_AIR and not _mentions_ice(case, index):
            explanation = f"{draft.name} is frozen at condition {where}, and no step froze it"
            yield Plan(rule, explanation, (edit_property(index, draft, "phase", "frozen"),))
        if phase == "frozen" and where not in _WARM_AIR:
            # Incubators only: at room temperature a frozen material could be about to thaw.
            for wrong in _WARM_AIR[1:]:
                explanation = f"{draft.name} is frozen at condition {wrong}; the step leaves it at {where}"
                yield Plan(rule, explanation, (edit_material(index, draft, "environmental_condition", wrong),))


def _mentions_ice(case: Case, material_index: int) -> bool:
    return any(
        "ice" in observation.value
        for index, observation in case.iter_observations()
        if case.subject_indexes[index] == material_index
    )


def another_phase(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a liquid has become a powder, or a solid a liquid, in a step that cannot do so."""
    for index, draft in sample_places(rng, list(case.iter_available())):
        before = case.find_previous(draft)
        right = str(draft.properties.get("phase"))
        for wrong in _OTHER_PHASES.get(right, ()):
            if before is None or before.properties.get("phase") != wrong:
                explanation = f"{draft.name} is {wrong}; after {case.action.name} it is {right}"
                rule = "matter keeps its state unless something changes it"
                yield Plan(rule, explanation, (edit_property(index, draft, "phase", wrong),))


def impossible_temperature(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a temperature is one that no bench reaches, or that would kill the material's cells."""
    candidates = [
        (index, draft, name)
        for index, draft in case.iter_available()
        for name, text in draft.properties.items()
        if "temperature" in name and parse_amount(text, "temperature")
    ]
    for index, draft, name in sample_places(rng, candidates):
        living = draft.properties.get("phase") in ("suspension", "adherent culture")
        for degrees in (*_ABSURD_TEMPERATURES, *(_COOKING if living else ())):
            wrong = quantities.format_quantity(
                quantities.parse_quantity(f"{degrees} °C", "temperature").value, "temperature"
            )
            explanation = f"{name} is {wrong}, not {draft.properties[name]}"
            rule = "temperatures stay within what can be, and what lives within what it survives"
            yield Plan(rule, explanation, (edit_property(index, draft, name, wrong),))


def impossible_place(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a liquid is in deep cold although no step put it there, and is still liquid."""
    for index, draft in sample_places(rng, list(case.iter_available())):
        if draft.environmental_condition not in _WARM or draft.properties.get("phase") not in _FLUID:
            continue
        for wrong in _COLD:
            right = draft.environmental_condition
            explanation = (
                f"{draft.name} is {draft.properties['phase']} at {wrong}; {case.action.name} leaves it at {right}"
            )
            rule = "nothing changes its place by itself, nor stays liquid in the deep cold"
            yield Plan(rule, explanation, (edit_material(index, draft, "environmental_condition", wrong),))


def wet_after_drying(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a dried sample is wet."""
    for index, observation in case.iter_observations():
        if observation.value == "dry":
            explanation = f"{observation.description}: wet, after {case.action.name}"
            yield Plan("water leaves what is dried", explanation, (edit_value(index, observation, "wet"),))


INJECTORS = (frozen_in_the_warm, another_phase, impossible_temperature, impossible_place, wet_after_drying)
