"""Filtering. The liquid passes. Components larger than the pores stay, and can be kept in a crucible."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.ledger import CELLS, ONE, PARTICLES, Contents
from simulation.offline.vessels import (
    EMPTY,
    LIQUID,
    LIQUID_PROPERTIES,
    SEDIMENTED,
    SUSPENSION,
    RefusalError,
    Vessel,
    format_volume,
    list_cell_components,
    pool_waste,
)

# In mm. A filter with pores of this size or smaller retains cells or particles, unless the experiment declares another
# size for them.
_CELL_SIZE, _PARTICLE_SIZE = Decimal("0.005"), Decimal("0.001")
_RESIDUE_CONTAINERS = ("crucible", "filter", "weighing")


def filter_samples(context: ActionContext) -> None:
    """Filter each sample. First runnings become waste, and so do residues unless they are kept."""
    wash = None if context.values["residue_wash"] is None else context.get_selected_vessel("residue_wash")
    crucibles = _list_crucibles(context)
    samples = context.get_samples(*crucibles, *([wash] if wash else []))
    box, lost = _choose_filtrate_supply(context), []
    for number, vessel in enumerate(samples, start=1):
        poured = _draw_for_filter(context, vessel)
        # Everything moves except what is retained, so the filtrate has the full volume.
        passed, retained = poured.split_share(ONE, _list_retained_components(context, poured))
        first, rest = _split_first_runnings(passed, context.get_number("discard_first"))
        filtrate = context.create_vessel(box, context.format_label(number, len(samples), f"Filtrate of {vessel.name}"))
        filtrate.pour_in(rest, vessel)
        filtrate.phase = SUSPENSION if rest.list_components_of_kind(CELLS, PARTICLES) else LIQUID
        filtrate.properties["filtered through"] = (
            f"{context.get_written_setting('pore_size')} {context.get_written_setting('membrane')}"
        )
        lost += [(first, vessel)]
        if context.values["keep_residue"]:
            crucible = crucibles[number - 1] if number <= len(crucibles) else None
            lost += _collect_residue(context, vessel, retained, passed.volume, crucible, wash)
        else:
            lost += [(retained, vessel)]
    lost = [(part, vessel) for part, vessel in lost if part.volume or part.components]
    if lost:
        context.new_vessels.append(pool_waste(context.reserve_name("Used filters and first runnings"), lost))
    context.reasoning = (
        "The volume passed the filter whole; cells, particles and what is declared larger than the pores stayed."
    )


def _list_crucibles(context: ActionContext) -> list[Vessel]:
    """Return the single empty containers that receive residues, if residues are kept."""
    empty = [vessel for vessel in context.vessels.values() if vessel.phase == EMPTY and not vessel.unlimited]
    return empty if context.values["keep_residue"] else []


def _draw_for_filter(context: ActionContext, vessel: Vessel) -> Contents:
    """Draw the volume to filter. If none is given, draw the whole sample, stirred so that sediment is included."""
    if context.values["volume"] is not None:
        return vessel.draw_volume(context.get_number("volume"))
    vessel.phase = SUSPENSION if vessel.phase == SEDIMENTED else vessel.phase
    return vessel.draw_volume(vessel.get_volume())


def _choose_filtrate_supply(context: ActionContext) -> Vessel:
    """Return the first supply of containers that are not meant for residues, or else any supply of containers."""
    boxes = [vessel for vessel in context.vessels.values() if vessel.unlimited and vessel.phase == EMPTY]
    return next((box for box in boxes if not _is_residue_container(box)), None) or context.get_container_supply()


def _is_residue_container(box: Vessel) -> bool:
    words = f"{box.name} {box.properties.get('container', '')}".lower()
    return any(word in words for word in _RESIDUE_CONTAINERS)


def _collect_residue(
    context: ActionContext,
    vessel: Vessel,
    retained: Contents,
    poured: Decimal | None,
    crucible: Vessel | None,
    wash: Vessel | None,
) -> list[tuple[Contents, Vessel]]:
    """Put the residue of one filter into a crucible and return the rinses, which pass through the filter."""
    if crucible is None:
        boxes = [box for box in context.vessels.values() if box.unlimited and box.phase == EMPTY]
        crucible = context.create_vessel(
            next(filter(_is_residue_container, boxes), boxes[0]), f"Residue of {vessel.name}"
        )
    # The bulk mass is that of the whole sample, not of what stayed on the filter.
    crucible.pour_in(replace(retained, mass=None), vessel)
    crucible.sources.add_amount(vessel.barcode, poured)
    crucible.phase = "solid"
    for name in ("medium", *LIQUID_PROPERTIES):
        crucible.properties.pop(name, None)
    crucible.properties["moisture"] = "damp"
    if wash is None:
        return []
    if context.values["residue_wash_volume"] is None:
        raise RefusalError(f"critically unclear: how much of {wash.name} each residue is rinsed with")
    volume, rinses = context.get_number("residue_wash_volume"), context.get_whole_number("residue_washes")
    crucible.properties["rinsed with"] = f"{rinses} x {format_volume(volume)} of {wash.name}"
    return [(wash.draw_volume(volume * rinses), wash)]


def _list_retained_components(context: ActionContext, contents: Contents) -> list[str]:
    pore = context.get_number("pore_size")
    sizes = dict.fromkeys(contents.list_components_of_kind(PARTICLES), _PARTICLE_SIZE) | dict.fromkeys(
        list_cell_components(contents), _CELL_SIZE
    )
    sizes |= {
        name: quantities.parse_quantity(size, "length").value
        for name, size in context.truth.get("retained", {}).items()
    }
    return [name for name, size in sizes.items() if size >= pore]


def _split_first_runnings(passed: Contents, discarded: Decimal) -> tuple[Contents, Contents]:
    if discarded == 0:
        return Contents(), passed
    assert passed.volume is not None, "what was drawn has a volume"
    if discarded >= passed.volume:
        raise RefusalError(
            f"short of volume: {format_volume(passed.volume)} passes, of which {format_volume(discarded)} is to be thrown away"
        )
    return passed.take_volume(discarded)


HANDLERS: dict[str, Callable[[ActionContext], None]] = {"filter": filter_samples}
