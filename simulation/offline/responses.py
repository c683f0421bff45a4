"""Compute what an instrument reads: the responses that the experiment declares, with their curves, noise and limits."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

from simulation.lab import quantities
from simulation.lab.parameters import Parameter
from simulation.offline.action_context import ActionContext
from simulation.offline.bleaching import bleach
from simulation.offline.declared_numbers import parse_concentration, parse_number, parse_reading, split_slope
from simulation.offline.instrument_ranges import find_range
from simulation.offline.ledger import LOST_PREFIXES, ONE, ZERO, Contents, sum_known
from simulation.offline.run_conditions import Peak, expose, overload_column
from simulation.offline.vessels import Vessel

# Dead cells scatter light, and degraded DNA and denatured protein still absorb it and take up dyes.
_OF_ALL_FORMS = ("AU", "ng/µL", "mg/mL")
CURVES = ("slope", "hill", "log10", "table")


def record_responses(context: ActionContext, vessel: Vessel, measured: Contents) -> bool:
    """Record every signal declared for this action and sample. Return False if there is none that can be computed."""
    recorded = False
    for response in context.list_declared("responses"):
        x = _compute_declared_input(context, measured, response)
        if x is None:
            continue
        parameter = find_input_parameter(context, response)
        if "detection_limit" in response and x < parse_point(response, parameter, response["detection_limit"]):
            readings = "not detected"
        elif "upper_limit" in response and x > parse_point(response, parameter, response["upper_limit"]):
            readings = "off scale, above the linear range"
        else:
            true_value = _evaluate_response(context, response, x)
            if context.action_type.name == "HPLC" and response["unit"] == "min":
                true_value = _overload_column(context, measured, response, true_value)
            readings = _format_readings(context, vessel, response, true_value)
        context.record_observation(f"{context.describe_run(vessel)}: {response['signal']}", "quantitative", readings)
        recorded = True
    return recorded


def _overload_column(
    context: ActionContext, measured: Contents, response: Mapping[str, Any], true_value: Decimal
) -> Decimal:
    """Return a retention time or peak width as the load of the column makes it, if both of the peak are declared."""
    analyte = response["signal"].split(" ", 1)[0]
    of_peak = [
        other
        for other in context.list_declared("responses")
        if other["unit"] == "min" and other["signal"].startswith(f"{analyte} ")
    ]
    retention = next((other for other in of_peak if "retention time" in other["signal"]), None)
    width = next((other for other in of_peak if "peak width" in other["signal"]), None)
    if retention is None or width is None or response not in (retention, width):
        return true_value
    values = [compute_signal(context, measured, other) for other in (retention, width)]
    if values[0] is None or values[1] is None:
        return true_value
    name = retention.get("component", "")
    by_mass = name in measured.components and measured.components[name].dimension == "mass"
    concentration = measured.as_delivered().compute_concentration(name) if by_mass else None
    peak = overload_column(context, Peak(values[0], values[1]), concentration)
    return peak.retention if response is retention else peak.width


def _format_readings(context: ActionContext, vessel: Vessel, response: Mapping[str, Any], true_value: Decimal) -> str:
    """Return one noisy reading of the true value per repeat, as the instrument displays them, with their unit."""
    unit, purpose, values = response["unit"], response["signal"], []
    true_value, instead = expose(context, response, bleach(context, vessel, response, true_value))
    if instead:
        return instead
    relative, floor = parse_number(response["noise"]), get_noise_floor(response)
    measuring_range = find_range(context.action_type.name, unit)
    repeats = context.get_whole_number(response["repeats"]) if response.get("repeats") in context.values else 1
    for number in range(repeats):
        # Relative noise vanishes near zero. The noise floor makes readings near zero scatter as well.
        offset = floor * context.compute_deviate(vessel, purpose, number, "floor") if floor else ZERO
        reading = true_value * context.compute_noise_factor(vessel, relative, purpose, number) + offset
        # The highest of many frames is never below their mean, so a peak of mere noise is positive.
        reading = abs(reading) if unit == "ΔF/F" and "peak" in purpose else reading
        if measuring_range is None:
            values.append(quantities.format_number(_round_reading(reading, floor)))
        else:
            values.append(measuring_range.format_reading(reading))
    # An instrument that reports no number reports no unit either.
    return f"{', '.join(values)} {unit if values[-1][-1].isdigit() else ''}".strip()


def get_noise_floor(response: Mapping[str, Any]) -> Decimal:
    """Return the standard deviation of a reading near zero, in the unit of the signal."""
    return parse_reading(response["noise_floor"], response["unit"]) if "noise_floor" in response else ZERO


def compute_signal(context: ActionContext, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return the signal of these contents without noise, or None if the response does not apply or x is unknown."""
    x = _compute_declared_input(context, measured, response)
    return None if x is None else _evaluate_response(context, response, x)


def list_names(value: str | Sequence[str]) -> list[str]:
    """Return one name, or several, as a list."""
    return [value] if isinstance(value, str) else list(value)


def matches_chosen_materials(context: ActionContext, requested: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the material that each selector names has these properties and a component under "holds"."""
    for selector, properties in requested.items():
        vessel = context.vessels.get(context.values.get(selector) or "")
        if vessel is None:
            return False
        for name, value in properties.items():
            if name == "holds" and not any(vessel.contents.has_components([part]) for part in list_names(value)):
                return False
            if name != "holds" and vessel.properties.get(name) != value:
                return False
    return True


def _compute_declared_input(context: ActionContext, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return x of the response for these contents, or None if the response does not apply to them or x is unknown."""
    measured = measured.as_delivered()
    if not measured.has_components(response.get("within", ())):
        return None
    if any(measured.get_amount(name) != 0 for name in response.get("without", ())):
        return None
    if not matches_chosen_materials(context, response.get("chosen", {})):
        return None
    # Without a required component, the instrument gives the reading of a blank, which is that at x = 0.
    if not measured.has_components(response.get("requires", ())):
        return ZERO
    if "parameter" in response:
        return Decimal(context.values.get(response["parameter"]) or ZERO)
    all_forms = response["unit"] in _OF_ALL_FORMS
    if "components" in response:
        parts = [
            (_compute_concentration(measured, name, all_forms), parse_number(weight))
            for name, weight in response["components"].items()
        ]
        return sum_known(None if part is None else part * weight for part, weight in parts)
    if "per" in response:
        amount, total = measured.get_amount(response["component"]), measured.sum_amounts(response["per"])
        # Zero per anything is zero, also where the other amount is unknown.
        if amount == 0:
            return ZERO
        return None if amount is None or not total else amount / total
    return _compute_concentration(measured, response["component"], all_forms)


def _compute_concentration(measured: Contents, name: str, all_forms: bool) -> Decimal | None:
    """Return the concentration of a component, with its dead, inactive and degraded forms if `all_forms`."""
    forms = (f"{prefix}{name}" for prefix in LOST_PREFIXES) if all_forms else ()
    names = [name, *(form for form in forms if form in measured.components)]
    return sum_known(measured.compute_concentration(part) for part in names)


def _round_reading(reading: Decimal, floor: Decimal) -> Decimal:
    """Round a reading to four significant digits, but to no digit smaller than a tenth of the noise floor."""
    rounded = Context(prec=4).plus(reading)
    smallest_exponent = floor.adjusted() - 1
    if floor and rounded.adjusted() - 3 < smallest_exponent:
        return reading.quantize(ONE.scaleb(smallest_exponent))
    return rounded


def _evaluate_response(context: ActionContext, response: Mapping[str, Any], x: Decimal) -> Decimal:
    scale = ONE
    for scaling in list_scalings(response):
        # A parameter scales the signal by (value / reference) to the declared power.
        parameter = context.find_parameter(scaling["parameter"])
        ratio = context.get_number(parameter.name) / Decimal(parameter.parse_value(scaling["reference"]))
        scale *= ratio ** parse_number(scaling["power"]) if "power" in scaling else ratio
    curve = build_curve(response, find_input_parameter(context, response))
    intercept = parse_reading(response["intercept"], response["unit"]) if "slope" in response else ZERO
    # Of a straight line, the intercept is the reading of a blank, which is not scaled.
    return (curve(x) - intercept) * scale + intercept


def list_scalings(response: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parameters with which a signal scales: none, one, or several at once."""
    declared = response.get("scales_with", [])
    return declared if isinstance(declared, list) else [declared]


def find_input_parameter(context: ActionContext, response: Mapping[str, Any]) -> Parameter | None:
    """Return the parameter on which the response depends, or None if it depends on the contents."""
    return context.find_parameter(response["parameter"]) if "parameter" in response else None


def build_curve(response: Mapping[str, Any], parameter: Parameter | None) -> Callable[[Decimal], Decimal]:
    """Return the declared curve as a function of x in base units. `parameter` is that on which it depends, if any."""
    unit = response["unit"]
    if "slope" in response:
        rise, step = split_slope(response["slope"])
        per_step, intercept = parse_reading(rise, unit), parse_reading(response["intercept"], unit)
        divisor = parse_point(response, parameter, step) if step else ONE
        return lambda x: per_step * x / divisor + intercept
    if "hill" in response:
        hill = response["hill"]
        bottom, top = (parse_reading(hill[name], unit) for name in ("bottom", "top"))
        n, half = parse_number(hill["n"]), parse_point(response, parameter, hill["half"])
        return lambda x: bottom + (top - bottom) * (x**n / (half**n + x**n) if x > 0 else ZERO)
    if "log10" in response:
        slope, intercept = (parse_reading(response["log10"][name], unit) for name in ("slope", "intercept"))
        reference, least = (
            parse_point(response, parameter, text) for text in (response["log10"]["at"], response["detection_limit"])
        )
        # The logarithm of zero is undefined; below the detection limit the electrode shows the same as at the limit.
        return lambda x: slope * (max(x, least) / reference).log10() + intercept
    points = sorted((parse_point(response, parameter, x), parse_reading(y, unit)) for x, y in response["table"])
    return lambda x: _interpolate_linearly(points, x)


def _interpolate_linearly(points: Sequence[tuple[Decimal, Decimal]], x: Decimal) -> Decimal:
    """Return y at x by linear interpolation between the points. Beyond the first and last point, y is constant."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def parse_point(response: Mapping[str, Any], parameter: Parameter | None, text: str) -> Decimal:
    """Return the number for an x in an experiment file: a concentration, a parameter's value or a plain number.

    Raises QuantityError or ParameterError if the text is not written like the x of this response.
    """
    if parameter is not None:
        dimension = parameter.dimension
        return quantities.parse_quantity(text, dimension).value if dimension else parse_number(text)
    return parse_number(text) if "per" in response else parse_concentration(text)[1]
