"""Check that every number of the hidden truth carries the unit of what it measures."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import Catalogue
from simulation.lab.errors import LabError
from simulation.lab.parameters import Parameter
from simulation.offline.declared_numbers import (
    CONCENTRATIONS,
    PER,
    parse_amount_ratio,
    parse_concentration,
    parse_reading,
    parse_yield,
    split_slope,
)
from simulation.offline.instrument_ranges import RANGES
from simulation.offline.responses import parse_point
from wetbench_site.validation import format_problem

# Dimension of an amount -> a concentration of it as an example.
_EXAMPLES = {"mass": "µg/mL", "amount": "µM", "count": "cells/mL", "enzyme_units": "U/mL"}


def resolve_dimensions(truth: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """Return the dimension of every component's amount: those of the materials, and those of what reactions make.

    A component is left out if its dimension cannot be told.
    """
    dimensions = dict(known)
    reactions, killings = (
        [entry for entry in truth.get(kind) or () if isinstance(entry, Mapping)] for kind in ("reactions", "survival")
    )
    for growth in truth.get("growth") or ():
        for name, text in (growth.get("forms") or {}).items() if isinstance(growth, Mapping) else ():
            if quantity := quantities.find_quantity(split_slope(str(text))[0], *CONCENTRATIONS.values()):
                dimensions.setdefault(name, quantity.dimension)
    # A product may be made from another product, so the lists are repeated until nothing is added.
    before = -1
    while len(dimensions) > before:
        before = len(dimensions)
        for reaction in reactions:
            if isinstance(made := reaction.get("makes"), str) and (
                dimension := _get_product_dimension(reaction, dimensions)
            ):
                dimensions.setdefault(made, dimension)
        for killing in killings:
            sources = [dimensions[name] for name in killing.get("components") or () if name in dimensions]
            if isinstance(dead := killing.get("into"), str) and sources:
                dimensions.setdefault(dead, sources[0])
    return dimensions


def _get_product_dimension(reaction: Mapping[str, Any], dimensions: Mapping[str, str]) -> str:
    if isinstance(declared := reaction.get("dimension"), str):
        return declared
    if "poisson" in reaction:
        return "count"
    if quantity := quantities.find_quantity(reaction.get("per_volume"), *CONCENTRATIONS):
        return CONCENTRATIONS[quantity.dimension]
    return dimensions.get(str(reaction.get("from")), "")


def check_response_units(
    path: str, response: Mapping[str, Any], catalogue: Catalogue, dimensions: Mapping[str, str]
) -> Iterator[str]:
    """Yield a problem for each number of a response without the unit of its signal or of what it depends on."""
    unit, actions = response["unit"], _list_actions(response)
    for action in actions:
        if action in RANGES and unit not in RANGES[action]:
            allowed = ", ".join(repr(name) for name in RANGES[action])
            yield f"{path}.unit: {format_problem(unit, f'units of {action}: {allowed}')}"
    reading = f'a number in {unit}, as text like "2 {unit}"' if unit else 'a number as text, like "2"'
    for field, text in _list_readings(response):
        if not _is_readable(text, unit):
            yield f"{path}.{field}: {format_problem(response['slope'] if field == 'slope' else text, reading)}"
    names = [response["component"]] if "component" in response else list(response.get("components", ()))
    x_dimensions = {dimensions[name] for name in names if name in dimensions}
    if len(x_dimensions) > 1:
        yield f"{path}.components: are amounts of several dimensions: {', '.join(sorted(x_dimensions))}"
        return
    x_dimension = next(iter(x_dimensions), "")
    if "per" in response:
        totals = [response["per"]] if isinstance(response["per"], str) else response["per"]
        for name in totals:
            if x_dimension and dimensions.get(name, x_dimension) != x_dimension:
                yield f"{path}.per: is {dimensions[name]}, the component is {x_dimension}; both must be the same"
    parameter = _find_parameter(response, catalogue, actions)
    if "parameter" not in response or parameter is not None:
        yield from _check_points(path, response, parameter, x_dimension)


def _list_actions(entry: Mapping[str, Any]) -> list[str]:
    action = entry.get("action")
    return [name for name in (action if isinstance(action, list) else [action]) if isinstance(name, str)]


def _list_readings(response: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (field, text) of every number that is in the unit of the signal."""
    for field in ("intercept", "noise_floor"):
        if field in response:
            yield field, response[field]
    if "slope" in response:
        yield "slope", split_slope(response["slope"])[0]
    for curve, fields in (("hill", ("bottom", "top")), ("log10", ("slope", "intercept"))):
        for field in fields if curve in response else ():
            yield f"{curve}.{field}", response[curve][field]
    for index, (_, y) in enumerate(response.get("table", ())):
        yield f"table[{index}]", y


def _is_readable(text: Any, unit: str) -> bool:
    try:
        return isinstance(text, str) and parse_reading(text, unit) is not None
    except quantities.QuantityError:
        return False


def _find_parameter(response: Mapping[str, Any], catalogue: Catalogue, actions: Iterable[str]) -> Parameter | None:
    kinds = [catalogue.types[name] for name in actions if name in catalogue.types]
    parameters = [parameter for kind in kinds for parameter in kind.parameters]
    return next((parameter for parameter in parameters if parameter.name == response.get("parameter")), None)


def _check_points(
    path: str, response: Mapping[str, Any], parameter: Parameter | None, x_dimension: str
) -> Iterator[str]:
    """Yield a problem for each x of a curve, limit or slope that is not written like that of the response."""
    allowed = _describe_points(response, parameter, x_dimension)
    points = [(field, response[field]) for field in ("detection_limit", "upper_limit") if field in response]
    points += [("hill.half", response["hill"]["half"])] if "hill" in response else []
    points += [("log10.at", response["log10"]["at"])] if "log10" in response else []
    points += [(f"table[{index}]", x) for index, (x, _) in enumerate(response.get("table", ()))]
    if "slope" in response:
        step = split_slope(response["slope"])[1]
        bare = "per" in response or (parameter is not None and not parameter.dimension)
        if bool(step) == bare:
            problem = f"a slope {'without' if bare else 'with'} a unit of what it depends on; {allowed}"
            yield f"{path}.slope: {format_problem(response['slope'], problem)}"
        elif step:
            points.append(("slope", step))
    for field, text in points:
        if not _fits_point(response, parameter, text, x_dimension):
            yield f"{path}.{field}: {format_problem(response['slope'] if field == 'slope' else text, allowed)}"


def _fits_point(response: Mapping[str, Any], parameter: Parameter | None, text: str, x_dimension: str) -> bool:
    try:
        value = parse_point(response, parameter, text)
        if parameter is None and "per" not in response and x_dimension:
            return parse_concentration(text)[0] == x_dimension and value >= 0
    except LabError:
        return False
    return True


def _describe_points(response: Mapping[str, Any], parameter: Parameter | None, x_dimension: str) -> str:
    if parameter is not None and parameter.dimension:
        unit = quantities.base_unit(parameter.dimension)
        return f'a {parameter.dimension.replace("_", " ")} as text, like "5 {unit}", or a slope "... per {unit}"'
    if parameter is not None or "per" in response:
        return 'a number as text, like "0.5"'
    unit = _EXAMPLES.get(x_dimension, "µg/mL")
    return f'a concentration, like "5 {unit}", or a slope "... per {unit}"'


def check_reaction_units(path: str, reaction: Mapping[str, Any], dimensions: Mapping[str, str]) -> Iterator[str]:
    """Yield a problem for each ratio of amounts of different dimensions without both units."""
    made = _get_product_dimension(reaction, dimensions)
    source = dimensions.get(str(reaction.get("from")), "")
    ratios = [("ratio", reaction["ratio"], made, source)] if "ratio" in reaction and "from" in reaction else []
    ratios += [
        (f"consumes.{name}", text, dimensions.get(name, ""), made)
        for name, text in (reaction.get("consumes") or {}).items()
    ]
    for field, text, dimension, per_dimension in ratios:
        if not dimension or not per_dimension:
            continue
        try:
            parse_amount_ratio(text, dimension, per_dimension)
        except quantities.QuantityError:
            unit, per_unit = (quantities.base_unit(part) or "cells" for part in (dimension, per_dimension))
            example = "0.7" if dimension == per_dimension else f"5 {unit}{PER}{per_unit}"
            yield f"{path}.{field}: {format_problem(text, f'a ratio of amounts as text, like {example!r}')}"


def check_limit_units(path: str, entry: Mapping[str, Any], dimensions: Mapping[str, str]) -> Iterator[str]:
    """Yield a problem if the limit of a growth, the half dose of a survival or a substrate has the wrong dimension."""
    for name, text in (entry.get("consumes") or {}).items():
        if name in dimensions and parse_yield(text)[0] != dimensions[name]:
            example = f"5 {quantities.base_unit(dimensions[name])} per 1e9 cells"
            yield f"{path}.consumes.{name}: {format_problem(text, f'an amount per cells, like {example!r}')}"
    for field, name in (("limit", (entry.get("components") or [""])[0]), ("half", entry.get("agent", ""))):
        dimension = dimensions.get(name, "")
        if field in entry and dimension and parse_concentration(entry[field])[0] != dimension:
            example = f"5 {_EXAMPLES.get(dimension, '')}".strip()
            yield f"{path}.{field}: {format_problem(entry[field], f'a concentration of {name}, like {example!r}')}"
