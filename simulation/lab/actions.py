"""What can be done: action types with their parameters and durations, and one choice among them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import prod
from typing import Any, NamedTuple, Self

from simulation.lab.materials import Inventory, Material
from simulation.lab.parameters import Parameter, ParameterError

KINDS = ("transformation", "measurement", "synthesis", "control")
FIDELITIES = ("quantities computed", "state tracked", "bookkeeping only")
SUBMIT, QUIT = "SubmitMaterialsObservationsForReview", "Quit"


@dataclass(frozen=True)
class Action:
    """One choice of an action: its name, the barcodes it is done to, its parameters as written."""

    name: str
    materials: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "materials": list(self.materials), "parameters": dict(self.parameters)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(str(data["name"]), tuple(data["materials"]), dict(data["parameters"]))


class Duration(NamedTuple):
    """How long an action takes: a fixed time or what `parameter` says, and what `total` adds to it.

    Each term of `total` is the product of the parameters it names, so that a run time times its injections counts; one
    with a parameter left out counts nothing. Done one by one, all that times the number of materials worked on, of which
    there is always one: a run of nothing but blanks and controls takes its time as well.
    """

    seconds: int = 0
    parameter: str = ""
    per_material: bool = False
    total: tuple[tuple[str, ...], ...] = ()

    def of(self, values: Mapping[str, Any], materials: int) -> int:
        """Whole seconds, with the typed values of the parameters."""
        chosen = values[self.parameter] if self.parameter else None
        seconds = Decimal(self.seconds) if chosen is None else Decimal(chosen)
        for term in self.total:
            factors = [values[name] for name in term]
            if None not in factors:
                seconds += prod(map(Decimal, factors), start=Decimal(1))
        return int(seconds * (max(1, materials) if self.per_material else 1))


NO_TIME = Duration()


@dataclass(frozen=True)
class ActionType:
    """An entry of the catalogue. `inputs` and `outputs` say in words what goes in and what must come out."""

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
    echo: tuple[str, ...] = ()  # parameters that the instrument writes into its record

    def values(self, action: Action) -> dict[str, Any]:
        """Typed values of all parameters, defaults filled in (None where there is none). ParameterError if any is wrong."""
        known = {parameter.name for parameter in self.parameters}
        if unknown := sorted(set(action.parameters) - known):
            names = ", ".join(sorted(known)) or "no parameters at all"
            raise ParameterError(f"{self.name} has no parameter {unknown[0]!r}; it takes {names}")
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            written = action.parameters.get(parameter.name, parameter.default)
            if written is None:
                if parameter.required:
                    raise ParameterError(f"{self.name} needs {parameter.name}: {parameter.allowed()}")
                values[parameter.name] = None
            else:
                values[parameter.name] = parameter.read(written)
        return values

    def seconds(self, action: Action) -> int:
        """How long this action takes. Call it only after `values` accepted the action."""
        values = self.values(action)
        return self.duration.of(values, len(set(action.materials) - self.named(values)))

    def named(self, values: Mapping[str, Any]) -> set[str]:
        """The barcodes that selectors name: what an action is done with, rather than to."""
        chosen = [values[p.name] for p in self.parameters if p.type.endswith("material_selector")]
        return {code for value in chosen if value for code in ((value,) if isinstance(value, str) else value)}


class Catalogue:
    """All action types, and the rules that hold for any action before anyone simulates it."""

    def __init__(self, types: Mapping[str, ActionType]) -> None:
        self.types = dict(types)

    def __len__(self) -> int:
        return len(self.types)

    def without(self, name: str) -> "Catalogue":
        """The same catalogue less one action."""
        if name not in self.types:
            return self
        return Catalogue({key: kind for key, kind in self.types.items() if key != name})

    def find(self, name: str) -> ActionType | None:
        """The type of that name, with or without the prefix `Experiment`; `Submit` is short for the long one."""
        short = name.removeprefix("Experiment")
        return self.types.get(name) or self.types.get(SUBMIT if short == "Submit" else short)

    def read(self, action: Action) -> Action:
        """The action under its catalogue name; unchanged if the catalogue does not know it."""
        known = self.find(action.name)
        return Action(known.name, action.materials, action.parameters) if known else action

    def refuse(self, action: Action, inventory: Inventory) -> str:
        """Why the action cannot even be tried; "" if it can. Costs no call of any model."""
        known = self.find(action.name)
        if known is None:
            return f"There is no action {action.name[:60]!r}. Known actions: {', '.join(sorted(self.types))}"
        try:
            values = known.values(action)
        except ParameterError as error:
            return str(error)
        return _refuse_materials(known, action, values, inventory)


def _refuse_materials(known: ActionType, action: Action, values: Mapping[str, Any], inventory: Inventory) -> str:
    if not known.min_materials <= len(action.materials) <= known.max_materials:
        wanted = f"{known.min_materials} to {known.max_materials}"
        return f"{known.name} takes {wanted} materials ({known.inputs}); {len(action.materials)} were given"
    if len(set(action.materials)) != len(action.materials):
        return f"{known.name} names a material twice"
    for code in action.materials:
        material: Material | None = inventory.get(code)
        if material is None:
            return f"There is no material {code[:20]!r} on the bench"
        if not material.usable:
            return f"{material.name} ({code}) is not available any more"
    for parameter in known.parameters:
        chosen = values[parameter.name]
        if chosen is None or not parameter.type.endswith("material_selector"):
            continue
        for code in (chosen,) if isinstance(chosen, str) else chosen:
            if code not in action.materials:
                return f"{parameter.name} names {code[:20]!r}, which is not among the materials of the action"
    return ""
