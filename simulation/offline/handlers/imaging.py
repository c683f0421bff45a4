"""Microscopes and plate readers that add compounds, stimulate and record over time, and cameras for colonies."""

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

# Words in the description of a container that fits the instrument.
_STAGE = ("plate", "dish", "culture flask", "slide", "chamber", "coverslip", "well")
_WELLS = ("plate", "well")
_SOLID_MEDIUM = ("plate", "dish")
_WET = (LIQUID, SUSPENSION, SEDIMENTED, ADHERENT)
_LEAST_IN_A_WELL = Decimal(20)  # µL that cover the bottom of a well
_MANY = "too many to count"


def microscope(context: Job) -> None:
    """Image cells after compounds are added and during stimulation. The sample keeps what was added."""
    if context.values["mode"] in ("fluorescence", "confocal") and context.values["channels"] is None:
        need(context, "excitation_wavelength", "name channels, or both wavelengths")
        need(context, "emission_wavelength", "name channels, or both wavelengths")
    _need_times(context)
    for vessel in context.samples(*_compounds(context)):
        need_format(vessel, _STAGE, "the stage takes plates, dishes, culture flasks and slides")
        need_apart(vessel)
        need_phase(vessel, (*_WET, GEL, "tissue", "solid"), "imaged")
        if not vessel.contents.of_kind(CELLS, ATTACHED) and vessel.phase != "tissue":
            raise RefusalError(f"no cells: there is nothing to image in {vessel.name}")
        _add_compounds(context, vessel)
        read_or_record(context, vessel, vessel.contents)
    context.how = "What was added is in the books; signals follow the declared curves, and no picture is drawn."


def plate_reader(context: Job) -> None:
    need_wavelengths(context)
    _need_times(context)
    for vessel in context.samples(*_compounds(context)):
        need_format(vessel, _WELLS, "the reader takes microplate wells")
        need_apart(vessel)
        need_phase(vessel, _WET, "read in a plate")
        need_volume(vessel, _LEAST_IN_A_WELL)
        _add_compounds(context, vessel)
        read_or_record(context, vessel, vessel.contents)
    context.how = "What was added is in the books; signals follow the declared curves of the true content."


def image_colonies(context: Job) -> None:
    for vessel in _plates(context):
        read_or_record(context, vessel, vessel.contents)
    context.how = "Images are recorded; the simulation draws none."


def count_colonies(context: Job) -> None:
    """Record the true number of colonies if it is countable, and the number per volume plated if that volume is given."""
    for vessel in _plates(context):
        names = [
            name for name, part in vessel.contents.components.items() if "colon" in name and part.dimension == "count"
        ]
        # A list, because any() on a generator would stop at the first kind of colony.
        counted = [_say_colonies(context, vessel, name) for name in names]
        if not any(counted):
            read_or_record(context, vessel, vessel.contents)
        else:
            read_responses(context, vessel, vessel.contents)
            look_up_all(context, vessel, vessel.contents)
    context.how = "The number of colonies in the books; none where none is known."


def _say_colonies(context: Job, vessel: Vessel, name: str) -> bool:
    true_count = vessel.contents.amount(name)
    if true_count is None:
        return False
    description, number = f"{context.run_of(vessel)}: number of {name}", round(true_count)
    if number > context.number("countable_maximum"):
        context.say(description, "quantitative", _MANY)
        return True
    context.say(description, "quantitative", str(number))
    if context.values["plated_volume"] is not None:
        units = number * context.number("dilution_factor") / context.number("plated_volume") * 1000
        context.say(
            f"{description}, per volume plated", "quantitative", f"{quantities.plain(quantities.tidy(units))} per mL"
        )
    return True


def _plates(context: Job) -> list[Vessel]:
    samples = context.samples()
    for vessel in samples:
        need_format(vessel, _SOLID_MEDIUM, "colonies are imaged on plates and dishes of solid medium")
        if vessel.phase not in (GEL, "solid"):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, not a solid medium")
    return samples


def _compounds(context: Job) -> list[Vessel]:
    """Return the compounds in the order in which they are added."""
    return [context.named(name) for name in ("compound", "second_compound") if context.values[name] is not None]


def _add_compounds(context: Job, vessel: Vessel) -> None:
    for name in ("compound", "second_compound"):
        if context.values[name] is not None:
            compound = context.named(name)
            # The second compound meets a mixture that has already reacted with the first.
            vessel.pour(compound.draw(context.number(f"{name}_volume")), compound)
            meet(context, vessel)
    develop(context, vessel)


def _need_times(context: Job) -> None:
    """Raise RefusalError if the times contradict each other, or a compound has no volume or a stimulus no light."""
    record_time = context.number("record_for") if context.values["record_for"] is not None else ZERO
    for name in ("compound", "second_compound"):
        if context.values[name] is not None:
            need(context, f"{name}_volume", f"how much of the {name.replace('_', ' ')} goes into each sample?")
            if context.number(f"{name}_at") > record_time:
                addition_time, record_end = (
                    quantities.show(seconds, "duration") for seconds in (context.number(f"{name}_at"), record_time)
                )
                raise RefusalError(f"too late: {name} is added at {addition_time}, the record ends at {record_end}")
    if context.values["second_compound"] is not None:
        need(context, "compound", "a second one follows a first")
        if context.number("second_compound_at") < context.number("compound_at"):
            raise RefusalError("wrong order: second_compound_at is before compound_at")
    if (context.values["stimulation_power"] is None) != (context.values["stimulation_wavelength"] is None):
        raise RefusalError("critically unclear: light stimulates with a wavelength and a power, and one is not given")
    if context.values["frame_interval"] is not None and context.number("frame_interval") > record_time:
        raise RefusalError("too long: frame_interval is longer than the record")


HANDLERS: dict[str, Callable[[Job], None]] = {
    "microscope": microscope,
    "plate_reader": plate_reader,
    "image_colonies": image_colonies,
    "count_colonies": count_colonies,
}
