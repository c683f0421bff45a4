"""Apply what the experiment declares to happen in a vessel: reactions, changes of phase, growth, starvation and survival.

Nothing else ever reacts (docs/decisions/0004): amounts are conserved, not predicted.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.damage import lose_share
from simulation.offline.declared_numbers import parse_amount_ratio, parse_concentration, parse_yield
from simulation.offline.ledger import ONE, PARTICLES, VOLUME, ZERO, Component, Contents, round_to_grain, sum_known
from simulation.offline.vessels import Phase, Vessel

ANY_ACTION = "*"  # the action of a reaction that occurs wherever its substances meet
_HALVINGS = ("half_time", "half_life")  # of the supply, and of cells without it
_LEAST_FACTOR = Decimal("0.1")  # of a dose that kills half: keeps noise from making it zero


def apply_declared_changes(context: ActionContext, vessel: Vessel) -> None:
    """Apply the reactions, growth, maintenance, starvation and survival, in this order, that are declared for this action."""
    for reaction in context.list_declared("reactions"):
        _apply_reaction(context, vessel, reaction)
    for growth in context.list_declared("growth"):
        if vessel.contents.has_components([*growth.get("needs", ()), *growth.get("consumes", ())]):
            _apply_growth(vessel, growth, context.get_number("duration"))
    for maintenance in context.list_declared("maintenance"):
        _apply_maintenance(vessel, maintenance, context.get_number("duration"))
    for starvation in context.list_declared("starvation"):
        _apply_starvation(vessel, starvation, context.get_number("duration"))
    for killing in context.list_declared("survival"):
        _apply_survival(context, vessel, killing)


def react_on_contact(context: ActionContext, vessel: Vessel) -> None:
    """Apply the reactions that occur as soon as their substances meet, such as a precipitate on mixing."""
    before = {name: part.amount for name, part in vessel.contents.components.items()}
    for reaction in context.truth.get("reactions", ()):
        if reaction["action"] == ANY_ACTION:
            _apply_reaction(context, vessel, reaction)
    particles = vessel.contents.list_components_of_kind(PARTICLES)
    if any(vessel.contents.get_amount(name) != before.get(name, ZERO) for name in particles):
        context.with_precipitate.append(vessel)


def list_declared_products(context: ActionContext) -> set[str]:
    """Return the components that the experiment declares to result from this action."""
    return {reaction["makes"] for reaction in context.list_declared("reactions") if "makes" in reaction}


def _apply_reaction(context: ActionContext, vessel: Vessel, reaction: Mapping[str, Any]) -> None:
    if not vessel.contents.has_components(reaction.get("needs", ())):
        return
    if reaction.get("phase_from", vessel.phase) != vessel.phase:
        return
    noise = context.compute_noise_factor(
        vessel, Decimal(reaction.get("noise", "0")), "reaction", reaction.get("makes", "")
    )
    seconds = _measure_active_time(context, vessel, reaction) if "half_time" in reaction else ZERO
    product, remainders = _compute_product(vessel.contents, reaction, noise, seconds)
    if vessel.phase == Phase.ADHERENT and reaction.get("phase_to") == Phase.LIQUID:
        vessel.drop_properties("medium")  # cells that dissolve leave a lysate, which has none
    vessel.phase = reaction.get("phase_to", vessel.phase)
    for name, amount in remainders.items():
        if part := vessel.contents.components.get(name):
            # A remainder of zero is certain; any other remainder is unknown until somebody measures it.
            part = part.change_amount(amount) if amount != 0 else part._replace(amount=amount)
            vessel.contents = vessel.contents.with_component(name, part)
    for name in reaction.get("uses", ()):
        part = vessel.contents.components[name]
        vessel.contents = vessel.contents.with_component(name, part._replace(amount=ZERO))
    if product is None:
        return
    name = reaction["makes"]
    if product.amount is not None:
        # Rounded after the noise, because a noise factor has more digits than the ledger counts.
        product = product._replace(amount=round_to_grain(product.amount))
    source = _find_source(reaction, remainders)
    is_new = name not in vessel.contents.components
    _add_product(vessel, name, product._replace(kind=reaction.get("kind", "")))
    if is_new:
        vessel.contents = vessel.contents.with_deviation(name, vessel.contents.deviations.get(source, ZERO))


def _measure_active_time(context: ActionContext, vessel: Vessel, reaction: Mapping[str, Any]) -> Decimal:
    """Return how long in this step the product of a reaction is made: all the time, or what remains of it after the `lag`.

    The vessel remembers how much of the lag is over, so that it does not matter into how many steps the time is divided.
    """
    seconds = context.get_number("duration")
    if "lag" not in reaction:
        return seconds
    key, lag = f"lag: {reaction['makes']}", quantities.parse_quantity(reaction["lag"], "duration").value
    before = vessel.elapsed.get(key, ZERO)
    vessel.elapsed[key] = before + seconds
    return max(ZERO, before + seconds - max(before, lag))


def _find_source(reaction: Mapping[str, Any], remainders: Mapping[str, Decimal | None]) -> str:
    """Return the component that determines how much is made: the source, the targets or the scarcest; else the volume."""
    if "consumes" in reaction:
        return next((name for name, amount in remainders.items() if amount == 0), VOLUME)
    return str(reaction.get("from") or reaction.get("poisson", {}).get("targets", VOLUME))


_Remainders = dict[str, Decimal | None]  # what remains of the substances that a reaction partly consumes


def _compute_product(
    contents: Contents, reaction: Mapping[str, Any], noise: Decimal, seconds: Decimal
) -> tuple[Component | None, _Remainders]:
    """Return the product, hidden from people until it is measured, and what is left of its substances."""
    if "makes" not in reaction:
        return None, {}
    if "poisson" in reaction:
        return Component("count", _compute_hits(contents, reaction["poisson"], noise), False), {}
    if "per_volume" in reaction:
        dimension, ceiling = _compute_missing_product(contents, reaction, noise)
        if "consumes" in reaction:
            return _compute_stoichiometric_product(contents, reaction, ceiling)
        return Component(dimension, ceiling, False), {}
    if "consumes" in reaction:
        product, remainders = _compute_stoichiometric_product(contents, reaction)
    else:
        product, remainders = _compute_converted_product(contents, reaction, seconds)
    return product._replace(amount=None if product.amount is None else product.amount * noise), remainders


def _compute_hits(contents: Contents, poisson: Mapping[str, Any], noise: Decimal) -> Decimal | None:
    """Return how many targets are hit for the first time, or None if a number is unknown.

    n targets, hit at random, are hit at least once in n (1 - exp(-agents/n)) cases: n times one minus the Poisson
    probability of no hit. Of the targets in `hit_before`, none counts again.
    """
    targets, agents = contents.get_amount(poisson["targets"]), contents.get_amount(poisson["agent"])
    before = contents.sum_amounts(poisson.get("hit_before", []))
    if not targets or agents is None or before is None:
        return None
    # The noise changes how many agents arrive, so that never more targets are hit than there are.
    effective_agents = agents * Decimal(poisson.get("efficiency", "1")) * noise
    return max(ZERO, targets - before) * (1 - (-effective_agents / targets).exp())


def _compute_missing_product(
    contents: Contents, reaction: Mapping[str, Any], noise: Decimal
) -> tuple[str, Decimal | None]:
    """Return (dimension, amount) that is still missing to the declared final concentration; None if it is unknown."""
    dimension, density = parse_concentration(reaction["per_volume"])
    present = contents.get_amount(reaction["makes"])
    if contents.volume is None or present is None:
        return dimension, None
    return dimension, max(ZERO, density * noise * contents.volume / 1000 - present)


def _compute_stoichiometric_product(
    contents: Contents, reaction: Mapping[str, Any], ceiling: Decimal | None = None
) -> tuple[Component, _Remainders]:
    """Return as much product as the scarcest substance and the ceiling allow, and what is left of each substance."""
    dimension, amounts = reaction["dimension"], {name: contents.get_amount(name) for name in reaction["consumes"]}
    known = {name: amount for name, amount in amounts.items() if amount is not None}
    # With one amount unknown, neither the scarcest substance nor any remainder is known.
    if len(known) < len(amounts):
        return Component(dimension, None, False), dict.fromkeys(amounts)
    if not all(known.values()):
        return Component(dimension, ZERO, False), {}
    needs = {
        name: parse_amount_ratio(per_product, contents.components[name].dimension, dimension)
        for name, per_product in reaction["consumes"].items()
    }
    allowed = [known[name] / per_product for name, per_product in needs.items()]
    product = round_to_grain(min(allowed if ceiling is None else [*allowed, ceiling]))
    left = {name: max(ZERO, known[name] - round_to_grain(product * needed)) for name, needed in needs.items()}
    return Component(dimension, product, False), {**left}


def _compute_converted_product(
    contents: Contents, reaction: Mapping[str, Any], seconds: Decimal
) -> tuple[Component, _Remainders]:
    """Return a product of `ratio` times the converted amount of the source, and what is left of the source."""
    # With a half-time t, 1 - 2^(-seconds/t) of the source is converted and removed; without one, none is removed.
    source = contents.components[reaction["from"]]
    dimension = reaction.get("dimension", source.dimension)
    if source.amount is None:
        return Component(dimension, None, False), {}
    ratio = parse_amount_ratio(reaction["ratio"], dimension, source.dimension)
    if "half_time" not in reaction:
        return Component(dimension, source.amount * ratio, False), {}
    half_time = quantities.parse_quantity(reaction["half_time"], "duration").value
    converted = round_to_grain(source.amount * (1 - Decimal(2) ** (-seconds / half_time)))
    product = Component(dimension, converted * ratio, False)
    return product, {reaction["from"]: source.amount - converted}


def _apply_growth(vessel: Vessel, growth: Mapping[str, Any], seconds: Decimal) -> None:
    """Let cells double until the time, the declared density or the scarcest substrate is used up."""
    doubling = quantities.parse_quantity(growth["doubling_time"], "duration").value
    factor = Decimal(2) ** (seconds / doubling)
    density = vessel.contents.compute_concentration(growth["components"][0])
    if "limit" in growth and density:
        # At least 1: a culture already above the limit stops growing but does not shrink.
        factor = max(ONE, min(factor, parse_concentration(growth["limit"])[1] / density))
    parts = {name: part for name in growth["components"] if (part := vessel.contents.components.get(name))}
    if not parts:
        return
    cells = sum_known(part.amount for part in parts.values() if part.dimension == "count")
    consumption = {name: parse_yield(text)[1] for name, text in growth.get("consumes", {}).items()}
    new_cells = None if cells is None else cells * (factor - 1)
    for name, per_cell in consumption.items():
        available = vessel.contents.get_amount(name)
        if cells and new_cells is not None and available is not None:
            new_cells = min(new_cells, available / per_cell)
            factor = 1 + new_cells / cells
    for name, part in parts.items():
        grown = None if part.amount is None else round_to_grain(part.amount * factor)
        vessel.contents = vessel.contents.with_component(name, part.change_amount(grown))
    for name, per_cell in consumption.items():
        part = vessel.contents.components[name]
        left = None
        if new_cells is not None and part.amount is not None:
            left = max(ZERO, part.amount - round_to_grain(new_cells * per_cell))
        vessel.contents = vessel.contents.with_component(name, part.change_amount(left))
    for name, text in growth.get("forms", {}).items():
        dimension, per_cell = parse_yield(text)
        formed = None if new_cells is None else round_to_grain(new_cells * per_cell)
        _add_product(vessel, name, Component(dimension, formed, False))


def _apply_maintenance(vessel: Vessel, maintenance: Mapping[str, Any], seconds: Decimal) -> None:
    """Let living cells use up substrates for their maintenance, whether they grow or not (Pirt 1965).

    The cells that there are now are taken for the whole time: growth is over in a small part of a long one.
    """
    parts = [part for name in maintenance["components"] if (part := vessel.contents.components.get(name))]
    if not parts:
        return
    cells = sum_known(part.amount for part in parts)
    times = seconds / quantities.parse_quantity(maintenance["every"], "duration").value
    for name, text in maintenance["consumes"].items():
        if (part := vessel.contents.components.get(name)) is None:
            continue
        left = None
        if cells is not None and part.amount is not None:
            left = max(ZERO, part.amount - round_to_grain(cells * parse_yield(text)[1] * times))
        vessel.contents = vessel.contents.with_component(name, part.change_amount(left))


def _apply_starvation(vessel: Vessel, starvation: Mapping[str, Any], seconds: Decimal) -> None:
    """Use up the supply with its half-time, and let cells die with their half-life from when less than `least` is left.

    The result is the same whether the time is one step or several.
    """
    supply = starvation["supply"]
    level = vessel.contents.compute_concentration(supply)
    if level is None:
        return
    half_time, half_life = (quantities.parse_quantity(starvation[name], "duration").value for name in _HALVINGS)
    least = quantities.parse_quantity(starvation["least"], "ratio").value
    fed = half_time * (level / least).ln() / Decimal(2).ln() if level > least else ZERO
    if supply in vessel.contents.components:
        vessel.contents = lose_share(vessel.contents, supply, ONE - Decimal(2) ** (-seconds / half_time), "inactive")
    died = ONE - Decimal(2) ** (-max(ZERO, seconds - fed) / half_life)
    for name in starvation["components"]:
        if died > 0 and name in vessel.contents.components:
            vessel.contents = lose_share(vessel.contents, name, died, "dead")


def _add_product(vessel: Vessel, name: str, product: Component) -> None:
    """Add a product, whose amount nobody has measured. If people knew of the component before, they still do."""
    before = vessel.contents.components.get(name)
    named = before is not None and (before.known or before.named)
    amount = sum_known((vessel.contents.get_amount(name), product.amount))
    vessel.contents = vessel.contents.with_component(name, product._replace(amount=amount, named=named))


def _apply_survival(context: ActionContext, vessel: Vessel, killing: Mapping[str, Any]) -> None:
    """Keep the share 1 / (1 + (c/half)^n) of each component at a concentration c of the agent (a Hill curve).

    With `after`, this is the share that survives so long; in a shorter or longer time, cells die at the same rate.
    """
    dose = vessel.contents.compute_concentration(killing["agent"])
    for name in killing["components"]:
        part = vessel.contents.components.get(name)
        if part is None or dose == 0:
            continue
        # An unknown dose leaves an unknown number alive, not all of them.
        if dose is None or part.amount is None:
            vessel.contents = vessel.contents.with_component(name, part.change_amount(None))
            continue
        # Noise of the dose that kills half: wells differ in density and in evaporation.
        noise = context.compute_noise_factor(vessel, Decimal(killing.get("noise", "0")), "survival", name)
        half_concentration = parse_concentration(killing["half"])[1] * max(noise, _LEAST_FACTOR)
        share = 1 / (1 + (dose / half_concentration) ** Decimal(killing["n"]))
        if "after" in killing:
            share **= context.get_number("duration") / quantities.parse_quantity(killing["after"], "duration").value
        alive = round_to_grain(part.amount * share)
        vessel.contents = vessel.contents.with_component(name, part.change_amount(alive))
        if "into" in killing:
            _add_dead_cells(vessel, part, part.amount - alive, killing)


def _add_dead_cells(vessel: Vessel, part: Component, died: Decimal, killing: Mapping[str, Any]) -> None:
    """Add cells that died: all as `into`, or, with `attached`, that share still attached and the others floating."""
    attached = killing.get("attached")
    staying = round_to_grain(died * Decimal(attached["share"])) if attached else ZERO
    kind = PARTICLES if attached else part.kind
    forms = [(killing["into"], died - staying, kind), *([(attached["into"], staying, part.kind)] if attached else [])]
    for name, amount, kind in forms:
        total = sum_known((vessel.contents.get_amount(name), amount))
        remains = part._replace(amount=total, known=False, named=False, kind=kind)
        vessel.contents = vessel.contents.with_component(name, remains)
