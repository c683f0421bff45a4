"""Moving liquids and solids between vessels, and separating plates into wells.

Exactly the amount that leaves one vessel arrives in another.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.name_ranges import format_count
from simulation.offline import vessels
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.ledger import CELLS, PARTICLES, ZERO, Contents, drop_component_properties

_DROPLET = Decimal("0.0025")  # µL that one pulse of sound ejects
_Well = Mapping[str, Any]


@handles("transfer")
def transfer_material(context: ActionContext) -> None:
    source = context.get_selected_vessel("source")
    destinations = _get_destinations(context, [source])
    if context.values["amount"] is not None:
        _require_total(source, context.get_number("amount"), len(destinations))
    for number, destination in enumerate(destinations, start=1):
        destination.pour_in(_draw_portion(context, source, len(destinations), number), source)
    context.reasoning = (
        f"The stated amount moved into {format_count(len(destinations), 'vessel')}; components follow the share of the "
        "source that moved."
    )


@handles("acoustic_transfer")
def transfer_acoustically(context: ActionContext) -> None:
    """Transfer whole droplets. Each source keeps the volume that a well of the source plate needs to work."""
    volume, droplet = context.get_number("amount"), vessels.format_volume(_DROPLET)
    sources = [context.vessels[code] for code in context.values["sources"]]
    for vessel in sources:
        if vessel.is_supply:
            raise vessels.RefusalError(f"wrong material: sources holds {vessel.name}, which is {vessel.phase}")
    if volume % _DROPLET:
        raise vessels.RefusalError(
            f"not a whole number of droplets: {vessels.format_volume(volume)} is not a multiple of {droplet}"
        )
    destinations = _get_destinations(context, sources)
    dead_volume_text = context.values["source_plate"].split(", ")[1].removesuffix(" stay")
    dead_volume = quantities.parse_quantity(dead_volume_text, "volume").value
    for source in sources:
        _require_total(source, volume, len(destinations), dead_volume)
        for destination in destinations:
            # A droplet is smaller than any volume a pipette delivers.
            destination.pour_in(source.draw_volume(volume, minimum=_DROPLET), source)
    context.reasoning = f"{volume / _DROPLET} droplets of {droplet} from each source into each destination."


@handles("aliquot")
def create_aliquots(context: ActionContext) -> None:
    source, box, count = context.get_samples()[0], context.get_container_supply(), context.get_whole_number("count")
    volume = context.get_number("volume")
    _require_total(source, volume, count)
    for number in range(1, count + 1):
        name = context.format_label(number, count, f"Aliquot {number} of {source.name}")
        context.create_vessel(box, name).pour_in(source.draw_volume(volume), source)
    context.reasoning = (
        f"{format_count(count, 'portion')} of {vessels.format_volume(volume)}; concentrations stay as in the source."
    )


@handles("serial_dilute")
def dilute_serially(context: ActionContext) -> None:
    """Dilute in steps. Each step transfers `transfer_volume` into (factor - 1) times as much diluent."""
    diluent, box = context.get_selected_vessel("diluent"), context.get_container_supply()
    previous = context.get_samples(diluent)[0]
    carried, factor = context.get_number("transfer_volume"), context.get_number("factor")
    steps, name = context.get_whole_number("dilutions"), context.printable_label or previous.name
    # Checked for all steps at once: a series must not stop halfway.
    _require_total(diluent, carried * (factor - 1), steps)
    for step in range(1, steps + 1):
        portion = previous.draw_volume(carried)
        vessel = context.create_vessel(box, f"{name} 1:{(factor**step).normalize():f}")
        vessel.pour_in(diluent.draw_volume(carried * (factor - 1)), diluent)
        vessel.pour_in(portion, previous)
        previous = vessel
    context.reasoning = f"{format_count(steps, 'step')}, each {vessels.format_volume(carried)} in {vessels.format_volume(carried * factor)}, a factor of {factor}."


@handles("dilute", "C1 V1 = C2 V2 with the solvent volume added.")
def dilute_samples(context: ActionContext) -> None:
    targets = context.get_changeable_samples(context.get_selected_vessel("solvent"))
    _add_solvent(context, targets, [context.get_number("volume")] * len(targets))


@handles("fill_to_volume")
def fill_to_volume(context: ActionContext) -> None:
    targets = context.get_changeable_samples(context.get_selected_vessel("solvent"))
    total = context.get_number("total_volume")
    for vessel in targets:
        if vessel.get_volume() > total:
            held = vessels.format_volume(vessel.get_volume())
            raise vessels.RefusalError(
                f"too full: {vessel.name} already holds {held}, more than {vessels.format_volume(total)}"
            )
    _add_solvent(context, targets, [total - vessel.get_volume() for vessel in targets], to_mark=True)
    context.reasoning = f"Solvent added is {vessels.format_volume(total)} less what each container held."


@handles("resuspend", "Cells, particles and what nobody has named are suspended, all else dissolves; amounts stay.")
def resuspend_samples(context: ActionContext) -> None:
    targets = context.get_changeable_samples(context.get_selected_vessel("solvent"))
    for vessel in targets:
        if vessel.phase not in ("solid", "powder", vessels.Phase.PELLET):
            raise vessels.RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, not a pellet or a dry solid")
    # Pouring changes the phase, but what dissolves depends on the phase before.
    phases = [vessel.phase for vessel in targets]
    _add_solvent(context, targets, [context.get_number("volume")] * len(targets))
    for vessel, previous_phase in zip(targets, phases, strict=True):
        settling = vessel.contents.list_components_of_kind(CELLS, PARTICLES)
        dissolves = previous_phase != vessels.Phase.PELLET and vessel.contents.components and not settling
        vessel.phase = vessels.Phase.LIQUID if dissolves else vessels.Phase.SUSPENSION


@handles("combine", "Volumes and amounts of all samples added up.")
def combine_samples(context: ActionContext) -> None:
    parts = context.get_changeable_samples()
    if len(parts) < 2:
        raise vessels.RefusalError(f"one sample only: Combine takes {context.action_type.inputs}")
    for part in parts:
        if part.phase in (vessels.Phase.FROZEN, vessels.Phase.ADHERENT):
            part.require_liquid()
    # Without a supply of containers, everything goes into a new container like the largest of the samples.
    container = context.find_container_supply() or max(parts, key=lambda part: part.get_capacity())
    name = context.format_label(1, 1, "Pool of " + " and ".join(part.name for part in parts))
    pooled = context.create_vessel(container, name)
    for part in parts:
        part.get_volume()  # raises RefusalError if it is unknown
        everything, part.contents = part.contents, Contents()
        part.used_up = True
        pooled.pour_in(everything, part)
    if pooled.contents.list_components_of_kind(CELLS):
        pooled.phase = vessels.Phase.SUSPENSION


@handles("discard", "Thrown away; not usable any more.")
def discard_materials(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        vessel.used_up = True


@handles("separate_wells")
def separate_wells(context: ActionContext) -> None:
    """Separate a plate into wells, or into groups of wells with the same treatment, which can be separated again."""
    plate = next(iter(context.vessels.values()))
    if not plate.wells:
        phase = plate.phase or "of unknown phase"
        raise vessels.RefusalError(f"no wells: {plate.name} is {phase}; there is nothing to separate")
    if context.values["grouping"] == "each well":
        parts = [_build_well(context, plate, well) for well in plate.wells]
    else:
        groups: dict[str, list[_Well]] = {}
        for well in plate.wells:
            groups.setdefault(str(well["properties"].get("treatment", "")), []).append(well)
        if set(groups) == {""}:
            raise vessels.RefusalError(f"no treatments: no well of {plate.name} names one; separate each well")
        named = [(treatment or "no treatment named", wells) for treatment, wells in groups.items()]
        parts = [_build_group(context, plate, treatment, wells) for treatment, wells in named]
    context.new_vessels.extend(parts)
    plate.wells, plate.used_up = (), True
    context.reasoning = (
        f"{format_count(len(parts), 'material')} out of one plate; nothing in them changed and no time passed."
    )


@handles("manifest")
def reject_manifest(context: ActionContext) -> None:
    """Raise RefusalError, because the environment answers requests for materials itself, before any rule is applied."""
    raise vessels.RefusalError(f"not here: {context.action_type.name} is answered by the store room")


@handles("end", "The attempt ends; nothing is touched.")
def end_attempt(context: ActionContext) -> None:
    """Change nothing. Submit and Quit end the attempt in the environment."""


def _get_destinations(context: ActionContext, sources: Sequence[vessels.Vessel]) -> list[vessels.Vessel]:
    others = [vessel for vessel in context.vessels.values() if all(vessel is not source for source in sources)]
    if not others:
        raise vessels.RefusalError(f"no destination: {context.action_type.name} takes {context.action_type.inputs}")
    destinations, default_name = [], " and ".join(source.name for source in sources)
    for number, vessel in enumerate(others, start=1):
        if vessel.is_supply and vessel.phase != vessels.Phase.EMPTY:
            raise vessels.RefusalError(f"not a container: {vessel.name}")
        name = context.format_label(number, len(others), default_name)
        destinations.append(context.create_vessel(vessel, name) if vessel.is_supply else vessel)
    return destinations


def _draw_portion(context: ActionContext, source: vessels.Vessel, destination_count: int, number: int) -> Contents:
    """Draw the portion of one destination, counted from 1."""
    amount, mass = context.values["amount"], context.values["mass"]
    if amount is not None and mass is not None:
        raise vessels.RefusalError("two amounts: give a volume or a mass, not both")
    if mass is not None:
        return _weigh_portion(source, mass, reserved=mass * (destination_count - number))
    if amount is not None:
        return source.draw_volume(amount)
    if destination_count > 1 or source.unlimited:
        raise vessels.RefusalError("no amount: without one, all of a limited source goes into a single destination")
    if source.phase in vessels.Phase.SOLIDS:
        return source.draw_mass(None)
    source.require_liquid()
    return source.draw_volume(_compute_usable_volume(source))


def _weigh_portion(source: vessels.Vessel, mass: Decimal, reserved: Decimal) -> Contents:
    """Remove and return about this mass of a solid, as it was weighed, and leave what later portions need, `reserved`."""
    available = source.contents.mass
    if source.errors and available is not None and mass + reserved <= available:
        weighed = source.errors.compute_weighed_mass(mass, source.barcode or source.name, len(source.weighed))
        mass = min(weighed, available - reserved)
    source.weighed.append(mass)
    return source.draw_mass(mass)


def _add_solvent(
    context: ActionContext, targets: Sequence[vessels.Vessel], volumes: Sequence[Decimal], to_mark: bool = False
) -> None:
    solvent = context.get_selected_vessel("solvent")
    _require_total(solvent, sum(volumes, ZERO), 1)
    for vessel, volume in zip(targets, volumes, strict=True):
        if volume > 0:
            ratio = _compute_ratio_to_mark(vessel, volume) if to_mark else None
            vessel.pour_in(solvent.draw_volume(volume, ratio=ratio), solvent)


def _compute_ratio_to_mark(vessel: vessels.Vessel, volume: Decimal) -> Decimal | None:
    """Return the solvent that fills a volumetric flask to its mark, divided by the recorded volume; else None."""
    if vessel.errors is None or "flask" not in vessel.container.lower():
        return None
    held = vessel.contents.as_delivered().volume or ZERO
    at_mark = (vessel.get_volume() + volume) * vessel.errors.compute_mark_ratio(vessel.barcode)
    return max(ZERO, at_mark - held) / volume


def _compute_usable_volume(vessel: vessels.Vessel, minimum_left: Decimal = ZERO) -> Decimal:
    """Return the volume that can be drawn: the total less the larger of `dead_volume` and `minimum_left`."""
    dead_volume = quantities.parse_quantity(vessel.properties.get("dead_volume", "0 µL"), "volume").value
    return max(ZERO, vessel.get_volume() - max(dead_volume, minimum_left))


def _require_total(source: vessels.Vessel, volume: Decimal, times: int, minimum_left: Decimal = ZERO) -> None:
    """Raise RefusalError if the source has too little for all portions together. Call this before anything moves."""
    source.require_liquid()
    if source.unlimited or volume * times <= (usable := _compute_usable_volume(source, minimum_left)):
        return
    unusable = source.get_volume() - usable
    remark = f" ({vessels.format_volume(unusable)} must stay in it)" if unusable else ""
    raise vessels.RefusalError(vessels.describe_shortage(volume * times, usable, source) + remark)


def _build_well(context: ActionContext, plate: vessels.Vessel, well: _Well) -> vessels.Vessel:
    properties, contents = well["properties"], Contents.from_ledger(well["ledger"])
    shown = {**drop_component_properties(properties, contents), "well": well["well"]}
    part = _build_part(context, plate, well["name"], shown, contents)
    part.phase, part.key = str(properties.get("phase", "")), str(well["ledger"].get("key", ""))
    part.freeze_if_cold(part.get_temperature(), was_frozen=True)  # like the plate, if it is kept in the cold
    return part


def _build_group(context: ActionContext, plate: vessels.Vessel, label: str, wells: Sequence[_Well]) -> vessels.Vessel:
    names = ", ".join(well["well"] for well in wells)
    shown = {**plate.properties, "wells in use": str(len(wells)), "treatment": label, "wells": names}
    # The contents of a plate are those of its wells, so its own are unknown.
    part = _build_part(context, plate, f"{plate.name}: {label}", shown, Contents(volume=None))
    part.phase, part.wells = vessels.Phase.PLATE, wells
    return part


def _build_part(
    context: ActionContext, plate: vessels.Vessel, name: str, properties: dict[str, Any], contents: Contents
) -> vessels.Vessel:
    part = vessels.Vessel(context.reserve_name(name), properties, contents, "", plate.condition, plate.material_type)
    part.sources.add_amount(plate.barcode, contents.volume)
    return part
