"""Parting what is in a vessel: supernatant from cells, filtrate from what a filter holds back, DNA from the rest."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.chemistry import develop
from simulation.offline.job import Job
from simulation.offline.ledger import Contents
from simulation.offline.vessels import (
    FROZEN,
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

_LEAST_FORCE = 100  # x g that brings cells down
_CELL_SIZE = Decimal("0.005")  # mm: a finer filter holds cells back


def aspirate(job: Job) -> None:
    """Kept supernatants go into new containers where a box of them is given, else each into one of its own kind."""
    removed: list[tuple[Contents, Vessel]] = []
    for vessel in job.changeable():
        taken = vessel.take_supernatant(job.values["volume"])
        if not taken.volume:
            raise RefusalError(f"short of volume: {vessel.name} has no supernatant left")
        if job.values["keep_supernatant"]:
            kept = job.make(job.spare_box() or vessel, f"Supernatant of {vessel.name}")
            kept.pour(taken, vessel)
            kept.phase = LIQUID
        else:
            removed.append((taken, vessel))
    if removed:
        job.made.append(pool(job.free_name("Waste from Aspirate"), removed))
    job.how = "Liquid and what is dissolved in it left in proportion; cells stayed."


def wash(job: Job) -> None:
    medium, fresh = job.named("wash_medium"), job.named("replacement_medium")
    removed: list[tuple[Contents, Vessel]] = []
    for vessel in job.changeable(medium, fresh):
        removed.append((vessel.take_supernatant(), vessel))
        for _ in range(job.count("washes")):
            vessel.pour(medium.draw(job.number("wash_volume")), medium)
            removed.append((vessel.take_supernatant(), vessel))
        vessel.pour(fresh.draw(job.number("replacement_volume")), fresh)
        if "medium" in vessel.properties:
            vessel.properties["medium"] = str(fresh.properties.get("medium") or fresh.name)
    waste = pool(job.free_name("Waste from Wash"), removed)
    waste.sources.setdefault(medium.barcode, (None, "volume"))
    job.made.append(waste)
    job.how = "Each rinse took all the liquid off; cells stayed; the replacement volume is what is on them now."


def centrifuge(job: Job) -> None:
    for vessel in job.changeable():
        if vessel.phase == FROZEN:
            vessel.need_liquid("spun")
        if vessel.phase in (LIQUID, SUSPENSION) and cells_in(vessel.contents) and job.number("force") >= _LEAST_FORCE:
            vessel.phase = SEDIMENTED
            job.say(f"{vessel.name} after the spin", "visual", "a pellet under the liquid")
    job.how = f"Cells come down from {_LEAST_FORCE} x g; nothing else is moved."


def filter_samples(job: Job) -> None:
    """Everything held back, and the first runnings, end up with the used filters."""
    box, lost = job.box(), []
    samples = job.samples()
    for number, vessel in enumerate(samples, start=1):
        volume = vessel.volume() if job.values["volume"] is None else job.number("volume")
        held, passed = vessel.draw(volume).only(_held_back(job, vessel))
        first, rest = _first_runnings(passed, job.number("discard_first"))
        filtrate = job.make(box, job.label(number, len(samples), f"Filtrate of {vessel.name}"))
        filtrate.pour(rest, vessel)
        filtrate.phase = LIQUID
        filtrate.properties["filtered through"] = f"{job.set_to('pore_size')} {job.set_to('membrane')}"
        lost += [(part, vessel) for part in (held, first) if part.volume or part.components]
    if lost:
        job.made.append(pool(job.free_name("Used filters and first runnings"), lost))
    job.how = "The volume passed the filter whole; components declared larger than the pores stayed on it."


def extract_dna(job: Job) -> None:
    """The extract holds what the experiment declares to come out, in the elution volume; all else is lost."""
    volume = job.number("elution_volume")
    for vessel in job.changeable():
        if vessel.phase == FROZEN:
            vessel.need_liquid("lysed")
        if volume > vessel.capacity():
            raise RefusalError(
                f"too small a container: {show(vessel.capacity())} capacity, {show(volume)} would be in it ({vessel.name})"
            )
        vessel.phase = LIQUID
        develop(job, vessel)
        made = [reaction["makes"] for reaction in job.declared("reactions") if "makes" in reaction]
        extract = vessel.contents.only(made)[0]
        vessel.contents = replace(extract, origins=vessel.contents.origins, volume=volume)
        vessel.name = job.free_name(f"DNA extract of {vessel.name}")
        for name in ("mass", "medium", "cell type", *OF_THE_LIQUID):
            vessel.properties.pop(name, None)
    job.how = "DNA by the yield the experiment declares, eluted in the stated volume."


def _held_back(job: Job, vessel: Vessel) -> list[str]:
    pore = job.number("pore_size")
    sizes = {name: quantities.parse(size, "length").value for name, size in job.truth.get("retained", {}).items()}
    sizes = {**dict.fromkeys(cells_in(vessel.contents), _CELL_SIZE), **sizes}
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


HANDLERS: dict[str, Callable[[Job], None]] = {
    "aspirate": aspirate,
    "wash": wash,
    "centrifuge": centrifuge,
    "filter": filter_samples,
    "extract_dna": extract_dna,
}
