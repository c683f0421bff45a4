"""Errors in states: what cannot occur together (obvious), and what a step changes or leaves unchanged (subtle)."""

import random
import re
from collections.abc import Sequence
from decimal import Decimal

from simulation.lab import quantities
from simulation.lab.materials import describe_whereabouts
from simulation.offline.injectors import edits, sizes

_FLUID = ("liquid", "suspension", "adherent culture", "pellet and supernatant")
# States that outcomes without an error show too, so that the word alone tells nothing.
_OTHER_PHASES = {
    "tissue": ("liquid", "suspension"),
    "powder": ("liquid", "suspension"),
    "solid": ("liquid", "suspension"),
    "consumable": ("liquid", "suspension"),
    "empty container": ("liquid", "adherent culture"),
    "plate": ("liquid", "suspension"),
    "gel": ("liquid", "suspension"),
}
_CLOUDY = {"liquid": "suspension", "suspension": "liquid", "adherent culture": "suspension"}
_COOKING = (91, 93, 94, 96, 98)  # °C at which no cell of this laboratory survives
_AMOUNT_PROPERTIES = ("volume", "mass", "phase")
_CONTAINER_PROPERTIES = ("container", "container_capacity")
_CLEAR_OR_CLOUDY = {"liquid", "suspension"}
_DRY = ("powder", "solid")
# What is harmed by another place. A mix or a bottle of reagent stands on the bench or in the refrigerator alike.
_HARMED = re.compile(
    r"\b(virus|lentivirus|lentiviral|viral|phage|RNA|mRNA|cells?|neurons|cultures?|coli)\b", re.IGNORECASE
)
# Numbers that say how many, or that bound another number, are no amounts that could be somewhat larger or smaller.
_BOUND = re.compile(
    r"(below|above|under|over|at least|at most|up to|less than|more than|from|to|[<>≤≥~±–-])\s*$", re.IGNORECASE
)
_COUNTED = re.compile(r"\s*(×|x\b|-?fold\b|times\b|fish\b|larvae?\b|embryos?\b|mice\b|rats?\b|pups?\b|animals?\b)")
_DEGREES_OFF = (3.0, 9.0)  # °C, because a factor has no meaning on a scale whose zero is arbitrary
_DETACHING_AGENTS = ("trypsin", "EDTA", "accutase", "dispase")


@edits.plants(edits.OBVIOUS, "matter keeps its state unless something changes it")
def another_phase(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a solid has become a liquid in a step that cannot do so."""
    for material in edits.sample_places(rng, case.materials):
        before = material.before.properties.get("phase") if material.before else material.phase
        for wrong in _OTHER_PHASES.get(material.phase, ()):
            if before not in (wrong, "frozen"):
                explanation = f"{material.name} is {wrong}; after {case.action.name} it is {material.phase}"
                yield explanation, material.change("phase", wrong)


@edits.plants(edits.OBVIOUS, "living cells stay at temperatures that they survive", science=True)
def impossible_temperature(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a temperature would kill the material's cells."""
    candidates = [
        (material, name, text)
        for material in case.materials
        for name, text in material.draft.properties.items()
        if "temperature" in name and edits.parse_amount(text, "temperature")
    ]
    for material, name, text in edits.sample_places(rng, candidates):
        if material.phase not in ("suspension", "adherent culture"):
            continue
        for degrees in _COOKING:
            wrong = quantities.format_quantity(Decimal(degrees), "temperature")
            yield f"{name} is {wrong}, not {text}", material.change(name, wrong)


@edits.plants(edits.OBVIOUS, "drying removes water")
def wet_after_drying(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a dried sample is wet."""
    for reading in case.readings:
        before = None if reading.subject is None else case.all_materials[reading.subject].before
        content = edits.parse_amount(before.properties.get("volume"), "volume") if before else None
        if reading.value == "dry" and content and content.value:
            # In the words of a sample that was dried too short.
            left = quantities.format_quantity(quantities.round_for_display(content.value / 2), "volume")
            wrong = f"still wet, {left} of liquid in it"
            yield f"{reading.description}: {wrong}, after {case.action.name}", reading.change(wrong)


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

    An unchanged liquid becomes cloudy, a suspension becomes clear, or attached cells detach, if another material of the
    step has the wrong phase: a phase that is nowhere else in the step would reveal the error.
    """
    phases = {str(one.properties.get("phase")) for one in case.inputs} | {one.phase for one in case.all_materials}
    for material in edits.sample_places(rng, case.materials):
        right = material.phase
        previous_phase = str(material.before.properties.get("phase")) if material.before else right
        wrong = _CLOUDY.get(right, "") if previous_phase == right else previous_phase
        # With a detaching agent in the medium, loose cells would be plausible.
        agents = [word for name in material.draft.properties for word in _DETACHING_AGENTS if word in name]
        if right == "adherent culture" and agents:
            continue
        # Only what can be seen shows that a liquid and a suspension were taken for each other.
        if {right, wrong} == _CLEAR_OR_CLOUDY and not edits.is_visibly_cloudy(material):
            continue
        # A powder that is dry after a liquid was added is seen at once.
        if wrong in _DRY:
            continue
        if wrong in phases and "frozen" not in (wrong, right) and wrong != "empty container":
            explanation = f"{material.name} is {wrong}; {case.action.name} leaves it {right}"
            yield explanation, material.change("phase", wrong)


@edits.plants(edits.SUBTLE, "a material is where the step leaves it", edits.COMMON)
def wrong_place(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material is not where the action puts it, but where it was or where others of the step are."""
    if "condition" in case.action.parameters:
        yield from _move_elsewhere(case, rng, case.materials)


@edits.plants(edits.SUBTLE, "cells, viruses and RNA are not left where they perish", edits.COMMON, science=True)
def harmful_place(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which cells, viruses or RNA are where others of the step are, which harms them."""
    if "condition" not in case.action.parameters:
        yield from _move_elsewhere(case, rng, [one for one in case.materials if _is_harmed(one)])


def _move_elsewhere(case: edits.Case, rng: random.Random, materials: Sequence[edits.Produced]) -> edits.Errors:
    """Yield errors in which a fluid is in another place that the step shows; any other place would reveal the error."""
    others = {one.environmental_condition for one in case.inputs} | {one.condition for one in case.all_materials}
    for material in edits.sample_places(rng, materials):
        right, before = material.condition, material.before
        for wrong in sorted({*others, *((before.environmental_condition,) if before else ())}):
            if wrong != right and not wrong.startswith(("-", "dry")) and material.phase in _FLUID:
                explanation = f"{material.name} is {describe_whereabouts(wrong)}; {case.action.name} leaves it {describe_whereabouts(right)}"
                yield explanation, material.change_field("environmental_condition", wrong)


def _is_harmed(material: edits.Produced) -> bool:
    """Return whether a material holds cells, viruses or RNA, which do not stand every place."""
    names = (material.name, *material.draft.properties)
    return material.phase == "adherent culture" or any(_HARMED.search(name) for name in names)


@edits.plants(edits.OBVIOUS, "a vessel holds no more than its capacity", edits.COMMON)
def vessel_too_small(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material is in a vessel of the bench that is far too small for it."""
    for material, content in _list_contents(case, rng):
        for vessel, capacity in case.list_vessels():
            holds = edits.parse_amount(capacity, "volume")
            if holds and holds.value * 2 < content.value:
                explanation = f"{material.name} of {material.draft.properties['volume']} is in a vessel of {capacity}"
                changes = [material.change("container_capacity", capacity), material.change("container", vessel)]
                yield explanation, *(changes if rng.random() < 0.5 else reversed(changes))


@edits.plants(edits.SUBTLE, "a material stays in its vessel unless it is moved", edits.COMMON)
def another_vessel(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material is in another vessel of the bench that could hold it, without having been moved."""
    for material, content in _list_contents(case, rng):
        right = str(material.draft.properties["container"])
        if material.before is None or material.before.properties.get("container") != right:
            continue
        for vessel, capacity in case.list_vessels():
            holds = edits.parse_amount(capacity, "volume")
            # A vessel smaller than its contents would be an obvious error.
            if vessel != right and holds and content.value <= holds.value:
                changes = material.change("container", vessel), material.change("container_capacity", capacity)
                if changes[1].old != capacity:
                    yield f"{material.name} is in a {vessel}; it is still in a {right}", *changes


def _list_contents(case: edits.Case, rng: random.Random) -> list[tuple[edits.Produced, quantities.Quantity]]:
    """Return a sample of the materials in a vessel, each with its volume."""
    held = [
        (material, content)
        for material in case.materials
        if {"container", "container_capacity"} <= material.draft.properties.keys()
        if (content := edits.parse_amount(material.draft.properties.get("volume"), "volume"))
    ]
    return edits.sample_places(rng, held)


@edits.plants(edits.SUBTLE, "what a step does not touch stays", edits.COMMON)
def unasked_change(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a number in a property that the step does not change is another one afterwards."""
    candidates = [
        (material, name, str(value), match)
        for material, before in case.continued
        for name, value in material.draft.properties.items()
        if name not in (*_AMOUNT_PROPERTIES, *_CONTAINER_PROPERTIES, "medium", "lanes", "pH", "well", "history")
        and before.properties.get(name) == value
        if not (name.endswith(" concentration") and case.action.name in edits.REACTING)
        for match in edits.NUMBER.finditer(str(value))
        if not _BOUND.search(str(value)[: match.start()]) and not _COUNTED.match(str(value)[match.end() :])
    ]
    for material, name, value, match in edits.sample_places(rng, candidates):
        for factor in sizes.draw_factors(case.sizes, rng):
            number = _change_label(Decimal(match[0]), value[match.end() :], factor, rng)
            # Labels have no padded digits, unlike the displays of instruments.
            text = quantities.write_digits(number.normalize())
            wrong = value[: match.start()] + text + value[match.end() :]
            # A percentage must not rise above 100: that would be an obvious error.
            if value[match.end() :].startswith(" %") and number > 100:
                continue
            right = f"it was {value} and {case.action.name} leaves it so"
            yield f"{name} of {material.name} is {wrong}; {right}", material.change(name, wrong)


def _change_label(right: Decimal, rest: str, factor: Decimal, rng: random.Random) -> Decimal:
    """Return the number of a label times the factor, or some degrees off; a whole number stays one."""
    if rest.startswith(" °C"):
        distance = Decimal(str(round(rng.uniform(*_DEGREES_OFF), 1)))
        return (right + distance if factor > 1 else right - distance).quantize(right)
    wrong = sizes.round_to_digits(right * factor, max(2, sizes.count_significant_digits(right)))
    return wrong.to_integral_value() if right == right.to_integral_value() else wrong
