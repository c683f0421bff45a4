"""Apply what the experiment declares: reactions, changes of phase, growth and survival in a vessel, and an instrument's responses.

Nothing else ever reacts (docs/decisions/0004): amounts are conserved, not predicted.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.ledger import ONE, ZERO, Component, Contents, round_to_grain, sum_known
from simulation.offline.vessels import Vessel

# Dimension of a concentration -> dimension of the amount in a millilitre.
CONCENTRATIONS = {
    "mass_concentration": "mass",
    "molar_concentration": "amount",
    "number_density": "count",
    "activity": "enzyme_units",
}
ANY_ACTION = "*"  # the action of a reaction that occurs wherever its substances meet
CURVES = ("slope", "hill", "log10", "table")


def parse_concentration(text: str) -> tuple[str, Decimal]:
    """Return (dimension of the amount, concentration in its base unit) for a text such as "30 ng/µL".

    Raises QuantityError if it is not a concentration.
    """
    if quantity := quantities.find_quantity(text, *CONCENTRATIONS):
        return CONCENTRATIONS[quantity.dimension], quantity.value
    raise quantities.QuantityError(f"{text!r} is not a concentration")


def apply_declared_changes(context: ActionContext, vessel: Vessel) -> None:
    """Apply the reactions, then the growth, then the survival that are declared for this action and its settings."""
    for reaction in context.list_declared("reactions"):
        _apply_reaction(context, vessel, reaction)
    for growth in context.list_declared("growth"):
        if vessel.contents.has_components(growth.get("needs", ())):
            doubling = quantities.parse_quantity(growth["doubling_time"], "duration").value
            factor = Decimal(2) ** (context.get_number("duration") / doubling)
            density = vessel.contents.compute_concentration(growth["components"][0])
            if "limit" in growth and density:
                # At least 1: a culture already above the limit stops growing but does not shrink.
                factor = max(ONE, min(factor, parse_concentration(growth["limit"])[1] / density))
            for name in growth["components"]:
                if part := vessel.contents.components.get(name):
                    amount = None if part.amount is None else round_to_grain(part.amount * factor)
                    vessel.contents = vessel.contents.with_component(name, part._replace(amount=amount, known=False))
    for killing in context.list_declared("survival"):
        _apply_survival(vessel, killing)


def react_on_contact(context: ActionContext, vessel: Vessel) -> None:
    """Apply the reactions that occur as soon as their substances meet, such as a precipitate on mixing."""
    for reaction in context.truth.get("reactions", ()):
        if reaction["action"] == ANY_ACTION:
            _apply_reaction(context, vessel, reaction)


def list_declared_products(context: ActionContext) -> set[str]:
    """Return the components that the experiment declares to result from this action."""
    return {reaction["makes"] for reaction in context.list_declared("reactions") if "makes" in reaction}


def _apply_reaction(context: ActionContext, vessel: Vessel, reaction: Mapping[str, Any]) -> None:
    if not vessel.contents.has_components(reaction.get("needs", ())):
        return
    if reaction.get("phase_from", vessel.phase) != vessel.phase:
        return
    product, remainders = _compute_product(context, vessel.contents, reaction)
    vessel.phase = reaction.get("phase_to", vessel.phase)
    for name, amount in remainders.items():
        if part := vessel.contents.components.get(name):
            # A remainder of zero is certain; any other remainder is unknown until somebody measures it.
            part = part._replace(amount=amount, known=part.known and amount == 0)
            vessel.contents = vessel.contents.with_component(name, part)
    for name in reaction.get("uses", ()):
        part = vessel.contents.components[name]
        vessel.contents = vessel.contents.with_component(name, part._replace(amount=ZERO))
    if product is None:
        return
    name = reaction["makes"]
    if product.amount is not None:
        noise = context.compute_noise_factor(vessel, Decimal(reaction.get("noise", "0")), "reaction", name)
        # Rounded after the noise, because a noise factor has more digits than the ledger counts.
        made = round_to_grain(product.amount * noise)
        product = product._replace(amount=sum_known((vessel.contents.get_amount(name), made)))
    vessel.contents = vessel.contents.with_component(name, product._replace(kind=reaction.get("kind", "")))


_Remainders = dict[str, Decimal | None]  # what remains of the substances that a reaction partly consumes


def _compute_product(
    context: ActionContext, contents: Contents, reaction: Mapping[str, Any]
) -> tuple[Component | None, _Remainders]:
    """Return the product before noise, hidden from people until it is measured, and what is left of its substances."""
    if "makes" not in reaction:
        return None, {}
    if "poisson" in reaction:
        poisson = reaction["poisson"]
        targets, agents = contents.get_amount(poisson["targets"]), contents.get_amount(poisson["agent"])
        if targets is None or agents is None:
            return Component("count", None, False), {}
        # n targets, hit at random, are hit at least once in n (1 - exp(-agents/n)) cases: n times one minus the Poisson
        # probability of no hit.
        effective_agents = agents * Decimal(poisson.get("efficiency", "1"))
        return Component("count", targets * (1 - (-effective_agents / targets).exp()), False), {}
    if "per_volume" in reaction:
        dimension, density = parse_concentration(reaction["per_volume"])
        volume = contents.volume
        return Component(dimension, None if volume is None else density * volume / 1000, False), {}
    if "consumes" in reaction:
        return _compute_stoichiometric_product(contents, reaction)
    return _compute_converted_product(context, contents, reaction)


def _compute_stoichiometric_product(contents: Contents, reaction: Mapping[str, Any]) -> tuple[Component, _Remainders]:
    """Return as much product as the scarcest substance allows, and what is left of each substance."""
    needs = {name: Decimal(per_product) for name, per_product in reaction["consumes"].items()}
    amounts = {name: contents.get_amount(name) for name in needs}
    known = {name: amount for name, amount in amounts.items() if amount is not None}
    dimension = reaction["dimension"]
    # With one amount unknown, neither the scarcest substance nor any remainder is known.
    if len(known) < len(needs):
        return Component(dimension, None, False), dict.fromkeys(needs)
    product = round_to_grain(min(known[name] / per_product for name, per_product in needs.items()))
    left = {name: max(ZERO, known[name] - round_to_grain(product * needed)) for name, needed in needs.items()}
    return Component(dimension, product, False), {**left}


def _compute_converted_product(
    context: ActionContext, contents: Contents, reaction: Mapping[str, Any]
) -> tuple[Component, _Remainders]:
    """Return a product of `ratio` times the converted amount of the source, and what is left of the source."""
    # With a half-time t, 1 - 2^(-duration/t) of the source is converted and removed; without one, none is removed.
    source = contents.components[reaction["from"]]
    dimension = reaction.get("dimension", source.dimension)
    if source.amount is None:
        return Component(dimension, None, False), {}
    if "half_time" not in reaction:
        return Component(dimension, source.amount * Decimal(reaction["ratio"]), False), {}
    half_time = quantities.parse_quantity(reaction["half_time"], "duration").value
    converted = round_to_grain(source.amount * (1 - Decimal(2) ** (-context.get_number("duration") / half_time)))
    product = Component(dimension, converted * Decimal(reaction["ratio"]), False)
    return product, {reaction["from"]: source.amount - converted}


def _apply_survival(vessel: Vessel, killing: Mapping[str, Any]) -> None:
    """Keep the share 1 / (1 + (c/half)^n) of each component at a concentration c of the agent (a Hill curve)."""
    dose = vessel.contents.compute_concentration(killing["agent"])
    for name in killing["components"]:
        part = vessel.contents.components.get(name)
        if part is None or dose == 0:
            continue
        # An unknown dose leaves an unknown number alive, not all of them.
        if dose is None or part.amount is None:
            vessel.contents = vessel.contents.with_component(name, part._replace(amount=None, known=False))
            continue
        half_concentration = parse_concentration(killing["half"])[1]
        alive = round_to_grain(part.amount / (1 + (dose / half_concentration) ** Decimal(killing["n"])))
        vessel.contents = vessel.contents.with_component(name, part._replace(amount=alive, known=False))
        if "into" in killing:
            dead = sum_known((vessel.contents.get_amount(killing["into"]), part.amount, -alive))
            vessel.contents = vessel.contents.with_component(killing["into"], part._replace(amount=dead, known=False))


def record_responses(context: ActionContext, vessel: Vessel, measured: Contents) -> bool:
    """Record every signal declared for this action and sample. Return False if there is none that can be computed."""
    recorded = False
    for response in context.list_declared("responses"):
        x = _compute_declared_input(context, measured, response)
        if x is None:
            continue
        if "detection_limit" in response and x < parse_concentration(response["detection_limit"])[1]:
            readings = "not detected"
        elif "upper_limit" in response and x > parse_concentration(response["upper_limit"])[1]:
            readings = "off scale, above the linear range"
        else:
            true_value = _evaluate_response(context, response, x)
            relative, floor = Decimal(response["noise"]), Decimal(response.get("noise_floor", "0"))
            repeats = context.get_whole_number(response["repeats"]) if response.get("repeats") in context.values else 1
            purpose, values = response["signal"], []
            for number in range(repeats):
                # Relative noise vanishes near zero. The noise floor makes readings near zero scatter as well.
                offset = floor * context.compute_deviate(vessel, purpose, number, "floor") if floor else ZERO
                reading = true_value * context.compute_noise_factor(vessel, relative, purpose, number) + offset
                values.append(quantities.format_number(_round_reading(reading, floor)))
            readings = f"{', '.join(values)} {response['unit']}".strip()
        context.record_observation(f"{context.describe_run(vessel)}: {response['signal']}", "quantitative", readings)
        recorded = True
    return recorded


def compute_signal(context: ActionContext, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return the signal of these contents without noise, or None if the response does not apply or x is unknown."""
    x = _compute_declared_input(context, measured, response)
    return None if x is None else _evaluate_response(context, response, x)


def matches_chosen_materials(context: ActionContext, requested: Mapping[str, Mapping[str, str]]) -> bool:
    """Return whether the material that each selector names has these properties and the component under "holds"."""
    for selector, properties in requested.items():
        vessel = context.vessels.get(context.values.get(selector) or "")
        if vessel is None:
            return False
        for name, value in properties.items():
            if name == "holds" and not vessel.contents.has_components([value]):
                return False
            if name != "holds" and vessel.properties.get(name) != value:
                return False
    return True


def _compute_declared_input(context: ActionContext, measured: Contents, response: Mapping[str, Any]) -> Decimal | None:
    """Return x of the response for these contents, or None if the response does not apply to them or x is unknown."""
    if not measured.has_components(response.get("within", ())):
        return None
    if not matches_chosen_materials(context, response.get("chosen", {})):
        return None
    # Without a required component, the instrument gives the reading of a blank, which is that at x = 0.
    if not measured.has_components(response.get("requires", ())):
        return ZERO
    if "parameter" in response:
        return Decimal(context.values.get(response["parameter"]) or ZERO)
    if "components" in response:
        parts = [
            (measured.compute_concentration(name), Decimal(weight)) for name, weight in response["components"].items()
        ]
        return sum_known(None if part is None else part * weight for part, weight in parts)
    if "per" in response:
        amount, total = measured.get_amount(response["component"]), measured.sum_amounts(response["per"])
        # Zero per anything is zero, also where the other amount is unknown.
        if amount == 0:
            return ZERO
        return None if amount is None or not total else amount / total
    return measured.compute_concentration(response["component"])


def _round_reading(reading: Decimal, floor: Decimal) -> Decimal:
    """Round a reading to four significant digits, but to no digit smaller than a tenth of the noise floor."""
    rounded = Context(prec=4).plus(reading)
    smallest_exponent = floor.adjusted() - 1
    if floor and rounded.adjusted() - 3 < smallest_exponent:
        return reading.quantize(ONE.scaleb(smallest_exponent))
    return rounded


def _evaluate_response(context: ActionContext, response: Mapping[str, Any], x: Decimal) -> Decimal:
    scale = ONE
    if scaling := response.get("scales_with"):
        # A parameter scales the signal by (value / reference) to the declared power.
        parameter = context.find_parameter(scaling["parameter"])
        scale = context.get_number(parameter.name) / Decimal(parameter.parse_value(scaling["reference"]))
        scale = scale ** Decimal(scaling["power"]) if "power" in scaling else scale
    if "slope" in response:
        return Decimal(response["slope"]) * x * scale + Decimal(response["intercept"])
    return _build_curve(context, response)(x) * scale


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
        return Decimal(context.find_parameter(response["parameter"]).parse_value(text))
    return Decimal(text) if "components" in response or "per" in response else parse_concentration(text)[1]
