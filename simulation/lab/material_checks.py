"""Validate the materials of an experiment file: their fields, contents and wells."""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.errors import CatalogueError, LabError
from simulation.lab.materials import AVAILABILITY, CONDITIONS, CONTENT_KINDS, MATERIAL_TYPES
from simulation.lab.validation import check_each, check_texts, find_duplicates, find_unknown_fields, list_names

_MATERIAL_FIELDS = {
    "key", "name", "properties", "available_for_use", "material_type", "environmental_condition", "contents", "tare",
    "wells",
}  # fmt: skip
_WELL_FIELDS = {"well", "key", "name", "properties", "contents"}
_CONTENT_FIELDS = {"concentration", "amount", "known", "kind"}
_MEASURED = {
    "volume": "volume",
    "mass": "mass",
    "container_capacity": "volume",
    "dead_volume": "volume",
    "temperature": "temperature",
    "freezing point": "temperature",
    "density": "density",
    "tablet mass": "mass",
}
# Dimension of a concentration -> (dimension of the amount, divisor of the concentration times the volume in µL).
_CONCENTRATIONS = {
    "mass_concentration": ("mass", Decimal(1000)),
    "molar_concentration": ("amount", Decimal(1000)),
    "number_density": ("count", Decimal(1000)),
    "ratio": ("volume", Decimal(100)),  # percentage by volume
    "activity": ("enzyme_units", Decimal(1000)),
}
_AMOUNTS = ("mass", "amount", "count", "volume", "enzyme_units")
_KEY = re.compile(r"[a-z][a-z0-9_]{0,59}")


def parse_content(content: Mapping[str, Any], volume: Decimal | None) -> tuple[str, Decimal]:
    """Return (dimension, amount in its base unit) of a component. `volume` is the volume of its material in µL.

    Raises CatalogueError if the content is invalid.
    """
    # If both were given, they could contradict each other.
    if ("concentration" in content) == ("amount" in content):
        raise CatalogueError('must contain either "concentration" or "amount"')
    if "amount" in content:
        return _parse_any(content["amount"], _AMOUNTS)
    dimension, value = _parse_any(content["concentration"], _CONCENTRATIONS)
    if volume is None:
        raise CatalogueError('a "concentration" needs the material\'s properties.volume; allowed besides: "amount"')
    amount_dimension, divisor = _CONCENTRATIONS[dimension]
    return amount_dimension, value * volume / divisor


def parse_concentration(content: Mapping[str, Any]) -> tuple[str, Decimal]:
    """Return (dimension of the component's amount, concentration in the base unit of its own dimension).

    Raises CatalogueError if the content is not a concentration.
    """
    dimension, value = _parse_any(content["concentration"], _CONCENTRATIONS)
    return _CONCENTRATIONS[dimension][0], value


def check_materials(materials: Sequence[Any]) -> list[str]:
    """Return every problem of the initial materials of an experiment."""
    materials_and_wells = list(materials) + list_wells(materials)
    problems = [] if materials else ["materials: must contain at least one material"]
    problems += check_each("materials", materials, check_material)
    return (
        problems
        + find_duplicates("materials", "key", materials_and_wells)
        + find_duplicates("materials", "name", materials_and_wells)
    )


def list_wells(materials: Iterable[Any]) -> list[Any]:
    """Return the wells of all plates among the materials."""
    plates = [entry["wells"] for entry in materials if isinstance(entry, Mapping) and "wells" in entry]
    return [well for plate in plates if isinstance(plate, list) for well in plate]


def list_keys(materials: Sequence[Any]) -> list[str]:
    """Return the keys of all materials and wells. The hidden truth may name these as origins."""
    return list_names(materials, "key") + list_names(list_wells(materials), "key")


def list_components(materials: Sequence[Any]) -> set[str]:
    """Return the names of all components in the materials and their wells."""
    all_contents = [
        entry.get("contents") for entry in [*materials, *list_wells(materials)] if isinstance(entry, Mapping)
    ]
    return {name for contents in all_contents if isinstance(contents, Mapping) for name in contents}


def check_material(data: Mapping[str, Any]) -> list[str]:
    problems = find_unknown_fields(data, _MATERIAL_FIELDS) + check_texts(data, ("key", "name")) + _check_key(data)
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
    if str(data.get("environmental_condition")).endswith("_conditions") and "temperature" not in properties:
        problems.append("properties.temperature: is missing; allowed: that of the incubator")
    problems += _check_capacity(properties)
    problems += _check_contents(data.get("contents", {}), properties) + _check_tare(data)
    return problems + (_check_wells(data["wells"]) if "wells" in data else [])


def _check_capacity(properties: Mapping[str, Any]) -> list[str]:
    volume, capacity = _parse_volume(properties), _parse_volume(properties, "container_capacity")
    if volume is None or capacity is None or volume <= capacity:
        return []
    return [f"properties.volume: is {properties['volume']!r}; allowed: no more than container_capacity"]


def _check_tare(data: Mapping[str, Any]) -> list[str]:
    try:
        is_valid = "tare" not in data or quantities.parse_quantity(data["tare"], "mass").value > 0
    except LabError as error:
        return [f"tare: {error}"]
    return [] if is_valid else [f"tare: is {data['tare']!r}; allowed: more than zero"]


def _check_wells(plate: Any) -> list[str]:
    """Return the problems of a plate's wells. When the plate is used, each well becomes a material."""
    if not isinstance(plate, list) or not plate:
        return ["wells: must be a list of at least one well"]
    return check_each("wells", plate, _check_well) + find_duplicates("wells", "well", plate)


def _check_well(data: Mapping[str, Any]) -> list[str]:
    problems = find_unknown_fields(data, _WELL_FIELDS) + check_texts(data, ("well", "key", "name")) + _check_key(data)
    properties = data.get("properties")
    if not isinstance(properties, Mapping):
        return [*problems, f"properties: is {properties!r}; allowed: an object of texts"]
    for key, value in properties.items():
        problems += [f"properties.{key}: {problem}" for problem in _check_property(key, value)]
    return problems + _check_capacity(properties) + _check_contents(data.get("contents", {}), properties)


def _check_key(data: Mapping[str, Any]) -> list[str]:
    if isinstance(data.get("key"), str) and not _KEY.fullmatch(data["key"]):
        return [f"key: is {data['key']!r}; allowed: small letters, digits and underscores"]
    return []


def _check_property(key: str, value: Any) -> list[str]:
    if not isinstance(value, str) or not value:
        return [f"is {value!r}; allowed: text, not empty"]
    dimension = _MEASURED.get(key)
    try:
        # Temperatures may be below zero.
        if dimension and quantities.parse_quantity(value, dimension).value < 0 and dimension != "temperature":
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
        problems += [f"{place}.{problem}" for problem in find_unknown_fields(content, _CONTENT_FIELDS)]
        if not isinstance(content.get("known"), bool):
            problems.append(f"{place}.known: is {content.get('known')!r}; allowed: true, false")
        if content.get("kind", CONTENT_KINDS[0]) not in CONTENT_KINDS:
            problems.append(f"{place}.kind: is {content['kind']!r}; allowed: {', '.join(CONTENT_KINDS)}")
        try:
            parse_content(content, _parse_volume(properties))
        except LabError as error:
            problems.append(f"{place}: {error}")
        problems += _check_matches_contents(component, content, properties)
    return problems


def _check_matches_contents(component: str, content: Mapping[str, Any], properties: Mapping[str, Any]) -> list[str]:
    """Return a problem if a property shows a concentration that `contents` hides, or a different one."""
    name = f"{component} concentration"
    if name not in properties:
        return []
    # The file itself must not reveal what it declares as unknown.
    if content.get("known") is False:
        return [f"properties.{name}: shows what contents.{component} hides; allowed: omit it"]
    for dimension in _CONCENTRATIONS:
        try:
            texts = (properties[name], content.get("concentration"))
            shown_value, content_value = (quantities.parse_quantity(text, dimension).value for text in texts)
        except quantities.QuantityError:
            continue
        return (
            []
            if shown_value == content_value
            else [f"properties.{name}: is {texts[0]!r}; allowed: {texts[1]!r}, as in contents"]
        )
    return [f"properties.{name}: is {properties[name]!r}; allowed: {content.get('concentration')!r}, as in contents"]


def _parse_volume(properties: Mapping[str, Any], name: str = "volume") -> Decimal | None:
    try:
        return quantities.parse_quantity(properties[name], "volume").value
    except (KeyError, quantities.QuantityError):
        return None


def _parse_any(text: Any, dimensions: Iterable[str]) -> tuple[str, Decimal]:
    for dimension in dimensions if isinstance(text, str) else ():
        try:
            value = quantities.parse_quantity(text, dimension).value
        except quantities.QuantityError:
            continue
        if value >= 0:
            return dimension, value
    units = ", ".join(unit for dimension in dimensions for unit in quantities.list_units(dimension) if unit)
    raise CatalogueError(f"is {text!r}; allowed: zero or more, as text with a unit of {units}")
