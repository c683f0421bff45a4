"""What an instrument reads of a sample: the declared response to its true state, with seeded noise, or nothing."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

from simulation.lab import quantities
from simulation.lab.parameters import Parameter
from simulation.offline.chemistry import read_concentration
from simulation.offline.job import Job
from simulation.offline.ledger import ZERO, Contents
from simulation.offline.vessels import Vessel

CURVES = ("slope", "hill", "log10", "table")


def read_responses(context: Job, vessel: Vessel, measured: Contents) -> bool:
    """Record every signal declared for this action and sample. Return False if there is none that can be computed."""
    # A list, because any() on a generator would stop at the first signal and record no other.
    recorded = [_read(context, vessel, measured, response) for response in context.declared("responses")]
    return any(recorded)


def signal(context: Job, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return the true signal of these contents without noise, or None if it is not declared for them or not known."""
    x = _seen(context, measured, response)
    return None if x is None else _at(context, response, x)


def _read(context: Job, vessel: Vessel, measured: Contents, response: Mapping[str, Any]) -> bool:
    """Record one declared signal of a sample. Return False if it is not declared for the sample or cannot be computed."""
    x = _seen(context, measured, response)
    if x is None:
        return False
    description = f"{context.run_of(vessel)}: {response['signal']}"
    value = _outside(x, response) or f"{_readings(context, vessel, x, response)} {response['unit']}".strip()
    context.say(description, "quantitative", value)
    return True


def _seen(context: Job, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return x of the response for these contents, or None if the response does not apply to them or x is unknown."""
    if not (_there(measured, response.get("within", ())) and chosen_fits(context, response.get("chosen", {}))):
        return None
    # Without a required component the instrument still reads, namely its value at x = 0: a blank.
    return _input(context, measured, response) if _there(measured, response.get("requires", ())) else ZERO


def chosen_fits(context: Job, requested: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether the material of each selector has these properties, or contains the component given under "holds"."""
    for selector, properties in requested.items():
        vessel = context.vessels.get(context.values.get(selector) or "")
        if vessel is None:
            return False
        for name, value in properties.items():
            if name == "holds" and not _there(vessel.contents, [value]):
                return False
            if name != "holds" and vessel.properties.get(name) != value:
                return False
    return True


def _readings(context: Job, vessel: Vessel, x: Decimal, response: Mapping[str, Any]) -> str:
    """Return one reading per replicate, scattered around the curve's value at x."""
    true_value = _at(context, response, x)
    relative, floor = Decimal(response["noise"]), Decimal(response.get("noise_floor", "0"))
    purpose, readings = response["signal"], []
    for number in range(context.count(response["repeats"]) if response.get("repeats") in context.values else 1):
        # The relative noise vanishes with the signal; the floor keeps readings near zero scattering.
        offset = floor * context.deviate(vessel, purpose, number, "floor") if floor else ZERO
        readings.append(true_value * context.noise(vessel, relative, purpose, number) + offset)
    return ", ".join(quantities.plain(_rounded(reading, floor)) for reading in readings)


def _at(context: Job, response: Mapping[str, Any], x: Decimal) -> Decimal:
    return (
        _line(context, response, x) if "slope" in response else _curve(context, response)(x) * _scale(context, response)
    )


def _rounded(reading: Decimal, floor: Decimal) -> Decimal:
    """Round to four digits, and to no digit below a tenth of the noise floor."""
    rounded = Context(prec=4).plus(reading)
    smallest_exponent = floor.adjusted() - 1
    return (
        reading.quantize(Decimal(1).scaleb(smallest_exponent))
        if floor and rounded.adjusted() - 3 < smallest_exponent
        else rounded
    )


def _there(contents: Contents, names: Sequence[str]) -> bool:
    amounts = [contents.amount(name) for name in names]
    return all(amount is None or amount > 0 for amount in amounts)


def _input(context: Job, contents: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return x of the response, or None if it is unknown."""
    if "parameter" in response:
        value = context.values.get(response["parameter"])
        return ZERO if value is None else Decimal(value)
    if "components" in response:
        parts = [(contents.concentration(name), Decimal(weight)) for name, weight in response["components"].items()]
        known = [part * weight for part, weight in parts if part is not None]
        return sum(known, ZERO) if len(known) == len(parts) else None
    if "per" in response:
        part, total = contents.amount(response["component"]), amount_of(contents, response["per"])
        # Zero per anything is zero, also where the other amount is unknown.
        if part == 0:
            return ZERO
        return None if part is None or not total else part / total
    return contents.concentration(response["component"])


def amount_of(contents: Contents, names: str | Sequence[str]) -> Decimal | None:
    """Return the amount of one component or the sum of several, or None if one is unknown."""
    amounts = [contents.amount(name) for name in ([names] if isinstance(names, str) else names)]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, ZERO) if len(known) == len(amounts) else None


def _outside(x: Decimal, response: Mapping[str, Any]) -> str:
    """Return what is recorded below the detection limit or above the linear range; an empty text within it."""
    if "detection_limit" in response and x < read_concentration(response["detection_limit"])[1]:
        return "not detected"
    if "upper_limit" in response and x > read_concentration(response["upper_limit"])[1]:
        return "off scale, above the linear range"
    return ""


def _line(context: Job, response: Mapping[str, Any], x: Decimal) -> Decimal:
    return Decimal(response["slope"]) * x * _scale(context, response) + Decimal(response["intercept"])


def _scale(context: Job, response: Mapping[str, Any]) -> Decimal:
    """Return the factor by which a parameter scales the signal: (value / reference) to the declared power."""
    if "scales_with" not in response:
        return Decimal(1)
    scale = response["scales_with"]
    value = context.number(scale["parameter"]) / Decimal(
        _parameter(context, scale["parameter"]).read(scale["reference"])
    )
    return value ** Decimal(scale["power"]) if "power" in scale else value


def _curve(context: Job, response: Mapping[str, Any]) -> Callable[[Decimal], Decimal]:
    if "hill" in response:
        hill = response["hill"]
        bottom, top, n = (Decimal(hill[name]) for name in ("bottom", "top", "n"))
        half = _point(context, response, hill["half"])
        return lambda x: bottom + (top - bottom) * (x**n / (half**n + x**n) if x > 0 else ZERO)
    if "log10" in response:
        slope, intercept = (Decimal(response["log10"][name]) for name in ("slope", "intercept"))
        # The logarithm of zero is undefined; an electrode in a blank shows its intercept.
        return lambda x: slope * x.log10() + intercept if x > 0 else intercept
    points = sorted((_point(context, response, x), Decimal(y)) for x, y in response["table"])
    return lambda x: _between(points, x)


def _between(points: Sequence[tuple[Decimal, Decimal]], x: Decimal) -> Decimal:
    """Return y on straight lines between the points. Outside them it stays constant."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def _point(context: Job, response: Mapping[str, Any], text: str) -> Decimal:
    """Return a value of x as an experiment file writes it: a concentration, a parameter's value or a plain number."""
    if "parameter" in response:
        return Decimal(_parameter(context, response["parameter"]).read(text))
    if "components" in response or "per" in response:
        return Decimal(text)
    return read_concentration(text)[1]


def _parameter(context: Job, name: str) -> Parameter:
    return next(parameter for parameter in context.kind.parameters if parameter.name == name)
