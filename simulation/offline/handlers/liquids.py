"""Moving liquids and solids between vessels. Exactly the amount that leaves one vessel arrives in another."""

from collections.abc import Callable, Sequence
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
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
    format_volume,
    list_cell_components,
)

_DROPLET = Decimal("0.0025")  # µL that one pulse of sound ejects


def transfer_material(context: ActionContext) -> None:
    source = context.get_selected_vessel("source")
    destinations = _get_destinations(context, [source])
    if context.values["amount"] is not None:
        _require_total(source, context.get_number("amount"), len(destinations))
    for destination in destinations:
        destination.pour_in(_draw_portion(context, source, len(destinations)), source)
    context.reasoning = (
        f"The stated amount moved to {len(destinations)} of them; components follow the share of the source that moved."
    )


def transfer_acoustically(context: ActionContext) -> None:
    """Transfer whole droplets. Each source keeps the volume that a well of the source plate needs to work."""
    volume, sources = context.get_number("amount"), _get_sources(context)
    if volume % _DROPLET:
        raise RefusalError(
            f"not a whole number of droplets: {format_volume(volume)} is not a multiple of {format_volume(_DROPLET)}"
        )
    destinations = _get_destinations(context, sources)
    dead_volume = quantities.parse_quantity(
        context.values["source_plate"].split(", ")[1].removesuffix(" stay"), "volume"
    ).value
    for source in sources:
        _require_total(source, volume, len(destinations), dead_volume)
        for destination in destinations:
            # A droplet is smaller than any volume a pipette delivers.
            destination.pour_in(source.draw_volume(volume, minimum=_DROPLET), source)
    context.reasoning = (
        f"{volume / _DROPLET} droplets of {format_volume(_DROPLET)} from each source into each destination."
    )


def create_aliquots(context: ActionContext) -> None:
    source, box, count = context.get_samples()[0], context.get_container_supply(), context.get_whole_number("count")
    volume = context.get_number("volume")
    _require_total(source, volume, count)
    for number in range(1, count + 1):
        name = context.format_label(number, count, f"Aliquot {number} of {source.name}")
        context.create_vessel(box, name).pour_in(source.draw_volume(volume), source)
    context.reasoning = f"{count} portions of {format_volume(volume)}; concentrations stay as in the source."


def dilute_serially(context: ActionContext) -> None:
    """Dilute in steps. Each step transfers `transfer_volume` into (factor - 1) times as much diluent."""
    diluent, box = context.get_selected_vessel("diluent"), context.get_container_supply()
    previous = context.get_samples(diluent)[0]
    carried, factor, steps = (
        context.get_number("transfer_volume"),
        context.get_number("factor"),
        context.get_whole_number("dilutions"),
    )
    # Checked for all steps at once: a series must not stop halfway.
    _require_total(diluent, carried * (factor - 1), steps)
    first = previous.name
    for step in range(1, steps + 1):
        portion = previous.draw_volume(carried)
        vessel = context.create_vessel(
            box, f"{context.printable_label or first} 1:{quantities.format_number(factor**step)}"
        )
        vessel.pour_in(diluent.draw_volume(carried * (factor - 1)), diluent)
        vessel.pour_in(portion, previous)
        previous = vessel
    context.reasoning = (
        f"Each of {steps} steps: {format_volume(carried)} in {format_volume(carried * factor)}, a factor of {factor}."
    )


def dilute_samples(context: ActionContext) -> None:
    _add_solvent(
        context,
        context.get_changeable_samples(context.get_selected_vessel("solvent")),
        [context.get_number("volume")] * len(context.vessels),
    )
    context.reasoning = "C1 V1 = C2 V2 with the solvent volume added."


def fill_to_volume(context: ActionContext) -> None:
    targets = context.get_changeable_samples(context.get_selected_vessel("solvent"))
    total = context.get_number("total_volume")
    for vessel in targets:
        if vessel.get_volume() > total:
            raise RefusalError(
                f"too full: {vessel.name} already holds {format_volume(vessel.get_volume())}, more than {format_volume(total)}"
            )
    _add_solvent(context, targets, [total - vessel.get_volume() for vessel in targets])
    context.reasoning = f"Solvent added is {format_volume(total)} less what each container held."


def resuspend_samples(context: ActionContext) -> None:
    targets = context.get_changeable_samples(context.get_selected_vessel("solvent"))
    for vessel in targets:
        if vessel.phase not in ("solid", "powder", PELLET):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, not a pellet or a dry solid")
    # Pouring changes the phase, but what dissolves depends on the phase before.
    phases = [vessel.phase for vessel in targets]
    _add_solvent(context, targets, [context.get_number("volume")] * len(targets))
    for vessel, previous_phase in zip(targets, phases, strict=True):
        parts = vessel.contents.components
        dissolves = previous_phase != PELLET and parts and not vessel.contents.list_components_of_kind(CELLS, PARTICLES)
        vessel.phase = LIQUID if dissolves else SUSPENSION
    context.reasoning = "Cells, particles and what nobody has named are suspended, all else dissolves; amounts stay."


def combine_samples(context: ActionContext) -> None:
    parts = context.get_changeable_samples()
    if len(parts) < 2:
        raise RefusalError(f"one sample only: Combine takes {context.action_type.inputs}")
    for part in parts:
        if part.phase in (FROZEN, ADHERENT):
            part.require_liquid()
    # Without a supply of containers, everything goes into a new container like the largest of the samples.
    container = context.find_container_supply() or max(parts, key=lambda part: part.get_capacity())
    pooled = context.create_vessel(
        container, context.format_label(1, 1, "Pool of " + " and ".join(part.name for part in parts))
    )
    for part in parts:
        part.get_volume()
        everything, part.contents = part.contents, Contents()
        part.used_up = True
        pooled.pour_in(everything, part)
    if list_cell_components(pooled.contents):
        pooled.phase = SUSPENSION
    context.reasoning = "Volumes and amounts of all samples added up."


def discard_materials(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        vessel.used_up = True
    context.reasoning = "Thrown away; not usable any more."


def compute_usable_volume(vessel: Vessel, minimum_left: Decimal = ZERO) -> Decimal:
    """Return the volume that can be drawn: the total less the larger of `dead_volume` and `minimum_left`."""
    dead_volume = quantities.parse_quantity(vessel.properties.get("dead_volume", "0 µL"), "volume").value
    return max(ZERO, vessel.get_volume() - max(dead_volume, minimum_left))


def _get_sources(context: ActionContext) -> list[Vessel]:
    sources = [context.vessels[code] for code in context.values["sources"]]
    for vessel in sources:
        if vessel.is_supply:
            raise RefusalError(f"wrong material: sources holds {vessel.name}, which is {vessel.phase}")
    return sources


def _get_destinations(context: ActionContext, sources: Sequence[Vessel]) -> list[Vessel]:
    destinations = []
    others = [vessel for vessel in context.vessels.values() if all(vessel is not source for source in sources)]
    if not others:
        raise RefusalError(f"no destination: {context.action_type.name} takes {context.action_type.inputs}")
    default_name = " and ".join(source.name for source in sources)
    for number, vessel in enumerate(others, start=1):
        if vessel.is_supply and vessel.phase != EMPTY:
            raise RefusalError(f"not a container: {vessel.name}")
        name = context.format_label(number, len(others), default_name)
        destinations.append(context.create_vessel(vessel, name) if vessel.is_supply else vessel)
    return destinations


def _draw_portion(context: ActionContext, source: Vessel, destination_count: int) -> Contents:
    amount, mass = context.values["amount"], context.values["mass"]
    if amount is not None and mass is not None:
        raise RefusalError("two amounts: give a volume or a mass, not both")
    if mass is not None:
        return source.draw_mass(mass)
    if amount is not None:
        return source.draw_volume(amount)
    if destination_count > 1 or source.unlimited:
        raise RefusalError("no amount: without one, all of a limited source goes into a single destination")
    return source.draw_mass(None) if source.phase in SOLIDS else source.draw_volume(_get_full_volume(source))


def _add_solvent(context: ActionContext, targets: Sequence[Vessel], volumes: Sequence[Decimal]) -> None:
    solvent = context.get_selected_vessel("solvent")
    _require_total(solvent, sum(volumes[: len(targets)], ZERO), 1)
    for vessel, volume in zip(targets, volumes, strict=False):
        if volume > 0:
            vessel.pour_in(solvent.draw_volume(volume), solvent)


def _get_full_volume(source: Vessel) -> Decimal:
    source.require_liquid()
    return compute_usable_volume(source)


def _require_total(source: Vessel, volume: Decimal, times: int, minimum_left: Decimal = ZERO) -> None:
    """Raise RefusalError if the source has too little for all portions together. Call this before anything moves."""
    source.require_liquid()
    if source.unlimited or volume * times <= compute_usable_volume(source, minimum_left):
        return
    needs, available = format_volume(volume * times), format_volume(compute_usable_volume(source, minimum_left))
    unusable = source.get_volume() - compute_usable_volume(source, minimum_left)
    remark = f" ({format_volume(unusable)} must stay in it)" if unusable else ""
    raise RefusalError(f"short of volume: needs {needs}, {available} usable in {source.name}{remark}")


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "transfer": transfer_material,
    "acoustic_transfer": transfer_acoustically,
    "aliquot": create_aliquots,
    "serial_dilute": dilute_serially,
    "dilute": dilute_samples,
    "fill_to_volume": fill_to_volume,
    "combine": combine_samples,
    "resuspend": resuspend_samples,
    "discard": discard_materials,
}
