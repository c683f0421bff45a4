"""Compute an instrument's reading of a sample: the declared response to its true state, with seeded noise, or none."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

from simulation.lab import quantities
from simulation.lab.parameters import Parameter
from simulation.offline.action_context import ActionContext
from simulation.offline.chemistry import parse_concentration
from simulation.offline.ledger import ZERO, Contents
from simulation.offline.vessels import Vessel

CURVES = ("slope", "hill", "log10", "table")


def record_responses(context: ActionContext, vessel: Vessel, measured: Contents) -> bool:
    """Record every signal declared for this action and sample. Return False if there is none that can be computed."""
    # A list, because any() on a generator would stop at the first signal and record no other.
    recorded = [
        _record_response(context, vessel, measured, response) for response in context.list_declared("responses")
    ]
    return any(recorded)


def compute_signal(context: ActionContext, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return the signal of these contents without noise, or None if the response does not apply or x is unknown."""
    x = _compute_declared_input(context, measured, response)
    return None if x is None else _evaluate_response(context, response, x)


def _record_response(context: ActionContext, vessel: Vessel, measured: Contents, response: Mapping[str, Any]) -> bool:
    """Record one declared signal of a sample. Return False if it is not declared for the sample or cannot be computed."""
    x = _compute_declared_input(context, measured, response)
    if x is None:
        return False
    description = f"{context.describe_run(vessel)}: {response['signal']}"
    value = (
        _describe_out_of_range(x, response)
        or f"{_format_readings(context, vessel, x, response)} {response['unit']}".strip()
    )
    context.record_observation(description, "quantitative", value)
    return True


def _compute_declared_input(context: ActionContext, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return x of the response for these contents, or None if the response does not apply to them or x is unknown."""
    if not (
        _has_components(measured, response.get("within", ()))
        and matches_chosen_materials(context, response.get("chosen", {}))
    ):
        return None
    # Without a required component, the instrument gives the reading of a blank, which is that at x = 0.
    return (
        _compute_input(context, measured, response) if _has_components(measured, response.get("requires", ())) else ZERO
    )


def matches_chosen_materials(context: ActionContext, requested: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether the material that each selector names has these properties and the component under "holds"."""
    for selector, properties in requested.items():
        vessel = context.vessels.get(context.values.get(selector) or "")
        if vessel is None:
            return False
        for name, value in properties.items():
            if name == "holds" and not _has_components(vessel.contents, [value]):
                return False
            if name != "holds" and vessel.properties.get(name) != value:
                return False
    return True


def _format_readings(context: ActionContext, vessel: Vessel, x: Decimal, response: Mapping[str, Any]) -> str:
    """Return one reading per replicate, scattered around the curve's value at x."""
    true_value = _evaluate_response(context, response, x)
    relative, floor = Decimal(response["noise"]), Decimal(response.get("noise_floor", "0"))
    purpose, readings = response["signal"], []
    for number in range(
        context.get_whole_number(response["repeats"]) if response.get("repeats") in context.values else 1
    ):
        # Relative noise vanishes near zero. The noise floor makes readings near zero scatter as well.
        offset = floor * context.compute_deviate(vessel, purpose, number, "floor") if floor else ZERO
        readings.append(true_value * context.compute_noise_factor(vessel, relative, purpose, number) + offset)
    return ", ".join(quantities.format_number(_round_reading(reading, floor)) for reading in readings)


def _evaluate_response(context: ActionContext, response: Mapping[str, Any], x: Decimal) -> Decimal:
    return (
        _evaluate_line(context, response, x)
        if "slope" in response
        else _build_curve(context, response)(x) * _compute_scale(context, response)
    )


def _round_reading(reading: Decimal, floor: Decimal) -> Decimal:
    """Round a reading to four significant digits, but to no digit smaller than a tenth of the noise floor."""
    rounded = Context(prec=4).plus(reading)
    smallest_exponent = floor.adjusted() - 1
    return (
        reading.quantize(Decimal(1).scaleb(smallest_exponent))
        if floor and rounded.adjusted() - 3 < smallest_exponent
        else rounded
    )


def _has_components(contents: Contents, names: Sequence[str]) -> bool:
    amounts = [contents.get_amount(name) for name in names]
    return all(amount is None or amount > 0 for amount in amounts)


def _compute_input(context: ActionContext, contents: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return x of the response, or None if it is unknown."""
    if "parameter" in response:
        value = context.values.get(response["parameter"])
        return ZERO if value is None else Decimal(value)
    if "components" in response:
        parts = [
            (contents.compute_concentration(name), Decimal(weight)) for name, weight in response["components"].items()
        ]
        known = [part * weight for part, weight in parts if part is not None]
        return sum(known, ZERO) if len(known) == len(parts) else None
    if "per" in response:
        part, total = contents.get_amount(response["component"]), sum_amounts(contents, response["per"])
        # Zero per anything is zero, also where the other amount is unknown.
        if part == 0:
            return ZERO
        return None if part is None or not total else part / total
    return contents.compute_concentration(response["component"])


def sum_amounts(contents: Contents, names: str | Sequence[str]) -> Decimal | None:
    """Return the amount of one component or the sum of several, or None if one is unknown."""
    amounts = [contents.get_amount(name) for name in ([names] if isinstance(names, str) else names)]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, ZERO) if len(known) == len(amounts) else None


def _describe_out_of_range(x: Decimal, response: Mapping[str, Any]) -> str:
    """Return the text recorded if x is below the detection limit or above the linear range, else an empty text."""
    if "detection_limit" in response and x < parse_concentration(response["detection_limit"])[1]:
        return "not detected"
    if "upper_limit" in response and x > parse_concentration(response["upper_limit"])[1]:
        return "off scale, above the linear range"
    return ""


def _evaluate_line(context: ActionContext, response: Mapping[str, Any], x: Decimal) -> Decimal:
    return Decimal(response["slope"]) * x * _compute_scale(context, response) + Decimal(response["intercept"])


def _compute_scale(context: ActionContext, response: Mapping[str, Any]) -> Decimal:
    """Return the factor by which a parameter scales the signal: (value / reference) to the declared power."""
    if "scales_with" not in response:
        return Decimal(1)
    scale = response["scales_with"]
    value = context.get_number(scale["parameter"]) / Decimal(
        _get_parameter(context, scale["parameter"]).parse_value(scale["reference"])
    )
    return value ** Decimal(scale["power"]) if "power" in scale else value


def _build_curve(context: ActionContext, response: Mapping[str, Any]) -> Callable[[Decimal], Decimal]:
    if "hill" in response:
        hill = response["hill"]
        bottom, top, n = (Decimal(hill[name]) for name in ("bottom", "top", "n"))
        half = _parse_point(context, response, hill["half"])
        return lambda x: bottom + (top - bottom) * (x**n / (half**n + x**n) if x > 0 else ZERO)
    if "log10" in response:
        slope, intercept = (Decimal(response["log10"][name]) for name in ("slope", "intercept"))
        # The logarithm of zero is undefined; an electrode in a blank shows its intercept.
        return lambda x: slope * x.log10() + intercept if x > 0 else intercept
    points = sorted((_parse_point(context, response, x), Decimal(y)) for x, y in response["table"])
    return lambda x: _interpolate_linearly(points, x)


def _interpolate_linearly(points: Sequence[tuple[Decimal, Decimal]], x: Decimal) -> Decimal:
    """Return y at x by linear interpolation between the points. Beyond the first and last point, y is constant."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def _parse_point(context: ActionContext, response: Mapping[str, Any], text: str) -> Decimal:
    """Return the number for an x in an experiment file: a concentration, a parameter's value or a plain number."""
    if "parameter" in response:
        return Decimal(_get_parameter(context, response["parameter"]).parse_value(text))
    if "components" in response or "per" in response:
        return Decimal(text)
    return parse_concentration(text)[1]


def _get_parameter(context: ActionContext, name: str) -> Parameter:
    return next(parameter for parameter in context.action_type.parameters if parameter.name == name)
