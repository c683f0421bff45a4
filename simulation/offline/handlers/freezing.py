"""Snap freezing of samples and slow freezing of cells."""

from collections.abc import Callable
from decimal import Decimal

from simulation.offline.action_context import ActionContext
from simulation.offline.chemistry import apply_declared_changes
from simulation.offline.handlers.thermal import require_headspace
from simulation.offline.vessels import (
    ADHERENT,
    CONSUMABLE,
    EMPTY,
    GEL,
    LIQUID,
    SEDIMENTED,
    SUSPENSION,
    RefusalError,
    Vessel,
    list_cell_components,
)

_MOST_FILLED = Decimal("0.9")  # share of the capacity that may be full, because ice takes more room than water
_CRACKING_CONTAINERS = ("glass", "polystyrene")  # containers that crack in the bath
_CRYOPROTECTANTS = ("DMSO", "dimethyl sulfoxide", "glycerol", "freezing medium", "cryoprotectant")


def flash_freeze(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        if any(word in str(vessel.properties.get("container", "")).lower() for word in _CRACKING_CONTAINERS):
            raise RefusalError(
                f"wrong container: {vessel.name} is in {vessel.properties['container']}, which cracks in the bath"
            )
        if vessel.phase in (EMPTY, CONSUMABLE, GEL):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; there is nothing to freeze")
        _freeze_down(context, vessel)
    context.reasoning = "Frozen at once; amounts stay."


def freeze_cells(context: ActionContext) -> None:
    """Freeze cells slowly, with or without a cryoprotectant. Only declared changes affect the number of cells."""
    protectant = None if context.values["cryoprotectant"] is None else context.get_selected_vessel("cryoprotectant")
    if protectant and context.values["cryoprotectant_volume"] is None:
        raise RefusalError(f"critically unclear: how much of {protectant.name} is added to each")
    for vessel in context.get_changeable_samples(*([protectant] if protectant else [])):
        vessel.require_liquid("frozen in suspension")
        if not list_cell_components(vessel.contents):
            raise RefusalError(f"no cells: there is nothing to freeze slowly in {vessel.name}")
        if protectant:
            vessel.pour_in(protectant.draw_volume(context.get_number("cryoprotectant_volume")), protectant)
        vessel.properties["cryoprotectant"] = protectant.name if protectant else _find_cryoprotectant(vessel)
        # Declared survival depends on the cryoprotectant, so it is applied after the cryoprotectant is added.
        apply_declared_changes(context, vessel)
        _freeze_down(context, vessel)
    context.reasoning = "Frozen; amounts stay, and nobody knows what survived unless the experiment declares it."


def _freeze_down(context: ActionContext, vessel: Vessel) -> None:
    """Move the vessel to its cold storage and freeze the contents. Raises RefusalError if the vessel would burst."""
    if vessel.phase in (LIQUID, SUSPENSION, ADHERENT, SEDIMENTED):
        require_headspace(vessel, _MOST_FILLED, "bursts its container when it freezes")
    vessel.move_to_condition(context.values["store_at"])
    vessel.freeze_if_cold(vessel.get_temperature())


def _find_cryoprotectant(vessel: Vessel) -> str:
    text = f"{vessel.name} {vessel.properties.get('medium', '')} {' '.join(vessel.contents.components)}".lower()
    return next((word for word in _CRYOPROTECTANTS if word.lower() in text), "none")


HANDLERS: dict[str, Callable[[ActionContext], None]] = {"flash_freeze": flash_freeze, "freeze_cells": freeze_cells}
