"""Snap freezing and slow freezing of cells."""

from collections.abc import Callable
from decimal import Decimal

from simulation.offline.chemistry import develop
from simulation.offline.handlers.thermal import need_space
from simulation.offline.job import Job
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
    cells_in,
)

_SWELLS = Decimal("0.9")  # share of the capacity that may be full, because ice takes more room than water
_BATH_REFUSES = ("glass", "polystyrene")  # containers that crack in the bath
_PROTECTS = ("DMSO", "dimethyl sulfoxide", "glycerol", "freezing medium", "cryoprotectant")


def flash_freeze(context: Job) -> None:
    for vessel in context.changeable():
        if any(word in str(vessel.properties.get("container", "")).lower() for word in _BATH_REFUSES):
            raise RefusalError(
                f"wrong container: {vessel.name} is in {vessel.properties['container']}, which cracks in the bath"
            )
        if vessel.phase in (EMPTY, CONSUMABLE, GEL):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; there is nothing to freeze")
        _freeze_down(context, vessel)
    context.how = "Frozen at once; amounts stay."


def freeze_cells(context: Job) -> None:
    """Freeze cells slowly, also without a cryoprotectant. What survives is what the experiment declares."""
    protectant = None if context.values["cryoprotectant"] is None else context.named("cryoprotectant")
    if protectant and context.values["cryoprotectant_volume"] is None:
        raise RefusalError(f"critically unclear: how much of {protectant.name} is added to each")
    for vessel in context.changeable(*([protectant] if protectant else [])):
        vessel.need_liquid("frozen in suspension")
        if not cells_in(vessel.contents):
            raise RefusalError(f"no cells: there is nothing to freeze slowly in {vessel.name}")
        if protectant:
            vessel.pour(protectant.draw(context.number("cryoprotectant_volume")), protectant)
        vessel.properties["cryoprotectant"] = protectant.name if protectant else _protection(vessel)
        # Declared survival depends on the cryoprotectant, so it is applied after that is added.
        develop(context, vessel)
        _freeze_down(context, vessel)
    context.how = "Frozen; amounts stay, and nobody knows what survived unless the experiment declares it."


def _freeze_down(context: Job, vessel: Vessel) -> None:
    """Freeze the contents and move the vessel straight to its cold storage. Raises RefusalError if it would burst."""
    if vessel.phase in (LIQUID, SUSPENSION, ADHERENT, SEDIMENTED):
        need_space(vessel, _SWELLS, "bursts its container when it freezes")
    vessel.place(context.values["store_at"])
    vessel.freeze(vessel.temperature())


def _protection(vessel: Vessel) -> str:
    text = f"{vessel.name} {vessel.properties.get('medium', '')} {' '.join(vessel.contents.components)}".lower()
    return next((word for word in _PROTECTS if word.lower() in text), "none")


HANDLERS: dict[str, Callable[[Job], None]] = {"flash_freeze": flash_freeze, "freeze_cells": freeze_cells}
