"""Purifying on a sorbent, through a membrane or with magnetic beads.

Where a component goes is unknown unless the experiment declares it.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from decimal import Decimal

from simulation.offline.action_context import ActionContext
from simulation.offline.chemistry import apply_declared_changes
from simulation.offline.ledger import ATTACHED, CELLS, PARTICLES, ZERO, Component, Contents, round_to_grain
from simulation.offline.vessels import (
    LIQUID,
    LIQUID_PROPERTIES,
    PELLET,
    SEDIMENTED,
    SUSPENSION,
    RefusalError,
    Vessel,
    pool_waste,
)


def extract_on_solid_phase(context: ActionContext) -> None:
    """Extract each sample. The extract contains the declared products; where other components go is unknown."""
    wash, elution, box = (
        context.get_selected_vessel("wash_buffer"),
        context.get_selected_vessel("elution_buffer"),
        context.get_container_supply(),
    )
    conditioning = (
        None if context.values["conditioning_solvent"] is None else context.get_selected_vessel("conditioning_solvent")
    )
    samples = context.get_samples(wash, elution, *([conditioning] if conditioning else []))
    waste: list[tuple[Contents, Vessel]] = []
    for number, vessel in enumerate(samples, start=1):
        loaded = vessel.draw_volume(
            vessel.get_volume() if context.values["sample_volume"] is None else context.get_number("sample_volume")
        )
        eluted, run_off = _split_on_sorbent(context, vessel, loaded)
        extract = context.create_vessel(box, context.format_label(number, len(samples), f"Extract of {vessel.name}"))
        extract.pour_in(
            elution.draw_volume(context.get_number("elution_volume") * context.get_whole_number("elutions")), elution
        )
        extract.pour_in(eluted, vessel)
        # The extract descends from the loaded volume, although only substances without volume are poured.
        extract.sources.add_amount(vessel.barcode, loaded.volume)
        extract.phase = LIQUID
        waste += [
            (run_off, vessel),
            (wash.draw_volume(context.get_number("wash_volume") * context.get_whole_number("washes")), wash),
        ]
        waste += (
            [(conditioning.draw_volume(context.get_number("conditioning_volume")), conditioning)]
            if conditioning
            else []
        )
    context.new_vessels.append(pool_waste(context.reserve_name("Waste from SolidPhaseExtraction"), waste))
    context.reasoning = (
        "All elution buffer came through; only what the experiment declares to be eluted has a known amount."
    )


def dialyse_samples(context: ActionContext) -> None:
    """Dialyse each sample. Volume, cells and particles stay. Dissolved amounts become unknown unless declared."""
    buffer, used_buffer = context.get_selected_vessel("dialysis_buffer"), []
    baths = context.get_whole_number("buffer_changes") + 1
    for vessel in context.get_changeable_samples(buffer):
        vessel.require_liquid("dialysed")
        bath = buffer.draw_volume(context.get_number("buffer_volume") * baths)
        apply_declared_changes(context, vessel)
        names_staying = {
            *vessel.contents.list_components_of_kind(CELLS, PARTICLES, ATTACHED),
            *_list_declared_products(context),
        }
        crossing = {**_mark_unknown(vessel.contents, names_staying), **_mark_unknown(bath, ())}
        staying = {name: part for name, part in vessel.contents.components.items() if name in names_staying}
        # Components of bath and sample are on both sides afterwards, in unknown amounts.
        vessel.contents = replace(vessel.contents, components={**crossing, **staying}, mass=None)
        used_buffer.append((replace(bath, components=crossing), buffer))
        vessel.sources.add_amount(buffer.barcode)
        for name in LIQUID_PROPERTIES:
            vessel.properties.pop(name, None)
        vessel.properties["dialysed against"] = (
            f"{baths} x {context.get_written_setting('buffer_volume')} of {buffer.name}"[:300]
        )
    context.new_vessels.append(pool_waste(context.reserve_name("Used dialysis buffer"), used_buffer))
    context.reasoning = "Volumes stay; what is dissolved inside is unknown unless the experiment declares it."


def apply_magnet(context: ActionContext) -> None:
    """Hold particles whose name contains "bead" at the wall. Bound components elute if the experiment declares it."""
    wash, elution = (
        None if context.values[name] is None else context.get_selected_vessel(name)
        for name in ("wash_buffer", "elution_buffer")
    )
    if not context.values["collect_supernatant"] and (wash or elution):
        raise RefusalError("contradiction: washing and elution take the liquid off; let it be collected")
    samples = context.get_changeable_samples(*(buffer for buffer in (wash, elution) if buffer))
    rinses: list[tuple[Contents, Vessel]] = []
    for number, vessel in enumerate(samples, start=1):
        vessel.require_liquid("put to a magnet")
        if not _list_beads(vessel):
            raise RefusalError(f"no magnetic beads: nothing in {vessel.name} is drawn to a magnet")
        if not context.values["collect_supernatant"]:
            vessel.phase = SEDIMENTED
            continue
        _keep_liquid(context, vessel, f"Supernatant of {vessel.name}")
        for _ in range(context.get_whole_number("washes") if wash else 0):
            assert wash is not None
            vessel.pour_in(wash.draw_volume(context.get_number("wash_volume")), wash)
            rinses.append((_draw_off_beads(vessel), vessel))
        if elution:
            vessel.pour_in(elution.draw_volume(context.get_number("elution_volume")), elution)
            apply_declared_changes(context, vessel)
            _keep_liquid(context, vessel, context.format_label(number, len(samples), f"Eluate of {vessel.name}"))
    if rinses:
        context.new_vessels.append(pool_waste(context.reserve_name("Waste from ApplyMagnet"), rinses))
    context.reasoning = (
        "Beads stayed with all that is counted as bound to them; every other component left with the liquid."
    )


def _split_on_sorbent(context: ActionContext, vessel: Vessel, loaded: Contents) -> tuple[Contents, Contents]:
    """Return (contents that elute, contents that run off). Each gets half of the sample's origin shares."""
    # Declared reactions are applied to a copy, so that they change what was loaded, not what is left in the vessel.
    column = replace(vessel, contents=loaded)
    apply_declared_changes(context, column)
    declared = _list_declared_products(context)
    eluted = {name: part for name, part in column.contents.components.items() if name in declared}
    unknown = _mark_unknown(column.contents, declared)
    half = {key: round_to_grain(share / 2) for key, share in loaded.origins.items()}
    other_half = {key: share - half[key] for key, share in loaded.origins.items()}
    return Contents({**unknown, **eluted}, half, ZERO, None), Contents(unknown, other_half, loaded.volume, None)


def _list_declared_products(context: ActionContext) -> set[str]:
    """Return the components that the experiment declares to result from this action."""
    return {reaction["makes"] for reaction in context.list_declared("reactions") if "makes" in reaction}


def _mark_unknown(contents: Contents, excluded: Collection[str]) -> dict[str, Component]:
    parts = contents.components.items()
    return {name: part._replace(amount=None, known=False) for name, part in parts if name not in excluded}


def _list_beads(vessel: Vessel) -> tuple[str, ...]:
    return tuple(name for name in vessel.contents.list_components_of_kind(PARTICLES) if "bead" in name.lower())


def _draw_off_beads(vessel: Vessel) -> Contents:
    """Remove and return all liquid with every component that is neither a bead nor bound to the vessel."""
    volume: Decimal = vessel.get_volume()
    if volume == 0:
        raise RefusalError(f"short of volume: there is no liquid over the beads of {vessel.name}")
    removed, vessel.contents = vessel.contents.take_volume(
        volume, (*_list_beads(vessel), *vessel.contents.list_components_of_kind(ATTACHED))
    )
    vessel.phase = PELLET
    return removed


def _keep_liquid(context: ActionContext, vessel: Vessel, name: str) -> None:
    collected = context.create_vessel(context.find_container_supply() or vessel, name)
    collected.pour_in(_draw_off_beads(vessel), vessel)
    collected.phase = SUSPENSION if collected.contents.list_components_of_kind(CELLS, PARTICLES) else LIQUID


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "solid_phase_extraction": extract_on_solid_phase,
    "dialyse": dialyse_samples,
    "apply_magnet": apply_magnet,
}
