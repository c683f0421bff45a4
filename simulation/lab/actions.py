"""What can be done: action types with typed, bounded parameters, and one choice among them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import prod
from typing import Any, NamedTuple, Self

from simulation.lab import quantities
from simulation.lab.errors import LabError
from simulation.lab.materials import Inventory, Material

KINDS = ("transformation", "measurement", "synthesis", "control")
FIDELITIES = ("quantities computed", "state tracked", "bookkeeping only")
PARAMETER_TYPES = (
    "select",
    "multiselect",
    "range",
    "range_with_units",
    "boolean",
    "object",
    "material_selector",
    "multi_material_selector",
    "text",
)
SUBMIT, QUIT = "SubmitMaterialsObservationsForReview", "Quit"

_LONGEST_OBJECT = 2000
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,9})?")


class ParameterError(LabError):
    """A parameter's value is not allowed; the message says what is."""


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


@dataclass(frozen=True)
class Parameter:
    """One parameter of an action type: `type` is one of PARAMETER_TYPES, bounds are inclusive."""

    name: str
    type: str
    description: str
    required: bool = False
    default: Any = None
    options: tuple[str, ...] = ()
    dimension: str = ""
    minimum: Any = None
    maximum: Any = None
    keys: "Mapping[str, Parameter | None]" = field(default_factory=dict)  # of an object; None: any value
    pattern: str = ""
    max_length: int = 300

    def read(self, value: Any) -> Any:
        """The typed value: Decimal in the dimension's kept unit, bool, str, tuple of str, or dict. ParameterError if not allowed."""
        return getattr(self, f"_read_{self.type}")(value)

    def allowed(self) -> str:
        """What may be written here, for people."""
        match self.type:
            case "select" | "multiselect":
                return ("one of " if self.type == "select" else "any of ") + ", ".join(self.options)
            case "range" | "range_with_units":
                unit = f", in {'/'.join(u for u in quantities.units(self.dimension) if u)}" if self.dimension else ""
                return f"{self.minimum} to {self.maximum}{unit}"
            case "boolean":
                return "true or false"
            case "object":
                return "keys " + ", ".join(
                    f"{key} ({kind.allowed()})" if kind else key for key, kind in self.keys.items()
                )
            case "text":
                return f"text of at most {self.max_length} characters"
            case _:
                return "a barcode" if self.type == "material_selector" else "one or more barcodes"

    def _read_select(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.options:
            raise ParameterError(f"{self.name} is {value!r}; it must be {self.allowed()}")
        return value

    def _read_multiselect(self, value: Any) -> tuple[str, ...]:
        chosen = _list(value)
        if not chosen or any(v not in self.options for v in chosen):
            raise ParameterError(f"{self.name} is {value!r}; it must be {self.allowed()}")
        return chosen

    def _read_range(self, value: Any) -> Decimal:
        if isinstance(value, bool) or not _PLAIN_NUMBER.fullmatch(str(value).strip()):
            raise ParameterError(f"{self.name} is {value!r}; it must be a number from {self.allowed()}")
        return self._bounded(Decimal(str(value).strip()), value, Decimal(str(self.minimum)), Decimal(str(self.maximum)))

    def _read_range_with_units(self, value: Any) -> Decimal:
        try:
            amount = quantities.parse(value, self.dimension).value
        except quantities.QuantityError as error:
            raise ParameterError(f"{self.name}: {error}") from error
        low, high = (quantities.parse(bound, self.dimension).value for bound in (self.minimum, self.maximum))
        return self._bounded(amount, value, low, high)

    def _read_boolean(self, value: Any) -> bool:
        if value is True or value == "true":
            return True
        if value is False or value == "false":
            return False
        raise ParameterError(f"{self.name} is {value!r}; it must be true or false")

    def _read_object(self, value: Any) -> dict[str, Any]:
        """The declared keys with their typed values; `{FSC:400 V,SSC:500 V}` as text is read as well."""
        written = _pairs(value) if isinstance(value, str) else value
        if not isinstance(written, Mapping) or not written or any(key not in self.keys for key in written):
            raise ParameterError(f"{self.name} is {value!r}; it takes the keys {', '.join(self.keys)}")
        return {key: part if (kind := self.keys[key]) is None else kind.read(part) for key, part in written.items()}

    def _read_material_selector(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ParameterError(f"{self.name} is {value!r}; it must be one barcode")
        return value

    def _read_multi_material_selector(self, value: Any) -> tuple[str, ...]:
        chosen = _list(value)
        if not chosen:
            raise ParameterError(f"{self.name} is {value!r}; it must be one or more barcodes")
        return chosen

    def _read_text(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > self.max_length:
            raise ParameterError(f"{self.name} must be text of at most {self.max_length} characters")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise ParameterError(f"{self.name} is {value[:60]!r}; {self.description}")
        return value

    def _bounded(self, amount: Decimal, written: Any, low: Decimal, high: Decimal) -> Decimal:
        if not low <= amount <= high:
            raise ParameterError(f"{self.name} is {written}; it must be {self.allowed()}")
        return amount


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


def _list(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    return ()


def _pairs(text: str) -> dict[str, str] | None:
    """`{key:value,key:value}` as a dict; None if it is not written so. Neither keys nor values hold commas."""
    inside = text.strip()
    if len(inside) > _LONGEST_OBJECT or not (inside.startswith("{") and inside.endswith("}")):
        return None
    pairs = [part.partition(":") for part in inside[1:-1].split(",")]
    if not all(colon for _, colon, _ in pairs):
        return None
    return {key.strip(): value.strip() for key, _, value in pairs}
