"""Subtle errors in states: something that the step changes is as before, or something that it leaves has changed."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.injectors.edits import (
    COMMON,
    NUMBER,
    OBVIOUS,
    SCARCE,
    SUBTLE,
    Case,
    Plan,
    edit_material,
    edit_property,
    edit_value,
    is_mentioned,
    parse_amount,
    plants,
    replace_mentions,
    sample_places,
)

_AMOUNT_PROPERTIES = ("volume", "mass", "phase")
_CONTAINER_PROPERTIES = ("container", "container_capacity")
_COOL_CONDITIONS = ("4C", "ice")
_INCUBATORS = ("incubating_conditions", "cell_culture_conditions")
_WET_PHASES = ("liquid", "suspension", "adherent culture", "pellet and supernatant")
_DETACHING_AGENTS = ("trypsin", "EDTA", "accutase", "dispase")
_REACTING = ("Thermocycler", "qPCR", "CellCultureIncubate", "Incubate", "Wait", "Storage")
# The two texts that a handler records after warming; see `handlers/thermal.py`.
_THAWED, _FROZEN = "no ice left", "still ice in it"
_CLOUDY = {"liquid": "suspension", "suspension": "liquid", "adherent culture": "suspension"}
_VESSEL_SIZES = ("0.2", "0.5", "1.5", "2", "5", "10", "15", "25", "50", "75", "100", "150", "200", "250", "500")


@plants(SUBTLE)
def frozen_reagent_used(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a cold reagent is frozen although the step has drawn some of it as a liquid."""
    candidates = [
        (index, draft)
        for index, draft, before in case.iter_continued()
        if draft.properties.get("phase") == "liquid" and draft.environmental_condition in _COOL_CONDITIONS
        if (current := parse_amount(draft.properties.get("volume"), "volume"))
        and (previous := parse_amount(before.properties.get("volume"), "volume"))
        and current.value < previous.value
    ]
    for index, draft in sample_places(rng, candidates):
        explanation = f"{draft.name} is frozen, yet a liquid volume was drawn from it in this step"
        yield Plan(
            "a reagent is thawed before it is used", explanation, (edit_property(index, draft, "phase", "frozen"),)
        )


@plants(SUBTLE, SCARCE)
def not_thawed(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a material is still frozen although the step was long enough to thaw it."""
    for index, draft, before in case.iter_continued():
        if before.properties.get("phase") == "frozen" and draft.properties.get("phase") in ("liquid", "suspension"):
            edits = [edit_property(index, draft, "phase", "frozen")]
            edits += [
                edit_value(other, observation, _FROZEN)
                for other, observation in case.iter_observations()
                if observation.value == _THAWED and case.subject_indexes[other] == index
            ]
            explanation = f"{draft.name} is frozen still; {case.action.name} leaves it {draft.properties['phase']}"
            yield Plan("what is warmed long enough thaws", explanation, tuple(edits))


@plants(SUBTLE)
def stale_property(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a property that the step changes still has its previous value."""
    candidates = [
        (index, draft, name, str(before.properties[name]))
        for index, draft, before in case.iter_continued()
        for name, value in draft.properties.items()
        if name not in (*_AMOUNT_PROPERTIES, *_CONTAINER_PROPERTIES)
        and str(before.properties.get(name, value)) != str(value)
        if not _is_same_amount(str(before.properties[name]), str(value))
    ]
    for index, draft, name, stale in sample_places(rng, candidates):
        explanation = f"{name} of {draft.name} is {stale} as before; this step makes it {draft.properties[name]}"
        yield Plan(
            "what a step changes is changed afterwards", explanation, (edit_property(index, draft, name, stale),)
        )


def _is_same_amount(first_text: str, second_text: str) -> bool:
    """Return whether two amounts differ by less than 2 %, too little to be noticed.

    For texts that are not amounts, return whether the second contains the first.
    """
    for dimension in ("mass_concentration", "molar_concentration", "number_density", "ratio", "temperature"):
        first, second = parse_amount(first_text, dimension), parse_amount(second_text, dimension)
        if first and second:
            return abs(first.value - second.value) * 50 < abs(second.value)
    return first_text in second_text


@plants(SUBTLE, COMMON)
def wrong_phase(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which the step's change of phase is missing, or an unchanged phase has changed.

    An unchanged liquid becomes cloudy, a suspension becomes clear, or attached cells detach.
    """
    for index, draft in sample_places(rng, list(case.iter_available())):
        right, before = str(draft.properties.get("phase")), case.find_previous(draft)
        previous_phase = str(before.properties.get("phase")) if before else right
        wrong = _CLOUDY.get(right, "") if previous_phase == right else previous_phase
        # With a detaching agent in the medium, loose cells would be plausible.
        if right == "adherent culture" and any(word in name for name in draft.properties for word in _DETACHING_AGENTS):
            continue
        if wrong and "frozen" not in (wrong, right) and wrong != "empty container":
            explanation = f"{draft.name} is {wrong}; {case.action.name} leaves it {right}"
            rule = "particles and cells are dispersed, settled or attached only by what does so"
            yield Plan(rule, explanation, (edit_property(index, draft, "phase", wrong),))


@plants(SUBTLE, COMMON)
def wrong_place(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a material is where it was before the step moved it, or in an incubator without reason."""
    for index, draft in sample_places(rng, list(case.iter_available())):
        right, before = draft.environmental_condition, case.find_previous(draft)
        for wrong in (*_INCUBATORS, *((before.environmental_condition,) if before else ())):
            if wrong != right and not wrong.startswith(("-", "dry")) and draft.properties.get("phase") in _WET_PHASES:
                explanation = f"{draft.name} is at {wrong}; {case.action.name} leaves it at {right}"
                rule = "a material is where the step leaves it"
                yield Plan(rule, explanation, (edit_material(index, draft, "environmental_condition", wrong),))


@plants(SUBTLE, COMMON)
def another_vessel(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a material is in a vessel of another size, although the step did not move it."""
    for index, draft, before in sample_places(rng, list(case.iter_continued())):
        capacity, vessel = (
            str(draft.properties.get("container_capacity", "")),
            str(draft.properties.get("container", "")),
        )
        if not is_mentioned(capacity, vessel) or before.properties.get("container") != vessel:
            continue
        number, _, unit = capacity.partition(" ")
        content = parse_amount(draft.properties.get("volume"), "volume")
        for size in _VESSEL_SIZES if number in _VESSEL_SIZES else ():
            wrong = f"{size} {unit}"
            holds = parse_amount(wrong, "volume")
            # A vessel smaller than its contents would be an obvious error.
            if size != number and holds and (content is None or content.value <= holds.value):
                edits = (
                    edit_property(index, draft, "container_capacity", wrong),
                    edit_property(index, draft, "container", replace_mentions(vessel, capacity, wrong)),
                )
                explanation = f"{draft.name} is in a vessel of {wrong}; it was and is in one of {capacity}"
                yield Plan("a material stays in its vessel unless it is moved", explanation, edits)


@plants(SUBTLE, COMMON)
def unasked_change(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a number in a property that the step does not change is another one afterwards."""
    candidates = [
        (index, draft, name, match)
        for index, draft, before in case.iter_continued()
        for name, value in draft.properties.items()
        if name not in (*_AMOUNT_PROPERTIES, *_CONTAINER_PROPERTIES, "medium", "lanes")
        and before.properties.get(name) == value
        if not (name.endswith(" concentration") and case.action.name in _REACTING)
        for match in NUMBER.finditer(str(value))
    ]
    for index, draft, name, match in sample_places(rng, candidates):
        value = str(draft.properties[name])
        for figure in _list_other_numbers(match[0]):
            wrong = value[: match.start()] + figure + value[match.end() :]
            explanation = f"{name} of {draft.name} is {wrong}; it was {value} and {case.action.name} leaves it so"
            yield Plan("what a step does not touch stays", explanation, (edit_property(index, draft, name, wrong),))


def _list_other_numbers(number: str) -> list[str]:
    """Return numbers with another first non-zero digit: 0.42 and others for 0.22, 76 and others for 96."""
    first = re.search("[1-9]", number)
    if not first:
        return []
    others = [number[: first.start()] + digit + number[first.end() :] for digit in "123456789" if digit != first[0]]
    # A percentage must not rise above 100: that would be an obvious error.
    return [other for other in others if abs(Decimal(other)) <= 100 or abs(Decimal(number)) > 100]


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


@plants(OBVIOUS, COMMON)
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


@plants(OBVIOUS, COMMON)
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


@plants(OBVIOUS, SCARCE)
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


@plants(OBVIOUS, COMMON)
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


@plants(OBVIOUS)
def wet_after_drying(case: Case, rng: random.Random) -> Iterator[Plan]:
    """Yield errors in which a dried sample is wet."""
    for index, observation in case.iter_observations():
        if observation.value == "dry":
            explanation = f"{observation.description}: wet, after {case.action.name}"
            yield Plan("water leaves what is dried", explanation, (edit_value(index, observation, "wet"),))
