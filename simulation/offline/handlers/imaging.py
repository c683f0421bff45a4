"""Microscopes and plate readers that add, stimulate and record over time, and cameras for colonies."""

from collections.abc import Callable
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.chemistry import develop, meet
from simulation.offline.handlers.loading import look_up_all, need, need_phase, need_volume, read_or_record
from simulation.offline.handlers.probes import need_wavelengths
from simulation.offline.handlers.thermal import need_apart, need_format
from simulation.offline.job import Job
from simulation.offline.ledger import ATTACHED, CELLS, ZERO
from simulation.offline.responses import read_responses
from simulation.offline.vessels import (
    ADHERENT,
    GEL,
    LIQUID,
    SEDIMENTED,
    SUSPENSION,
    RefusalError,
    Vessel,
)

_STAGE = ("plate", "dish", "culture flask", "slide", "chamber", "coverslip", "well")
_WELLS = ("plate", "well")
_SOLID_MEDIUM = ("plate", "dish")
_WET = (LIQUID, SUSPENSION, SEDIMENTED, ADHERENT)
_LEAST_IN_A_WELL = Decimal(20)  # µL
_MANY = "too many to count"


def microscope(job: Job) -> None:
    """Images of cells, after what is added and while they are stimulated; the sample keeps what was added."""
    if job.values["mode"] in ("fluorescence", "confocal") and job.values["channels"] is None:
        need(job, "excitation_wavelength", "name channels, or both wavelengths")
        need(job, "emission_wavelength", "name channels, or both wavelengths")
    _need_times(job)
    for vessel in job.samples(*_compounds(job)):
        need_format(vessel, _STAGE, "the stage takes plates, dishes, culture flasks and slides")
        need_apart(vessel)
        need_phase(vessel, (*_WET, GEL, "tissue", "solid"), "imaged")
        if not vessel.contents.of_kind(CELLS, ATTACHED) and vessel.phase != "tissue":
            raise RefusalError(f"no cells: there is nothing to image in {vessel.name}")
        _add_compounds(job, vessel)
        read_or_record(job, vessel, vessel.contents)
    job.how = "What was added is in the books; signals follow the declared curves, and no picture is drawn."


def plate_reader(job: Job) -> None:
    need_wavelengths(job)
    _need_times(job)
    for vessel in job.samples(*_compounds(job)):
        need_format(vessel, _WELLS, "the reader takes microplate wells")
        need_apart(vessel)
        need_phase(vessel, _WET, "read in a plate")
        need_volume(vessel, _LEAST_IN_A_WELL)
        _add_compounds(job, vessel)
        read_or_record(job, vessel, vessel.contents)
    job.how = "What was added is in the books; signals follow the declared curves of the true content."


def image_colonies(job: Job) -> None:
    for vessel in _plates(job):
        read_or_record(job, vessel, vessel.contents)
    job.how = "Images are recorded; the simulation draws none."


def count_colonies(job: Job) -> None:
    """The colonies in the books, up to what can be told apart; per volume plated if that is given."""
    for vessel in _plates(job):
        names = [
            name for name, part in vessel.contents.components.items() if "colon" in name and part.dimension == "count"
        ]
        counted = [_say_colonies(job, vessel, name) for name in names]
        if not any(counted):
            read_or_record(job, vessel, vessel.contents)
        else:
            read_responses(job, vessel, vessel.contents)
            look_up_all(job, vessel, vessel.contents)
    job.how = "The number of colonies in the books; none where none is known."


def _say_colonies(job: Job, vessel: Vessel, name: str) -> bool:
    true = vessel.contents.amount(name)
    if true is None:
        return False
    said, number = f"{job.run_of(vessel)}: number of {name}", round(true)
    if number > job.number("countable_maximum"):
        job.say(said, "quantitative", _MANY)
        return True
    job.say(said, "quantitative", str(number))
    if job.values["plated_volume"] is not None:
        units = number * job.number("dilution_factor") / job.number("plated_volume") * 1000
        job.say(f"{said}, per volume plated", "quantitative", f"{quantities.plain(quantities.tidy(units))} per mL")
    return True


def _plates(job: Job) -> list[Vessel]:
    samples = job.samples()
    for vessel in samples:
        need_format(vessel, _SOLID_MEDIUM, "colonies are imaged on plates and dishes of solid medium")
        if vessel.phase not in (GEL, "solid"):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, not a solid medium")
    return samples


def _compounds(job: Job) -> list[Vessel]:
    """What is added, in the order it is added."""
    return [job.named(name) for name in ("compound", "second_compound") if job.values[name] is not None]


def _add_compounds(job: Job, vessel: Vessel) -> None:
    for name in ("compound", "second_compound"):
        if job.values[name] is not None:
            compound = job.named(name)
            vessel.pour(compound.draw(job.number(f"{name}_volume")), compound)
            meet(job, vessel)
    develop(job, vessel)


def _need_times(job: Job) -> None:
    """Refuse what cannot be done in this order, or has no volume or no light to it."""
    lasts = job.number("record_for") if job.values["record_for"] is not None else ZERO
    for name in ("compound", "second_compound"):
        if job.values[name] is not None:
            need(job, f"{name}_volume", f"how much of the {name.replace('_', ' ')} goes into each sample?")
            if job.number(f"{name}_at") > lasts:
                at, end = (quantities.show(seconds, "duration") for seconds in (job.number(f"{name}_at"), lasts))
                raise RefusalError(f"too late: {name} is added at {at}, the record ends at {end}")
    if job.values["second_compound"] is not None:
        need(job, "compound", "a second one follows a first")
        if job.number("second_compound_at") < job.number("compound_at"):
            raise RefusalError("wrong order: second_compound_at is before compound_at")
    if (job.values["stimulation_power"] is None) != (job.values["stimulation_wavelength"] is None):
        raise RefusalError("critically unclear: light stimulates with a wavelength and a power, and one is not given")
    if job.values["frame_interval"] is not None and job.number("frame_interval") > lasts:
        raise RefusalError("too long: frame_interval is longer than the record")


HANDLERS: dict[str, Callable[[Job], None]] = {
    "microscope": microscope,
    "plate_reader": plate_reader,
    "image_colonies": image_colonies,
    "count_colonies": count_colonies,
}
