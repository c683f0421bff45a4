"""Removing solvent. What was dissolved stays exactly, and what left is stored as a material of its own."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from simulation.offline.job import Job
from simulation.offline.ledger import ZERO, Component, Contents, grain
from simulation.offline.vessels import (
    EMPTY,
    FROZEN,
    OF_THE_LIQUID,
    SOLIDS,
    RefusalError,
    Vessel,
    pool,
    show,
)

# µL of solvent that leave one vessel per hour: in an oven above each temperature in °C, in each evaporator, and from ice.
_OVEN = ((Decimal(100), 10_000), (Decimal(60), 2_000), (ZERO, 200))
_EVAPORATORS = {
    "centrifugal vacuum concentrator": 1_000,
    "rotary evaporator": 300_000,
    "nitrogen blow-down": 5_000,
}
_SUBLIMATION = 500
_PLASTIC_STANDS = Decimal(120)  # °C, the most that plastic withstands
# Words in the description of a container. Glass is checked first: a "glass tube" has a plastic word too.
_GLASS = ("glass", "crucible", "porcelain", "quartz", "ceramic", "beaker", "volumetric", "weighing")
_PLASTIC = ("tube", "plate", "plastic", "poly", "flask", "cryovial", "dish")
_MOISTURE = "water"  # the component that drying removes from a solid


def dry_in_oven(context: Job) -> None:
    temperature = context.number("temperature")
    hourly = next(rate for above, rate in _OVEN if temperature >= above)
    driven_off = []
    for vessel in context.changeable():
        _need_heat_proof(vessel, temperature)
        driven_off.append((_drive_off(vessel, _within(context, "duration", hourly)), vessel))
        _finish(context, vessel, "solid", f"{context.set_to('temperature')} for {context.set_to('duration')}")
    _keep_books(context, "Vapour driven off by", driven_off)
    context.how = (
        f"Up to {show(Decimal(hourly))} of solvent leave each vessel in an hour at {temperature} °C; all else stays."
    )


def evaporate(context: Job) -> None:
    """Remove solvent until the target volume, dryness or the end of the time is reached."""
    hourly = _EVAPORATORS[context.values["method"]]
    stop_at = context.values["target_volume"] or ZERO
    driven_off = []
    for vessel in context.changeable():
        vessel.need_liquid("evaporated")
        if vessel.volume() <= stop_at:
            raise RefusalError(
                f"nothing to take off: {vessel.name} holds {show(vessel.volume())}, no more than {show(stop_at)}"
            )
        driven_off.append((_drive_off(vessel, _within(context, "duration", hourly), stop_at), vessel))
        _finish(context, vessel, "solid", f"evaporated at {context.set_to('temperature')}")
    _keep_books(context, "Condensate from", driven_off)
    context.how = f"Up to {show(Decimal(hourly))} of solvent leave each vessel in an hour; all that was in it stays."


def lyophilize(context: Job) -> None:
    """Sublime the ice. Raises RefusalError if there is too much of it for the given time."""
    limit = _within(context, "primary_drying_time", _SUBLIMATION)
    driven_off = []
    for vessel in context.changeable():
        if vessel.phase != FROZEN:
            vessel.need_liquid("freeze-dried")
        if vessel.volume() > limit:
            hours = vessel.volume() / _SUBLIMATION
            raise RefusalError(
                f"too short: {show(vessel.volume())} in {vessel.name} need {hours.normalize():f} h of primary drying"
                f" ({show(Decimal(_SUBLIMATION))} an hour), {context.set_to('primary_drying_time')} given"
            )
        driven_off.append((_drive_off(vessel, limit), vessel))
        vessel.place("room_temp")
        _finish(context, vessel, "powder", "freeze-dried")
    _keep_books(context, "Ice in the trap of", driven_off)
    context.how = f"Up to {show(Decimal(_SUBLIMATION))} of ice leave each vessel in an hour; all that was in it stays."


def desiccate(context: Job) -> None:
    driven_off = []
    for vessel in context.changeable():
        if vessel.phase not in SOLIDS or vessel.contents.volume:
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; a desiccator dries solids")
        driven_off.append((_drive_off(vessel, ZERO), vessel))
        _finish(context, vessel, vessel.phase, f"over {context.values['desiccant']} for {context.set_to('duration')}")
    _keep_books(context, "Moisture taken up by", driven_off)
    context.how = "Moisture left the solid if it held any; all else stays."


def _within(context: Job, parameter: str, hourly: int) -> Decimal:
    return context.number(parameter) * hourly / 3600


def _drive_off(vessel: Vessel, limit: Decimal, stop_at: Decimal = ZERO) -> Contents:
    """Remove and return what leaves as vapour.

    That is solvent, components that are liquids themselves in proportion, and the moisture of a solid.
    """
    available = vessel.volume()
    removed = grain(min(available - stop_at, limit))
    share = removed / available if available else ZERO
    leaving: dict[str, Component] = {}
    for name, part in vessel.contents.components.items():
        amount = _leaves(name, part, share, dry=removed == available)
        if amount is None or amount > 0:
            leaving[name] = part._replace(amount=amount)
    for name, part in leaving.items():
        # At dryness nothing is left, which is certain even where the amount was unknown.
        total = vessel.contents.components[name].amount
        remaining = (
            ZERO if removed == available else None if total is None or part.amount is None else total - part.amount
        )
        vessel.contents = vessel.contents.changed(name, part._replace(amount=remaining))
    mass = _mass_left(vessel.contents.mass, removed, leaving)
    vessel.contents = replace(vessel.contents, volume=available - removed, mass=mass)
    return Contents(leaving, {}, removed, None)


def _leaves(name: str, part: Component, share: Decimal, dry: bool) -> Decimal | None:
    """Return how much of a component leaves; None if it is part of an unknown amount."""
    if part.dimension == "volume":
        return part.amount if dry else None if part.amount is None else grain(part.amount * share)
    return part.amount if name == _MOISTURE and dry else ZERO


def _mass_left(mass: Decimal | None, removed: Decimal, leaving: dict[str, Component]) -> Decimal | None:
    """Return a solid's mass without its moisture, or None if liquid left, whose mass is not counted."""
    if mass is None or removed:
        return None
    moisture = leaving.get(_MOISTURE)
    if moisture is None:
        return mass
    return mass - moisture.amount if moisture.dimension == "mass" and moisture.amount is not None else None


def _finish(context: Job, vessel: Vessel, phase: str, treatment: str) -> None:
    """Turn what is dry into a solid, and remove properties that described the liquid."""
    for name in [key for key in vessel.properties if key in OF_THE_LIQUID or key.endswith(" concentration")]:
        del vessel.properties[name]
    if vessel.contents.volume:
        context.say(f"{vessel.name} afterwards", "visual", f"still wet, {show(vessel.volume())} of liquid in it")
        return
    for name in ("medium", "moisture"):
        vessel.properties.pop(name, None)
    vessel.phase = vessel.phase if vessel.phase in (EMPTY, *SOLIDS) else phase
    vessel.properties["dried"] = treatment
    context.say(f"{vessel.name} afterwards", "visual", "dry")


def _need_heat_proof(vessel: Vessel, temperature: Decimal) -> None:
    if vessel.phase not in (EMPTY, *SOLIDS):
        vessel.need_liquid("dried in an oven")
    container = str(vessel.properties.get("container", "")).lower()
    plastic = any(word in container for word in _PLASTIC) and not any(word in container for word in _GLASS)
    if plastic and temperature > _PLASTIC_STANDS:
        raise RefusalError(
            f"too hot: {temperature} °C for {vessel.name} in {container}, plastic stands {_PLASTIC_STANDS} °C at most"
        )


def _keep_books(context: Job, label: str, parts: list[tuple[Contents, Vessel]]) -> None:
    """Store the solvent that left as a used-up material, so that amounts are conserved."""
    non_empty = [(contents, vessel) for contents, vessel in parts if contents.volume or contents.components]
    if non_empty:
        context.made.append(pool(context.free_name(f"{label} {context.kind.name}"), non_empty))


HANDLERS: dict[str, Callable[[Job], None]] = {
    "dry_in_oven": dry_in_oven,
    "evaporate": evaporate,
    "lyophilize": lyophilize,
    "desiccate": desiccate,
}
