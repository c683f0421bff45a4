"""Filtering: the liquid passes, what is larger than the pores stays, and may be kept in a crucible."""

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

# mm: a finer filter holds them back.
_CELL_SIZE, _PARTICLE_SIZE = Decimal("0.005"), Decimal("0.001")
_CRUCIBLE = ("crucible", "filter", "weighing")


def filter_samples(job: Job) -> None:
    """What is held back, and the first runnings, end up with the used filters unless the residues are kept."""
    wash = None if job.values["residue_wash"] is None else job.named("residue_wash")
    crucibles = _crucibles(job)
    samples = job.samples(*crucibles, *([wash] if wash else []))
    box, lost = _box_for_filtrates(job), []
    for number, vessel in enumerate(samples, start=1):
        poured = _poured_on(job, vessel)
        passed, held = poured.split(ONE, _held_back(job, poured))
        first, rest = _first_runnings(passed, job.number("discard_first"))
        filtrate = job.make(box, job.label(number, len(samples), f"Filtrate of {vessel.name}"))
        filtrate.pour(rest, vessel)
        filtrate.phase = SUSPENSION if rest.of_kind(CELLS, PARTICLES) else LIQUID
        filtrate.properties["filtered through"] = f"{job.set_to('pore_size')} {job.set_to('membrane')}"
        lost += [(first, vessel)]
        if job.values["keep_residue"]:
            into = crucibles[number - 1] if number <= len(crucibles) else None
            lost += _residue(job, vessel, held, passed.volume, into, wash)
        else:
            lost += [(held, vessel)]
    lost = [(part, vessel) for part, vessel in lost if part.volume or part.components]
    if lost:
        job.made.append(pool(job.free_name("Used filters and first runnings"), lost))
    job.how = "The volume passed the filter whole; cells, particles and what is declared larger than the pores stayed."


def _crucibles(job: Job) -> list[Vessel]:
    """Single empty containers that take the residues, if those are kept."""
    empty = [vessel for vessel in job.vessels.values() if vessel.phase == EMPTY and not vessel.unlimited]
    return empty if job.values["keep_residue"] else []


def _poured_on(job: Job, vessel: Vessel) -> Contents:
    """All of it is swirled up first, so that what had settled comes along."""
    if job.values["volume"] is not None:
        return vessel.draw(job.number("volume"))
    vessel.phase = SUSPENSION if vessel.phase == SEDIMENTED else vessel.phase
    return vessel.draw(vessel.volume())


def _box_for_filtrates(job: Job) -> Vessel:
    """The first box that is not meant for residues, where there are two."""
    boxes = [vessel for vessel in job.vessels.values() if vessel.unlimited and vessel.phase == EMPTY]
    return next((box for box in boxes if not _for_residues(box)), None) or job.box()


def _for_residues(box: Vessel) -> bool:
    words = f"{box.name} {box.properties.get('container', '')}".lower()
    return any(word in words for word in _CRUCIBLE)


def _residue(
    job: Job, vessel: Vessel, held: Contents, poured: Decimal | None, into: Vessel | None, wash: Vessel | None
) -> list[tuple[Contents, Vessel]]:
    """What stayed on one filter, in a crucible of its own; returns the rinses, which pass through it."""
    if into is None:
        boxes = [box for box in job.vessels.values() if box.unlimited and box.phase == EMPTY]
        into = job.make(next(filter(_for_residues, boxes), boxes[0]), f"Residue of {vessel.name}")
    into.pour(replace(held, mass=None), vessel)
    into.sources.note(vessel.barcode, poured)
    into.phase = "solid"
    for name in ("medium", *OF_THE_LIQUID):
        into.properties.pop(name, None)
    into.properties["moisture"] = "damp"
    if wash is None:
        return []
    if job.values["residue_wash_volume"] is None:
        raise RefusalError(f"critically unclear: how much of {wash.name} each residue is rinsed with")
    volume, rinses = job.number("residue_wash_volume"), job.count("residue_washes")
    into.properties["rinsed with"] = f"{rinses} x {show(volume)} of {wash.name}"
    return [(wash.draw(volume * rinses), wash)]


def _held_back(job: Job, contents: Contents) -> list[str]:
    pore = job.number("pore_size")
    sizes = dict.fromkeys(contents.of_kind(PARTICLES), _PARTICLE_SIZE) | dict.fromkeys(cells_in(contents), _CELL_SIZE)
    sizes |= {name: quantities.parse(size, "length").value for name, size in job.truth.get("retained", {}).items()}
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
