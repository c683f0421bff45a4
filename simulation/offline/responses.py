"""What an instrument shows of a sample: the declared reading of its true state, with seeded noise, or nothing at all."""

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


def read_responses(job: Job, vessel: Vessel, measured: Contents) -> bool:
    """Say every signal declared for this action and this sample; False if there is none that can be known."""
    read = [_read(job, vessel, measured, response) for response in job.declared("responses")]
    return any(read)


def signal(job: Job, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """The true signal of these contents, without noise; None where the response is not declared for them or not known."""
    x = _seen(job, measured, response)
    return None if x is None else _at(job, response, x)


def _read(job: Job, vessel: Vessel, measured: Contents, response: Mapping[str, Any]) -> bool:
    """Say one declared signal of a sample; False if it is not declared for it or cannot be known."""
    x = _seen(job, measured, response)
    if x is None:
        return False
    said = f"{job.run_of(vessel)}: {response['signal']}"
    told = _outside(x, response) or f"{_readings(job, vessel, x, response)} {response['unit']}".strip()
    job.say(said, "quantitative", told)
    return True


def _seen(job: Job, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """What the signal of these contents depends on; None where it is not declared for them or not known."""
    if not (_there(measured, response.get("within", ())) and chosen_fits(job, response.get("chosen", {}))):
        return None
    return _input(job, measured, response) if _there(measured, response.get("requires", ())) else ZERO


def chosen_fits(job: Job, wanted: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether the material each selector names shows these properties, or holds the component under "holds"."""
    for selector, properties in wanted.items():
        vessel = job.vessels.get(job.values.get(selector) or "")
        if vessel is None:
            return False
        for name, value in properties.items():
            if name == "holds" and not _there(vessel.contents, [value]):
                return False
            if name != "holds" and vessel.properties.get(name) != value:
                return False
    return True


def _readings(job: Job, vessel: Vessel, x: Decimal, response: Mapping[str, Any]) -> str:
    """One reading per replicate, around the curve's value at x."""
    true = _at(job, response, x)
    relative, floor = Decimal(response["noise"]), Decimal(response.get("noise_floor", "0"))
    what, readings = response["signal"], []
    for number in range(job.count(response["repeats"]) if response.get("repeats") in job.values else 1):
        off = floor * job.deviate(vessel, what, number, "floor") if floor else ZERO
        readings.append(true * job.noise(vessel, relative, what, number) + off)
    return ", ".join(quantities.plain(_rounded(reading, floor)) for reading in readings)


def _at(job: Job, response: Mapping[str, Any], x: Decimal) -> Decimal:
    return _line(job, response, x) if "slope" in response else _curve(job, response)(x) * _scale(job, response)


def _rounded(reading: Decimal, floor: Decimal) -> Decimal:
    """Four digits, and none below a tenth of the noise floor."""
    shown = Context(prec=4).plus(reading)
    last = floor.adjusted() - 1
    return reading.quantize(Decimal(1).scaleb(last)) if floor and shown.adjusted() - 3 < last else shown


def _there(contents: Contents, names: Sequence[str]) -> bool:
    amounts = [contents.amount(name) for name in names]
    return all(amount is None or amount > 0 for amount in amounts)


def _input(job: Job, contents: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """What the signal depends on; None where it is not known."""
    if "parameter" in response:
        value = job.values.get(response["parameter"])
        return ZERO if value is None else Decimal(value)
    if "components" in response:
        parts = [(contents.concentration(name), Decimal(weight)) for name, weight in response["components"].items()]
        known = [part * weight for part, weight in parts if part is not None]
        return sum(known, ZERO) if len(known) == len(parts) else None
    if "per" in response:
        part, whole = contents.amount(response["component"]), amount_of(contents, response["per"])
        if part == 0:
            return ZERO
        return None if part is None or not whole else part / whole
    return contents.concentration(response["component"])


def amount_of(contents: Contents, names: str | Sequence[str]) -> Decimal | None:
    """The amount of a component, or of several together; None where one is unknown."""
    amounts = [contents.amount(name) for name in ([names] if isinstance(names, str) else names)]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, ZERO) if len(known) == len(amounts) else None


def _outside(x: Decimal, response: Mapping[str, Any]) -> str:
    """What is told of a sample below or above what the instrument can tell."""
    if "detection_limit" in response and x < read_concentration(response["detection_limit"])[1]:
        return "not detected"
    if "upper_limit" in response and x > read_concentration(response["upper_limit"])[1]:
        return "off scale, above the linear range"
    return ""


def _line(job: Job, response: Mapping[str, Any], x: Decimal) -> Decimal:
    return Decimal(response["slope"]) * x * _scale(job, response) + Decimal(response["intercept"])


def _scale(job: Job, response: Mapping[str, Any]) -> Decimal:
    """How the signal goes with a parameter: (value / reference) to the power declared."""
    if "scales_with" not in response:
        return Decimal(1)
    scale = response["scales_with"]
    value = job.number(scale["parameter"]) / Decimal(_parameter(job, scale["parameter"]).read(scale["reference"]))
    return value ** Decimal(scale["power"]) if "power" in scale else value


def _curve(job: Job, response: Mapping[str, Any]) -> Callable[[Decimal], Decimal]:
    if "hill" in response:
        hill = response["hill"]
        bottom, top, n = (Decimal(hill[name]) for name in ("bottom", "top", "n"))
        half = _point(job, response, hill["half"])
        return lambda x: bottom + (top - bottom) * (x**n / (half**n + x**n) if x > 0 else ZERO)
    if "log10" in response:
        slope, intercept = (Decimal(response["log10"][name]) for name in ("slope", "intercept"))
        return lambda x: slope * x.log10() + intercept if x > 0 else intercept
    points = sorted((_point(job, response, x), Decimal(y)) for x, y in response["table"])
    return lambda x: _between(points, x)


def _between(points: Sequence[tuple[Decimal, Decimal]], x: Decimal) -> Decimal:
    """Straight lines between the points, flat outside them."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def _point(job: Job, response: Mapping[str, Any], written: str) -> Decimal:
    """A value of x as the experiment writes it: a concentration, a parameter's value, or a plain number."""
    if "parameter" in response:
        return Decimal(_parameter(job, response["parameter"]).read(written))
    if "components" in response or "per" in response:
        return Decimal(written)
    return read_concentration(written)[1]


def _parameter(job: Job, name: str) -> Parameter:
    return next(parameter for parameter in job.kind.parameters if parameter.name == name)
