"""Action types with their parameters and durations, the catalogue of all of them, and single actions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, Self

from simulation.lab.materials import Inventory, Material
from simulation.lab.parameters import Parameter, ParameterError

KINDS = ("transformation", "measurement", "synthesis", "control")
FIDELITIES = ("quantities computed", "state tracked", "declared readings", "bookkeeping only")
SUBMIT, QUIT = "SubmitMaterialsObservationsForReview", "Quit"


@dataclass(frozen=True)
class Action:
    """One use of an action type: its name, the barcodes it applies to, its parameters as written."""

    name: str
    materials: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "materials": list(self.materials), "parameters": dict(self.parameters)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(str(data["name"]), tuple(data["materials"]), dict(data["parameters"]))


class Duration(NamedTuple):
    """The duration of an action: a fixed number of seconds or the value of the parameter `parameter`, plus `total`.

    `total` is a sum. Each of its terms is the product of the parameters it names, for example run time times number
    of injections; a term with an omitted parameter is zero. With `per_material`, the duration is multiplied by the
    number of processed materials, but at least by one, because a run of blanks and controls alone takes time as well.
    `once` is a sum like `total` that is added afterwards: what all materials do together. A boolean counts 1 or 0.
    """

    seconds: int = 0
    parameter: str = ""
    per_material: bool = False
    total: tuple[tuple[str, ...], ...] = ()
    once: tuple[tuple[str, ...], ...] = ()

    def total_seconds(self, values: Mapping[str, Any], materials: int) -> int:
        """Return the duration in whole seconds for these parameter values and this number of processed materials."""
        parameter_seconds = values[self.parameter] if self.parameter else None
        seconds = Decimal(self.seconds) if parameter_seconds is None else Decimal(parameter_seconds)
        seconds += self._add_terms(self.total, values)
        seconds *= max(1, materials) if self.per_material else 1
        # Whole seconds: the clock of an episode is an integer, so that replaying it gives the same times everywhere.
        return int(seconds + self._add_terms(self.once, values))

    @staticmethod
    def _add_terms(terms: tuple[tuple[str, ...], ...], values: Mapping[str, Any]) -> Decimal:
        seconds = Decimal(0)
        for term in terms:
            factors = [values[name] for name in term]
            # A term with an omitted parameter counts as zero, as if that part of the procedure did not take place.
            if None not in factors:
                seconds += prod(map(Decimal, factors), start=Decimal(1))
        return seconds


NO_TIME = Duration()


@dataclass(frozen=True)
class ActionType:
    """An entry of the catalogue. `inputs` and `outputs` describe in words what goes in and what must result."""

    name: str
    kind: str
    description: str
    inputs: str
    outputs: str
    parameters: tuple[Parameter, ...] = ()
    min_materials: int = 1
    max_materials: int = 96
    costs_step: bool = True
    duration: Duration = NO_TIME
    fidelity: str = "bookkeeping only"
    handler: str = ""
    echo: tuple[str, ...] = ()  # parameters that the instrument repeats in its record

    def parse_parameters(self, action: Action) -> dict[str, Any]:
        """Return the typed value of every parameter. An omitted parameter has its default, or None without a default.

        Raises ParameterError if a value is invalid, a parameter is unknown or a required parameter is missing.
        """
        allowed = {parameter.name for parameter in self.parameters}
        if unknown := sorted(set(action.parameters) - allowed):
            # The allowed names are in the message, because an agent reads it and tries again.
            names = ", ".join(sorted(allowed)) or "no parameters at all"
            raise ParameterError(f"{self.name} has no parameter {unknown[0]!r}; it takes {names}")
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            text = action.parameters.get(parameter.name, parameter.default)
            if text is None:
                if parameter.required:
                    raise ParameterError(f"{self.name} needs {parameter.name}: {parameter.describe_allowed()}")
                values[parameter.name] = None
            else:
                values[parameter.name] = parameter.parse_value(text)
        return values

    def compute_seconds(self, action: Action) -> int:
        """Return the duration of a valid action in seconds. Raises ParameterError like `parse_parameters`."""
        values = self.parse_parameters(action)
        # Selected materials are used, not processed, so they do not lengthen the action.
        return self.duration.total_seconds(values, len(set(action.materials) - self.selected_materials(values)))

    def selected_materials(self, values: Mapping[str, Any]) -> set[str]:
        """Return the barcodes in material selectors. The action uses these materials but does not process them."""
        selected = [values[p.name] for p in self.parameters if p.type.endswith("material_selector")]
        return {code for value in selected if value for code in ((value,) if isinstance(value, str) else value)}


class Catalogue:
    """All action types, and the rules that apply to any action before it is simulated."""

    def __init__(self, types: Mapping[str, ActionType]) -> None:
        self.types = dict(types)

    def __len__(self) -> int:
        return len(self.types)

    @lru_cache(maxsize=8)  # noqa: B019  # benches of all episodes share the result, and with it its text for agents
    def without_action(self, name: str) -> "Catalogue":
        """Return this catalogue without the named action."""
        if name not in self.types:
            return self
        return Catalogue({key: kind for key, kind in self.types.items() if key != name})

    def find_type(self, name: str) -> ActionType | None:
        """Return the action type of this name, or None. `Experiment` may precede it; `Submit` means SUBMIT."""
        # Both spellings occur: with and without the prefix.
        short = name.removeprefix("Experiment")
        return self.types.get(name) or self.types.get(SUBMIT if short == "Submit" else short)

    def normalise_action(self, action: Action) -> Action:
        """Return the action with its name as in the catalogue, or unchanged if the catalogue does not contain it."""
        # An unknown action stays as the agent wrote it; the rejection quotes it.
        action_type = self.find_type(action.name)
        return Action(action_type.name, action.materials, action.parameters) if action_type else action

    def find_rejection(self, action: Action, inventory: Inventory) -> str:
        """Return why the catalogue rejects the action, or "" if it does not. No model is called."""
        action_type = self.find_type(action.name)
        if action_type is None:
            # Only 60 characters are quoted, because the text may be hostile.
            return f"There is no action {action.name[:60]!r}. Known actions: {', '.join(sorted(self.types))}"
        try:
            values = action_type.parse_parameters(action)
        except ParameterError as error:
            return str(error)
        return _find_material_rejection(action_type, action, values, inventory)


def _find_material_rejection(
    action_type: ActionType, action: Action, values: Mapping[str, Any], inventory: Inventory
) -> str:
    if not action_type.min_materials <= len(action.materials) <= action_type.max_materials:
        allowed = f"{action_type.min_materials} to {action_type.max_materials}"
        return (
            f"{action_type.name} takes {allowed} materials ({action_type.inputs}); {len(action.materials)} were given"
        )
    if len(set(action.materials)) != len(action.materials):
        return f"{action_type.name} names a material twice"
    for code in action.materials:
        material: Material | None = inventory.get(code)
        if material is None:
            return f"There is no material {code[:20]!r} on the bench"
        if not material.is_usable:
            return f"{material.name} ({code}) is not available any more"
    for parameter in action_type.parameters:
        selected = values[parameter.name]
        if selected is None or not parameter.type.endswith("material_selector"):
            continue
        for code in (selected,) if isinstance(selected, str) else selected:
            if code not in action.materials:
                return f"{parameter.name} names {code[:20]!r}, which is not among the materials of the action"
    return ""
