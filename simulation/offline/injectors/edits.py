"""The input of an injector, a case, and its output: plans of errors, which consist of edits."""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

from simulation.lab import quantities
from simulation.lab.actions import Action, ActionType
from simulation.lab.errors import LabError
from simulation.lab.materials import AVAILABLE, UNLIMITED, Material, NewMaterial
from simulation.lab.outcomes import Observation, Outcome, Perturbation
from simulation.lab.roles import Situation

MATERIALS, OBSERVATIONS = "new_materials", "new_observations"
_PROPERTY = "properties."
# The most places tried per kind, so that outcomes with many materials do not have too many plans.
_MOST_PLACES = 8
_UNIT = re.compile(r"(?<=[0-9] )[^\s\"',;()\]}]+")
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
    """One error: the rule it breaks, the reason why the outcome is wrong, and the edits.

    The first edit is the error's location.
    """

    rule: str
    explanation: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Case:
    """An action, the situation before it, and its correct outcome."""

    action: Action
    situation: Situation
    outcome: Outcome

    @property
    def action_type(self) -> ActionType | None:
        return self.situation.catalogue.find_type(self.action.name)

    def find_previous(self, draft: NewMaterial) -> Material | None:
        """Return the material that this new material continues, as it was before the step."""
        return self.situation.inventory.get(draft.replaces) if draft.replaces else None

    def list_inputs(self) -> list[Material]:
        return [material for code in self.action.materials if (material := self.situation.inventory.get(code))]

    def list_limited_inputs(self) -> list[Material]:
        return [material for material in self.list_inputs() if material.available_for_use != UNLIMITED]

    def iter_available(self) -> Iterator[tuple[int, NewMaterial]]:
        """Yield the index and value of every new material that is available for further use."""
        for index, draft in enumerate(self.outcome.new_materials):
            if draft.available_for_use == AVAILABLE:
                yield index, draft

    def iter_continued(self) -> Iterator[tuple[int, NewMaterial, Material]]:
        """Yield (index, new material, previous state) of every available material that existed before the step."""
        for index, draft in self.iter_available():
            if before := self.find_previous(draft):
                yield index, draft, before

    def iter_observations(self) -> Iterator[tuple[int, Observation]]:
        yield from enumerate(self.outcome.new_observations)

    @cached_property
    def subject_indexes(self) -> tuple[int | None, ...]:
        """For each observation, the index of the new material that it names, or None."""
        return tuple(self._find_subject(observation.description) for observation in self.outcome.new_observations)

    def _find_subject(self, description: str) -> int | None:
        names = {index: draft.name for index, draft in enumerate(self.outcome.new_materials)}
        matches = [index for index, name in names.items() if is_mentioned(name, description)]
        # The longest name is used, because "Sample 1" is also mentioned in "Sample 1 diluted".
        return max(matches, key=lambda index: len(names[index]), default=None)

    @cached_property
    def known_units(self) -> frozenset[str]:
        """Every unit that follows a number in the action, in its inputs, or in its outcome."""
        property_maps = [material.properties for material in self.list_inputs()]
        property_maps += [material.properties for material in self.outcome.new_materials]
        texts = [str(dict(properties)) for properties in property_maps]
        texts += [f"{observation.description} {observation.value}" for observation in self.outcome.new_observations]
        return frozenset(list_units(" ".join((*texts, str(dict(self.action.parameters))))))

    def find_named_material(self, index: int) -> NewMaterial | None:
        """Return the new material that an observation names, or None."""
        subject = self.subject_indexes[index]
        return None if subject is None else self.outcome.new_materials[subject]


InjectorFunction = Callable[[Case, random.Random], Iterator[Plan]]
OBVIOUS, SUBTLE = Perturbation.OBVIOUS, Perturbation.SUBTLE
# Weights. Common kinds fit nearly everywhere; with a smaller weight, the specific kinds are planted as well. Where a scarce
# kind fits, an error that changes the style in the opposite way seldom fits, so balancing removes most.
COMMON, USUAL, SCARCE = 1, 4, 12


class ErrorKind(NamedTuple):
    """A kind of error: the function that lists its plans, its weight, and whether the error is a unit."""

    iter_plans: InjectorFunction
    weight: int
    changes_unit: bool


# Obvious: anyone who knows a laboratory sees that the outcome is impossible. Subtle: the outcome looks right and is
# wrong in a single number, setting or state.
INJECTORS: dict[Perturbation, dict[str, ErrorKind]] = {OBVIOUS: {}, SUBTLE: {}}


def plants(
    perturbation: Perturbation, weight: int = USUAL, changes_unit: bool = False
) -> Callable[[InjectorFunction], InjectorFunction]:
    """Declare a function as an injector. Raises LabError if a kind of error has its name already.

    The function's name is stored as the kind of error with every twin, so it must not be renamed.
    """

    def declare(function: InjectorFunction) -> InjectorFunction:
        name = function.__name__
        if any(name in kinds for kinds in INJECTORS.values()):
            raise LabError(f"two injectors are named {name!r}; the second is in {function.__module__}")
        INJECTORS[perturbation][name] = ErrorKind(function, weight, changes_unit)
        return function

    return declare


def sample_places(rng: random.Random, places: Sequence[_T]) -> list[_T]:
    """Return a random sample of the places where an error would fit, in random order."""
    return rng.sample(list(places), min(len(places), _MOST_PLACES))


def edit_property(index: int, draft: NewMaterial, name: str, new: str) -> Edit:
    return Edit(MATERIALS, index, _PROPERTY + name, str(draft.properties[name]), new)


def edit_material(index: int, draft: NewMaterial, field: str, new: str) -> Edit:
    return Edit(MATERIALS, index, field, str(getattr(draft, field)), new)


def edit_value(index: int, observation: Observation, new: str) -> Edit:
    return Edit(OBSERVATIONS, index, "value", observation.value, new)


def edit_description(index: int, observation: Observation, new: str) -> Edit:
    return Edit(OBSERVATIONS, index, "description", observation.description, new)


def apply_edits(outcome: Outcome, edits: Sequence[Edit]) -> Outcome:
    """Return the outcome with these texts replaced and everything else unchanged, in the same order."""
    parts: dict[str, list[Any]] = {
        MATERIALS: list(outcome.new_materials),
        OBSERVATIONS: list(outcome.new_observations),
    }
    for edit in edits:
        parts[edit.part][edit.position] = _apply_edit(parts[edit.part][edit.position], edit)
    return replace(outcome, new_materials=tuple(parts[MATERIALS]), new_observations=tuple(parts[OBSERVATIONS]))


def _apply_edit(thing: Any, edit: Edit) -> Any:
    if not edit.field.startswith(_PROPERTY):
        return replace(thing, **{edit.field: edit.new})
    return replace(thing, properties={**thing.properties, edit.field.removeprefix(_PROPERTY): edit.new})


def list_shown_amounts(case: Case) -> list[quantities.Quantity]:
    """Return the volumes and masses displayed for the materials of the outcome."""
    amounts = [
        parse_amount(draft.properties.get(name), name)
        for _, draft in case.iter_available()
        for name in ("volume", "mass")
    ]
    return [quantity for quantity in amounts if quantity]


def parse_amount(text: Any, *dimensions: str) -> quantities.Quantity | None:
    """Return the text as an amount of the first dimension that fits, or None."""
    return _parse_cached_amount(text, dimensions) if isinstance(text, str) else None


# Cached, because the same few texts are parsed again for every kind of error.
@lru_cache(maxsize=10_000)
def _parse_cached_amount(text: str, dimensions: tuple[str, ...]) -> quantities.Quantity | None:
    for dimension in dimensions:
        try:
            return quantities.parse_quantity(text, dimension)
        except quantities.QuantityError:
            continue
    return None


def list_units(text: str) -> list[str]:
    """Return the units that follow the numbers of a text."""
    return _UNIT.findall(text)


def is_mentioned(text: str, value: str) -> bool:
    """Return whether the value contains this text as separate words: "10x" is not in "110x"."""
    # The plain test comes first, because it is faster than a regular expression and usually false.
    return text in value and re.search(build_word_pattern(text), value) is not None


def build_word_pattern(text: str) -> str:
    """Return the pattern that finds a text as separate words."""
    return rf"(?<![\w.-]){re.escape(text)}(?!\w)"


def replace_mentions(value: str, text: str, wrong: str) -> str:
    """Return the value with every mention of the text replaced."""
    # A function is passed, because backslashes in a replacement text would be interpreted.
    return re.sub(build_word_pattern(text), lambda _: wrong, value)


CONCENTRATIONS = ("mass_concentration", "molar_concentration", "number_density", "ratio")
NUMBER = re.compile(r"(?<![\w.:/-])-?[0-9]+(?:\.[0-9]+)?(?![\w.:/])")
# A share as the cytometer's handler writes it.
SHARE = re.compile(r"(?P<percent>[0-9.]+) % \((?P<positive>[0-9]+) of (?P<events>[0-9]+) events\)")
# Balances display all digits, including trailing zeros, and scatter by the last one.
_BALANCE_UNITS = (" g", " g/mL")
# Relative difference up to which a rounded number still counts as the same.
_ROUNDING = Decimal("0.02")


class Bulk(NamedTuple):
    """A volume or mass displayed for a material of the outcome."""

    position: int
    draft: NewMaterial
    name: str  # "volume" or "mass"
    value: Decimal  # in the base unit

    @property
    def displayed_text(self) -> str:
        return str(self.draft.properties[self.name])


def list_bulks(case: Case) -> list[Bulk]:
    """Return every volume and mass above zero that no reading of the material repeats, so that one edit is enough."""
    return [
        Bulk(index, draft, name, quantity.value)
        for index, draft in case.iter_available()
        for name in ("volume", "mass")
        if (quantity := parse_amount(draft.properties.get(name), name)) and quantity.value > 0
        if not _is_read(case, index, quantity)
    ]


def _is_read(case: Case, material_index: int, expected: quantities.Quantity) -> bool:
    """Return whether any reading of the material is within 50 % of this amount."""
    return any(
        abs(reading - expected.value) * 2 < expected.value
        for index, observation in case.iter_observations()
        if case.subject_indexes[index] == material_index
        for reading in parse_readings(observation.value, expected.dimension)
    )


def parse_concentrations(properties: Mapping[str, Any]) -> dict[str, quantities.Quantity]:
    """Return the displayed concentrations of a material that are above zero, by property."""
    parsed = {
        name: parse_amount(text, *CONCENTRATIONS)
        for name, text in properties.items()
        if name.endswith(" concentration")
    }
    return {name: quantity for name, quantity in parsed.items() if quantity is not None and quantity.value > 0}


class Solute(NamedTuple):
    """A concentration displayed for a material of the outcome."""

    position: int
    draft: NewMaterial
    name: str
    quantity: quantities.Quantity

    @property
    def displayed_text(self) -> str:
        return str(self.draft.properties[self.name])


def list_solutes(case: Case) -> list[Solute]:
    return [
        Solute(index, draft, name, quantity)
        for index, draft in case.iter_available()
        for name, quantity in parse_concentrations(draft.properties).items()
    ]


def parse_readings(value: str, dimension: str) -> list[Decimal]:
    """Return the replicate readings of "1.1 mL, 1.2 mL" or "1.1, 1.2 mL"; an empty list for anything else."""
    parts = value.split(", ")
    unit = parts[-1].partition(" ")[2]
    amounts = [parse_amount(part if " " in part else f"{part} {unit}".strip(), dimension) for part in parts]
    return [quantity.value for quantity in amounts if quantity] if all(amounts) else []


def iter_spellings(original: str, value: Decimal, dimension: str, exact: bool = False) -> Iterator[str]:
    """Yield the value in the style of `original`: with its choice of unit, and its number of digits or one more.

    Yield nothing if rounding makes it equal to the original. With `exact`, allow two more digits, and yield only a text
    whose rounding error is at most 2 %.
    """
    correct = quantities.parse_quantity(original, dimension).value
    significant_digits = _count_significant_digits(correct)
    for digits in (
        (significant_digits, significant_digits + 1, significant_digits + 2)
        if exact
        else (significant_digits, significant_digits + 1)
    ):
        text = _format_like(original, value, dimension, digits)
        parsed = parse_amount(text, dimension)
        # Rounding may lead back to the correct number, which would be no error.
        if parsed and parsed.value != correct and (not exact or abs(parsed.value - value) <= abs(value) * _ROUNDING):
            yield text
            return


def _format_like(original: str, value: Decimal, dimension: str, digits: int) -> str:
    unit = quantities.parse_unit(original, dimension)
    # If the original uses the unit that our formats choose, the wrong value gets the unit chosen for it: 900 µL,
    # 1.2 mL.
    if unit == _choose_readable_unit(quantities.parse_quantity(original, dimension).value, dimension):
        unit = _choose_readable_unit(_round_to_digits(value, digits), dimension)
    number = _round_to_digits(value / quantities.parse_quantity(f"1 {unit}".strip(), dimension).value, digits)
    return f"{format(number.normalize(), 'f')} {unit}".strip()


def _choose_readable_unit(value: Decimal, dimension: str) -> str:
    return quantities.format_quantity(value, dimension).partition(" ")[2]


def multiply_numbers(value: str, factor: Decimal) -> str:
    """Return an instrument's text with every number multiplied by the factor, with the digits that it displays."""
    if value.endswith(_BALANCE_UNITS):
        first = Decimal(NUMBER.findall(value)[0])
        # All readings are shifted by the same amount, because multiplying them would also multiply their scatter,
        # which must stay at one last digit.
        further = (first * factor).quantize(first) - first
        return NUMBER.sub(lambda match: str(Decimal(match[0]) + further), value)
    return NUMBER.sub(lambda match: _scale_number(match[0], factor), value)


def _scale_number(number: str, factor: Decimal) -> str:
    original = Decimal(number)
    return format(_round_to_digits(original * factor, _count_significant_digits(original)).normalize(), "f")


def _round_to_digits(value: Decimal, digits: int) -> Decimal:
    with localcontext() as context:
        context.prec = digits
        return +value


def _count_significant_digits(value: Decimal) -> int:
    return len(value.normalize().as_tuple().digits)
