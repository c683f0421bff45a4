"""What the experiment declares to happen in a vessel: reactions, changes of phase, growth. Nothing else ever reacts."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.job import Job, present
from simulation.offline.ledger import ZERO, Component, Contents, grain
from simulation.offline.vessels import Vessel

_AMOUNTS = {"mass_concentration": "mass", "molar_concentration": "amount", "number_density": "count"}


def develop(job: Job, vessel: Vessel) -> None:
    """Let everything happen that is declared for this action and these conditions, in the order declared."""
    for reaction in job.declared("reactions"):
        if present(vessel, reaction.get("needs", ())):
            _react(job, vessel, reaction)
    for growth in job.declared("growth"):
        _grow(job, vessel, growth)


def _react(job: Job, vessel: Vessel, reaction: Mapping[str, Any]) -> None:
    if reaction.get("phase_from", vessel.phase) != vessel.phase:
        return
    vessel.phase = reaction.get("phase_to", vessel.phase)
    made = _product(vessel.contents, reaction)
    for name in reaction.get("uses", ()):
        part = vessel.contents.components[name]
        vessel.contents = vessel.contents.changed(name, part._replace(amount=ZERO))
    if made is not None:
        name, part = made
        if part.amount is not None:
            noise = job.noise(vessel, Decimal(reaction.get("noise", "0")), "reaction", name)
            before = vessel.contents.amount(name)
            amount = None if before is None else before + grain(part.amount * noise)
            part = part._replace(amount=amount)
        vessel.contents = vessel.contents.changed(name, part)


def _product(contents: Contents, reaction: Mapping[str, Any]) -> tuple[str, Component] | None:
    """What is made and how much of it, before noise; nobody knows the amount until it is measured."""
    if "makes" not in reaction:
        return None
    if "poisson" in reaction:
        targets, agent = reaction["poisson"]["targets"], reaction["poisson"]["agent"]
        return reaction["makes"], Component("count", _hit(contents.amount(targets), contents.amount(agent)), False)
    if "per_volume" in reaction:
        dimension, density = read_concentration(reaction["per_volume"])
        volume = contents.volume
        return reaction["makes"], Component(dimension, None if volume is None else density * volume / 1000, False)
    source = contents.components[reaction["from"]]
    amount = None if source.amount is None else source.amount * Decimal(reaction["ratio"])
    return reaction["makes"], Component(source.dimension, amount, False)


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


def read_concentration(text: str) -> tuple[str, Decimal]:
    """(dimension of the amount, concentration in its kept unit) of text like "30 ng/µL"."""
    for dimension, amount in _AMOUNTS.items():
        try:
            return amount, quantities.parse(text, dimension).value
        except quantities.QuantityError:
            continue
    raise quantities.QuantityError(f"{text!r} is not a concentration")
