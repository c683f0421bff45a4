"""Load and validate the action catalogue: one JSON file per action type."""

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from simulation.lab import json_lines, quantities
from simulation.lab.actions import FIDELITIES, KINDS, ActionType, Catalogue, Duration
from simulation.lab.errors import CatalogueError, LabError
from simulation.lab.parameters import PARAMETER_TYPES, Parameter

_FIELDS = {
    "name", "kind", "description", "inputs", "outputs", "materials", "costs_step", "duration", "fidelity", "handler",
    "parameters", "echo",
}  # fmt: skip
_PARAMETER_FIELDS = {
    "name", "type", "description", "required", "default", "options", "dimension", "minimum", "maximum", "keys",
    "pattern", "max_length",
}  # fmt: skip

_MAX_NUMBER = 10**12  # a larger bound must be a typing error
_VALUE_TYPES = ("select", "range", "range_with_units", "boolean")  # of values inside an object parameter


def load_catalogue(directory: Path) -> tuple[Catalogue, list[dict[str, Any]]]:
    """Return the catalogue in a directory and its raw entries. Raises CatalogueError with the problems of all files."""
    entries, problems = load_json_files(directory)
    for name, data in entries:
        messages = check_action_type(data)
        if isinstance(data, Mapping) and data.get("name") != name.removesuffix(".json"):
            messages.append(f"name: must be the file's name, {name.removesuffix('.json')!r}")
        problems += json_lines.locate_problems(directory / name, messages)
    if problems:
        raise CatalogueError("\n".join(problems))
    raw_entries = [data for _, data in entries]
    return build_catalogue(raw_entries), raw_entries


def load_json_files(directory: Path) -> tuple[list[tuple[str, Any]], list[str]]:
    """Return (file name, content) of every valid JSON file in a directory, and "path:line: problem" of every other."""
    entries, problems = [], []
    for path in sorted(directory.glob("*.json")):  # sorted, so that problems have the same order on every system
        text = ""
        try:
            text = path.read_text(encoding="utf-8")
            data = json.loads(
                # Strict parsing: NaN is no JSON, and of two equal fields the parser would silently use the last.
                text,
                parse_constant=json_lines.reject_constant,
                object_pairs_hook=json_lines.reject_duplicates,
            )
            _check_storable(json.dumps(data, ensure_ascii=False))
            entries.append((path.name, data))
        except (ValueError, RecursionError) as error:
            problems.append(json_lines.describe_invalid_json(path, text, error))
    return entries, problems


def _check_storable(text: str) -> None:
    """Raise ValueError if the text contains unpaired surrogates or NUL, which databases reject."""
    text.encode()
    if "\\u0000" in text:
        raise ValueError("contains the character NUL")


def build_catalogue(entries: Iterable[Mapping[str, Any]]) -> Catalogue:
    """Build a catalogue from validated entries of files or database rows."""
    return Catalogue({entry["name"]: _build_action_type(entry) for entry in entries})


def check_action_type(data: Any) -> list[str]:
    """Return every problem of one catalogue entry, each as "field: what is wrong and what is allowed"."""
    if not isinstance(data, Mapping):
        return ["the file must contain one JSON object"]
    problems = [f"{key}: unknown field; allowed: {', '.join(sorted(_FIELDS))}" for key in sorted(set(data) - _FIELDS)]
    for key in ("name", "kind", "description", "inputs", "outputs", "fidelity", "handler"):
        if not isinstance(data.get(key), str) or not data[key]:
            problems.append(f"{key}: must be text and not empty")
    for key, allowed in (("kind", KINDS), ("fidelity", FIDELITIES)):
        if isinstance(data.get(key), str) and data[key] not in allowed:
            problems.append(f"{key}: is {data[key]!r}; allowed: {', '.join(allowed)}")
    parameters = data.get("parameters", [])
    if not isinstance(parameters, list):
        return [*problems, "parameters: must be a list"]
    names = [p.get("name") for p in parameters if isinstance(p, Mapping)]
    problems += [f"parameters: {name!r} occurs twice" for name in sorted({str(n) for n in names if names.count(n) > 1})]
    for index, parameter in enumerate(parameters):
        problems += [f"parameters[{index}].{problem}" for problem in _check_parameter(parameter)]
    problems += _check_echo(data.get("echo", []), names)
    kinds = {str(p["name"]): p for p in parameters if isinstance(p, Mapping) and isinstance(p.get("name"), str)}
    return problems + _check_counts(data) + _check_duration(data.get("duration"), kinds)


def _check_echo(echo: Any, names: list[Any]) -> list[str]:
    is_valid = isinstance(echo, list) and all(name in names for name in echo)
    return [] if is_valid else [f"echo: must be a list of parameters; allowed: {', '.join(map(str, names))}"]


def _check_counts(data: Mapping[str, Any]) -> list[str]:
    counts = data.get("materials", {"min": 1, "max": 96})
    is_valid = (
        isinstance(counts, Mapping)
        and set(counts) == {"min", "max"}
        # Booleans are integers in Python.
        and all(isinstance(n, int) and not isinstance(n, bool) for n in counts.values())
        and 0 <= counts["min"] <= counts["max"] <= 384  # 384 wells: the largest plate
    )
    problems = [] if is_valid else ['materials: must be {"min": n, "max": m} with 0 <= n <= m <= 384']
    if not isinstance(data.get("costs_step", True), bool):
        problems.append("costs_step: must be true or false")
    return problems


def _check_duration(duration: Any, parameters: Mapping[str, Any]) -> list[str]:
    if not isinstance(duration, Mapping) or set(duration) - {"default", "parameter", "per_material", "sum"}:
        return ['duration: must be {"default": "10 min"}, optionally with "parameter", "sum" or "per_material"']
    problems = []
    try:
        if quantities.parse_quantity(duration.get("default"), "duration").value < 0:
            problems.append("duration.default: must be zero or more")
    except LabError as error:
        problems.append(f"duration.default: {error}")
    if not isinstance(duration.get("per_material", False), bool):
        problems.append("duration.per_material: must be true or false")
    terms = duration.get("sum", [])
    if not isinstance(terms, list) or not all(_is_text_list(term) for term in terms):
        return [*problems, "duration.sum: must be a list of lists of parameters, each list a product"]
    typed = {name: (kind.get("type"), kind.get("dimension")) for name, kind in parameters.items()}
    times = [name for name, of in typed.items() if of == ("range_with_units", "duration")]
    numbers = [name for name, kind in parameters.items() if kind.get("type") == "range"]
    if "parameter" in duration and duration["parameter"] not in times:
        problems.append(
            f"duration.parameter: is {duration['parameter']!r}; allowed: {', '.join(times) or 'none is a duration'}"
        )
    return problems + [
        _describe_term_problem(term, times, numbers) for term in terms if not _is_duration_term(term, times, numbers)
    ]


def _is_duration_term(term: list[str], times: list[str], numbers: list[str]) -> bool:
    """Return whether a term is a product of exactly one duration parameter and any number of numeric parameters."""
    return sum(name in times for name in term) == 1 and all(name in times or name in numbers for name in term)


def _describe_term_problem(term: list[str], times: list[str], numbers: list[str]) -> str:
    allowed = f"one of {', '.join(times)}" + (f", times any of {', '.join(numbers)}" if numbers else "")
    return f"duration.sum: contains {term}; allowed: {allowed}"


def _check_parameter(data: Any) -> list[str]:
    if not isinstance(data, Mapping):
        return [": must be an object"]
    allowed = ", ".join(sorted(_PARAMETER_FIELDS))
    problems = [f"{key}: unknown field; allowed: {allowed}" for key in sorted(set(data) - _PARAMETER_FIELDS)]
    problems += [
        f"{key}: must be text and not empty"
        for key in ("name", "description")
        if not isinstance(data.get(key), str) or not data[key]
    ]
    kind = data.get("type")
    if kind not in PARAMETER_TYPES:
        return [*problems, f"type: is {kind!r}; allowed: {', '.join(PARAMETER_TYPES)}"]
    if kind in ("select", "multiselect") and not _is_text_list(data.get("options")):
        problems.append("options: a select needs a list of at least one text")
    if kind == "object":
        problems += _check_keys(data.get("keys"))
    if kind == "range_with_units" and data.get("dimension") not in quantities.list_dimensions():
        problems.append(f"dimension: is {data.get('dimension')!r}; allowed: {', '.join(quantities.list_dimensions())}")
        return problems
    if kind in ("range", "range_with_units"):
        problems += _check_bounds(data)
    problems += _check_text(data)
    if not isinstance(data.get("required", False), bool):
        problems.append("required: must be true or false")
    if not problems and data.get("default") is not None:
        try:
            # The default must pass the same parser that reads agents' values.
            _build_parameter(data).parse_value(data["default"])
        except LabError as error:
            problems.append(f"default: {error}")
    return problems


def _check_keys(keys: Any) -> list[str]:
    """Return the problems of an object parameter's `keys`: a list of names, or {name: type and limits of the value}."""
    if not isinstance(keys, Mapping):
        return [] if _is_text_list(keys) else ["keys: an object must declare its keys, as a list of texts or by name"]
    problems = [] if keys else ["keys: an object must declare at least one key"]
    for key, kind in keys.items():
        if not isinstance(kind, Mapping) or kind.get("type") not in _VALUE_TYPES:
            problems.append(f"keys.{key}: must be an object with a type; allowed: {', '.join(_VALUE_TYPES)}")
        else:
            named = {"name": key, "description": key, **kind}
            problems += [f"keys.{key}.{problem}" for problem in _check_parameter(named)]
    return problems


def _check_text(data: Mapping[str, Any]) -> list[str]:
    problems = []
    pattern, longest = data.get("pattern", ""), data.get("max_length", 1)
    try:
        # "(" is an invalid pattern, so that a value that is not text is reported like an invalid pattern.
        re.compile(pattern if isinstance(pattern, str) else "(")
    except re.error:
        problems.append(f"pattern: is {pattern!r}; allowed: a regular expression, as text")
    if not isinstance(longest, int) or isinstance(longest, bool) or longest < 1:
        problems.append(f"max_length: is {longest!r}; allowed: a whole number from 1")
    return problems


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) and text for text in value)


def _check_bounds(data: Mapping[str, Any]) -> list[str]:
    bounds: dict[str, Decimal] = {}
    problems = []
    for key in ("minimum", "maximum"):
        try:
            if data["type"] == "range":
                bounds[key] = _parse_number(data[key])
            else:
                bounds[key] = quantities.parse_quantity(data.get(key), data["dimension"]).value
        except (LabError, KeyError, ArithmeticError) as error:
            problems.append(f"{key}: both bounds are needed: {error}")
    if len(bounds) == 2 and bounds["minimum"] > bounds["maximum"]:
        problems.append("minimum: is above maximum")
    return problems


def _parse_number(value: Any) -> Decimal:
    number = Decimal(str(value))
    # Decimal accepts "Infinity" and "NaN", which are no bounds.
    if isinstance(value, bool) or not number.is_finite() or abs(number) > _MAX_NUMBER:
        raise CatalogueError(f"is {value!r}; allowed: a number up to {_MAX_NUMBER}")
    return number


def _build_parameter(data: Mapping[str, Any]) -> Parameter:
    built: dict[str, Any] = {"options": tuple(data["options"])} if "options" in data else {}
    if isinstance(keys := data.get("keys"), Mapping):
        built["keys"] = {key: _build_parameter({"name": key, "description": key, **kind}) for key, kind in keys.items()}
    elif keys:
        built["keys"] = dict.fromkeys(keys)
    return Parameter(**{**data, **built})


def _build_action_type(data: Mapping[str, Any]) -> ActionType:
    duration, counts = data["duration"], data.get("materials", {"min": 1, "max": 96})
    return ActionType(
        name=data["name"],
        kind=data["kind"],
        description=data["description"],
        inputs=data["inputs"],
        outputs=data["outputs"],
        parameters=tuple(_build_parameter(p) for p in data.get("parameters", [])),
        min_materials=counts["min"],
        max_materials=counts["max"],
        costs_step=data.get("costs_step", True),
        duration=Duration(
            int(quantities.parse_quantity(duration["default"], "duration").value),
            duration.get("parameter", ""),
            duration.get("per_material", False),
            tuple(tuple(term) for term in duration.get("sum", ())),
        ),
        fidelity=data["fidelity"],
        handler=data["handler"],
        echo=tuple(data.get("echo", ())),
    )
