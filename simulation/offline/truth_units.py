"""Check single values of the hidden truth: what form each has, and that every number carries the unit of what it measures.

A check of a form returns "" if it allows a value, and otherwise what it allows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import Catalogue
from simulation.lab.errors import LabError
from simulation.lab.materials import CONTENT_KINDS
from simulation.lab.parameters import Parameter
from simulation.offline.declared_numbers import (
    CONCENTRATIONS,
    PER,
    parse_amount_ratio,
    parse_concentration,
    parse_number,
    parse_reading,
    parse_yield,
    split_slope,
)
from simulation.offline.instrument_ranges import RANGES
from simulation.offline.responses import parse_point
from simulation.offline.vessels import PHASES
from wetbench_site.validation import format_problem

Fits = Callable[[Any], object]
Check = Callable[[Any], str]  # returns "" if it allows the value, otherwise what it allows
AMOUNTS = ("mass", "amount", "count", "enzyme_units")


def _allow(allowed: str, fits: Fits) -> Check:
    return lambda value: "" if fits(value) else allowed


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(map(_is_text, value))


def _is_number(value: Any) -> bool:
    try:
        return parse_number(value) is not None
    except quantities.QuantityError:
        return False


def _is_yield(value: Any) -> bool:
    try:
        return _is_text(value) and parse_yield(value) is not None
    except quantities.QuantityError:
        return False


def _is_above_zero(value: Any) -> bool:
    return _is_number(value) and Decimal(value) > 0


def _has_fields(value: Any, required: Mapping[str, Fits], optional: Mapping[str, Fits] | None = None) -> bool:
    """Return whether a value is an object with all required and only known fields, each with an allowed value."""
    checks = {**required, **(optional or {})}
    fits = isinstance(value, Mapping) and required.keys() <= value.keys() <= checks.keys()
    return fits and all(checks[name](part) for name, part in value.items())


def _is_table(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(point, list) and len(point) == 2 for point in value)
        and all(_is_text(x) and _is_text(y) for x, y in value)
    )


def a_quantity(dimension: str) -> Check:
    units = ", ".join(unit for unit in quantities.list_units(dimension) if unit)

    def fits(value: Any) -> bool:
        quantity = quantities.find_quantity(value, dimension)
        return quantity is not None and quantity.value > 0

    return _allow(f"a {dimension} above zero in {units}", fits)


def an_object_of(check_value: Check, keys: tuple[str, ...] = ()) -> Check:
    def check_object(value: Any) -> str:
        if isinstance(value, Mapping) and value and (not keys or set(value) == set(keys)):
            problem = next((expected for part in value.values() if (expected := check_value(part))), "")
        else:
            problem = "an object"
        return f"{problem} {'with ' + ', '.join(keys) if keys else 'by name'}" if problem else ""

    return check_object


a_text = _allow("text, not empty", _is_text)
any_text = _allow("text", lambda value: isinstance(value, str))
a_list_of_texts = _allow("a list of texts", is_list_of_texts)
a_number = _allow('a number as text, like "0.05"', _is_number)
above_zero = _allow('a number above zero as text, like "2"', _is_above_zero)
a_share = _allow(
    'a number from 0 to 1 as text, like "0.05"', lambda value: _is_number(value) and 0 <= Decimal(value) <= 1
)
a_phase = _allow(f"one of {', '.join(PHASES)}", lambda value: value in PHASES)
a_kind = _allow(f"one of {', '.join(CONTENT_KINDS)}", lambda value: value in CONTENT_KINDS)
an_amount_dimension = _allow(f"one of {', '.join(AMOUNTS)}", lambda value: value in AMOUNTS)
a_concentration = _allow(
    'a concentration, like "5 µg/mL", "3 µM" or "1e5 cells/mL"',
    lambda value: quantities.find_quantity(value, *CONCENTRATIONS),
)
_HILL: dict[str, Fits] = {"bottom": _is_text, "top": _is_text, "half": _is_text, "n": _is_above_zero}
a_hill_curve = _allow("an object with bottom, top, half and n, as text", lambda value: _has_fields(value, _HILL))
a_poisson_hit = _allow(
    "an object with targets, agent (efficiency, hit_before)",
    lambda value: _has_fields(
        value,
        {"targets": _is_text, "agent": _is_text},
        {"efficiency": _is_above_zero, "hit_before": is_list_of_texts},
    ),
)
a_scale = _allow(
    "an object with parameter, reference (and power)",
    lambda value: _has_fields(value, {"parameter": _is_text, "reference": _is_text}, {"power": _is_number}),
)
a_list_of_looks = _allow(
    'a list of at least one pair, like ["2 µg/mL", "violet"]',
    lambda value: _is_table([*value, *value]) and not any(a_concentration(least) for least, _ in value),
)
a_share_that_turns = _allow(
    "an object with into and share",
    lambda value: _has_fields(value, {"into": _is_text, "share": lambda share: not a_share(share)}),
)
a_yield = _allow('an amount per cells, like "9.5 mg per 1e9 cells"', _is_yield)
a_table = _allow('a list of at least two points, like ["2 µM", "7.1"]', _is_table)


def one_or_more_scales(value: Any) -> str:
    """Check one scale, or a list of them that holds at once."""
    parts = value if isinstance(value, list) and value else [value]
    return next((allowed for part in parts if (allowed := a_scale(part))), "")


def one_or_more(value: Any) -> str:
    return a_list_of_texts(value) if isinstance(value, list) else a_text(value)


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
