"""Moving liquids and solids between vessels: what leaves one arrives in the other, to the last digit."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.job import Job
from simulation.offline.ledger import CELLS, PARTICLES, ZERO, Contents
from simulation.offline.vessels import (
    ADHERENT,
    EMPTY,
    FROZEN,
    LIQUID,
    PELLET,
    SOLIDS,
    SUSPENSION,
    RefusalError,
    Vessel,
    cells_in,
    show,
)

_DROPLET = Decimal("0.0025")  # µL that one pulse of sound throws


def transfer(job: Job) -> None:
    source = job.named("source")
    destinations = _destinations(job, [source])
    if job.values["amount"] is not None:
        _need_in_all(source, job.number("amount"), len(destinations))
    for destination in destinations:
        destination.pour(_portion(job, source, len(destinations)), source)
    job.how = (
        f"The stated amount moved to {len(destinations)} of them; components follow the share of the source that moved."
    )


def acoustic_transfer(job: Job) -> None:
    """Whole droplets only, and each source keeps what a well of the source plate needs to work."""
    volume, sources = job.number("amount"), _sources(job)
    if volume % _DROPLET:
        raise RefusalError(f"not a whole number of droplets: {show(volume)} is no multiple of {show(_DROPLET)}")
    destinations = _destinations(job, sources)
    stays = quantities.parse(job.values["source_plate"].split(", ")[1].removesuffix(" stay"), "volume").value
    for source in sources:
        _need_in_all(source, volume, len(destinations), stays)
        for destination in destinations:
            destination.pour(source.draw(volume, least=_DROPLET), source)
    job.how = f"{volume / _DROPLET} droplets of {show(_DROPLET)} from each source into each destination."


def aliquot(job: Job) -> None:
    source, box, count = job.samples()[0], job.box(), job.count("count")
    volume = job.number("volume")
    _need_in_all(source, volume, count)
    for number in range(1, count + 1):
        name = job.label(number, count, f"Aliquot {number} of {source.name}")
        job.make(box, name).pour(source.draw(volume), source)
    job.how = f"{count} portions of {show(volume)}; concentrations stay as in the source."


def serial_dilute(job: Job) -> None:
    """Each step carries `transfer_volume` into (factor - 1) times as much diluent."""
    diluent, box = job.named("diluent"), job.box()
    previous = job.samples(diluent)[0]
    carried, factor, steps = job.number("transfer_volume"), job.number("factor"), job.count("dilutions")
    _need_in_all(diluent, carried * (factor - 1), steps)
    first = previous.name
    for step in range(1, steps + 1):
        portion = previous.draw(carried)
        vessel = job.make(box, f"{job.written_label or first} 1:{quantities.plain(factor**step)}")
        vessel.pour(diluent.draw(carried * (factor - 1)), diluent)
        vessel.pour(portion, previous)
        previous = vessel
    job.how = f"Each of {steps} steps: {show(carried)} in {show(carried * factor)}, a factor of {factor}."


def dilute(job: Job) -> None:
    _add(job, job.changeable(job.named("solvent")), [job.number("volume")] * len(job.vessels))
    job.how = "C1 V1 = C2 V2 with the solvent volume added."


def fill_to_volume(job: Job) -> None:
    targets = job.changeable(job.named("solvent"))
    total = job.number("total_volume")
    for vessel in targets:
        if vessel.volume() > total:
            raise RefusalError(
                f"too full: {vessel.name} already holds {show(vessel.volume())}, more than {show(total)}"
            )
    _add(job, targets, [total - vessel.volume() for vessel in targets])
    job.how = f"Solvent added is {show(total)} less what each container held."


def resuspend(job: Job) -> None:
    targets = job.changeable(job.named("solvent"))
    for vessel in targets:
        if vessel.phase not in ("solid", "powder", PELLET):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, not a pellet or a dry solid")
    phases = [vessel.phase for vessel in targets]
    _add(job, targets, [job.number("volume")] * len(targets))
    for vessel, was in zip(targets, phases, strict=True):
        parts = vessel.contents.components
        dissolves = was != PELLET and parts and not vessel.contents.of_kind(CELLS, PARTICLES)
        vessel.phase = LIQUID if dissolves else SUSPENSION
    job.how = "Cells, particles and what nobody has named are suspended, all else dissolves; amounts stay."


def combine(job: Job) -> None:
    parts = job.changeable()
    if len(parts) < 2:
        raise RefusalError(f"one sample only: Combine takes {job.kind.inputs}")
    for part in parts:
        if part.phase in (FROZEN, ADHERENT):
            part.need_liquid()
    into = job.spare_box() or max(parts, key=lambda part: part.capacity())
    pooled = job.make(into, job.label(1, 1, "Pool of " + " and ".join(part.name for part in parts)))
    for part in parts:
        part.volume()
        everything, part.contents = part.contents, Contents()
        part.used_up = True
        pooled.pour(everything, part)
    if cells_in(pooled.contents):
        pooled.phase = SUSPENSION
    job.how = "Volumes and amounts of all samples added up."


def discard(job: Job) -> None:
    for vessel in job.changeable():
        vessel.used_up = True
    job.how = "Thrown away; not usable any more."


def usable(vessel: Vessel, stays: Decimal = ZERO) -> Decimal:
    """What can be drawn: the volume less what must stay, or what the container keeps back (its `dead_volume`)."""
    dead = quantities.parse(vessel.properties.get("dead_volume", "0 µL"), "volume").value
    return max(ZERO, vessel.volume() - max(dead, stays))


def _sources(job: Job) -> list[Vessel]:
    found = [job.vessels[code] for code in job.values["sources"]]
    for vessel in found:
        if vessel.is_supply:
            raise RefusalError(f"wrong material: sources holds {vessel.name}, which is {vessel.phase}")
    return found


def _destinations(job: Job, sources: Sequence[Vessel]) -> list[Vessel]:
    found = []
    others = [vessel for vessel in job.vessels.values() if all(vessel is not source for source in sources)]
    if not others:
        raise RefusalError(f"no destination: {job.kind.name} takes {job.kind.inputs}")
    named = " and ".join(source.name for source in sources)
    for number, vessel in enumerate(others, start=1):
        if vessel.is_supply and vessel.phase != EMPTY:
            raise RefusalError(f"not a container: {vessel.name}")
        name = job.label(number, len(others), named)
        found.append(job.make(vessel, name) if vessel.is_supply else vessel)
    return found


def _portion(job: Job, source: Vessel, of: int) -> Contents:
    amount, mass = job.values["amount"], job.values["mass"]
    if amount is not None and mass is not None:
        raise RefusalError("two amounts: give a volume or a mass, not both")
    if mass is not None:
        return source.draw_mass(mass)
    if amount is not None:
        return source.draw(amount)
    if of > 1 or source.unlimited:
        raise RefusalError("no amount: without one, all of a limited source goes into a single destination")
    return source.draw_mass(None) if source.phase in SOLIDS else source.draw(_all(source))


def _add(job: Job, targets: Sequence[Vessel], volumes: Sequence[Decimal]) -> None:
    solvent = job.named("solvent")
    _need_in_all(solvent, sum(volumes[: len(targets)], ZERO), 1)
    for vessel, volume in zip(targets, volumes, strict=False):
        if volume > 0:
            vessel.pour(solvent.draw(volume), solvent)


def _all(source: Vessel) -> Decimal:
    source.need_liquid()
    return usable(source)


def _need_in_all(source: Vessel, volume: Decimal, times: int, stays: Decimal = ZERO) -> None:
    """Refuse early, with the sum over all portions, what the source cannot give."""
    source.need_liquid()
    if source.unlimited or volume * times <= usable(source, stays):
        return
    needs, have = show(volume * times), show(usable(source, stays))
    kept = source.volume() - usable(source, stays)
    stay = f" ({show(kept)} must stay in it)" if kept else ""
    raise RefusalError(f"short of volume: needs {needs}, {have} usable in {source.name}{stay}")


HANDLERS: dict[str, Callable[[Job], None]] = {
    "transfer": transfer,
    "acoustic_transfer": acoustic_transfer,
    "aliquot": aliquot,
    "serial_dilute": serial_dilute,
    "dilute": dilute,
    "fill_to_volume": fill_to_volume,
    "combine": combine,
    "resuspend": resuspend,
    "discard": discard,
}
