"""Filtering. The liquid passes; what is larger than the pores stays, and can be kept in a crucible."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.job import Job
from simulation.offline.ledger import CELLS, ONE, PARTICLES, Contents
from simulation.offline.vessels import (
    EMPTY,
    LIQUID,
    OF_THE_LIQUID,
    SEDIMENTED,
    SUSPENSION,
    RefusalError,
    Vessel,
    cells_in,
    pool,
    show,
)

# mm; a filter with pores of this size or less retains them, unless the experiment declares another size.
_CELL_SIZE, _PARTICLE_SIZE = Decimal("0.005"), Decimal("0.001")
_CRUCIBLE = ("crucible", "filter", "weighing")


def filter_samples(context: Job) -> None:
    """Filter each sample. Residues and first runnings become waste unless the residues are kept."""
    wash = None if context.values["residue_wash"] is None else context.named("residue_wash")
    crucibles = _crucibles(context)
    samples = context.samples(*crucibles, *([wash] if wash else []))
    box, lost = _box_for_filtrates(context), []
    for number, vessel in enumerate(samples, start=1):
        poured = _poured_on(context, vessel)
        # Everything moves except what is retained, so the filtrate has the full volume.
        passed, retained = poured.split(ONE, _held_back(context, poured))
        first, rest = _first_runnings(passed, context.number("discard_first"))
        filtrate = context.make(box, context.label(number, len(samples), f"Filtrate of {vessel.name}"))
        filtrate.pour(rest, vessel)
        filtrate.phase = SUSPENSION if rest.of_kind(CELLS, PARTICLES) else LIQUID
        filtrate.properties["filtered through"] = f"{context.set_to('pore_size')} {context.set_to('membrane')}"
        lost += [(first, vessel)]
        if context.values["keep_residue"]:
            crucible = crucibles[number - 1] if number <= len(crucibles) else None
            lost += _residue(context, vessel, retained, passed.volume, crucible, wash)
        else:
            lost += [(retained, vessel)]
    lost = [(part, vessel) for part, vessel in lost if part.volume or part.components]
    if lost:
        context.made.append(pool(context.free_name("Used filters and first runnings"), lost))
    context.how = (
        "The volume passed the filter whole; cells, particles and what is declared larger than the pores stayed."
    )


def _crucibles(context: Job) -> list[Vessel]:
    """Return the single empty containers that receive residues, if residues are kept."""
    empty = [vessel for vessel in context.vessels.values() if vessel.phase == EMPTY and not vessel.unlimited]
    return empty if context.values["keep_residue"] else []


def _poured_on(context: Job, vessel: Vessel) -> Contents:
    """Draw the volume to filter; without one all of it, stirred up first so that sediment comes along."""
    if context.values["volume"] is not None:
        return vessel.draw(context.number("volume"))
    vessel.phase = SUSPENSION if vessel.phase == SEDIMENTED else vessel.phase
    return vessel.draw(vessel.volume())


def _box_for_filtrates(context: Job) -> Vessel:
    """Return the first supply that is not meant for residues if there are two."""
    boxes = [vessel for vessel in context.vessels.values() if vessel.unlimited and vessel.phase == EMPTY]
    return next((box for box in boxes if not _for_residues(box)), None) or context.box()


def _for_residues(box: Vessel) -> bool:
    words = f"{box.name} {box.properties.get('container', '')}".lower()
    return any(word in words for word in _CRUCIBLE)


def _residue(
    context: Job,
    vessel: Vessel,
    retained: Contents,
    poured: Decimal | None,
    crucible: Vessel | None,
    wash: Vessel | None,
) -> list[tuple[Contents, Vessel]]:
    """Put the residue of one filter into a crucible and return the rinses, which pass through the filter."""
    if crucible is None:
        boxes = [box for box in context.vessels.values() if box.unlimited and box.phase == EMPTY]
        crucible = context.make(next(filter(_for_residues, boxes), boxes[0]), f"Residue of {vessel.name}")
    # The bulk mass belongs to the whole sample, not to what stayed on the filter.
    crucible.pour(replace(retained, mass=None), vessel)
    crucible.sources.note(vessel.barcode, poured)
    crucible.phase = "solid"
    for name in ("medium", *OF_THE_LIQUID):
        crucible.properties.pop(name, None)
    crucible.properties["moisture"] = "damp"
    if wash is None:
        return []
    if context.values["residue_wash_volume"] is None:
        raise RefusalError(f"critically unclear: how much of {wash.name} each residue is rinsed with")
    volume, rinses = context.number("residue_wash_volume"), context.count("residue_washes")
    crucible.properties["rinsed with"] = f"{rinses} x {show(volume)} of {wash.name}"
    return [(wash.draw(volume * rinses), wash)]


def _held_back(context: Job, contents: Contents) -> list[str]:
    pore = context.number("pore_size")
    sizes = dict.fromkeys(contents.of_kind(PARTICLES), _PARTICLE_SIZE) | dict.fromkeys(cells_in(contents), _CELL_SIZE)
    sizes |= {name: quantities.parse(size, "length").value for name, size in context.truth.get("retained", {}).items()}
    return [name for name, size in sizes.items() if size >= pore]


def _first_runnings(passed: Contents, discarded: Decimal) -> tuple[Contents, Contents]:
    if discarded == 0:
        return Contents(), passed
    assert passed.volume is not None, "what was drawn has a volume"
    if discarded >= passed.volume:
        raise RefusalError(
            f"short of volume: {show(passed.volume)} passes, of which {show(discarded)} is to be thrown away"
        )
    return passed.take(discarded)


HANDLERS: dict[str, Callable[[Job], None]] = {"filter": filter_samples}
