"""What the experiment declares to happen in a vessel: reactions, changes of phase, growth and survival.

Nothing else ever reacts (docs/decisions/0004): amounts are conserved, not predicted.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext, has_components
from simulation.offline.ledger import ZERO, Component, Contents, round_to_grain
from simulation.offline.vessels import Vessel

# Dimension of a concentration -> dimension of the amount in a millilitre.
_AMOUNTS = {
    "mass_concentration": "mass",
    "molar_concentration": "amount",
    "number_density": "count",
    "activity": "enzyme_units",
}
ANY_ACTION = "*"  # the action of a reaction that occurs wherever its substances meet


def apply_declared_changes(context: ActionContext, vessel: Vessel) -> None:
    """Apply the reactions, then the growth, then the survival that are declared for this action and its settings."""
    for reaction in context.list_declared("reactions"):
        if has_components(vessel, reaction.get("needs", ())):
            _apply_reaction(context, vessel, reaction)
    for growth in context.list_declared("growth"):
        if has_components(vessel, growth.get("needs", ())):
            _apply_growth(context, vessel, growth)
    for killing in context.list_declared("survival"):
        _apply_survival(vessel, killing)


def react_on_contact(context: ActionContext, vessel: Vessel) -> None:
    """Apply the reactions that occur as soon as their substances meet, such as a precipitate on mixing."""
    for reaction in context.truth.get("reactions", ()):
        if reaction["action"] == ANY_ACTION and has_components(vessel, reaction.get("needs", ())):
            _apply_reaction(context, vessel, reaction)


def _apply_reaction(context: ActionContext, vessel: Vessel, reaction: Mapping[str, Any]) -> None:
    if reaction.get("phase_from", vessel.phase) != vessel.phase:
        return
    product, remainders = _compute_product(context, vessel.contents, reaction)
    vessel.phase = reaction.get("phase_to", vessel.phase)
    for name, amount in remainders.items():
        part = vessel.contents.components.get(name)
        if part is None:
            continue
        # A remainder of zero is certain; any other remainder is unknown until somebody measures it.
        vessel.contents = vessel.contents.with_component(
            name, part._replace(amount=amount, known=part.known and amount == 0)
        )
    for name in reaction.get("uses", ()):
        part = vessel.contents.components[name]
        vessel.contents = vessel.contents.with_component(name, part._replace(amount=ZERO))
    if product is not None:
        _add_product(context, vessel, reaction, product)


def _add_product(context: ActionContext, vessel: Vessel, reaction: Mapping[str, Any], product: Component) -> None:
    name = reaction["makes"]
    if product.amount is not None:
        noise = context.compute_noise_factor(vessel, Decimal(reaction.get("noise", "0")), "reaction", name)
        before = vessel.contents.get_amount(name)
        # Rounded after the noise, because a noise factor has more digits than the ledger counts.
        product = product._replace(amount=None if before is None else before + round_to_grain(product.amount * noise))
    vessel.contents = vessel.contents.with_component(name, product._replace(kind=reaction.get("kind", "")))


_Remainders = dict[str, Decimal | None]  # what remains of the substances that a reaction partly consumes


def _compute_product(
    context: ActionContext, contents: Contents, reaction: Mapping[str, Any]
) -> tuple[Component | None, _Remainders]:
    """Return the product before noise, and what is left of the substances that it is made from.

    The product's amount is hidden from people until it is measured.
    """
    if "makes" not in reaction:
        return None, {}
    if "poisson" in reaction:
        poisson = reaction["poisson"]
        agents = contents.get_amount(poisson["agent"])
        effective_agents = None if agents is None else agents * Decimal(poisson.get("efficiency", "1"))
        return Component(
            "count", _compute_poisson_hits(contents.get_amount(poisson["targets"]), effective_agents), False
        ), {}
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
    remainders: _Remainders = {
        name: max(ZERO, known[name] - round_to_grain(product * per_product)) for name, per_product in needs.items()
    }
    return Component(dimension, product, False), remainders


def _compute_converted_product(
    context: ActionContext, contents: Contents, reaction: Mapping[str, Any]
) -> tuple[Component, _Remainders]:
    """Return a product of `ratio` times the converted amount of the source, and what is left of the source.

    With a half-time t, the share 1 - 2^(-duration/t) of the source is converted and removed. Without a half-time, the
    product is computed from all of the source, and none of it is removed.
    """
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


def _compute_poisson_hits(targets: Decimal | None, agents: Decimal | None) -> Decimal | None:
    """Return how many of n targets are hit at least once if the agents hit them at random: n (1 - exp(-agents/n)).

    This is n times one minus the Poisson probability of no hit. Return None if either number is unknown.
    """
    if targets is None or agents is None:
        return None
    return targets * (1 - (-agents / targets).exp())


def _apply_growth(context: ActionContext, vessel: Vessel, growth: Mapping[str, Any]) -> None:
    """Multiply the components by 2^(duration/doubling time), up to the declared density of the first component."""
    doubling = quantities.parse_quantity(growth["doubling_time"], "duration").value
    factor = Decimal(2) ** (context.get_number("duration") / doubling)
    density = vessel.contents.compute_concentration(growth["components"][0])
    if "limit" in growth and density:
        limit = parse_concentration(growth["limit"])[1]
        # At least 1: a culture already above the limit stops growing but does not shrink.
        factor = max(Decimal(1), min(factor, limit / density))
    for name in growth["components"]:
        part = vessel.contents.components.get(name)
        if part is not None:
            amount = None if part.amount is None else round_to_grain(part.amount * factor)
            vessel.contents = vessel.contents.with_component(name, part._replace(amount=amount, known=False))


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
            before = vessel.contents.get_amount(killing["into"])
            dead = None if before is None else before + part.amount - alive
            vessel.contents = vessel.contents.with_component(killing["into"], part._replace(amount=dead, known=False))


def parse_concentration(text: str) -> tuple[str, Decimal]:
    """Return (dimension of the amount, concentration in its base unit) for a text such as "30 ng/µL".

    Raises QuantityError if it is not a concentration.
    """
    for dimension, amount in _AMOUNTS.items():
        try:
            return amount, quantities.parse_quantity(text, dimension).value
        except quantities.QuantityError:
            continue
    raise quantities.QuantityError(f"{text!r} is not a concentration")
