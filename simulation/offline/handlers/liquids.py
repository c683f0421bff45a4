"""Moving liquids and solids between vessels. What leaves one arrives in another, exactly."""

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

_DROPLET = Decimal("0.0025")  # µL that one pulse of sound ejects


def transfer(context: Job) -> None:
    source = context.named("source")
    destinations = _destinations(context, [source])
    if context.values["amount"] is not None:
        _need_in_all(source, context.number("amount"), len(destinations))
    for destination in destinations:
        destination.pour(_portion(context, source, len(destinations)), source)
    context.how = (
        f"The stated amount moved to {len(destinations)} of them; components follow the share of the source that moved."
    )


def acoustic_transfer(context: Job) -> None:
    """Transfer whole droplets. Each source keeps the volume that a well of the source plate needs to work."""
    volume, sources = context.number("amount"), _sources(context)
    if volume % _DROPLET:
        raise RefusalError(f"not a whole number of droplets: {show(volume)} is no multiple of {show(_DROPLET)}")
    destinations = _destinations(context, sources)
    dead_volume = quantities.parse(context.values["source_plate"].split(", ")[1].removesuffix(" stay"), "volume").value
    for source in sources:
        _need_in_all(source, volume, len(destinations), dead_volume)
        for destination in destinations:
            # A droplet is smaller than any volume a pipette delivers.
            destination.pour(source.draw(volume, minimum=_DROPLET), source)
    context.how = f"{volume / _DROPLET} droplets of {show(_DROPLET)} from each source into each destination."


def aliquot(context: Job) -> None:
    source, box, count = context.samples()[0], context.box(), context.count("count")
    volume = context.number("volume")
    _need_in_all(source, volume, count)
    for number in range(1, count + 1):
        name = context.label(number, count, f"Aliquot {number} of {source.name}")
        context.make(box, name).pour(source.draw(volume), source)
    context.how = f"{count} portions of {show(volume)}; concentrations stay as in the source."


def serial_dilute(context: Job) -> None:
    """Dilute in steps. Each carries `transfer_volume` into (factor - 1) times as much diluent."""
    diluent, box = context.named("diluent"), context.box()
    previous = context.samples(diluent)[0]
    carried, factor, steps = context.number("transfer_volume"), context.number("factor"), context.count("dilutions")
    # Checked for all steps at once: a series must not stop halfway.
    _need_in_all(diluent, carried * (factor - 1), steps)
    first = previous.name
    for step in range(1, steps + 1):
        portion = previous.draw(carried)
        vessel = context.make(box, f"{context.written_label or first} 1:{quantities.plain(factor**step)}")
        vessel.pour(diluent.draw(carried * (factor - 1)), diluent)
        vessel.pour(portion, previous)
        previous = vessel
    context.how = f"Each of {steps} steps: {show(carried)} in {show(carried * factor)}, a factor of {factor}."


def dilute(context: Job) -> None:
    _add(context, context.changeable(context.named("solvent")), [context.number("volume")] * len(context.vessels))
    context.how = "C1 V1 = C2 V2 with the solvent volume added."


def fill_to_volume(context: Job) -> None:
    targets = context.changeable(context.named("solvent"))
    total = context.number("total_volume")
    for vessel in targets:
        if vessel.volume() > total:
            raise RefusalError(
                f"too full: {vessel.name} already holds {show(vessel.volume())}, more than {show(total)}"
            )
    _add(context, targets, [total - vessel.volume() for vessel in targets])
    context.how = f"Solvent added is {show(total)} less what each container held."


def resuspend(context: Job) -> None:
    targets = context.changeable(context.named("solvent"))
    for vessel in targets:
        if vessel.phase not in ("solid", "powder", PELLET):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, not a pellet or a dry solid")
    # Pouring changes the phase, but what dissolves depends on the phase before.
    phases = [vessel.phase for vessel in targets]
    _add(context, targets, [context.number("volume")] * len(targets))
    for vessel, previous_phase in zip(targets, phases, strict=True):
        parts = vessel.contents.components
        dissolves = previous_phase != PELLET and parts and not vessel.contents.of_kind(CELLS, PARTICLES)
        vessel.phase = LIQUID if dissolves else SUSPENSION
    context.how = "Cells, particles and what nobody has named are suspended, all else dissolves; amounts stay."


def combine(context: Job) -> None:
    parts = context.changeable()
    if len(parts) < 2:
        raise RefusalError(f"one sample only: Combine takes {context.kind.inputs}")
    for part in parts:
        if part.phase in (FROZEN, ADHERENT):
            part.need_liquid()
    # Without a supply of containers, one of the kind of the largest takes everything.
    container = context.spare_box() or max(parts, key=lambda part: part.capacity())
    pooled = context.make(container, context.label(1, 1, "Pool of " + " and ".join(part.name for part in parts)))
    for part in parts:
        part.volume()
        everything, part.contents = part.contents, Contents()
        part.used_up = True
        pooled.pour(everything, part)
    if cells_in(pooled.contents):
        pooled.phase = SUSPENSION
    context.how = "Volumes and amounts of all samples added up."


def discard(context: Job) -> None:
    for vessel in context.changeable():
        vessel.used_up = True
    context.how = "Thrown away; not usable any more."


def usable(vessel: Vessel, minimum_left: Decimal = ZERO) -> Decimal:
    """Return what can be drawn: the volume less its `dead_volume`, or less what must stay if that is more."""
    dead_volume = quantities.parse(vessel.properties.get("dead_volume", "0 µL"), "volume").value
    return max(ZERO, vessel.volume() - max(dead_volume, minimum_left))


def _sources(context: Job) -> list[Vessel]:
    sources = [context.vessels[code] for code in context.values["sources"]]
    for vessel in sources:
        if vessel.is_supply:
            raise RefusalError(f"wrong material: sources holds {vessel.name}, which is {vessel.phase}")
    return sources


def _destinations(context: Job, sources: Sequence[Vessel]) -> list[Vessel]:
    destinations = []
    others = [vessel for vessel in context.vessels.values() if all(vessel is not source for source in sources)]
    if not others:
        raise RefusalError(f"no destination: {context.kind.name} takes {context.kind.inputs}")
    default_name = " and ".join(source.name for source in sources)
    for number, vessel in enumerate(others, start=1):
        if vessel.is_supply and vessel.phase != EMPTY:
            raise RefusalError(f"not a container: {vessel.name}")
        name = context.label(number, len(others), default_name)
        destinations.append(context.make(vessel, name) if vessel.is_supply else vessel)
    return destinations


def _portion(context: Job, source: Vessel, destination_count: int) -> Contents:
    amount, mass = context.values["amount"], context.values["mass"]
    if amount is not None and mass is not None:
        raise RefusalError("two amounts: give a volume or a mass, not both")
    if mass is not None:
        return source.draw_mass(mass)
    if amount is not None:
        return source.draw(amount)
    if destination_count > 1 or source.unlimited:
        raise RefusalError("no amount: without one, all of a limited source goes into a single destination")
    return source.draw_mass(None) if source.phase in SOLIDS else source.draw(_all(source))


def _add(context: Job, targets: Sequence[Vessel], volumes: Sequence[Decimal]) -> None:
    solvent = context.named("solvent")
    _need_in_all(solvent, sum(volumes[: len(targets)], ZERO), 1)
    for vessel, volume in zip(targets, volumes, strict=False):
        if volume > 0:
            vessel.pour(solvent.draw(volume), solvent)


def _all(source: Vessel) -> Decimal:
    source.need_liquid()
    return usable(source)


def _need_in_all(source: Vessel, volume: Decimal, times: int, minimum_left: Decimal = ZERO) -> None:
    """Raise RefusalError before anything moves if the source has too little for all portions together."""
    source.need_liquid()
    if source.unlimited or volume * times <= usable(source, minimum_left):
        return
    needs, available = show(volume * times), show(usable(source, minimum_left))
    unusable = source.volume() - usable(source, minimum_left)
    remark = f" ({show(unusable)} must stay in it)" if unusable else ""
    raise RefusalError(f"short of volume: needs {needs}, {available} usable in {source.name}{remark}")


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
