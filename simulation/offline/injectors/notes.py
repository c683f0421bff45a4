"""Errors in routine notes: volumes, sources, displays and appearances that the rest of the outcome contradicts."""

import random
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from simulation.offline.injectors import edits, sizes
from simulation.offline.injectors.handling import find_harm
from simulation.offline.injectors.names import choose_like_names, count_numbers, list_notes

_DRAWN = re.compile(r"Delivered from |Taken off |Volume of ")
_TIMES = re.compile(r"(?P<times>[0-9]+) ×")
_TEMPERATURE = re.compile(r"-?[0-9.]+(?= °C)")
_LIQUIDS = ("liquid", "suspension")
_NOT_DRAWABLE = ("powder", "gel")
_ELECTRODE = re.compile(r"\belectrode\b", re.IGNORECASE)
_VESSEL_OR_KIT = re.compile(r"\b(kit|box|rack|set|plates?|tubes?|flasks?|bottles?|tips?)\b", re.IGNORECASE)
# Reagents that are taken for each other because their use is the same in general.
_REAGENT_CLASSES = {
    "primer": re.compile(r"\b[Pp]rimer\b"),
    "antibody": re.compile(r"\b[Aa]nti-\w+.* antibody|\b[Aa]ntibody\b"),
    "vector": re.compile(r"\b[Pp]lasmid\b|\bAAV|[Ll]entivir"),
    "strain": re.compile(r"isolate [A-Z]|^Species \d|^Consortium|E\. coli"),
    "drug": re.compile(r"[Ii]onomycin|[Ff]orskolin|IBMX|EGTA|[Tt]etrodotoxin|[Pp]uromycin|[Pp]olybrene|[Gg]entamicin|L-glutamate|CNQX|D-AP5"),
    "medium": re.compile(r"DMEM|Neurobasal|[Mm]edium|[Bb]roth|\bLB\b|HBSS|[Ii]maging buffer|Opti-MEM"),
}  # fmt: skip
_LEAST_OFF, _MOST_OFF = 3.0, 9.0  # °C by which a display is off subtly; no incubator or room drifts so far
_LETHAL_DISPLAY = (62.0, 94.0)  # °C
_VIOLET, _VIOLET_SOURCES = "deep violet, clear", ("violet", "purple", "permanganate")
# What is coloured or can take a colour: a medium contains an indicator, an extract what it was made of.
_COLOURED = re.compile(
    r"dye|stain|indicator|medi(um|a)\b|DMEM|Neurobasal|broth|\bLB\b|supernatant|extract"
    r"|lysate|drink|coffee|\btea\b|juice|cola|DMSO|dimethyl sulfoxide",
    re.IGNORECASE,
)


@edits.plants(edits.SUBTLE, "what is noted is what was done")
def noted_volume_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the volume noted differs somewhat from the one that the materials show."""
    for note in edits.sample_places(rng, list_notes(case, _DRAWN.pattern)):
        for factor in sizes.draw_factors(case.sizes, rng):
            yield from _change_noted_volume(note, factor)


@edits.plants(edits.OBVIOUS, "what is noted is what was done")
def noted_volume_absurd(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the volume noted is several times or a fraction of the one that the materials show."""
    for note in edits.sample_places(rng, list_notes(case, _DRAWN.pattern)):
        for factor in sizes.draw_large_factors(rng, 2):
            yield from _change_noted_volume(note, factor)
            yield from _change_noted_volume(note, 1 / factor)


def _change_noted_volume(note: edits.Reading, factor: Decimal) -> edits.Errors:
    def rewrite(match: re.Match[str]) -> str:
        return "".join(sizes.iter_deliveries(match[0], factor))

    wrong = re.sub(r"[0-9.]+ (?:[µm]?L|g)\b", rewrite, note.value)
    yield f"the note says {wrong}; the materials show {note.value}", note.change(wrong)


@edits.plants(edits.SUBTLE, "every vessel of the step gets its portion", edits.COMMON)
def noted_portions_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the number of portions noted is not the number of vessels."""
    for note, times in _list_portions(case):
        for factor in sizes.draw_factors(case.sizes, rng):
            yield from _change_times(note, times, round(times * factor))


@edits.plants(edits.OBVIOUS, "every vessel of the step gets its portion", edits.COMMON)
def noted_portions_absurd(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which far more portions were noted than there are vessels, or far fewer."""
    for note, times in _list_portions(case):
        for factor in sizes.draw_large_factors(rng, 2):
            yield from _change_times(note, times, round(times * factor))
            yield from _change_times(note, times, max(1, round(times / factor)))


def _list_portions(case: edits.Case) -> list[tuple[edits.Reading, int]]:
    notes = [(note, _TIMES.match(note.value)) for note in list_notes(case, "Delivered from ")]
    return [(note, int(match["times"])) for note, match in notes if match]


def _change_times(note: edits.Reading, right: int, wrong: int) -> edits.Errors:
    if wrong not in (right, 1):
        text = _TIMES.sub(f"{wrong} ×", note.value, count=1)
        yield f"the note has {wrong} portions, but {right} vessels were filled", note.change(text)


@edits.plants(edits.SUBTLE, "what is noted as the source is the source")
def wrong_source_noted(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a note names a liquid, or a powder, of the bench that this step did not use."""
    liquids = [one.name for one in case.bystanders if one.properties.get("phase") in _LIQUIDS]
    # A reagent that would destroy what it is added to is an obvious error.
    others = [name for name in liquids if not find_harm(case, name) and not find_reagent_class(name)]
    powders = [one.name for one in case.bystanders if one.properties.get("phase") == "powder"]
    yield from _change_source(case, rng, others, powders)


@edits.plants(edits.SUBTLE, "reagents of one class act on different targets", science=True)
def wrong_reagent_noted(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a note names another medium, primer, antibody, vector, strain or drug than the step used.

    Both have the same use in general, so that only their targets show that the step would not work with the other one.
    """
    liquids = [one.name for one in case.bystanders if one.properties.get("phase") in _LIQUIDS]
    for kind in _REAGENT_CLASSES:
        others = [name for name in liquids if find_reagent_class(name) == kind and not find_harm(case, name)]
        yield from _change_source(case, rng, others, most_marks=1, reagent_class=kind)


def find_reagent_class(name: str) -> str:
    """Return the class of a reagent by its name, such as "primer", or "" if it is in none."""
    return next((kind for kind, pattern in _REAGENT_CLASSES.items() if pattern.search(name)), "")


@edits.plants(edits.OBVIOUS, "only a liquid is drawn into a pipette")
def source_that_cannot_be_drawn(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a note says that a volume was drawn from a powder, a gel or an electrode."""
    solid = [
        one.name
        for one in case.situation.inventory
        if one.properties.get("phase") in _NOT_DRAWABLE or _ELECTRODE.search(one.name)
        # A vessel or a kit may hold a liquid, and an electrode may be named after its solution.
        if not _VESSEL_OR_KIT.search(one.name) and one.properties.get("phase") not in _LIQUIDS
    ]
    yield from _change_source(case, rng, solid, most_marks=2)


def _change_source(
    case: edits.Case,
    rng: random.Random,
    names: Sequence[str],
    weighed: Sequence[str] = (),
    most_marks: int = 0,
    reagent_class: str = "",
) -> edits.Errors:
    """Yield errors in which a note names another source: one of `names`, or one of `weighed` if it notes a mass.

    With a `reagent_class`, only notes are changed whose right source is of this class.
    """
    sources = {f"Delivered from {material.name}" for material in case.inputs}
    for note in edits.sample_places(rng, list_notes(case, "Delivered from ")):
        right = note.description.removeprefix("Delivered from ")
        # Another replicate of the same is left out: nobody would call that a wrong source.
        possible = weighed if note.value.endswith(" g") else names
        others = [name for name in possible if edits.NUMBER.sub("#", name) != edits.NUMBER.sub("#", right)]
        # Names of what is often delivered have numbers, as in DMEM with 10 % FBS, and most others have none: without this,
        # missing numbers would give a wrong source away. They may be missing where no other name fits.
        numbered = [name for name in others if count_numbers(name) >= count_numbers(right)]
        alike = choose_like_names(numbered, right, most_marks) or choose_like_names(others, right, most_marks)
        is_like = not reagent_class or find_reagent_class(right) == reagent_class
        for name in alike if note.description in sources and is_like else ():
            explanation = f"the note says that {name} was delivered; the step delivered {right}"
            yield explanation, note.change(f"Delivered from {name}", "description")


@edits.plants(edits.SUBTLE, "equipment holds the temperature that was set", edits.COMMON)
def display_off(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a display is several degrees from what was set and from what the materials show."""
    for note, shown in _list_displays(case):
        # Nobody sets the temperature of a room, and on a hot day it is some degrees higher.
        for sign in (1, -1) if not note.description.startswith("Room") else ():
            yield from _change_display(note, shown, shown + sign * _draw(rng, _LEAST_OFF, _MOST_OFF))


@edits.plants(edits.OBVIOUS, "living cells stay at temperatures that they survive", edits.COMMON, science=True)
def lethal_display(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which an incubator with living cells in it displays a temperature that kills them."""
    if any("cell type" in one.draft.properties or one.phase == "suspension" for one in case.materials):
        for note, shown in _list_displays(case):
            for _ in range(2):
                yield from _change_display(note, shown, _draw(rng, *_LETHAL_DISPLAY))


def _list_displays(case: edits.Case) -> Iterator[tuple[edits.Reading, Decimal]]:
    for note in list_notes(case, r"(Incubator|Room|Refrigerator) display"):
        if match := _TEMPERATURE.search(note.value):
            yield note, Decimal(match[0])


def _draw(rng: random.Random, low: float, high: float) -> Decimal:
    return Decimal(str(round(rng.uniform(low, high), 1)))


def _change_display(note: edits.Reading, right: Decimal, wrong: Decimal) -> edits.Errors:
    text = _TEMPERATURE.sub(str(wrong.quantize(right)), note.value, count=1)
    yield f"the display read {text} at {right} °C", note.change(text)


@edits.plants(edits.SUBTLE, "particles and cells make a liquid cloudy, and nothing else does", science=True)
def wrong_turbidity(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a liquid with visibly many cells or particles is noted as clear.

    The reverse is no error: what makes a solution cloudy may not be stated.
    """
    for note in edits.sample_places(rng, list_notes(case, "Appearance of ")):
        # "brown, cloudy": the colour stays, the turbidity is wrong.
        colour, comma, turbidity = note.value.rpartition(", ")
        if (
            turbidity == "cloudy"
            and note.subject is not None
            and edits.is_visibly_cloudy(case.all_materials[note.subject])
        ):
            yield "the liquid looks clear; what is in it makes it cloudy", note.change(f"{colour}{comma}clear")


@edits.plants(edits.OBVIOUS, "a liquid is coloured only by something coloured", science=True)
def colour_from_nothing(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a clear solution is violet although nothing violet is on the bench.

    The whole bench is searched, because the colour of an earlier source would be carried over.
    """
    bench = [*case.situation.inventory, *case.inputs]
    if any(word in f"{one.name} {dict(one.properties)}".lower() for one in bench for word in _VIOLET_SOURCES):
        return
    for note in edits.sample_places(rng, list_notes(case, "Appearance of ")):
        known = [note.description, *(one.name for one in case.inputs)]
        if note.subject is not None:
            known.append(str(dict(case.all_materials[note.subject].draft.properties)))
        if note.value == "clear" and not any(map(_COLOURED.search, known)):
            yield f"the liquid is {_VIOLET}, and nothing in it has a colour", note.change(_VIOLET)
