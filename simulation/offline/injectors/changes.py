"""How one thing in an outcome is changed so that its form gives nothing away."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.lab.actions import Action
from simulation.lab.materials import AVAILABLE, Draft, Material
from simulation.lab.outcomes import Observation, Outcome
from simulation.lab.roles import Situation

CONCENTRATIONS = ("mass_concentration", "molar_concentration", "number_density", "ratio")


class Planted(NamedTuple):
    """A changed outcome: the rule it breaks, the field that was changed, and why that is wrong."""

    outcome: Outcome
    rule: str
    field: str
    why: str


class Case(NamedTuple):
    """What an injector looks at: the action, what was on the bench before it, and its correct outcome."""

    action: Action
    situation: Situation
    outcome: Outcome

    def before(self, draft: Draft) -> Material | None:
        """The material this draft continues, as it was before the step."""
        return self.situation.inventory.get(draft.replaces) if draft.replaces else None

    def inputs(self) -> list[Material]:
        return [m for code in self.action.materials if (m := self.situation.inventory.get(code))]

    def drafts(self) -> Iterator[tuple[int, Draft]]:
        """The materials of the outcome that are there for further use, with their places."""
        for index, draft in enumerate(self.outcome.new_materials):
            if draft.available_for_use == AVAILABLE:
                yield index, draft


def amount(text: Any, *dimensions: str) -> quantities.Quantity | None:
    """The text as an amount of the first dimension that allows it; None if it is none of them."""
    for dimension in dimensions:
        try:
            return quantities.parse(text, dimension)
        except quantities.QuantityError:
            continue
    return None


def concentrations(properties: Mapping[str, Any]) -> dict[str, quantities.Quantity]:
    """The visible concentrations of a material by the property's name."""
    found = {
        name: amount(text, *CONCENTRATIONS) for name, text in properties.items() if name.endswith(" concentration")
    }
    return {name: quantity for name, quantity in found.items() if quantity is not None and quantity.value > 0}


def readings(seen: Observation, dimension: str) -> list[Decimal]:
    """The replicate readings of an observation, "1.1 mL, 1.2 mL"; empty if it is anything else."""
    found = [amount(part, dimension) for part in seen.value.split(", ")]
    return [quantity.value for quantity in found if quantity] if all(found) else []


def scaled(seen: Observation, factor: Decimal, dimension: str) -> str:
    """Its value with every replicate reading multiplied."""
    parts = zip(seen.value.split(", "), readings(seen, dimension), strict=True)
    return ", ".join(written_like(part, value * factor, dimension) for part, value in parts)


def written_like(original: str, value: Decimal, dimension: str, digits: int = 2) -> str:
    """The value as the writer of `original` would have put it: same choice of unit, no more digits (or than `digits`)."""
    before = quantities.parse(original, dimension).value
    with localcontext() as context:
        context.prec = max(digits, len(before.normalize().as_tuple().digits))
        rounded = +value
    unit = quantities.unit(original, dimension)
    if unit == _readable_unit(before, dimension):
        unit = _readable_unit(rounded, dimension)
    number = rounded / quantities.parse(f"1 {unit}".strip(), dimension).value
    return f"{format(number.normalize(), 'f')} {unit}".strip()


def _readable_unit(value: Decimal, dimension: str) -> str:
    return quantities.show(value, dimension).partition(" ")[2]


def told(text: str, value: str) -> bool:
    """Whether the value tells this text as words of its own: "10x" is not in "110x"."""
    return re.search(word(text), value) is not None


def word(text: str) -> str:
    """The pattern that finds a text as words of its own."""
    return rf"(?<![\w.-]){re.escape(text)}(?!\w)"


def with_property(outcome: Outcome, index: int, **properties: str) -> Outcome:
    """The outcome with those properties of one material changed, in their old places; see `with_field` for the rest."""
    draft = outcome.new_materials[index]
    return with_field(outcome, index, properties={**draft.properties, **properties})


def with_field(outcome: Outcome, index: int, **fields: Any) -> Outcome:
    materials = list(outcome.new_materials)
    materials[index] = replace(materials[index], **fields)
    return replace(outcome, new_materials=tuple(materials))


def with_observation(outcome: Outcome, index: int, **fields: str) -> Outcome:
    observations = list(outcome.new_observations)
    observations[index] = replace(observations[index], **fields)
    return replace(outcome, new_observations=tuple(observations))


def place(index: int, name: str) -> str:
    """The field's address in the outcome's JSON."""
    return f"new_materials[{index}].properties.{name}"
