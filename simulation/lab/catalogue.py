"""Load and validate the action catalogue: one JSON file per action type."""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from simulation.lab import quantities
from simulation.lab.actions import FIDELITIES, KINDS, ActionType, Catalogue, Duration
from simulation.lab.errors import CatalogueError, LabError
from simulation.lab.parameters import PARAMETER_TYPES, Parameter
from wetbench_site.validation import (
    Allowed,
    StrictModel,
    Text,
    find_field_problems,
    find_problems,
    format_problem,
    locate_problems,
    need_unique,
    one_of,
    read_json_file,
    reject,
    reject_parts,
)

_MAX_NUMBER = 10**12  # a larger bound must be a typing error
_VALUE_TYPES = ("select", "range", "range_with_units", "boolean")  # of values inside an object parameter


def _need_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error:
        reject()
    return text


def _need_duration(text: Any) -> Any:
    if parse_amount(text, "duration").value < 0:
        raise ValueError("must be zero or more")
    return text


def parse_amount(text: Any, dimension: str) -> quantities.Quantity:
    """Return the quantity in a text for use in a validator. Raises ValueError if it is none."""
    try:
        return quantities.parse_quantity(text, dimension)
    except LabError as error:
        raise ValueError(str(error)) from error


class CountsEntry(StrictModel):
    """The least and the largest number of materials of an action."""

    min: Annotated[int, Field(ge=0)]
    max: Annotated[int, Field(ge=0, le=384)]  # wells of the largest plate

    @model_validator(mode="after")
    def _need_order(self) -> Self:
        if self.min > self.max:
            raise ValueError('must be {"min": n, "max": m} with 0 <= n <= m <= 384')
        return self


_Terms = Annotated[
    list[Annotated[list[Text], Field(min_length=1)]], Allowed("a list of lists of parameters, each a product")
]


class DurationEntry(StrictModel):
    """See `actions.Duration`."""

    default: Annotated[Any, AfterValidator(_need_duration), Allowed('a duration like "10 min"')]
    parameter: str = ""
    per_material: bool = False
    sum: _Terms = []
    once: _Terms = []


class ParameterEntry(StrictModel):
    """See `parameters.Parameter`. `keys` are those of an object: a list of names, or types and limits by name."""

    name: Text
    type: Annotated[str, *one_of(PARAMETER_TYPES)]
    description: Text
    required: bool = False
    options: Annotated[list[Text], Allowed("a list of at least one text")] = []
    dimension: str = ""
    minimum: Any = None
    maximum: Any = None
    keys: Any = None
    pattern: Annotated[str, AfterValidator(_need_pattern), Allowed("a regular expression, as text")] = ""
    max_length: Annotated[int, Field(ge=1)] = 300
    default: Any = None

    @model_validator(mode="after")
    def _need_limits(self) -> Self:
        """Check what the type of the parameter needs: options, keys, a dimension with bounds, and an allowed default."""
        problems: list[tuple[str, str]] = []
        if self.type in ("select", "multiselect") and not self.options:
            problems.append(("options", "is empty; allowed: a list of at least one text"))
        if self.type == "object":
            problems += _check_keys(self.keys)
        if self.type == "range_with_units" and self.dimension not in quantities.list_dimensions():
            allowed = ", ".join(quantities.list_dimensions())
            problems.append(("dimension", format_problem(self.dimension, allowed)))
        elif self.type in ("range", "range_with_units"):
            problems += self._check_bounds()
        if not problems and self.default is not None:
            try:
                # The default must pass the same parser that reads agents' values.
                _build_parameter(self.model_dump(exclude_unset=True)).parse_value(self.default)
            except LabError as error:
                problems.append(("default", str(error)))
        reject_parts(problems)
        return self

    def _check_bounds(self) -> list[tuple[str, str]]:
        bounds, problems = [], []
        for name in ("minimum", "maximum"):
            value = getattr(self, name)
            try:
                in_base_unit = (
                    quantities.parse_quantity(value, self.dimension).value if self.dimension else _parse_number(value)
                )
                bounds.append(in_base_unit)
            except (LabError, ArithmeticError) as error:
                problems.append((name, f"both bounds are needed: {error}"))
        return problems or ([("minimum", "is above maximum")] if bounds[0] > bounds[1] else [])


def _parse_number(value: Any) -> Decimal:
    number = Decimal(str(value))
    # Decimal accepts "Infinity" and "NaN", which are no bounds.
    if isinstance(value, bool) or not number.is_finite() or abs(number) > _MAX_NUMBER:
        raise CatalogueError(f"is {value!r}; allowed: a number up to {_MAX_NUMBER}")
    return number


def _check_keys(keys: Any) -> list[tuple[str, str]]:
    if isinstance(keys, list) and keys and all(isinstance(key, str) and key for key in keys):
        return []
    if not isinstance(keys, Mapping) or not keys:
        return [("keys", "an object must declare its keys, as a list of texts or by name")]
    problems = []
    for key, kind in keys.items():
        if not isinstance(kind, Mapping) or kind.get("type") not in _VALUE_TYPES:
            problems.append((f"keys.{key}", f"must be an object with a type; allowed: {', '.join(_VALUE_TYPES)}"))
        else:
            found = find_field_problems(ParameterEntry, {"name": key or "key", "description": "a key", **kind})
            problems += [(f"keys.{key}.{problem.field}", problem.message) for problem in found]
    return problems


class ActionEntry(StrictModel):
    """The file of one action type. See `actions.ActionType`."""

    name: Text
    kind: Annotated[str, *one_of(KINDS)]
    description: Text
    inputs: Text
    outputs: Text
    fidelity: Annotated[str, *one_of(FIDELITIES)]
    handler: Text
    parameters: Annotated[list[ParameterEntry], need_unique("name")] = []
    echo: list[str] = []
    materials: Annotated[CountsEntry, Allowed('an object like {"min": 1, "max": 96}')] = CountsEntry(min=1, max=96)
    costs_step: bool = True
    duration: Annotated[
        DurationEntry,
        Allowed('an object like {"default": "10 min"}, optionally with "parameter", "sum", "per_material" or "once"'),
    ]

    @field_validator("echo")
    @classmethod
    def _need_parameters(cls, echo: list[str], info: ValidationInfo) -> list[str]:
        names = [parameter.name for parameter in info.data.get("parameters", ())]
        return echo if set(echo) <= set(names) or "parameters" not in info.data else reject(", ".join(names))

    @field_validator("duration")
    @classmethod
    def _need_terms(cls, duration: DurationEntry, info: ValidationInfo) -> DurationEntry:
        """Check that a duration is a duration parameter, and each term of a sum one times other parameters."""
        parameters = info.data.get("parameters")
        if parameters is None:
            return duration
        times = [one.name for one in parameters if (one.type, one.dimension) == ("range_with_units", "duration")]
        numbers = [one.name for one in parameters if one.type in ("range", "boolean")]
        problems = []
        if "parameter" in duration.model_fields_set and duration.parameter not in times:
            allowed = ", ".join(times) or "none is a duration"
            problems.append(("parameter", format_problem(duration.parameter, allowed)))
        for field, term in [("sum", term) for term in duration.sum] + [("once", term) for term in duration.once]:
            if sum(name in times for name in term) != 1 or not set(term) <= {*times, *numbers}:
                allowed = f"one of {', '.join(times)}" + (f", times any of {', '.join(numbers)}" if numbers else "")
                problems.append((field, f"contains {term}; allowed: {allowed}"))
        reject_parts(problems)
        return duration


def load_catalogue(directory: Path) -> tuple[Catalogue, list[dict[str, Any]]]:
    """Return the catalogue in a directory and its raw entries. Raises CatalogueError with the problems of all files."""
    entries = load_json_files(directory, "name", check_action_type)
    return build_catalogue(entries), entries


def load_json_files(directory: Path, key: str, check: Callable[[Any], list[str]]) -> list[dict[str, Any]]:
    """Return the content of every JSON file in a directory, see `load_json_file`. Raises CatalogueError for all together."""
    entries, problems = [], []
    for path in sorted(directory.glob("*.json")):  # sorted, so that problems have the same order on every system
        try:
            entries.append(load_json_file(path, key, check))
        except CatalogueError as error:
            problems.append(str(error))
    if problems:
        raise CatalogueError("\n".join(problems))
    return entries


def load_json_file(path: Path, key: str, check: Callable[[Any], list[str]]) -> dict[str, Any]:
    """Return the content of a JSON file in which `check` finds no problem and the field `key` has the file's name.

    Raises CatalogueError with every problem as "path:line: entry.field: what is wrong and what is allowed".
    """
    data, problems = read_json_file(path)
    if not problems:
        messages = check(data)
        if isinstance(data, Mapping) and data.get(key) != path.stem:
            messages.append(f"{key}: must be the file's name, {path.stem!r}")
        problems = locate_problems(path, messages)
    if problems:
        raise CatalogueError("\n".join(problems))
    return dict(data)


def check_action_type(data: Any) -> list[str]:
    """Return every problem of one catalogue entry, each as "field: what is wrong and what is allowed"."""
    return find_problems(ActionEntry, data)


def build_catalogue(entries: Iterable[Mapping[str, Any]]) -> Catalogue:
    """Build a catalogue from validated entries of files or database rows."""
    return Catalogue({entry["name"]: _build_action_type(entry) for entry in entries})


def _build_parameter(data: Mapping[str, Any]) -> Parameter:
    built: dict[str, Any] = {"options": tuple(data["options"])} if "options" in data else {}
    if isinstance(keys := data.get("keys"), Mapping):
        built["keys"] = {key: _build_parameter({"name": key, "description": key, **kind}) for key, kind in keys.items()}
    elif keys:
        built["keys"] = dict.fromkeys(keys)
    return Parameter(**{**data, **built})


def _build_action_type(data: Mapping[str, Any]) -> ActionType:
    duration, counts = data["duration"], data.get("materials", {"min": 1, "max": 96})
    same = ("name", "kind", "description", "inputs", "outputs", "fidelity", "handler")
    return ActionType(
        **{key: data[key] for key in same},
        parameters=tuple(_build_parameter(p) for p in data.get("parameters", [])),
        min_materials=counts["min"],
        max_materials=counts["max"],
        costs_step=data.get("costs_step", True),
        duration=Duration(
            int(quantities.parse_quantity(duration["default"], "duration").value),
            duration.get("parameter", ""),
            duration.get("per_material", False),
            *(tuple(tuple(term) for term in duration.get(field, ())) for field in ("sum", "once")),
        ),
        echo=tuple(data.get("echo", ())),
    )
