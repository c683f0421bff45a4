"""Preparing samples: adjusting a pH, digesting, grinding; and preparing a reference electrode."""

from collections.abc import Callable
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.chemistry import develop
from simulation.offline.handlers import freezing
from simulation.offline.handlers.loading import shown_number
from simulation.offline.job import Job
from simulation.offline.ledger import ZERO, Contents
from simulation.offline.responses import signal
from simulation.offline.vessels import (
    ADHERENT,
    CONSUMABLE,
    FROZEN,
    LIQUID,
    OF_THE_LIQUID,
    PELLET,
    SOLIDS,
    RefusalError,
    Vessel,
    show,
)

_DIGESTION_VESSEL = {"container": "PTFE digestion vessel", "container_capacity": "55 mL"}
_MOST_STEPS = 1000  # additions of titrant; ends the loop when the declared curve never reaches the target
# Reference couple -> how the options for its filling solution begin.
_FILLINGS = {
    "Ag/AgCl": ("1 M KCl", "3 M KCl", "saturated KCl"),
    "Ag/Ag+ (non-aqueous)": ("10 mM AgNO3",),
    "saturated calomel": ("saturated KCl",),
}


def adjust_ph(context: Job) -> None:
    """Add titrant until the declared pH reaches the target; if no pH is declared, add the given volume and record no pH."""
    titrant, target = context.named("titrant"), context.number("target_ph")
    # Checked first, because a sample that is already at the target draws no titrant.
    titrant.need_liquid()
    for vessel in context.changeable(titrant):
        vessel.need_liquid("titrated")
        _need_reachable(vessel, titrant, target)
        used = _titrate(context, vessel, titrant, target)
        _say_reached(context, vessel, used)
    context.how = (
        "Titrant in steps against the declared pH; where none is declared, the stated volume, and no pH is told."
    )


def digest_by_microwave(context: Job) -> None:
    acid, oxidizer = (None if context.values[name] is None else context.named(name) for name in ("acid", "oxidizer"))
    added = [reagent for reagent in (acid, oxidizer) if reagent]
    for vessel in context.changeable(*added):
        if vessel.phase in (FROZEN, ADHERENT):
            vessel.need_liquid("digested")
        if not vessel.volume() and not added:
            raise RefusalError(f"dry: {vessel.name} holds no liquid that takes up microwaves; add an acid")
        _put_over(vessel)
        for name, reagent in (("acid_volume", acid), ("oxidizer_volume", oxidizer)):
            if reagent:
                vessel.pour(reagent.draw(context.number(name)), reagent)
        develop(context, vessel)
        vessel.phase = LIQUID if acid else vessel.phase
        _digested(context, vessel)
    context.how = "Everything is in the digestion vessel; amounts stay but for reactions the experiment declares."


def grind(context: Job) -> None:
    for vessel in context.changeable():
        if vessel.phase not in SOLIDS or vessel.phase == PELLET or vessel.contents.volume:
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; only dry solids and tissue are ground")
        vessel.phase = "powder"
        sieved = context.values["sieve"] is not None
        vessel.properties["particle size"] = f"below {context.set_to('sieve')}" if sieved else "not measured"
    context.how = "Nothing is lost in grinding; the grain is known only if all of it passed a sieve."


def prepare_electrode(context: Job) -> None:
    couple, filling = context.values["type"], context.values["filling_solution"]
    if not filling.startswith(_FILLINGS[couple]):
        raise RefusalError(f"wrong filling solution: {couple} takes {', '.join(_FILLINGS[couple])}, not {filling}")
    properties = {"electrode type": couple, "filling solution": filling, "frit": context.values["frit"]}
    name = context.written_label or f"Reference electrode, {couple}"
    context.made.append(Vessel(context.free_name(name), properties, Contents(volume=None), CONSUMABLE))
    context.how = "An electrode out of the lab's stock of parts; its potential is that of its couple."


def _say_reached(context: Job, vessel: Vessel, used: Decimal) -> None:
    """Record the declared pH, or only the volume added if none is declared."""
    description, final_ph = f"{context.run_of(vessel)}: {show(used)} of titrant added", _now(context, vessel)
    if final_ph is None:
        vessel.properties.pop("pH", None)
        context.say(f"{description}, run completed, no pH on record")
        return
    vessel.properties["pH"] = quantities.plain(round(final_ph, 2))
    context.say(f"{description}, pH", "quantitative", vessel.properties["pH"])


def _need_reachable(vessel: Vessel, titrant: Vessel, target: Decimal) -> None:
    """Raise RefusalError if the target is outside the pH of both parts, where these are known: no mixture reaches it."""
    ends = [shown_number(str(mixed.properties.get("pH", "")), "") for mixed in (vessel, titrant)]
    known = sorted(end for end in ends if end is not None)
    if len(known) == len(ends) and not known[0] <= target <= known[1]:
        raise RefusalError(
            f"wrong titrant: pH {target} does not lie between {vessel.name} at pH {vessel.properties['pH']}"
            f" and {titrant.name} at pH {titrant.properties['pH']}"
        )


def _titrate(context: Job, vessel: Vessel, titrant: Vessel, target: Decimal) -> Decimal:
    """Add titrant and return its volume."""
    if _now(context, vessel) is None or context.values["titrant_volume"] is not None:
        return _add_stated(context, vessel, titrant)
    used, step = ZERO, context.number("increment")
    limit = context.values["max_titrant_volume"] or vessel.capacity() - vessel.volume()
    tolerance, starting_ph = context.number("tolerance"), _now(context, vessel)
    while (current_ph := _now(context, vessel)) is not None and abs(current_ph - target) > tolerance:
        # A change of sign means that the target is between two steps; adding more would only move away from it.
        if starting_ph is not None and (current_ph - target) * (starting_ph - target) < 0:
            raise RefusalError(
                f"overshot: {show(step)} takes {vessel.name} from one side of pH {target} to pH {current_ph:.2f}; take less at a time"
            )
        if used + step > limit or used + step > _MOST_STEPS * step:
            raise RefusalError(
                f"short of titrant: {show(used)} brought {vessel.name} to pH {current_ph:.2f}, not to {target}"
            )
        vessel.pour(titrant.draw(step), titrant)
        used += step
    return used


def _add_stated(context: Job, vessel: Vessel, titrant: Vessel) -> Decimal:
    stated: Decimal | None = context.values["titrant_volume"] or context.values["max_titrant_volume"]
    if stated is None:
        raise RefusalError(f"critically unclear: how much of {titrant.name} is added to {vessel.name}")
    limit = context.values["max_titrant_volume"]
    if limit is not None and stated > limit:
        raise RefusalError(f"two volumes: {show(stated)} of titrant is more than the {show(limit)} allowed")
    vessel.pour(titrant.draw(stated), titrant)
    return stated


def _now(context: Job, vessel: Vessel) -> Decimal | None:
    """Return the pH that the experiment declares for this action, without noise, or None if it declares none."""
    return next((signal(context, vessel.contents, entry) for entry in context.declared("responses")), None)


def _put_over(vessel: Vessel) -> None:
    """Move the sample to the digestion vessel, whose empty mass is unknown."""
    vessel.properties |= _DIGESTION_VESSEL
    vessel.tare = None
    if vessel.volume() > vessel.capacity():
        raise RefusalError(
            f"too small a container: {show(vessel.capacity())} capacity, {show(vessel.volume())} would be in it ({vessel.name})"
        )


def _digested(context: Job, vessel: Vessel) -> None:
    for name in OF_THE_LIQUID:
        vessel.properties.pop(name, None)
    vessel.properties["digested"] = f"{context.set_to('temperature')} for {context.set_to('hold_time')}"


HANDLERS: dict[str, Callable[[Job], None]] = {
    **freezing.HANDLERS,
    "adjust_ph": adjust_ph,
    "digest_by_microwave": digest_by_microwave,
    "grind": grind,
    "prepare_electrode": prepare_electrode,
}
