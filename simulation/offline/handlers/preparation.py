"""Preparing samples: adjusting a pH, digesting, grinding; and preparing a reference electrode."""

from collections.abc import Callable
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.chemistry import apply_declared_changes
from simulation.offline.handlers import freezing
from simulation.offline.handlers.loading import parse_property_number
from simulation.offline.ledger import ZERO, Contents
from simulation.offline.responses import compute_signal
from simulation.offline.vessels import (
    ADHERENT,
    CONSUMABLE,
    FROZEN,
    LIQUID,
    LIQUID_PROPERTIES,
    PELLET,
    SOLIDS,
    RefusalError,
    Vessel,
    format_volume,
)

_DIGESTION_VESSEL = {"container": "PTFE digestion vessel", "container_capacity": "55 mL"}
_MOST_STEPS = 1000  # additions of titrant; ends the loop when the declared curve never reaches the target
# Reference couple -> how the options for its filling solution begin.
_FILLING_SOLUTIONS = {
    "Ag/AgCl": ("1 M KCl", "3 M KCl", "saturated KCl"),
    "Ag/Ag+ (non-aqueous)": ("10 mM AgNO3",),
    "saturated calomel": ("saturated KCl",),
}


def adjust_ph(context: ActionContext) -> None:
    """Add titrant until the declared pH reaches the target; if no pH is declared, add the given volume and record no pH."""
    titrant, target = context.get_selected_vessel("titrant"), context.get_number("target_ph")
    # Checked first, because a sample that is already at the target draws no titrant.
    titrant.require_liquid()
    for vessel in context.get_changeable_samples(titrant):
        vessel.require_liquid("titrated")
        _require_reachable_ph(vessel, titrant, target)
        used = _add_titrant(context, vessel, titrant, target)
        _record_ph(context, vessel, used)
    context.reasoning = (
        "Titrant in steps against the declared pH; where none is declared, the stated volume, and no pH is told."
    )


def digest_by_microwave(context: ActionContext) -> None:
    acid, oxidizer = (
        None if context.values[name] is None else context.get_selected_vessel(name) for name in ("acid", "oxidizer")
    )
    added = [reagent for reagent in (acid, oxidizer) if reagent]
    for vessel in context.get_changeable_samples(*added):
        if vessel.phase in (FROZEN, ADHERENT):
            vessel.require_liquid("digested")
        if not vessel.get_volume() and not added:
            raise RefusalError(f"dry: {vessel.name} holds no liquid that takes up microwaves; add an acid")
        _move_to_digestion_vessel(vessel)
        for name, reagent in (("acid_volume", acid), ("oxidizer_volume", oxidizer)):
            if reagent:
                vessel.pour_in(reagent.draw_volume(context.get_number(name)), reagent)
        apply_declared_changes(context, vessel)
        vessel.phase = LIQUID if acid else vessel.phase
        _mark_digested(context, vessel)
    context.reasoning = "Everything is in the digestion vessel; amounts stay but for reactions the experiment declares."


def grind_solids(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        if vessel.phase not in SOLIDS or vessel.phase == PELLET or vessel.contents.volume:
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; only dry solids and tissue are ground")
        vessel.phase = "powder"
        sieved = context.values["sieve"] is not None
        vessel.properties["particle size"] = (
            f"below {context.get_written_setting('sieve')}" if sieved else "not measured"
        )
    context.reasoning = "Nothing is lost in grinding; the grain is known only if all of it passed a sieve."


def prepare_electrode(context: ActionContext) -> None:
    couple, filling = context.values["type"], context.values["filling_solution"]
    if not filling.startswith(_FILLING_SOLUTIONS[couple]):
        raise RefusalError(
            f"wrong filling solution: {couple} takes {', '.join(_FILLING_SOLUTIONS[couple])}, not {filling}"
        )
    properties = {"electrode type": couple, "filling solution": filling, "frit": context.values["frit"]}
    name = context.printable_label or f"Reference electrode, {couple}"
    context.new_vessels.append(Vessel(context.reserve_name(name), properties, Contents(volume=None), CONSUMABLE))
    context.reasoning = "An electrode out of the lab's stock of parts; its potential is that of its couple."


def _record_ph(context: ActionContext, vessel: Vessel, used: Decimal) -> None:
    """Record the declared pH, or only the volume added if none is declared."""
    description, final_ph = (
        f"{context.describe_run(vessel)}: {format_volume(used)} of titrant added",
        _compute_ph(context, vessel),
    )
    if final_ph is None:
        vessel.properties.pop("pH", None)
        context.record_observation(f"{description}, run completed, no pH on record")
        return
    vessel.properties["pH"] = quantities.format_number(round(final_ph, 2))
    context.record_observation(f"{description}, pH", "quantitative", vessel.properties["pH"])


def _require_reachable_ph(vessel: Vessel, titrant: Vessel, target: Decimal) -> None:
    """Raise RefusalError if both pH values are known and the target is not between them: no mixture can reach it."""
    ends = [parse_property_number(str(mixed.properties.get("pH", "")), "") for mixed in (vessel, titrant)]
    known = sorted(end for end in ends if end is not None)
    if len(known) == len(ends) and not known[0] <= target <= known[1]:
        raise RefusalError(
            f"wrong titrant: pH {target} does not lie between {vessel.name} at pH {vessel.properties['pH']}"
            f" and {titrant.name} at pH {titrant.properties['pH']}"
        )


def _add_titrant(context: ActionContext, vessel: Vessel, titrant: Vessel, target: Decimal) -> Decimal:
    """Add titrant in steps until the target is reached, or add the stated volume. Return the total volume added."""
    if _compute_ph(context, vessel) is None or context.values["titrant_volume"] is not None:
        return _add_stated_volume(context, vessel, titrant)
    used, step = ZERO, context.get_number("increment")
    limit = context.values["max_titrant_volume"] or vessel.get_capacity() - vessel.get_volume()
    tolerance, starting_ph = context.get_number("tolerance"), _compute_ph(context, vessel)
    while (current_ph := _compute_ph(context, vessel)) is not None and abs(current_ph - target) > tolerance:
        # A change of sign means that the target is between two steps; adding more would only move away from it.
        if starting_ph is not None and (current_ph - target) * (starting_ph - target) < 0:
            raise RefusalError(
                f"overshot: {format_volume(step)} takes {vessel.name} from one side of pH {target} to pH {current_ph:.2f}; take less at a time"
            )
        if used + step > limit or used + step > _MOST_STEPS * step:
            raise RefusalError(
                f"short of titrant: {format_volume(used)} brought {vessel.name} to pH {current_ph:.2f}, not to {target}"
            )
        vessel.pour_in(titrant.draw_volume(step), titrant)
        used += step
    return used


def _add_stated_volume(context: ActionContext, vessel: Vessel, titrant: Vessel) -> Decimal:
    stated: Decimal | None = context.values["titrant_volume"] or context.values["max_titrant_volume"]
    if stated is None:
        raise RefusalError(f"critically unclear: how much of {titrant.name} is added to {vessel.name}")
    limit = context.values["max_titrant_volume"]
    if limit is not None and stated > limit:
        raise RefusalError(
            f"two volumes: {format_volume(stated)} of titrant is more than the {format_volume(limit)} allowed"
        )
    vessel.pour_in(titrant.draw_volume(stated), titrant)
    return stated


def _compute_ph(context: ActionContext, vessel: Vessel) -> Decimal | None:
    """Return the pH that the experiment declares for this action, without noise, or None if it declares none."""
    return next((compute_signal(context, vessel.contents, entry) for entry in context.list_declared("responses")), None)


def _move_to_digestion_vessel(vessel: Vessel) -> None:
    """Move the sample to the digestion vessel, whose empty mass is unknown."""
    vessel.properties |= _DIGESTION_VESSEL
    vessel.tare = None
    if vessel.get_volume() > vessel.get_capacity():
        raise RefusalError(
            f"too small a container: {format_volume(vessel.get_capacity())} capacity, {format_volume(vessel.get_volume())} would be in it ({vessel.name})"
        )


def _mark_digested(context: ActionContext, vessel: Vessel) -> None:
    for name in LIQUID_PROPERTIES:
        vessel.properties.pop(name, None)
    vessel.properties["digested"] = (
        f"{context.get_written_setting('temperature')} for {context.get_written_setting('hold_time')}"
    )


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    **freezing.HANDLERS,
    "adjust_ph": adjust_ph,
    "digest_by_microwave": digest_by_microwave,
    "grind": grind_solids,
    "prepare_electrode": prepare_electrode,
}
