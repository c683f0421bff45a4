"""Errors in plain steps such as transfers: states, places and availability that no handling gives, and impossible sources."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from simulation.lab.materials import AVAILABLE, NOT_AVAILABLE, Material, describe_whereabouts
from simulation.offline.injectors import edits
from simulation.offline.injectors.names import choose_like_names, count_digits, list_notes

_FLUIDS = ("liquid", "suspension", "adherent culture")
_NOT_FLUID = ("frozen", "powder", "solid", "gel", "empty container")
_FREEZERS = ("-20C", "-80C", "-196C", "dry_ice")
_LIVING = ("adherent culture", "suspension")
# Actions that freeze, store or dry: there a solid state or a cold place is what the step is for.
_STATE_CHANGING = (
    "Storage", "FlashFreeze", "FreezeCells", "Lyophilize", "Evaporate", "DryingOven", "Desiccate", "Incubate", "Wait",
    "CellCultureIncubate", "Thermocycler", "Centrifuge",
)  # fmt: skip
_CRYOPROTECTANT = re.compile(r"DMSO|dimethyl sulfoxide|glycerol|freezing medium", re.IGNORECASE)
_CELLS = re.compile(r"cell type|cells (amount|concentration)|\bculture\b|isolate", re.IGNORECASE)
_MOST_MARKS = 2  # by which a wrong source may have more or fewer punctuation marks than the right one
_HARM_SKIPPED = 0.5
_EMPTY_SKIPPED = 0.93
_LEFT = Decimal("0.5")  # share of what a material held before the step that is plenty for further use
_CLOUDY_WORDS = ("turbid", "cloudy", "violet", "brown", "amber", "white", "red", "yellow", "green", "colourless")


@edits.plants(edits.OBVIOUS, "what is left of a material can be used", name="used_up_with_plenty_left")
def use_up_what_is_left(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material is used up although most of it, or all that the step filled in, is there."""
    # A measurement may use up its sample, so there it is no error.
    if case.action_type is None or case.action_type.kind == "measurement":
        return
    for bulk in edits.sample_places(rng, case.shown_bulks):
        before = bulk.material.before
        if before is None or bulk.material.draft.available_for_use != AVAILABLE or bulk.value <= 0:
            continue
        previous = edits.parse_amount(before.properties.get(bulk.name), bulk.name)
        if previous and bulk.value >= previous.value * _LEFT:
            explanation = f"{bulk.material.name} is used up, but {bulk.text} of it are left"
            yield explanation, bulk.material.change_field("available_for_use", NOT_AVAILABLE)


@edits.plants(edits.OBVIOUS, "a liquid stays liquid unless something freezes, dries or removes it", edits.COMMON)
def turned_solid(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a liquid is frozen, dry or gone after a step that does nothing of the kind.

    The wrong state is one that something on the bench has, so that the word does not reveal the error.
    """
    if case.action.name in _STATE_CHANGING:
        return
    phases = sorted({str(one.properties.get("phase")) for one in case.situation.inventory} & {*_NOT_FLUID})
    held = [one for one in case.shown_bulks if one.value > 0 and one.material.phase in _FLUIDS]
    for bulk in edits.sample_places(rng, held):
        material = bulk.material
        before = str(material.before.properties.get("phase")) if material.before else ""
        for wrong in phases:
            # Every bench has empty containers, so that this state would be planted more often than all others.
            if wrong == "empty container" and rng.random() < _EMPTY_SKIPPED:
                continue
            is_cold = material.condition in _FREEZERS
            if wrong != before and not (wrong == "frozen" and is_cold):
                where = describe_whereabouts(material.condition)
                explanation = f"{material.name} is {wrong} with {bulk.text} in it, {where}; {case.action.name} leaves it {material.phase}"
                yield explanation, material.change("phase", wrong)


@edits.plants(edits.OBVIOUS, "ice kills living cells that no additive protects", science=True)
def culture_in_the_freezer(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which living cells are in a freezer after a step that put them elsewhere."""
    if case.action.name in _STATE_CHANGING:
        return
    freezers = sorted({one.environmental_condition for one in case.situation.inventory} & {*_FREEZERS})
    living = [one for one in case.materials if one.phase in _LIVING and one.condition not in _FREEZERS]
    for material in edits.sample_places(rng, living):
        contents = f"{material.name} {dict(material.draft.properties)}"
        if _CRYOPROTECTANT.search(contents) or not _CELLS.search(contents):
            continue
        for wrong in freezers:
            places = f"{describe_whereabouts(wrong)}; {case.action.name} leaves them {describe_whereabouts(material.condition)}"
            yield f"the cells of {material.name} are {places}", material.change_field("environmental_condition", wrong)


@edits.plants(edits.OBVIOUS, "a liquid keeps its colour and turbidity when some of it is taken", edits.COMMON)
def another_look(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a material that the step does not change looks as another material of the bench does."""
    looks = sorted(
        {str(one.properties["appearance"]) for one in case.situation.inventory if "appearance" in one.properties}
    )
    kept = [
        (material, right)
        for material, before in case.continued
        if (right := str(material.draft.properties.get("appearance", "")))
        and before.properties.get("appearance") == right
    ]
    for material, right in edits.sample_places(rng, kept):
        for wrong in looks:
            # Shades and states that one person might call by the other's name are no error.
            if not _list_looks(wrong) & _list_looks(right) and _list_looks(wrong) and _list_looks(right):
                explanation = f"{material.name} is {wrong}; it was {right}, and {case.action.name} adds nothing to it"
                yield explanation, material.change("appearance", wrong)


def _list_looks(text: str) -> set[str]:
    return {word for word in _CLOUDY_WORDS if word in text}


class _Reagents(NamedTuple):
    """What is ruined (a pattern of the name and the properties of a vessel) by which reagents (by name), and how."""

    ruined: re.Pattern[str]
    by: re.Pattern[str]
    how: str


_HARM = (
    _Reagents(
        re.compile(r"adherent culture|cell type|cells (amount|concentration)|\b[Cc]ulture\b|isolate|coli\b"),
        re.compile(
            r"^([\w-]+ )?water\b|acetic acid|ethanol|methanol|dimethyl sulfoxide|formaldehyde|RIPA|bleach|acetonitrile|hydroxide"
            r"|hydrochloric|crystal violet|nitric acid|loading dye|silver nitrate",
            re.IGNORECASE,
        ),
        "kills the cells",
    ),
    _Reagents(
        re.compile(r"dNTP concentration|polymerase"),
        re.compile(r"ethanol|loading dye|saline|bleach|acetic acid|methanol", re.IGNORECASE),
        "stops the polymerase",
    ),
    _Reagents(
        re.compile(r"vector concentration|[Ll]entivir|\bAAV|\bIgG|antibody"),
        re.compile(r"ethanol|methanol|bleach|acetic acid|hydroxide|hydrochloric|RIPA|formaldehyde", re.IGNORECASE),
        "unfolds the proteins",
    ),
    _Reagents(
        re.compile(r"ferrocene concentration|TBAPF6 concentration"),
        re.compile(r"^([\w-]+ )?water\b|saline", re.IGNORECASE),
        "precipitates ferrocene and narrows the window of the solvent",
    ),
    _Reagents(
        re.compile(r"silver nitrate (amount|concentration)"),
        re.compile(r"hydrochloric|sodium chloride|saline", re.IGNORECASE),
        "precipitates the silver",
    ),
)  # fmt: skip


def find_harm(case: edits.Case, source: str) -> str:
    """Return what a reagent of this name would do to what the step filled, such as "kills the cells"; "" if nothing."""
    for harm in _HARM:
        if harm.by.search(source) and any(
            harm.ruined.search(", ".join((one.name, one.phase, *one.draft.properties)))
            for one in _list_destinations(case)
        ):
            return harm.how
    return ""


def _list_destinations(case: edits.Case) -> list[edits.Produced]:
    """Return the materials that hold more after the step than before, new ones included."""
    return [bulk.material for bulk in case.shown_bulks if bulk.value > _get_previous(bulk)]


def _get_previous(bulk: edits.Amount) -> Decimal:
    before = bulk.material.before
    amount = edits.parse_amount(before.properties.get(bulk.name), bulk.name) if before else None
    return amount.value if amount else Decimal(0)


@edits.plants(edits.OBVIOUS, "nothing is added that destroys what it is added to", science=True)
def harmful_source_noted(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a note says that a reagent was added which kills the cells or stops the reaction."""
    # The few reagents that do harm are seldom used, so that too many notes on them would give twins away.
    if rng.random() < _HARM_SKIPPED:
        return
    names = [one.name for one in case.bystanders if one.properties.get("phase") == "liquid"]
    for note, right in _list_sources(case, rng):
        harmful = [name for name in names if find_harm(case, name) and not find_harm(case, right)]
        for name in choose_like_names(harmful, right, _MOST_MARKS, most_names=6):
            explanation = (
                f"the note says that {name} was delivered, which {find_harm(case, name)}; the step delivered {right}"
            )
            yield explanation, note.change(f"Delivered from {name}", "description")


@edits.plants(edits.OBVIOUS, "what is filled is not what it is filled from", edits.COMMON)
def filled_from_itself(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a note names a vessel that the step filled as the source."""
    filled = sorted({one.name for one in _list_destinations(case)})
    for note, right in _list_sources(case, rng):
        for name in choose_like_names([name for name in filled if name != right], right, _MOST_MARKS):
            explanation = f"the note says that {name} was the source; it received what the step took from {right}"
            yield explanation, note.change(f"Delivered from {name}", "description")


def _list_sources(case: edits.Case, rng: random.Random) -> Iterator[tuple[edits.Reading, str]]:
    """Yield the notes on a delivery from one material of the action, each with the name of that material."""
    names = {material.name for material in case.inputs}
    for note in edits.sample_places(rng, list_notes(case, "Delivered from ")):
        right = note.description.removeprefix("Delivered from ")
        if right in names and not note.value.endswith(" g"):
            yield note, right


@edits.plants(edits.SUBTLE, "cells that need a surface attach to treated plates, not to a tube", science=True)
def culture_in_a_tube(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which attached cells are in an untreated tube of the bench, without having been moved."""
    cultures = [one for one in case.materials if one.phase == "adherent culture"]
    yield from _change_vessel(case, rng, cultures, re.compile(r"\btube\b|\bvial\b"), "cells do not attach in it")


@edits.plants(edits.SUBTLE, "organic solvents dissolve polystyrene", science=True)
def solvent_in_polystyrene(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a solvent that dissolves polystyrene is in a vessel of it, without having been moved."""
    solvents = [one for one in case.materials if re.match(r"(Acetonitrile|Acetone|Toluene|Ferrocene)\b", one.name)]
    yield from _change_vessel(case, rng, solvents, re.compile("polystyrene"), "the solvent dissolves it")


def _change_vessel(
    case: edits.Case, rng: random.Random, materials: list[edits.Produced], pattern: re.Pattern[str], why: str
) -> edits.Errors:
    for material in edits.sample_places(rng, materials):
        right, content = (
            _read_vessel(material.before),
            edits.parse_amount(material.draft.properties.get("volume"), "volume"),
        )
        if right is None or content is None or right[0] != str(material.draft.properties.get("container")):
            continue
        fitting = [
            (vessel, capacity)
            for vessel, capacity in case.list_vessels()
            if pattern.search(vessel) and capacity != right[1] and _holds(capacity, content.value)
        ]
        # A plate is named after its number of wells, which has more digits than the capacity of most tubes.
        distances = [abs(sum(map(count_digits, vessel)) - sum(map(count_digits, right))) for vessel in fitting]
        for (vessel, capacity), distance in zip(fitting, distances, strict=True):
            if distance == min(distances):
                explanation = f"{material.name} is in a {vessel}: {why}, and it is still in a {right[0]}"
                yield explanation, material.change("container", vessel), material.change("container_capacity", capacity)


def _holds(capacity: str, volume: Decimal) -> bool:
    """Return whether a vessel of this capacity can hold a volume in µL."""
    limit = edits.parse_amount(capacity, "volume")
    return limit is not None and volume <= limit.value


def _read_vessel(material: Material | None) -> tuple[str, str] | None:
    if material is None or not {"container", "container_capacity"} <= material.properties.keys():
        return None
    return str(material.properties["container"]), str(material.properties["container_capacity"])
