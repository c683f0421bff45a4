"""Separating the contents of a vessel: supernatant from cells and particles, DNA from everything else."""

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from simulation.offline.action_context import ActionContext
from simulation.offline.chemistry import apply_declared_changes
from simulation.offline.handlers import filtering, purifying
from simulation.offline.ledger import ATTACHED, CELLS, PARTICLES, ZERO, Contents
from simulation.offline.vessels import (
    CONSUMABLE,
    EMPTY,
    FROZEN,
    LIQUID,
    LIQUID_PROPERTIES,
    PLATE,
    SEDIMENTED,
    SUSPENSION,
    RefusalError,
    Vessel,
    format_volume,
    pool_waste,
)

_UNIT_FORCE = Decimal("1.118E-6")  # x g at a radius of 1 mm and 1 rpm: (2 pi / 60)^2 / 9.81 m/s2 / 1000
_LEAST_FORCE = 100  # x g; the least force at which cells and particles settle
# The largest force in x g that a container withstands, by a word in its description. The first match counts, so special
# words go first.
_FORCE_LIMITS = (
    ("ultracentrifuge", 200_000), ("glass", 3_000), ("plate", 4_000), ("well", 4_000), ("bottle", 10_000),
    ("2 ml", 21_000), ("1.5 ml", 21_000), ("0.5 ml", 21_000), ("0.2 ml", 21_000), ("micro", 21_000),
    ("cryo", 12_000), ("vial", 3_000), ("tube", 12_000),
)  # fmt: skip
_UNSPINNABLE = ("dish", "culture flask", "volumetric flask", "erlenmeyer", "beaker", "crucible")


def aspirate_supernatant(context: ActionContext) -> None:
    """Aspirate supernatants. Those to be kept go into new containers from the supply, or else like the sample's."""
    removed: list[tuple[Contents, Vessel]] = []
    for vessel in context.get_changeable_samples():
        taken = _take_liquid(vessel, _compute_aspirated_volume(context, vessel))
        if not taken.volume:
            raise RefusalError(f"short of volume: {vessel.name} has no supernatant left")
        if context.values["keep_supernatant"]:
            supernatant = context.create_vessel(
                context.find_container_supply() or vessel, f"Supernatant of {vessel.name}"
            )
            supernatant.pour_in(taken, vessel)
            supernatant.phase = SUSPENSION if supernatant.contents.list_components_of_kind(CELLS, PARTICLES) else LIQUID
        else:
            removed.append((taken, vessel))
    if removed:
        context.new_vessels.append(pool_waste(context.reserve_name("Waste from Aspirate"), removed))
    context.reasoning = "Liquid and what is dissolved in it left in proportion; cells stayed."


def wash_cells(context: ActionContext) -> None:
    medium, fresh = context.get_selected_vessel("wash_medium"), context.get_selected_vessel("replacement_medium")
    removed: list[tuple[Contents, Vessel]] = []
    for vessel in context.get_changeable_samples(medium, fresh):
        removed.append((_take_liquid(vessel), vessel))
        for _ in range(context.get_whole_number("washes")):
            vessel.pour_in(medium.draw_volume(context.get_number("wash_volume")), medium)
            removed.append((_take_liquid(vessel), vessel))
        vessel.pour_in(fresh.draw_volume(context.get_number("replacement_volume")), fresh)
        if "medium" in vessel.properties:
            vessel.properties["medium"] = str(fresh.properties.get("medium") or fresh.name)
    waste = pool_waste(context.reserve_name("Waste from Wash"), removed)
    waste.sources.setdefault(medium.barcode, (None, "volume"))
    context.new_vessels.append(waste)
    context.reasoning = (
        "Each rinse took all the liquid off; cells stayed; the replacement volume is what is on them now."
    )


def centrifuge_samples(context: ActionContext) -> None:
    force = _compute_force(context)
    for vessel in context.get_changeable_samples():
        if vessel.phase == FROZEN:
            vessel.require_liquid("spun")
        _require_strength(vessel, force)
        heavy = vessel.contents.list_components_of_kind(CELLS, PARTICLES)
        if vessel.phase in (LIQUID, SUSPENSION) and heavy and force >= _LEAST_FORCE:
            vessel.phase = SEDIMENTED
        appearance = "a pellet under the liquid" if vessel.phase == SEDIMENTED else "no pellet to be seen"
        context.record_observation(context.describe_run(vessel), "visual", appearance)
    context.reasoning = f"Cells and particles come down from {_LEAST_FORCE} x g; nothing else is moved."


def _compute_force(context: ActionContext) -> Decimal:
    """Return the force in x g. From a speed it is 1.118e-6 r n^2, with the radius r in mm and n in revolutions per minute."""
    force, speed = context.values["force"], context.values["speed"]
    if (force is None) == (speed is None):
        raise RefusalError("critically unclear: a spin needs its force or its speed, and not both")
    if speed is None:
        return Decimal(force)
    return _UNIT_FORCE * context.get_number("rotor_radius") * Decimal(speed) ** 2


def extract_dna(context: ActionContext) -> None:
    """Replace each sample with the declared products in the elution volume. Everything else is lost."""
    volume = context.get_number("elution_volume")
    for vessel in context.get_changeable_samples():
        if vessel.phase == FROZEN:
            vessel.require_liquid("lysed")
        if vessel.phase in (EMPTY, CONSUMABLE, PLATE):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; there is nothing to extract DNA from")
        if volume > vessel.get_capacity():
            raise RefusalError(
                f"too small a container: {format_volume(vessel.get_capacity())} capacity, {format_volume(volume)} would be in it ({vessel.name})"
            )
        vessel.phase = LIQUID
        apply_declared_changes(context, vessel)
        products = [reaction["makes"] for reaction in context.list_declared("reactions") if "makes" in reaction]
        extract = vessel.contents.separate_components(products)[0]
        vessel.contents = replace(extract, origins=vessel.contents.origins, volume=volume)
        vessel.name = context.reserve_name(f"DNA extract of {vessel.name}")
        for name in ("mass", "medium", "cell type", *LIQUID_PROPERTIES):
            vessel.properties.pop(name, None)
    context.reasoning = "DNA by the yield the experiment declares, eluted in the stated volume."


def _compute_aspirated_volume(context: ActionContext, vessel: Vessel) -> Decimal | None:
    residual = context.get_number("residual_volume")
    if context.values["volume"] is not None or not residual:
        requested: Decimal | None = context.values["volume"]
        return requested
    return max(ZERO, vessel.get_volume() - residual)


def _take_liquid(vessel: Vessel, volume: Decimal | None = None) -> Contents:
    """Remove and return the liquid over a pellet or attached cells, or all that is not bound to the vessel itself."""
    if vessel.phase not in (LIQUID, SUSPENSION) or not vessel.contents.list_components_of_kind(ATTACHED):
        return vessel.take_supernatant(volume)
    requested = vessel.get_volume() if volume is None else volume
    return vessel.draw_volume(requested) if requested else Contents()


def _require_strength(vessel: Vessel, force: Decimal) -> None:
    """Raise RefusalError if the container fits no rotor or would break. An unknown container is accepted."""
    container = str(vessel.properties.get("container", ""))
    if any(word in container.lower() for word in _UNSPINNABLE):
        raise RefusalError(f"wrong format: {vessel.name} is in {container}, which fits no rotor")
    # The pattern refuses a digit or point before the word: "2 ml" must not match "12 ml" or "0.2 ml".
    limit = next(
        (maximum for word, maximum in _FORCE_LIMITS if re.search(rf"(?<![0-9.]){word}", container.lower())), None
    )
    if limit is not None and force > limit:
        raise RefusalError(
            f"too much force: {force.normalize():f} x g, a {container} stands {limit} x g at most ({vessel.name})"
        )


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    **filtering.HANDLERS,
    **purifying.HANDLERS,
    "aspirate": aspirate_supernatant,
    "wash": wash_cells,
    "centrifuge": centrifuge_samples,
    "extract_dna": extract_dna,
}
