"""The input of an injector, a case, and its output: plans of errors, which consist of edits of the outcome's texts.

Also the declaration of an injector, and the amounts that an outcome states.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

from simulation.lab import quantities
from simulation.lab.actions import Action, ActionType
from simulation.lab.deviations import DEFAULT_SIZES, SizeRange
from simulation.lab.errors import LabError
from simulation.lab.materials import AVAILABLE, Material, NewMaterial
from simulation.lab.outcomes import Outcome, Perturbation
from simulation.lab.roles import Situation

MATERIALS, OBSERVATIONS = "new_materials", "new_observations"
_PROPERTY = "properties."
# The most places tried per kind, so that outcomes with many materials do not have too many plans.
_MOST_PLACES = 8
_UNIT = re.compile(r"(?<=[0-9] )[^\s\"',;()\]}]+")
NUMBER = re.compile(r"(?<![\w.:/-])-?[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?(?![\w.:/])")
# A share as the cytometer's handler writes it.
SHARE = re.compile(r"(?P<percent>[0-9.]+) % \((?P<positive>[0-9]+) of (?P<events>[0-9]+) events\)")
_CONCENTRATIONS = ("mass_concentration", "molar_concentration", "number_density", "ratio")
# In these actions a substance may be consumed, so another amount of it is not an error.
REACTING = ("Thermocycler", "qPCR", "CellCultureIncubate", "Incubate", "Wait", "Storage")
# Cells per millilitre from which a liquid is visibly cloudy, and words for particles that make it so.
_CLOUDY_DENSITY = 10**7
_PARTICLES = re.compile(r"\b(particles?|beads?|precipitate|cloudy|turbid|milky)\b")
_T = TypeVar("_T")


class Edit(NamedTuple):
    """One text of the outcome and its replacement."""

    part: str  # MATERIALS or OBSERVATIONS
    position: int
    field: str  # a field of the material or observation, or "properties.<name>"
    old: str
    new: str

    @property
    def json_path(self) -> str:
        """The text's path in the outcome's JSON."""
        return f"{self.part}[{self.position}].{self.field}"


class Plan(NamedTuple):
    """One error: the rule it breaks, the reason why the outcome is wrong, and the edits. The first is its location."""

    rule: str
    explanation: str
    edits: tuple[Edit, ...]


class Produced(NamedTuple):
    """A new material of the outcome, and its state before the step, or None if the step made it."""

    position: int
    name: str
    phase: str
    condition: str
    draft: NewMaterial
    before: Material | None

    def change(self, name: str, new: str) -> Edit:
        """Return the edit of a property."""
        return Edit(MATERIALS, self.position, _PROPERTY + name, str(self.draft.properties[name]), new)

    def change_field(self, field: str, new: str) -> Edit:
        return Edit(MATERIALS, self.position, field, str(getattr(self.draft, field)), new)


def read_text(material: Produced, field: str) -> str | None:
    """Return what a field or property of a material states, or None if it has none."""
    if field.startswith(_PROPERTY):
        value = material.draft.properties.get(field.removeprefix(_PROPERTY))
        return None if value is None else str(value)
    return str(getattr(material.draft, field))


class Amount(NamedTuple):
    """A volume, mass or concentration displayed for a material of the outcome."""

    material: Produced
    name: str  # of the property
    text: str
    value: Decimal
    dimension: str

    def change(self, new: str) -> Edit:
        return self.material.change(self.name, new)


class Reading(NamedTuple):
    """An observation, and the index of the new material that it names, or None."""

    position: int
    description: str
    measurement_type: str
    value: str
    subject: int | None

    def change(self, new: str, field: str = "value") -> Edit:
        return Edit(OBSERVATIONS, self.position, field, getattr(self, field), new)


@dataclass(frozen=True)
class Case:
    """An action, the situation before it, and its correct outcome."""

    action: Action
    situation: Situation
    outcome: Outcome
    sizes: SizeRange = DEFAULT_SIZES  # the deviations of subtle numeric errors
    truth: Mapping[str, Any] = field(default_factory=dict)  # what the experiment declares of instruments

    @property
    def action_type(self) -> ActionType | None:
        return self.situation.catalogue.find_type(self.action.name)

    @cached_property
    def inputs(self) -> list[Material]:
        return [material for code in self.action.materials if (material := self.situation.inventory.get(code))]

    @cached_property
    def bystanders(self) -> list[Material]:
        """The materials of the bench that the action does not use."""
        return [one for one in self.situation.inventory if one.barcode not in self.action.materials]

    @cached_property
    def all_materials(self) -> list[Produced]:
        materials = []
        for index, draft in enumerate(self.outcome.new_materials):
            before = self.situation.inventory.get(draft.replaces) if draft.replaces else None
            phase, condition = str(draft.properties.get("phase")), draft.environmental_condition
            materials.append(Produced(index, draft.name, phase, condition, draft, before))
        return materials

    @cached_property
    def materials(self) -> list[Produced]:
        """The new materials that are available for further use."""
        return [material for material in self.all_materials if material.draft.available_for_use == AVAILABLE]

    def list_vessels(self) -> list[tuple[str, str]]:
        """Return the vessels of the bench with their capacities, so that no text is one that correct outcomes never have."""
        shown = [
            (one.properties.get("container"), one.properties.get("container_capacity"))
            for one in self.situation.inventory
        ]
        return list(dict.fromkeys((str(vessel), str(capacity)) for vessel, capacity in shown if vessel and capacity))

    @property
    def continued(self) -> list[tuple[Produced, Material]]:
        """The available materials that existed before the step, each with its previous state."""
        return [(material, material.before) for material in self.materials if material.before]

    @cached_property
    def readings(self) -> list[Reading]:
        names, readings = [draft.name for draft in self.outcome.new_materials], []
        for position, shown in enumerate(self.outcome.new_observations):
            matches = [index for index, name in enumerate(names) if is_mentioned(name, shown.description)]
            # The longest name is used, because "Sample 1" is also mentioned in "Sample 1 diluted".
            subject = max(matches, key=lambda index: len(names[index]), default=None)
            readings.append(Reading(position, shown.description, shown.measurement_type, shown.value, subject))
        return readings

    def list_readings_of(self, material: Produced) -> list[Reading]:
        return [reading for reading in self.readings if reading.subject == material.position]

    def find_shares(self) -> list[tuple[Reading, re.Match[str]]]:
        """Return the readings that are shares of positive events."""
        return [(reading, match) for reading in self.readings if (match := SHARE.fullmatch(reading.value))]

    @cached_property
    def known_units(self) -> frozenset[str]:
        """Every unit that follows a number in the action, in its inputs, or in its outcome."""
        texts = [str(dict(material.properties)) for material in self.inputs]
        texts += [str(dict(draft.properties)) for draft in self.outcome.new_materials]
        texts += [f"{reading.description} {reading.value}" for reading in self.readings]
        return frozenset(_UNIT.findall(" ".join((*texts, str(dict(self.action.parameters))))))

    def has_units_of(self, plan: Plan) -> bool:
        """Return whether all units in the plan's new texts occur in the step."""
        return all(unit in self.known_units for edit in plan.edits for unit in _UNIT.findall(edit.new))

    @cached_property
    def shown_bulks(self) -> list[Amount]:
        """The volumes and masses displayed for the available materials."""
        return [
            Amount(material, name, str(material.draft.properties[name]), quantity.value, quantity.dimension)
            for material in self.materials
            for name in ("volume", "mass")
            if (quantity := parse_amount(material.draft.properties.get(name), name))
        ]

    @cached_property
    def bulks(self) -> list[Amount]:
        """Every volume and mass above zero that no reading of the material repeats, so that one edit is enough."""
        return [bulk for bulk in self.shown_bulks if bulk.value > 0 and not self._is_read(bulk)]

    def _is_read(self, bulk: Amount) -> bool:
        """Return whether any reading of the material is within 50 % of this amount."""
        readings = self.list_readings_of(bulk.material)
        values = [value for reading in readings for value in parse_readings(reading.value, bulk.dimension)]
        return any(abs(value - bulk.value) * 2 < bulk.value for value in values)

    @cached_property
    def solutes(self) -> list[Amount]:
        """The concentrations above zero displayed for the available materials."""
        return [
            Amount(material, name, str(material.draft.properties[name]), quantity.value, quantity.dimension)
            for material in self.materials
            for name, quantity in parse_concentrations(material.draft.properties).items()
        ]


Errors = Iterator[tuple[str, *tuple[Edit, ...]]]  # (explanation, edits...) of each error that fits
Predicate = Callable[[str], bool]
InjectorFunction = Callable[[Case, random.Random], Errors]
OBVIOUS, SUBTLE = Perturbation.OBVIOUS, Perturbation.SUBTLE
# Weights. Common kinds fit nearly everywhere; with a smaller weight, the specific kinds are planted as well. Where a scarce
# kind fits, an error that changes the style in the opposite way seldom fits, so balancing removes most.
COMMON, USUAL, SCARCE = 1, 4, 12


class ErrorKind(NamedTuple):
    """A kind of error: its injector, the rule that it breaks, its weight, whether seeing it needs biology or chemistry,
    and whether the same in all replicates is an error too. It is none where only the others show that one is wrong.

    `{property}` in a rule becomes the name of the property that the first edit changes.
    """

    inject: InjectorFunction
    rule: str
    weight: int
    science: bool
    systematic: bool

    def iter_plans(self, case: Case, rng: random.Random) -> Iterator[Plan]:
        for explanation, *edits in self.inject(case, rng):
            rule = self.rule.replace("{property}", edits[0].field.removeprefix(_PROPERTY))
            yield Plan(rule, explanation, tuple(edits))


# Obvious: anyone who knows a laboratory sees that the outcome is impossible. Subtle: the outcome looks right and is
# wrong in a single number, setting or state.
INJECTORS: dict[Perturbation, dict[str, ErrorKind]] = {OBVIOUS: {}, SUBTLE: {}}


def plants(
    perturbation: Perturbation,
    rule: str,
    weight: int = USUAL,
    science: bool = False,
    systematic: bool = True,
    name: str = "",
) -> Callable[[InjectorFunction], InjectorFunction]:
    """Declare a function as an injector of errors that break a rule. Raises LabError if its name is used already.

    The name, by default the function's, is stored as the kind of error with every twin, so it must not be changed.
    """

    def declare(function: InjectorFunction) -> InjectorFunction:
        kind = name or function.__name__
        if any(kind in kinds for kinds in INJECTORS.values()):
            raise LabError(f"two injectors are named {kind!r}; the second is declared in {function.__module__}")
        INJECTORS[perturbation][kind] = ErrorKind(function, rule, weight, science, systematic)
        return function

    return declare


def sample_places(rng: random.Random, places: Sequence[_T]) -> list[_T]:
    """Return a random sample of the places where an error would fit, in random order."""
    return rng.sample(list(places), min(len(places), _MOST_PLACES))


def apply_edits(outcome: Outcome, edits: Sequence[Edit]) -> Outcome:
    """Return the outcome with these texts replaced and everything else unchanged, in the same order."""
    parts: dict[str, list[Any]] = {MATERIALS: [*outcome.new_materials], OBSERVATIONS: [*outcome.new_observations]}
    for edit in edits:
        thing = parts[edit.part][edit.position]
        change: dict[str, Any] = {edit.field: edit.new}
        if edit.field.startswith(_PROPERTY):
            change = {"properties": {**thing.properties, edit.field.removeprefix(_PROPERTY): edit.new}}
        parts[edit.part][edit.position] = replace(thing, **change)
    return replace(outcome, new_materials=tuple(parts[MATERIALS]), new_observations=tuple(parts[OBSERVATIONS]))


def parse_amount(text: Any, *dimensions: str) -> quantities.Quantity | None:
    """Return the text as an amount of the first dimension that fits, or None."""
    return _find_cached_quantity(text, *dimensions) if isinstance(text, str) else None


# Cached, because the same few texts are parsed again for every kind of error.
_find_cached_quantity = lru_cache(maxsize=10_000)(quantities.find_quantity)


def parse_concentrations(properties: Mapping[str, Any]) -> dict[str, quantities.Quantity]:
    """Return the displayed concentrations of a material that are above zero, by property."""
    texts = {name: text for name, text in properties.items() if name.endswith(" concentration")}
    parsed = {name: parse_amount(text, *_CONCENTRATIONS) for name, text in texts.items()}
    return {name: quantity for name, quantity in parsed.items() if quantity is not None and quantity.value > 0}


def parse_readings(value: str, dimension: str) -> list[Decimal]:
    """Return the replicate readings of "1.1 mL, 1.2 mL" or "1.1, 1.2 mL"; an empty list for anything else."""
    parts = value.split(", ")
    unit = parts[-1].partition(" ")[2]
    amounts = [parse_amount(part if " " in part else f"{part} {unit}".strip(), dimension) for part in parts]
    return [quantity.value for quantity in amounts if quantity] if all(amounts) else []


def is_visibly_cloudy(material: Produced) -> bool:
    """Return whether the material is known to hold enough cells or particles to be seen with the naked eye."""
    texts = " ".join(f"{name} {value}" for name, value in material.draft.properties.items() if name != "medium")
    densities = [
        one.value
        for name, one in parse_concentrations(material.draft.properties).items()
        if one.dimension == "number_density" and name.endswith("cells concentration")
    ]
    return sum(densities) >= _CLOUDY_DENSITY or _PARTICLES.search(texts) is not None


def is_mentioned(text: str, value: str) -> bool:
    """Return whether the value contains this text as separate words: "10x" is not in "110x"."""
    # The plain test comes first, because it is faster than a regular expression and usually false.
    return text in value and re.search(_build_word_pattern(text), value) is not None


def replace_mentions(value: str, text: str, wrong: str) -> str:
    """Return the value with every mention of the text replaced."""
    # A function is passed, because backslashes in a replacement text would be interpreted.
    return re.sub(_build_word_pattern(text), lambda _: wrong, value)


def _build_word_pattern(text: str) -> str:
    return rf"(?<![\w.-]){re.escape(text)}(?!\w)"
