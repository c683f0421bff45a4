"""Bringing a sample to a state: a pH, a size of grain, a solution; and making the electrode that others measure with."""

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
_MOST_STEPS = 1000  # additions of titrant that anybody would make
# Which filling solutions go with a reference couple, by their beginning.
_FILLINGS = {
    "Ag/AgCl": ("1 M KCl", "3 M KCl", "saturated KCl"),
    "Ag/Ag+ (non-aqueous)": ("10 mM AgNO3",),
    "saturated calomel": ("saturated KCl",),
}


def adjust_ph(job: Job) -> None:
    """Where the experiment declares the pH, titrant goes in until it is there; else a stated volume, to a pH nobody knows."""
    titrant, target = job.named("titrant"), job.number("target_ph")
    titrant.need_liquid()
    for vessel in job.changeable(titrant):
        vessel.need_liquid("titrated")
        _need_reachable(vessel, titrant, target)
        used = _titrate(job, vessel, titrant, target)
        _say_reached(job, vessel, used)
    job.how = "Titrant in steps against the declared pH; where none is declared, the stated volume, and no pH is told."


def digest_by_microwave(job: Job) -> None:
    acid, oxidizer = (None if job.values[name] is None else job.named(name) for name in ("acid", "oxidizer"))
    added = [reagent for reagent in (acid, oxidizer) if reagent]
    for vessel in job.changeable(*added):
        if vessel.phase in (FROZEN, ADHERENT):
            vessel.need_liquid("digested")
        if not vessel.volume() and not added:
            raise RefusalError(f"dry: {vessel.name} holds no liquid that takes up microwaves; add an acid")
        _put_over(vessel)
        for name, reagent in (("acid_volume", acid), ("oxidizer_volume", oxidizer)):
            if reagent:
                vessel.pour(reagent.draw(job.number(name)), reagent)
        develop(job, vessel)
        vessel.phase = LIQUID if acid else vessel.phase
        _digested(job, vessel)
    job.how = "Everything is in the digestion vessel; amounts stay but for reactions the experiment declares."


def grind(job: Job) -> None:
    for vessel in job.changeable():
        if vessel.phase not in SOLIDS or vessel.phase == PELLET or vessel.contents.volume:
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; only dry solids and tissue are ground")
        vessel.phase = "powder"
        sieved = job.values["sieve"] is not None
        vessel.properties["particle size"] = f"below {job.set_to('sieve')}" if sieved else "not measured"
    job.how = "Nothing is lost in grinding; the grain is known only if all of it passed a sieve."


def prepare_electrode(job: Job) -> None:
    couple, filling = job.values["type"], job.values["filling_solution"]
    if not filling.startswith(_FILLINGS[couple]):
        raise RefusalError(f"wrong filling solution: {couple} takes {', '.join(_FILLINGS[couple])}, not {filling}")
    shown = {"electrode type": couple, "filling solution": filling, "frit": job.values["frit"]}
    name = job.written_label or f"Reference electrode, {couple}"
    job.made.append(Vessel(job.free_name(name), shown, Contents(volume=None), CONSUMABLE))
    job.how = "An electrode out of the lab's stock of parts; its potential is that of its couple."


def _say_reached(job: Job, vessel: Vessel, used: Decimal) -> None:
    """The pH as declared; nothing is made up where none is."""
    said, reached = f"{job.run_of(vessel)}: {show(used)} of titrant added", _now(job, vessel)
    if reached is None:
        vessel.properties.pop("pH", None)
        job.say(f"{said}, run completed, no pH on record")
        return
    vessel.properties["pH"] = quantities.plain(round(reached, 2))
    job.say(f"{said}, pH", "quantitative", vessel.properties["pH"])


def _need_reachable(vessel: Vessel, titrant: Vessel, target: Decimal) -> None:
    """Nothing that is mixed comes to lie outside the pH of its parts, where both are known."""
    ends = [shown_number(str(each.properties.get("pH", "")), "") for each in (vessel, titrant)]
    known = sorted(end for end in ends if end is not None)
    if len(known) == len(ends) and not known[0] <= target <= known[1]:
        raise RefusalError(
            f"wrong titrant: pH {target} does not lie between {vessel.name} at pH {vessel.properties['pH']}"
            f" and {titrant.name} at pH {titrant.properties['pH']}"
        )


def _titrate(job: Job, vessel: Vessel, titrant: Vessel, target: Decimal) -> Decimal:
    """Add titrant; returns how much."""
    if _now(job, vessel) is None or job.values["titrant_volume"] is not None:
        return _add_stated(job, vessel, titrant)
    used, step = ZERO, job.number("increment")
    most = job.values["max_titrant_volume"] or vessel.capacity() - vessel.volume()
    tolerance, before = job.number("tolerance"), _now(job, vessel)
    while (now := _now(job, vessel)) is not None and abs(now - target) > tolerance:
        if before is not None and (now - target) * (before - target) < 0:
            raise RefusalError(
                f"overshot: {show(step)} takes {vessel.name} from one side of pH {target} to pH {now:.2f}; take less at a time"
            )
        if used + step > most or used + step > _MOST_STEPS * step:
            raise RefusalError(f"short of titrant: {show(used)} brought {vessel.name} to pH {now:.2f}, not to {target}")
        vessel.pour(titrant.draw(step), titrant)
        used += step
    return used


def _add_stated(job: Job, vessel: Vessel, titrant: Vessel) -> Decimal:
    stated: Decimal | None = job.values["titrant_volume"] or job.values["max_titrant_volume"]
    if stated is None:
        raise RefusalError(f"critically unclear: how much of {titrant.name} is added to {vessel.name}")
    most = job.values["max_titrant_volume"]
    if most is not None and stated > most:
        raise RefusalError(f"two volumes: {show(stated)} of titrant is more than the {show(most)} allowed")
    vessel.pour(titrant.draw(stated), titrant)
    return stated


def _now(job: Job, vessel: Vessel) -> Decimal | None:
    """The pH as the experiment declares it for this action, without noise; None where it declares none."""
    return next((signal(job, vessel.contents, entry) for entry in job.declared("responses")), None)


def _put_over(vessel: Vessel) -> None:
    """Into the digestion vessel, whose empty mass nobody has told."""
    vessel.properties |= _DIGESTION_VESSEL
    vessel.tare = None
    if vessel.volume() > vessel.capacity():
        raise RefusalError(
            f"too small a container: {show(vessel.capacity())} capacity, {show(vessel.volume())} would be in it ({vessel.name})"
        )


def _digested(job: Job, vessel: Vessel) -> None:
    for name in OF_THE_LIQUID:
        vessel.properties.pop(name, None)
    vessel.properties["digested"] = f"{job.set_to('temperature')} for {job.set_to('hold_time')}"


HANDLERS: dict[str, Callable[[Job], None]] = {
    **freezing.HANDLERS,
    "adjust_ph": adjust_ph,
    "digest_by_microwave": digest_by_microwave,
    "grind": grind,
    "prepare_electrode": prepare_electrode,
}
