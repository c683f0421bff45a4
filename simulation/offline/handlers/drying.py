"""Removing solvent. Dissolved substances stay completely. The solvent that leaves becomes a material of its own."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from simulation.offline.action_context import ActionContext
from simulation.offline.ledger import ZERO, Component, Contents, round_to_grain
from simulation.offline.vessels import (
    EMPTY,
    FROZEN,
    LIQUID_PROPERTIES,
    SOLIDS,
    RefusalError,
    Vessel,
    format_volume,
    pool_waste,
)

# µL of solvent that leave one vessel per hour: in an oven above each temperature in °C, in each evaporator, and from ice.
_OVEN_RATES = ((Decimal(100), 10_000), (Decimal(60), 2_000), (ZERO, 200))
_EVAPORATOR_RATES = {
    "centrifugal vacuum concentrator": 1_000,
    "rotary evaporator": 300_000,
    "nitrogen blow-down": 5_000,
}
_SUBLIMATION_RATE = 500
_PLASTIC_LIMIT = Decimal(120)  # °C, the most that plastic withstands
# Words in the description of a container. Glass is checked first: a "glass tube" has a plastic word too.
_GLASS = ("glass", "crucible", "porcelain", "quartz", "ceramic", "beaker", "volumetric", "weighing")
_PLASTIC = ("tube", "plate", "plastic", "poly", "flask", "cryovial", "dish")
_MOISTURE = "water"  # the component that drying removes from a solid


def dry_in_oven(context: ActionContext) -> None:
    temperature = context.get_number("temperature")
    hourly = next(rate for above, rate in _OVEN_RATES if temperature >= above)
    driven_off = []
    for vessel in context.get_changeable_samples():
        _require_heat_proof(vessel, temperature)
        driven_off.append((_remove_solvent(vessel, _compute_removable_volume(context, "duration", hourly)), vessel))
        _finish_drying(
            context,
            vessel,
            "solid",
            f"{context.get_written_setting('temperature')} for {context.get_written_setting('duration')}",
        )
    _store_driven_off(context, "Vapour driven off by", driven_off)
    context.reasoning = f"Up to {format_volume(Decimal(hourly))} of solvent leave each vessel in an hour at {temperature} °C; all else stays."


def evaporate_solvent(context: ActionContext) -> None:
    """Remove solvent until the target volume, dryness or the end of the time is reached."""
    hourly = _EVAPORATOR_RATES[context.values["method"]]
    stop_at = context.values["target_volume"] or ZERO
    driven_off = []
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("evaporated")
        if vessel.get_volume() <= stop_at:
            raise RefusalError(
                f"nothing to take off: {vessel.name} holds {format_volume(vessel.get_volume())}, no more than {format_volume(stop_at)}"
            )
        driven_off.append(
            (_remove_solvent(vessel, _compute_removable_volume(context, "duration", hourly), stop_at), vessel)
        )
        _finish_drying(context, vessel, "solid", f"evaporated at {context.get_written_setting('temperature')}")
    _store_driven_off(context, "Condensate from", driven_off)
    context.reasoning = (
        f"Up to {format_volume(Decimal(hourly))} of solvent leave each vessel in an hour; all that was in it stays."
    )


def freeze_dry(context: ActionContext) -> None:
    """Sublime the ice. Raises RefusalError if there is too much of it for the given time."""
    limit = _compute_removable_volume(context, "primary_drying_time", _SUBLIMATION_RATE)
    driven_off = []
    for vessel in context.get_changeable_samples():
        if vessel.phase != FROZEN:
            vessel.require_liquid("freeze-dried")
        if vessel.get_volume() > limit:
            hours = vessel.get_volume() / _SUBLIMATION_RATE
            raise RefusalError(
                f"too short: {format_volume(vessel.get_volume())} in {vessel.name} need {hours.normalize():f} h of primary drying"
                f" ({format_volume(Decimal(_SUBLIMATION_RATE))} an hour), {context.get_written_setting('primary_drying_time')} given"
            )
        driven_off.append((_remove_solvent(vessel, limit), vessel))
        vessel.move_to_condition("room_temp")
        _finish_drying(context, vessel, "powder", "freeze-dried")
    _store_driven_off(context, "Ice in the trap of", driven_off)
    context.reasoning = f"Up to {format_volume(Decimal(_SUBLIMATION_RATE))} of ice leave each vessel in an hour; all that was in it stays."


def dry_over_desiccant(context: ActionContext) -> None:
    driven_off = []
    for vessel in context.get_changeable_samples():
        if vessel.phase not in SOLIDS or vessel.contents.volume:
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; a desiccator dries solids")
        driven_off.append((_remove_solvent(vessel, ZERO), vessel))
        _finish_drying(
            context,
            vessel,
            vessel.phase,
            f"over {context.values['desiccant']} for {context.get_written_setting('duration')}",
        )
    _store_driven_off(context, "Moisture taken up by", driven_off)
    context.reasoning = "Moisture left the solid if it held any; all else stays."


def _compute_removable_volume(context: ActionContext, parameter: str, hourly: int) -> Decimal:
    return context.get_number(parameter) * hourly / 3600


def _remove_solvent(vessel: Vessel, limit: Decimal, stop_at: Decimal = ZERO) -> Contents:
    """Remove and return what leaves as vapour.

    This is solvent, an equal share of each component that is itself a liquid and, at dryness, the moisture of a solid.
    """
    available = vessel.get_volume()
    removed = round_to_grain(min(available - stop_at, limit))
    share = removed / available if available else ZERO
    leaving: dict[str, Component] = {}
    for name, part in vessel.contents.components.items():
        amount = _compute_loss(name, part, share, dry=removed == available)
        if amount is None or amount > 0:
            leaving[name] = part._replace(amount=amount)
    for name, part in leaving.items():
        # At dryness nothing is left, which is certain even where the amount was unknown.
        total = vessel.contents.components[name].amount
        remaining = (
            ZERO if removed == available else None if total is None or part.amount is None else total - part.amount
        )
        vessel.contents = vessel.contents.with_component(name, part._replace(amount=remaining))
    mass = _compute_mass_left(vessel.contents.mass, removed, leaving)
    vessel.contents = replace(vessel.contents, volume=available - removed, mass=mass)
    return Contents(leaving, {}, removed, None)


def _compute_loss(name: str, part: Component, share: Decimal, dry: bool) -> Decimal | None:
    """Return the amount of a component that leaves, or None if it is unknown."""
    if part.dimension == "volume":
        return part.amount if dry else None if part.amount is None else round_to_grain(part.amount * share)
    return part.amount if name == _MOISTURE and dry else ZERO


def _compute_mass_left(mass: Decimal | None, removed: Decimal, leaving: dict[str, Component]) -> Decimal | None:
    """Return a solid's mass without its moisture, or None if it is unknown, as after the loss of any liquid."""
    if mass is None or removed:
        return None
    moisture = leaving.get(_MOISTURE)
    if moisture is None:
        return mass
    return mass - moisture.amount if moisture.dimension == "mass" and moisture.amount is not None else None


def _finish_drying(context: ActionContext, vessel: Vessel, phase: str, treatment: str) -> None:
    """Set the phase of a dry sample, remove the properties of the liquid, and record whether the sample is dry."""
    for name in [key for key in vessel.properties if key in LIQUID_PROPERTIES or key.endswith(" concentration")]:
        del vessel.properties[name]
    if vessel.contents.volume:
        context.record_observation(
            f"{vessel.name} afterwards", "visual", f"still wet, {format_volume(vessel.get_volume())} of liquid in it"
        )
        return
    for name in ("medium", "moisture"):
        vessel.properties.pop(name, None)
    vessel.phase = vessel.phase if vessel.phase in (EMPTY, *SOLIDS) else phase
    vessel.properties["dried"] = treatment
    context.record_observation(f"{vessel.name} afterwards", "visual", "dry")


def _require_heat_proof(vessel: Vessel, temperature: Decimal) -> None:
    if vessel.phase not in (EMPTY, *SOLIDS):
        vessel.require_liquid("dried in an oven")
    container = str(vessel.properties.get("container", "")).lower()
    plastic = any(word in container for word in _PLASTIC) and not any(word in container for word in _GLASS)
    if plastic and temperature > _PLASTIC_LIMIT:
        raise RefusalError(
            f"too hot: {temperature} °C for {vessel.name} in {container}, plastic stands {_PLASTIC_LIMIT} °C at most"
        )


def _store_driven_off(context: ActionContext, label: str, parts: list[tuple[Contents, Vessel]]) -> None:
    """Store the solvent that left as a used-up material, so that amounts are conserved."""
    non_empty = [(contents, vessel) for contents, vessel in parts if contents.volume or contents.components]
    if non_empty:
        context.new_vessels.append(pool_waste(context.reserve_name(f"{label} {context.action_type.name}"), non_empty))


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "dry_in_oven": dry_in_oven,
    "evaporate": evaporate_solvent,
    "lyophilize": freeze_dry,
    "desiccate": dry_over_desiccant,
}
