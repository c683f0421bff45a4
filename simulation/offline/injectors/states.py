"""Errors in states: what cannot occur together (obvious), and what a step changes or leaves unchanged (subtle)."""

import random
import re
from decimal import Decimal

from simulation.lab import quantities
from simulation.lab.materials import describe_whereabouts
from simulation.offline.injectors import edits

_INCUBATORS = ("incubating_conditions", "cell_culture_conditions")
_WARM_AIR = ("room_temp", *_INCUBATORS)
_COOL = ("4C", "ice")
_WARM = (*_WARM_AIR, *_COOL)
_COLD = ("-80C", "-196C", "dry_ice")
_FLUID = ("liquid", "suspension", "adherent culture", "pellet and supernatant")
_FLOWING, _DRY = ("liquid", "suspension"), ("powder", "solid", "tissue")
_OTHER_PHASES = {
    **dict.fromkeys(_FLUID, _DRY),
    **dict.fromkeys(_DRY, _FLOWING),
    "pellet": _FLOWING,
    "gel": ("liquid", "powder"),
    "consumable": ("suspension", "liquid", "powder"),
    "empty container": ("liquid", "powder", "adherent culture"),
    "plate": ("liquid", "powder"),
}
_CLOUDY = {"liquid": "suspension", "suspension": "liquid", "adherent culture": "suspension"}
_ABSURD_TEMPERATURES = (-340, -310, 410, 640, 870)  # °C; the first two are below absolute zero
_COOKING = (91, 93, 94, 96, 98)  # °C at which no cell of this laboratory survives
_AMOUNT_PROPERTIES = ("volume", "mass", "phase")
_CONTAINER_PROPERTIES = ("container", "container_capacity")
_DETACHING_AGENTS = ("trypsin", "EDTA", "accutase", "dispase")
# The two texts that a handler records after warming; see `handlers/thermal.py`.
_THAWED, _FROZEN = "no ice left", "still ice in it"
_VESSEL_SIZES = ("0.2", "0.5", "1.5", "2", "5", "10", "15", "25", "50", "75", "100", "150", "200", "250", "500")


@edits.plants(edits.OBVIOUS, "a watery liquid is not frozen above 0 °C", edits.COMMON)
def frozen_in_the_warm(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a liquid in a warm place is frozen, or a frozen material is in a warm place."""
    for material in edits.sample_places(rng, case.materials):
        name, where = material.name, material.condition
        mentions_ice = any("ice" in reading.value for reading in case.list_readings_of(material))
        if material.phase in _FLUID and where in _WARM_AIR and not mentions_ice:
            yield (
                f"{name} is frozen {describe_whereabouts(where)}, and no step froze it",
                material.change("phase", "frozen"),
            )
        if material.phase == "frozen" and where not in _WARM_AIR:
            # Incubators only: at room temperature a frozen material could be about to thaw.
            for wrong in _INCUBATORS:
                is_at, was_at = describe_whereabouts(wrong), describe_whereabouts(where)
                explanation = f"{name} is frozen {is_at}; the step leaves it {was_at}"
                yield explanation, material.change_field("environmental_condition", wrong)


@edits.plants(edits.OBVIOUS, "matter keeps its state unless something changes it", edits.COMMON)
def another_phase(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a liquid has become a powder, or a solid a liquid, in a step that cannot do so."""
    for material in edits.sample_places(rng, case.materials):
        for wrong in _OTHER_PHASES.get(material.phase, ()):
            if material.before is None or material.before.properties.get("phase") != wrong:
                explanation = f"{material.name} is {wrong}; after {case.action.name} it is {material.phase}"
                yield explanation, material.change("phase", wrong)


@edits.plants(
    edits.OBVIOUS, "temperatures stay within what can be, and what lives within what it survives", edits.SCARCE
)
def impossible_temperature(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a temperature is one that no bench reaches, or that would kill the material's cells."""
    candidates = [
        (material, name, text)
        for material in case.materials
        for name, text in material.draft.properties.items()
        if "temperature" in name and edits.parse_amount(text, "temperature")
    ]
    for material, name, text in edits.sample_places(rng, candidates):
        living = material.phase in ("suspension", "adherent culture")
        for degrees in (*_ABSURD_TEMPERATURES, *(_COOKING if living else ())):
            wrong = quantities.format_quantity(Decimal(degrees), "temperature")
            yield f"{name} is {wrong}, not {text}", material.change(name, wrong)


@edits.plants(edits.OBVIOUS, "nothing changes its place by itself, nor stays liquid in the deep cold", edits.COMMON)
def impossible_place(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a liquid is in deep cold although no step put it there, and is still liquid."""
    for material in edits.sample_places(rng, case.materials):
        if material.condition in _WARM and material.phase in _FLUID:
            for wrong in _COLD:
                right = f"{case.action.name} leaves it {describe_whereabouts(material.condition)}"
                explanation = f"{material.name} is {material.phase} {describe_whereabouts(wrong)}; {right}"
                yield explanation, material.change_field("environmental_condition", wrong)


@edits.plants(edits.OBVIOUS, "water leaves what is dried")
def wet_after_drying(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a dried sample is wet."""
    for reading in case.readings:
        if reading.value == "dry":
            yield f"{reading.description}: wet, after {case.action.name}", reading.change("wet")


@edits.plants(edits.SUBTLE, "a reagent is thawed before it is used")
def frozen_reagent_used(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a cold reagent is frozen although the step has drawn some of it as a liquid."""
    candidates = [
        material
        for material, before in case.continued
        if material.phase == "liquid" and material.condition in _COOL
        if (current := edits.parse_amount(material.draft.properties.get("volume"), "volume"))
        and (previous := edits.parse_amount(before.properties.get("volume"), "volume"))
        and current.value < previous.value
    ]
    for material in edits.sample_places(rng, candidates):
        explanation = f"{material.name} is frozen, yet a liquid volume was drawn from it in this step"
        yield explanation, material.change("phase", "frozen")


@edits.plants(edits.SUBTLE, "what is warmed long enough thaws", edits.SCARCE)
def not_thawed(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material is still frozen although the step was long enough to thaw it."""
    for material, before in case.continued:
        if before.properties.get("phase") == "frozen" and material.phase in _FLOWING:
            records = [reading for reading in case.list_readings_of(material) if reading.value == _THAWED]
            explanation = f"{material.name} is frozen still; {case.action.name} leaves it {material.phase}"
            changes = [material.change("phase", "frozen"), *(reading.change(_FROZEN) for reading in records)]
            yield explanation, *changes


@edits.plants(edits.SUBTLE, "what a step changes is changed afterwards")
def stale_property(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a property that the step changes still has its previous value."""
    candidates = [
        (material, name, str(before.properties[name]), str(value))
        for material, before in case.continued
        for name, value in material.draft.properties.items()
        if name not in (*_AMOUNT_PROPERTIES, *_CONTAINER_PROPERTIES)
        and str(before.properties.get(name, value)) != str(value)
        if not _is_same_amount(str(before.properties[name]), str(value))
    ]
    for material, name, stale, right in edits.sample_places(rng, candidates):
        explanation = f"{name} of {material.name} is {stale} as before; this step makes it {right}"
        yield explanation, material.change(name, stale)


def _is_same_amount(first_text: str, second_text: str) -> bool:
    """Return whether two amounts differ by less than 2 %; of other texts, whether the second contains the first."""
    for dimension in ("mass_concentration", "molar_concentration", "number_density", "ratio", "temperature"):
        first, second = edits.parse_amount(first_text, dimension), edits.parse_amount(second_text, dimension)
        if first and second:
            return abs(first.value - second.value) * 50 < abs(second.value)
    return first_text in second_text


@edits.plants(edits.SUBTLE, "particles and cells are dispersed, settled or attached only by what does so", edits.COMMON)
def wrong_phase(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the step's change of phase is missing, or an unchanged phase has changed.

    An unchanged liquid becomes cloudy, a suspension becomes clear, or attached cells detach.
    """
    for material in edits.sample_places(rng, case.materials):
        right = material.phase
        previous_phase = str(material.before.properties.get("phase")) if material.before else right
        wrong = _CLOUDY.get(right, "") if previous_phase == right else previous_phase
        # With a detaching agent in the medium, loose cells would be plausible.
        agents = [word for name in material.draft.properties for word in _DETACHING_AGENTS if word in name]
        if right == "adherent culture" and agents:
            continue
        if wrong and "frozen" not in (wrong, right) and wrong != "empty container":
            explanation = f"{material.name} is {wrong}; {case.action.name} leaves it {right}"
            yield explanation, material.change("phase", wrong)


@edits.plants(edits.SUBTLE, "a material is where the step leaves it", edits.COMMON)
def wrong_place(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material is where it was before the step moved it, or in an incubator without reason."""
    for material in edits.sample_places(rng, case.materials):
        right, before = material.condition, material.before
        for wrong in (*_INCUBATORS, *((before.environmental_condition,) if before else ())):
            if wrong != right and not wrong.startswith(("-", "dry")) and material.phase in _FLUID:
                explanation = f"{material.name} is {describe_whereabouts(wrong)}; {case.action.name} leaves it {describe_whereabouts(right)}"
                yield explanation, material.change_field("environmental_condition", wrong)


@edits.plants(edits.SUBTLE, "a material stays in its vessel unless it is moved", edits.COMMON)
def another_vessel(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material is in a vessel of another size, although the step did not move it."""
    for material, before in edits.sample_places(rng, case.continued):
        capacity, vessel = (
            str(material.draft.properties.get(name, "")) for name in ("container_capacity", "container")
        )
        if not edits.is_mentioned(capacity, vessel) or before.properties.get("container") != vessel:
            continue
        number, _, unit = capacity.partition(" ")
        content = edits.parse_amount(material.draft.properties.get("volume"), "volume")
        for size in _VESSEL_SIZES if number in _VESSEL_SIZES else ():
            wrong = f"{size} {unit}"
            holds = edits.parse_amount(wrong, "volume")
            # A vessel smaller than its contents would be an obvious error.
            if size != number and holds and (content is None or content.value <= holds.value):
                explanation = f"{material.name} is in a vessel of {wrong}; it was and is in one of {capacity}"
                container = material.change("container", edits.replace_mentions(vessel, capacity, wrong))
                yield explanation, material.change("container_capacity", wrong), container


@edits.plants(edits.SUBTLE, "what a step does not touch stays", edits.COMMON)
def unasked_change(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a number in a property that the step does not change is another one afterwards."""
    candidates = [
        (material, name, str(value), match)
        for material, before in case.continued
        for name, value in material.draft.properties.items()
        if name not in (*_AMOUNT_PROPERTIES, *_CONTAINER_PROPERTIES, "medium", "lanes")
        and before.properties.get(name) == value
        if not (name.endswith(" concentration") and case.action.name in edits.REACTING)
        for match in edits.NUMBER.finditer(str(value))
    ]
    for material, name, value, match in edits.sample_places(rng, candidates):
        for figure in _list_other_numbers(match[0]):
            wrong = value[: match.start()] + figure + value[match.end() :]
            right = f"it was {value} and {case.action.name} leaves it so"
            yield f"{name} of {material.name} is {wrong}; {right}", material.change(name, wrong)


def _list_other_numbers(number: str) -> list[str]:
    """Return numbers with another first non-zero digit: 0.42 and others for 0.22, 76 and others for 96."""
    first = re.search("[1-9]", number)
    if not first:
        return []
    others = [number[: first.start()] + digit + number[first.end() :] for digit in "123456789" if digit != first[0]]
    # A percentage must not rise above 100: that would be an obvious error.
    return [other for other in others if abs(Decimal(other)) <= 100 or abs(Decimal(number)) > 100]
