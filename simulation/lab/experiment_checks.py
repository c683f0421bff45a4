"""Checks an experiment file: every problem names its entry, its field and what is allowed there."""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities, rubrics
from simulation.lab.actions import Action, ActionType, Catalogue
from simulation.lab.errors import CatalogueError, LabError
from simulation.lab.materials import AVAILABILITY, CONDITIONS, MATERIAL_TYPES

ROLES = ("control", "calibration", "sample", "preparation", "")

_FIELDS = {
    "slug", "name", "group", "goal", "max_steps", "provenance", "materials", "truth", "protocol", "rubric",
}  # fmt: skip
_MATERIAL_FIELDS = {
    "key", "name", "properties", "available_for_use", "material_type", "environmental_condition", "contents",
}  # fmt: skip
_STEP_FIELDS = {"action", "materials", "parameters", "yields", "role"}
_MEASURED = {
    "volume": "volume",
    "mass": "mass",
    "container_capacity": "volume",
    "temperature": "temperature",
}
# A concentration times a volume in µL is an amount: dimension of the concentration -> (that of the amount, divisor).
_CONCENTRATIONS = {
    "mass_concentration": ("mass", Decimal(1000)),
    "molar_concentration": ("amount", Decimal(1000)),
    "number_density": ("count", Decimal(1000)),
    "ratio": ("volume", Decimal(100)),
}
_MOST = 1000  # materials an outcome may hold
_AMOUNTS = ("mass", "amount", "count", "volume")
_KEY = re.compile(r"[a-z][a-z0-9_]{0,59}")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def read_content(content: Mapping[str, Any], volume: Decimal | None) -> tuple[str, Decimal]:
    """(dimension, amount in its kept unit) of a component in a material of that volume in µL. CatalogueError if wrong."""
    if ("concentration" in content) == ("amount" in content):
        raise CatalogueError('must hold either "concentration" or "amount"')
    if "amount" in content:
        return _parse_any(content["amount"], _AMOUNTS)
    dimension, value = _parse_any(content["concentration"], _CONCENTRATIONS)
    if volume is None:
        raise CatalogueError('a "concentration" needs the material\'s properties.volume; allowed besides: "amount"')
    amount_dimension, divisor = _CONCENTRATIONS[dimension]
    return amount_dimension, value * volume / divisor


def check(data: Any, catalogue: Catalogue) -> list[str]:
    """Every problem of one experiment as "entry.field: what is wrong and what is allowed"."""
    if not isinstance(data, Mapping):
        return ["the file must hold one JSON object"]
    problems = _unknown(data, _FIELDS) + _texts(data, ("slug", "name", "group", "goal", "provenance"))
    if isinstance(data.get("slug"), str) and not _SLUG.fullmatch(data["slug"]):
        problems.append(f"slug: is {data['slug']!r}; allowed: small letters and digits, joined by single hyphens")
    steps = data.get("max_steps")
    if not isinstance(steps, int) or isinstance(steps, bool) or not 1 <= steps <= 1000:
        problems.append(f"max_steps: is {steps!r}; allowed: a whole number from 1 to 1000")
    if not isinstance(data.get("truth", {}), Mapping):
        problems.append("truth: must be an object")
    lists = {key: data.get(key, []) for key in ("materials", "protocol", "rubric")}
    wrong = [f"{key}: must be a list" for key, value in lists.items() if not isinstance(value, list)]
    if wrong:
        return problems + wrong
    if not lists["materials"]:
        problems.append("materials: must hold at least one material")
    problems += _each("materials", lists["materials"], _check_material)
    problems += _twice("materials", "key", lists["materials"]) + _twice("materials", "name", lists["materials"])
    problems += _check_protocol(lists["protocol"], _named(lists["materials"], "key"), catalogue)
    names = _named(lists["materials"], "name")
    return problems + rubrics.check(lists["rubric"], names, catalogue)


def _check_material(data: Mapping[str, Any]) -> list[str]:
    problems = _unknown(data, _MATERIAL_FIELDS) + _texts(data, ("key", "name"))
    if isinstance(data.get("key"), str) and not _KEY.fullmatch(data["key"]):
        problems.append(f"key: is {data['key']!r}; allowed: small letters, digits and underscores")
    for key, allowed in (
        ("available_for_use", AVAILABILITY),
        ("material_type", MATERIAL_TYPES),
        ("environmental_condition", CONDITIONS),
    ):
        if data.get(key) not in allowed:
            problems.append(f"{key}: is {data.get(key)!r}; allowed: {', '.join(allowed)}")
    properties = data.get("properties")
    if not isinstance(properties, Mapping):
        return [*problems, f"properties: is {properties!r}; allowed: an object of texts"]
    for key, value in properties.items():
        problems += [f"properties.{key}: {problem}" for problem in _check_property(key, value)]
    volume, capacity = _volume(properties), _volume(properties, "container_capacity")
    if volume is not None and capacity is not None and volume > capacity:
        problems.append(f"properties.volume: is {properties['volume']!r}; allowed: no more than container_capacity")
    return problems + _check_contents(data.get("contents", {}), properties)


def _check_property(key: str, value: Any) -> list[str]:
    if not isinstance(value, str) or not value:
        return [f"is {value!r}; allowed: text, not empty"]
    dimension = _MEASURED.get(key)
    try:
        if dimension and quantities.parse(value, dimension).value < 0 and dimension != "temperature":
            return [f"is {value!r}; allowed: no less than zero"]
    except quantities.QuantityError as error:
        return [str(error)]
    return []


def _check_contents(contents: Any, properties: Mapping[str, Any]) -> list[str]:
    if not isinstance(contents, Mapping):
        return [f"contents: is {contents!r}; allowed: an object of components"]
    problems = []
    for component, content in contents.items():
        place = f"contents.{component}"
        if not isinstance(content, Mapping):
            problems.append(f'{place}: allowed: {{"concentration" or "amount": "1 mg/mL", "known": true or false}}')
            continue
        problems += [f"{place}.{problem}" for problem in _unknown(content, {"concentration", "amount", "known"})]
        if not isinstance(content.get("known"), bool):
            problems.append(f"{place}.known: is {content.get('known')!r}; allowed: true, false")
        try:
            read_content(content, _volume(properties))
        except LabError as error:
            problems.append(f"{place}: {error}")
        problems += _check_shown(component, content, properties)
    return problems


def _check_shown(component: str, content: Mapping[str, Any], properties: Mapping[str, Any]) -> list[str]:
    """What the properties show of a component must be what it holds, and nothing where that is unknown."""
    name = f"{component} concentration"
    if name not in properties:
        return []
    if content.get("known") is False:
        return [f"properties.{name}: shows what contents.{component} hides; allowed: leave it out"]
    for dimension in _CONCENTRATIONS:
        try:
            texts = (properties[name], content.get("concentration"))
            shown, held = (quantities.parse(text, dimension).value for text in texts)
        except quantities.QuantityError:
            continue
        return [] if shown == held else [f"properties.{name}: is {texts[0]!r}; allowed: {texts[1]!r}, as in contents"]
    return [f"properties.{name}: is {properties[name]!r}; allowed: {content.get('concentration')!r}, as in contents"]


def _volume(properties: Mapping[str, Any], name: str = "volume") -> Decimal | None:
    try:
        return quantities.parse(properties[name], "volume").value
    except (KeyError, quantities.QuantityError):
        return None


def _check_protocol(protocol: list[Any], keys: list[str], catalogue: Catalogue) -> list[str]:
    """Steps are read in order: a step may name material keys and what earlier steps yielded, nothing else."""
    problems: list[str] = []
    known = list(keys)
    for index, step in enumerate(protocol):
        place = f"protocol[{index}]"
        if not isinstance(step, Mapping):
            problems.append(f"{place}: must be an object")
            continue
        problems += [f"{place}.{problem}" for problem in _check_step(step, known, catalogue)]
        yields = step.get("yields", {})
        known += [label for label in yields if label not in known] if isinstance(yields, Mapping) else []
    return problems


def _check_step(step: Mapping[str, Any], known: list[str], catalogue: Catalogue) -> list[str]:
    problems = _unknown(step, _STEP_FIELDS)
    if step.get("role", "") not in ROLES:
        problems.append(f"role: is {step.get('role')!r}; allowed: {', '.join(role or 'empty' for role in ROLES)}")
    problems += _check_yields(step.get("yields", {}), known)
    materials, parameters = step.get("materials", []), step.get("parameters", {})
    if not isinstance(materials, list) or not isinstance(parameters, Mapping):
        return [*problems, "materials and parameters: must be a list and an object"]
    written = list(materials) + [name for value in parameters.values() for name in references(value)]
    problems += [f"materials: {ref!r} is not on the bench yet; allowed: {', '.join(known)}" for ref in written
                 if ref not in known]  # fmt: skip
    action = catalogue.find(step["action"]) if isinstance(step.get("action"), str) else None
    if action is None:
        allowed = ", ".join(sorted(catalogue.types))
        return [*problems, f"action: is {step.get('action')!r}; allowed: {allowed}"]
    return problems + _check_use(action, materials, parameters)


def _check_use(action: ActionType, materials: list[Any], parameters: Mapping[str, Any]) -> list[str]:
    problems = []
    if not action.min_materials <= len(materials) <= action.max_materials:
        problems.append(
            f"materials: {len(materials)} given; allowed for {action.name}: "
            f"{action.min_materials} to {action.max_materials}"
        )
    try:
        action.values(Action(action.name, (), {name: without_marks(value) for name, value in parameters.items()}))
    except LabError as error:
        problems.append(f"parameters: {error}")
    selectors = [p.name for p in action.parameters if p.type.endswith("material_selector") and p.name in parameters]
    for name in selectors:
        if not (named := references(parameters[name])) or any(ref not in materials for ref in named):
            allowed = ", ".join(f"@{ref}" for ref in materials)
            problems.append(
                f"parameters.{name}: is {parameters[name]!r}; allowed, from the step's materials: {allowed}"
            )
    return problems


def _check_yields(yields: Any, known: list[str]) -> list[str]:
    if not isinstance(yields, Mapping) or any(
        isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < _MOST for index in yields.values()
    ):
        return [f"yields: must map labels to positions in the outcome's new materials, from 0 to {_MOST - 1}"]
    return [f"yields.{label}: stands twice; allowed: a name no material has yet" for label in yields if label in known]


def references(value: Any) -> list[str]:
    """The "@ref" texts inside a parameter's value, without the mark."""
    if isinstance(value, str):
        return [value[1:]] if value.startswith("@") else []
    return [name for part in value for name in references(part)] if isinstance(value, list | tuple) else []


def without_marks(value: Any) -> Any:
    """The value with every "@ref" as a bare name: the form a barcode has."""
    if isinstance(value, str):
        return value.removeprefix("@")
    return [without_marks(part) for part in value] if isinstance(value, list | tuple) else value


def _parse_any(text: Any, dimensions: Iterable[str]) -> tuple[str, Decimal]:
    for dimension in dimensions if isinstance(text, str) else ():
        try:
            value = quantities.parse(text, dimension).value
        except quantities.QuantityError:
            continue
        if value >= 0:
            return dimension, value
    units = ", ".join(unit for dimension in dimensions for unit in quantities.units(dimension) if unit)
    raise CatalogueError(f"is {text!r}; allowed: zero or more, as text with a unit of {units}")


def _each(place: str, entries: list[Any], check_one: Callable[[Mapping[str, Any]], list[str]]) -> list[str]:
    problems = []
    for index, entry in enumerate(entries):
        found = check_one(entry) if isinstance(entry, Mapping) else ["must be an object"]
        problems += [f"{place}[{index}].{problem}" for problem in found]
    return problems


def _named(entries: list[Any], key: str) -> list[str]:
    return [entry[key] for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get(key), str)]


def _twice(place: str, key: str, entries: list[Any]) -> list[str]:
    names = _named(entries, key)
    return [f"{place}: the {key} {name!r} stands twice" for name in sorted(set(names)) if names.count(name) > 1]


def _unknown(data: Mapping[str, Any], allowed: set[str]) -> list[str]:
    return [f"{key}: unknown field; allowed: {', '.join(sorted(allowed))}" for key in sorted(set(data) - allowed)]


def _texts(data: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    return [
        f"{key}: is {data.get(key)!r}; allowed: text, not empty"
        for key in keys
        if not isinstance(data.get(key), str) or not data[key]
    ]
