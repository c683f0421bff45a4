"""Microscopes and plate readers that add compounds, stimulate and record over time, and cameras for colonies."""

from collections.abc import Callable
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.chemistry import apply_declared_changes, react_on_contact
from simulation.offline.handlers.loading import (
    record_lookups,
    record_readings,
    require_parameter,
    require_phase,
    require_volume,
)
from simulation.offline.handlers.probes import require_wavelengths
from simulation.offline.handlers.thermal import require_container_format, require_separated_wells
from simulation.offline.ledger import ATTACHED, CELLS, ZERO
from simulation.offline.responses import record_responses
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
_STAGE_FORMATS = ("plate", "dish", "culture flask", "slide", "chamber", "coverslip", "well")
_WELL_FORMATS = ("plate", "well")
_COLONY_FORMATS = ("plate", "dish")
_WET = (LIQUID, SUSPENSION, SEDIMENTED, ADHERENT)
_SMALLEST_WELL_VOLUME = Decimal(20)  # µL that cover the bottom of a well
_TOO_MANY = "too many to count"


def image_cells(context: ActionContext) -> None:
    """Image cells after compounds are added and during stimulation. The added compounds stay in the sample."""
    if context.values["mode"] in ("fluorescence", "confocal") and context.values["channels"] is None:
        require_parameter(context, "excitation_wavelength", "name channels, or both wavelengths")
        require_parameter(context, "emission_wavelength", "name channels, or both wavelengths")
    _check_times(context)
    for vessel in context.get_samples(*_list_compounds(context)):
        require_container_format(vessel, _STAGE_FORMATS, "the stage takes plates, dishes, culture flasks and slides")
        require_separated_wells(vessel)
        require_phase(vessel, (*_WET, GEL, "tissue", "solid"), "imaged")
        if not vessel.contents.list_components_of_kind(CELLS, ATTACHED) and vessel.phase != "tissue":
            raise RefusalError(f"no cells: there is nothing to image in {vessel.name}")
        _add_compounds(context, vessel)
        record_readings(context, vessel, vessel.contents)
    context.reasoning = "What was added is in the books; signals follow the declared curves, and no picture is drawn."


def read_plate(context: ActionContext) -> None:
    require_wavelengths(context)
    _check_times(context)
    for vessel in context.get_samples(*_list_compounds(context)):
        require_container_format(vessel, _WELL_FORMATS, "the reader takes microplate wells")
        require_separated_wells(vessel)
        require_phase(vessel, _WET, "read in a plate")
        require_volume(vessel, _SMALLEST_WELL_VOLUME)
        _add_compounds(context, vessel)
        record_readings(context, vessel, vessel.contents)
    context.reasoning = "What was added is in the books; signals follow the declared curves of the true content."


def image_colonies(context: ActionContext) -> None:
    for vessel in _get_plates(context):
        record_readings(context, vessel, vessel.contents)
    context.reasoning = "Images are recorded; the simulation draws none."


def count_colonies(context: ActionContext) -> None:
    """Record the true number of colonies if it is countable, and the number per volume plated if that volume is given."""
    for vessel in _get_plates(context):
        names = [
            name for name, part in vessel.contents.components.items() if "colon" in name and part.dimension == "count"
        ]
        # A list, because any() on a generator would stop at the first kind of colony.
        counted = [_record_colonies(context, vessel, name) for name in names]
        if not any(counted):
            record_readings(context, vessel, vessel.contents)
        else:
            record_responses(context, vessel, vessel.contents)
            record_lookups(context, vessel, vessel.contents)
    context.reasoning = "The number of colonies in the books; none where none is known."


def _record_colonies(context: ActionContext, vessel: Vessel, name: str) -> bool:
    true_count = vessel.contents.get_amount(name)
    if true_count is None:
        return False
    description, number = f"{context.describe_run(vessel)}: number of {name}", round(true_count)
    if number > context.get_number("countable_maximum"):
        context.record_observation(description, "quantitative", _TOO_MANY)
        return True
    context.record_observation(description, "quantitative", str(number))
    if context.values["plated_volume"] is not None:
        units = number * context.get_number("dilution_factor") / context.get_number("plated_volume") * 1000
        context.record_observation(
            f"{description}, per volume plated",
            "quantitative",
            f"{quantities.format_number(quantities.round_for_display(units))} per mL",
        )
    return True


def _get_plates(context: ActionContext) -> list[Vessel]:
    samples = context.get_samples()
    for vessel in samples:
        require_container_format(vessel, _COLONY_FORMATS, "colonies are imaged on plates and dishes of solid medium")
        if vessel.phase not in (GEL, "solid"):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, not a solid medium")
    return samples


def _list_compounds(context: ActionContext) -> list[Vessel]:
    """Return the compounds in the order in which they are added."""
    return [
        context.get_selected_vessel(name)
        for name in ("compound", "second_compound")
        if context.values[name] is not None
    ]


def _add_compounds(context: ActionContext, vessel: Vessel) -> None:
    for name in ("compound", "second_compound"):
        if context.values[name] is not None:
            compound = context.get_selected_vessel(name)
            # The second compound meets a mixture that has already reacted with the first.
            vessel.pour_in(compound.draw_volume(context.get_number(f"{name}_volume")), compound)
            react_on_contact(context, vessel)
    apply_declared_changes(context, vessel)


def _check_times(context: ActionContext) -> None:
    """Raise RefusalError if times contradict each other, or if a compound's volume or a light setting is missing."""
    record_time = context.get_number("record_for") if context.values["record_for"] is not None else ZERO
    for name in ("compound", "second_compound"):
        if context.values[name] is not None:
            require_parameter(
                context, f"{name}_volume", f"how much of the {name.replace('_', ' ')} goes into each sample?"
            )
            if context.get_number(f"{name}_at") > record_time:
                addition_time, record_end = (
                    quantities.format_quantity(seconds, "duration")
                    for seconds in (context.get_number(f"{name}_at"), record_time)
                )
                raise RefusalError(f"too late: {name} is added at {addition_time}, the record ends at {record_end}")
    if context.values["second_compound"] is not None:
        require_parameter(context, "compound", "a second one follows a first")
        if context.get_number("second_compound_at") < context.get_number("compound_at"):
            raise RefusalError("wrong order: second_compound_at is before compound_at")
    if (context.values["stimulation_power"] is None) != (context.values["stimulation_wavelength"] is None):
        raise RefusalError("critically unclear: light stimulates with a wavelength and a power, and one is not given")
    if context.values["frame_interval"] is not None and context.get_number("frame_interval") > record_time:
        raise RefusalError("too long: frame_interval is longer than the record")


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "microscope": image_cells,
    "plate_reader": read_plate,
    "image_colonies": image_colonies,
    "count_colonies": count_colonies,
}
