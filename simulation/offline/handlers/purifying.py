"""Purifying on a sorbent, through a membrane, on magnetic beads: what is not declared to stay or go is unknown."""

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


def solid_phase_extraction(job: Job) -> None:
    """The extract holds what the experiment declares to come off; of all else nobody knows where it went."""
    wash, elution, box = job.named("wash_buffer"), job.named("elution_buffer"), job.box()
    first = None if job.values["conditioning_solvent"] is None else job.named("conditioning_solvent")
    samples = job.samples(wash, elution, *([first] if first else []))
    lost: list[tuple[Contents, Vessel]] = []
    for number, vessel in enumerate(samples, start=1):
        loaded = vessel.draw(vessel.volume() if job.values["sample_volume"] is None else job.number("sample_volume"))
        held, gone = _on_the_sorbent(job, vessel, loaded)
        extract = job.make(box, job.label(number, len(samples), f"Extract of {vessel.name}"))
        extract.pour(elution.draw(job.number("elution_volume") * job.count("elutions")), elution)
        extract.pour(held, vessel)
        extract.sources.note(vessel.barcode, loaded.volume)
        extract.phase = LIQUID
        lost += [(gone, vessel), (wash.draw(job.number("wash_volume") * job.count("washes")), wash)]
        lost += [(first.draw(job.number("conditioning_volume")), first)] if first else []
    job.made.append(pool(job.free_name("Waste from SolidPhaseExtraction"), lost))
    job.how = "All elution buffer came through; only what the experiment declares to be eluted has a known amount."


def dialyse(job: Job) -> None:
    """Volume inside stays. Cells and particles stay too; what is dissolved went where nobody knows, unless declared."""
    buffer, used = job.named("dialysis_buffer"), []
    baths = job.count("buffer_changes") + 1
    for vessel in job.changeable(buffer):
        vessel.need_liquid("dialysed")
        bath = buffer.draw(job.number("buffer_volume") * baths)
        develop(job, vessel)
        stay = {*vessel.contents.of_kind(CELLS, PARTICLES, ATTACHED), *_declared(job)}
        crossing = {**_unknown(vessel.contents, stay), **_unknown(bath, ())}
        whole = {name: part for name, part in vessel.contents.components.items() if name in stay}
        vessel.contents = replace(vessel.contents, components={**crossing, **whole}, mass=None)
        used.append((replace(bath, components=crossing), buffer))
        vessel.sources.note(buffer.barcode)
        for name in OF_THE_LIQUID:
            vessel.properties.pop(name, None)
        vessel.properties["dialysed against"] = f"{baths} x {job.set_to('buffer_volume')} of {buffer.name}"[:300]
    job.made.append(pool(job.free_name("Used dialysis buffer"), used))
    job.how = "Volumes stay; what is dissolved inside is unknown unless the experiment declares it."


def apply_magnet(job: Job) -> None:
    """Particles called beads stay at the wall. What they hold comes off where the experiment declares it."""
    wash, elution = (
        None if job.values[name] is None else job.named(name) for name in ("wash_buffer", "elution_buffer")
    )
    if not job.values["collect_supernatant"] and (wash or elution):
        raise RefusalError("contradiction: washing and elution take the liquid off; let it be collected")
    samples = job.changeable(*(buffer for buffer in (wash, elution) if buffer))
    rinses: list[tuple[Contents, Vessel]] = []
    for number, vessel in enumerate(samples, start=1):
        vessel.need_liquid("put to a magnet")
        if not _beads(vessel):
            raise RefusalError(f"no magnetic beads: nothing in {vessel.name} is drawn to a magnet")
        if not job.values["collect_supernatant"]:
            vessel.phase = SEDIMENTED
            continue
        _keep(job, vessel, f"Supernatant of {vessel.name}")
        for _ in range(job.count("washes") if wash else 0):
            assert wash is not None
            vessel.pour(wash.draw(job.number("wash_volume")), wash)
            rinses.append((_off_the_beads(vessel), vessel))
        if elution:
            vessel.pour(elution.draw(job.number("elution_volume")), elution)
            develop(job, vessel)
            _keep(job, vessel, job.label(number, len(samples), f"Eluate of {vessel.name}"))
    if rinses:
        job.made.append(pool(job.free_name("Waste from ApplyMagnet"), rinses))
    job.how = "Beads stayed with all that is counted as bound to them; every other component left with the liquid."


def _on_the_sorbent(job: Job, vessel: Vessel, loaded: Contents) -> tuple[Contents, Contents]:
    """(what the eluent takes up, what ran off): half of the descent goes with each."""
    column = replace(vessel, contents=loaded)
    develop(job, column)
    declared = _declared(job)
    eluted = {name: part for name, part in column.contents.components.items() if name in declared}
    unknown = _unknown(column.contents, declared)
    half = {key: grain(share / 2) for key, share in loaded.origins.items()}
    rest = {key: share - half[key] for key, share in loaded.origins.items()}
    return Contents({**unknown, **eluted}, half, ZERO, None), Contents(unknown, rest, loaded.volume, None)


def _declared(job: Job) -> set[str]:
    """The components that the experiment declares to come out of this action."""
    return {reaction["makes"] for reaction in job.declared("reactions") if "makes" in reaction}


def _unknown(contents: Contents, but: Collection[str]) -> dict[str, Component]:
    parts = contents.components.items()
    return {name: part._replace(amount=None, known=False) for name, part in parts if name not in but}


def _beads(vessel: Vessel) -> tuple[str, ...]:
    return tuple(name for name in vessel.contents.of_kind(PARTICLES) if "bead" in name.lower())


def _off_the_beads(vessel: Vessel) -> Contents:
    """All the liquid, with everything in it that is neither bead nor bound to the vessel."""
    volume: Decimal = vessel.volume()
    if volume == 0:
        raise RefusalError(f"short of volume: there is no liquid over the beads of {vessel.name}")
    off, vessel.contents = vessel.contents.take(volume, (*_beads(vessel), *vessel.contents.of_kind(ATTACHED)))
    vessel.phase = PELLET
    return off


def _keep(job: Job, vessel: Vessel, name: str) -> None:
    kept = job.make(job.spare_box() or vessel, name)
    kept.pour(_off_the_beads(vessel), vessel)
    kept.phase = SUSPENSION if kept.contents.of_kind(CELLS, PARTICLES) else LIQUID


HANDLERS: dict[str, Callable[[Job], None]] = {
    "solid_phase_extraction": solid_phase_extraction,
    "dialyse": dialyse,
    "apply_magnet": apply_magnet,
}
