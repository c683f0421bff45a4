"""What the experiment declares to happen in a vessel: reactions, changes of phase, growth. Nothing else ever reacts."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.job import Job, present
from simulation.offline.ledger import ZERO, Component, Contents, grain
from simulation.offline.vessels import Vessel

_AMOUNTS = {
    "mass_concentration": "mass",
    "molar_concentration": "amount",
    "number_density": "count",
    "activity": "enzyme_units",
}
AT_ONCE = "*"  # the action of a reaction that happens wherever its substances meet


def develop(job: Job, vessel: Vessel) -> None:
    """Let everything happen that is declared for this action and these conditions, in the order declared."""
    for reaction in job.declared("reactions"):
        if present(vessel, reaction.get("needs", ())):
            _react(job, vessel, reaction)
    for growth in job.declared("growth"):
        if present(vessel, growth.get("needs", ())):
            _grow(job, vessel, growth)
    for killing in job.declared("survival"):
        _kill(vessel, killing)


def meet(job: Job, vessel: Vessel) -> None:
    """Let happen what happens at once: a precipitate on mixing."""
    for reaction in job.truth.get("reactions", ()):
        if reaction["action"] == AT_ONCE and present(vessel, reaction.get("needs", ())):
            _react(job, vessel, reaction)


def _react(job: Job, vessel: Vessel, reaction: Mapping[str, Any]) -> None:
    if reaction.get("phase_from", vessel.phase) != vessel.phase:
        return
    made, used = _product(job, vessel.contents, reaction)
    vessel.phase = reaction.get("phase_to", vessel.phase)
    for name, amount in used.items():
        part = vessel.contents.components.get(name)
        if part is None:
            continue
        vessel.contents = vessel.contents.changed(name, part._replace(amount=amount, known=part.known and amount == 0))
    for name in reaction.get("uses", ()):
        part = vessel.contents.components[name]
        vessel.contents = vessel.contents.changed(name, part._replace(amount=ZERO))
    if made is not None:
        _add(job, vessel, reaction, made)


def _add(job: Job, vessel: Vessel, reaction: Mapping[str, Any], made: Component) -> None:
    name = reaction["makes"]
    if made.amount is not None:
        noise = job.noise(vessel, Decimal(reaction.get("noise", "0")), "reaction", name)
        before = vessel.contents.amount(name)
        made = made._replace(amount=None if before is None else before + grain(made.amount * noise))
    vessel.contents = vessel.contents.changed(name, made._replace(kind=reaction.get("kind", "")))


_Left = dict[str, Decimal | None]  # what remains of the substances a reaction partly uses


def _product(job: Job, contents: Contents, reaction: Mapping[str, Any]) -> tuple[Component | None, _Left]:
    """What is made, before noise, and what is left of what it was made from; nobody knows the amount until measured."""
    if "makes" not in reaction:
        return None, {}
    if "poisson" in reaction:
        hit = reaction["poisson"]
        agents = contents.amount(hit["agent"])
        tried = None if agents is None else agents * Decimal(hit.get("efficiency", "1"))
        return Component("count", _hit(contents.amount(hit["targets"]), tried), False), {}
    if "per_volume" in reaction:
        dimension, density = read_concentration(reaction["per_volume"])
        volume = contents.volume
        return Component(dimension, None if volume is None else density * volume / 1000, False), {}
    if "consumes" in reaction:
        return _stoichiometric(contents, reaction)
    return _converted(job, contents, reaction)


def _stoichiometric(contents: Contents, reaction: Mapping[str, Any]) -> tuple[Component, _Left]:
    """As much product as the scarcest substance allows; of each, that much less is left."""
    needs = {name: Decimal(each) for name, each in reaction["consumes"].items()}
    there = {name: contents.amount(name) for name in needs}
    known = {name: amount for name, amount in there.items() if amount is not None}
    dimension = reaction["dimension"]
    if len(known) < len(needs):
        return Component(dimension, None, False), dict.fromkeys(needs)
    product = grain(min(known[name] / each for name, each in needs.items()))
    left: _Left = {name: max(ZERO, known[name] - grain(product * each)) for name, each in needs.items()}
    return Component(dimension, product, False), left


def _converted(job: Job, contents: Contents, reaction: Mapping[str, Any]) -> tuple[Component, _Left]:
    """`ratio` of product for each of the source; with a half-time only what has turned by now, and that is gone."""
    source = contents.components[reaction["from"]]
    dimension = reaction.get("dimension", source.dimension)
    if source.amount is None:
        return Component(dimension, None, False), {}
    if "half_time" not in reaction:
        return Component(dimension, source.amount * Decimal(reaction["ratio"]), False), {}
    half = quantities.parse(reaction["half_time"], "duration").value
    turned = grain(source.amount * (1 - Decimal(2) ** (-job.number("duration") / half)))
    product = Component(dimension, turned * Decimal(reaction["ratio"]), False)
    return product, {reaction["from"]: source.amount - turned}


def _hit(targets: Decimal | None, agents: Decimal | None) -> Decimal | None:
    """Targets hit at least once when agents fall on them at random: n (1 - exp(-agents/n))."""
    if targets is None or agents is None:
        return None
    return targets * (1 - (-agents / targets).exp())


def _grow(job: Job, vessel: Vessel, growth: Mapping[str, Any]) -> None:
    """Exponential growth, up to the density declared as the limit (of the first component)."""
    doubling = quantities.parse(growth["doubling_time"], "duration").value
    factor = Decimal(2) ** (job.number("duration") / doubling)
    density = vessel.contents.concentration(growth["components"][0])
    if "limit" in growth and density:
        limit = read_concentration(growth["limit"])[1]
        factor = max(Decimal(1), min(factor, limit / density))
    for name in growth["components"]:
        part = vessel.contents.components.get(name)
        if part is not None:
            amount = None if part.amount is None else grain(part.amount * factor)
            vessel.contents = vessel.contents.changed(name, part._replace(amount=amount, known=False))


def _kill(vessel: Vessel, killing: Mapping[str, Any]) -> None:
    """Of each component the share 1 / (1 + (c/half)^n) survives a concentration c of the agent."""
    dose = vessel.contents.concentration(killing["agent"])
    for name in killing["components"]:
        part = vessel.contents.components.get(name)
        if part is None or dose == 0:
            continue
        if dose is None or part.amount is None:
            vessel.contents = vessel.contents.changed(name, part._replace(amount=None, known=False))
            continue
        half = read_concentration(killing["half"])[1]
        alive = grain(part.amount / (1 + (dose / half) ** Decimal(killing["n"])))
        vessel.contents = vessel.contents.changed(name, part._replace(amount=alive, known=False))
        if "into" in killing:
            before = vessel.contents.amount(killing["into"])
            dead = None if before is None else before + part.amount - alive
            vessel.contents = vessel.contents.changed(killing["into"], part._replace(amount=dead, known=False))


def read_concentration(text: str) -> tuple[str, Decimal]:
    """(dimension of the amount, concentration in its kept unit) of text like "30 ng/µL"."""
    for dimension, amount in _AMOUNTS.items():
        try:
            return amount, quantities.parse(text, dimension).value
        except quantities.QuantityError:
            continue
    raise quantities.QuantityError(f"{text!r} is not a concentration")
