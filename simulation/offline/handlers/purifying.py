"""Purifying on a sorbent, through a membrane or with magnetic beads. Where a component goes is unknown unless declared."""

from collections.abc import Callable, Collection
from dataclasses import replace
from decimal import Decimal

from simulation.offline.chemistry import develop
from simulation.offline.job import Job
from simulation.offline.ledger import ATTACHED, CELLS, PARTICLES, ZERO, Component, Contents, grain
from simulation.offline.vessels import (
    LIQUID,
    OF_THE_LIQUID,
    PELLET,
    SEDIMENTED,
    SUSPENSION,
    RefusalError,
    Vessel,
    pool,
)


def solid_phase_extraction(context: Job) -> None:
    """Extract each sample. The extract contains what the experiment declares to elute; where the rest goes is unknown."""
    wash, elution, box = context.named("wash_buffer"), context.named("elution_buffer"), context.box()
    conditioning = None if context.values["conditioning_solvent"] is None else context.named("conditioning_solvent")
    samples = context.samples(wash, elution, *([conditioning] if conditioning else []))
    waste: list[tuple[Contents, Vessel]] = []
    for number, vessel in enumerate(samples, start=1):
        loaded = vessel.draw(
            vessel.volume() if context.values["sample_volume"] is None else context.number("sample_volume")
        )
        eluted, run_off = _on_the_sorbent(context, vessel, loaded)
        extract = context.make(box, context.label(number, len(samples), f"Extract of {vessel.name}"))
        extract.pour(elution.draw(context.number("elution_volume") * context.count("elutions")), elution)
        extract.pour(eluted, vessel)
        # The extract descends from the loaded volume, although only substances without volume are poured.
        extract.sources.note(vessel.barcode, loaded.volume)
        extract.phase = LIQUID
        waste += [(run_off, vessel), (wash.draw(context.number("wash_volume") * context.count("washes")), wash)]
        waste += [(conditioning.draw(context.number("conditioning_volume")), conditioning)] if conditioning else []
    context.made.append(pool(context.free_name("Waste from SolidPhaseExtraction"), waste))
    context.how = "All elution buffer came through; only what the experiment declares to be eluted has a known amount."


def dialyse(context: Job) -> None:
    """Dialyse each sample. The volume, cells and particles stay; dissolved components are unknown unless declared."""
    buffer, used_buffer = context.named("dialysis_buffer"), []
    baths = context.count("buffer_changes") + 1
    for vessel in context.changeable(buffer):
        vessel.need_liquid("dialysed")
        bath = buffer.draw(context.number("buffer_volume") * baths)
        develop(context, vessel)
        names_staying = {*vessel.contents.of_kind(CELLS, PARTICLES, ATTACHED), *_declared(context)}
        crossing = {**_unknown(vessel.contents, names_staying), **_unknown(bath, ())}
        staying = {name: part for name, part in vessel.contents.components.items() if name in names_staying}
        # Components of bath and sample are on both sides afterwards, in unknown amounts.
        vessel.contents = replace(vessel.contents, components={**crossing, **staying}, mass=None)
        used_buffer.append((replace(bath, components=crossing), buffer))
        vessel.sources.note(buffer.barcode)
        for name in OF_THE_LIQUID:
            vessel.properties.pop(name, None)
        vessel.properties["dialysed against"] = f"{baths} x {context.set_to('buffer_volume')} of {buffer.name}"[:300]
    context.made.append(pool(context.free_name("Used dialysis buffer"), used_buffer))
    context.how = "Volumes stay; what is dissolved inside is unknown unless the experiment declares it."


def apply_magnet(context: Job) -> None:
    """Hold particles called beads at the wall. What is bound to them elutes where the experiment declares it."""
    wash, elution = (
        None if context.values[name] is None else context.named(name) for name in ("wash_buffer", "elution_buffer")
    )
    if not context.values["collect_supernatant"] and (wash or elution):
        raise RefusalError("contradiction: washing and elution take the liquid off; let it be collected")
    samples = context.changeable(*(buffer for buffer in (wash, elution) if buffer))
    rinses: list[tuple[Contents, Vessel]] = []
    for number, vessel in enumerate(samples, start=1):
        vessel.need_liquid("put to a magnet")
        if not _beads(vessel):
            raise RefusalError(f"no magnetic beads: nothing in {vessel.name} is drawn to a magnet")
        if not context.values["collect_supernatant"]:
            vessel.phase = SEDIMENTED
            continue
        _keep(context, vessel, f"Supernatant of {vessel.name}")
        for _ in range(context.count("washes") if wash else 0):
            assert wash is not None
            vessel.pour(wash.draw(context.number("wash_volume")), wash)
            rinses.append((_off_the_beads(vessel), vessel))
        if elution:
            vessel.pour(elution.draw(context.number("elution_volume")), elution)
            develop(context, vessel)
            _keep(context, vessel, context.label(number, len(samples), f"Eluate of {vessel.name}"))
    if rinses:
        context.made.append(pool(context.free_name("Waste from ApplyMagnet"), rinses))
    context.how = "Beads stayed with all that is counted as bound to them; every other component left with the liquid."


def _on_the_sorbent(context: Job, vessel: Vessel, loaded: Contents) -> tuple[Contents, Contents]:
    """Return (what the eluent takes up, what runs off). Each gets half of the sample's origin shares."""
    # A copy, so that declared reactions change what was loaded and not what is left in the vessel.
    column = replace(vessel, contents=loaded)
    develop(context, column)
    declared = _declared(context)
    eluted = {name: part for name, part in column.contents.components.items() if name in declared}
    unknown = _unknown(column.contents, declared)
    half = {key: grain(share / 2) for key, share in loaded.origins.items()}
    other_half = {key: share - half[key] for key, share in loaded.origins.items()}
    return Contents({**unknown, **eluted}, half, ZERO, None), Contents(unknown, other_half, loaded.volume, None)


def _declared(context: Job) -> set[str]:
    """Return the components that the experiment declares to result from this action."""
    return {reaction["makes"] for reaction in context.declared("reactions") if "makes" in reaction}


def _unknown(contents: Contents, excluded: Collection[str]) -> dict[str, Component]:
    parts = contents.components.items()
    return {name: part._replace(amount=None, known=False) for name, part in parts if name not in excluded}


def _beads(vessel: Vessel) -> tuple[str, ...]:
    return tuple(name for name in vessel.contents.of_kind(PARTICLES) if "bead" in name.lower())


def _off_the_beads(vessel: Vessel) -> Contents:
    """Remove and return all liquid with everything in it that is neither bead nor bound to the vessel."""
    volume: Decimal = vessel.volume()
    if volume == 0:
        raise RefusalError(f"short of volume: there is no liquid over the beads of {vessel.name}")
    removed, vessel.contents = vessel.contents.take(volume, (*_beads(vessel), *vessel.contents.of_kind(ATTACHED)))
    vessel.phase = PELLET
    return removed


def _keep(context: Job, vessel: Vessel, name: str) -> None:
    collected = context.make(context.spare_box() or vessel, name)
    collected.pour(_off_the_beads(vessel), vessel)
    collected.phase = SUSPENSION if collected.contents.of_kind(CELLS, PARTICLES) else LIQUID


HANDLERS: dict[str, Callable[[Job], None]] = {
    "solid_phase_extraction": solid_phase_extraction,
    "dialyse": dialyse,
    "apply_magnet": apply_magnet,
}
