"""Probes and measuring cells that leave the sample unchanged or use up a little of it."""

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.handlers.loading import (
    draw_load,
    draw_reagents,
    get_measured_samples,
    parse_property_number,
    record_readings,
    record_run,
    require_parameter,
    require_phase,
    require_volume,
    simulate_replicates,
)
from simulation.offline.responses import record_responses
from simulation.offline.vessels import FROZEN, LIQUID, SEDIMENTED, SUSPENSION, RefusalError, Vessel, format_volume


class Meter(NamedTuple):
    """A probe. `volumes` are the volumes it needs, by the option of `selecting_parameter`."""

    selecting_parameter: str
    volumes: dict[str, str]
    property_name: str = ""  # of the material; read if no response is declared
    dimension: str = ""  # "" for a bare number
    noise: str = "0"
    decimals: int = 2


_METERS = {
    "MeasurepH": Meter("probe", {"standard": "1 mL", "micro": "200 µL", "surface": "50 µL"}, "pH", "", "0.003"),
    "MeasureConductivity": Meter("probe", {"standard": "5 mL", "micro": "500 µL"}),
    "MeasureDissolvedOxygen": Meter("probe", dict.fromkeys(("polarographic", "galvanic", "optical"), "2 mL")),
    "MeasureSurfaceTension": Meter("", {}),
    "MeasureOsmolality": Meter(
        "method", {"freezing point depression": "20 µL", "vapour pressure": "10 µL"}, "osmolality", "osmolality", "0.007", 0
    ),
}  # fmt: skip
_CELL_VOLUME = Decimal(3000)  # µL to cover the three electrodes
_CUVETTE = "cuvette"


def read_probe(context: ActionContext) -> None:
    """Record declared readings, else the value in the liquid's properties, else only that the run was completed."""
    meter = _METERS[context.action_type.name]
    for vessel in context.get_samples():
        vessel.require_liquid("probed")
        require_volume(vessel, _compute_immersion_volume(context, meter))
        if not record_responses(context, vessel, vessel.contents):
            _record_property(context, vessel, meter)
    context.reasoning = (
        "Declared readings, or the value on record with the probe's noise; no number where there is neither."
    )


def measure_osmolality(context: ActionContext) -> None:
    """Measure osmolality. Each reading uses up `sample_volume`."""
    meter = _METERS[context.action_type.name]
    minimum = quantities.parse_quantity(meter.volumes[context.values[meter.selecting_parameter]], "volume").value
    if context.get_number("sample_volume") < minimum:
        set_to = format_volume(context.get_number("sample_volume"))
        raise RefusalError(
            f"below the instrument's minimum of {format_volume(minimum)}: {set_to} for {context.values['method']}"
        )
    for vessel in context.get_samples():
        vessel.require_liquid("measured")
        measured = draw_load(vessel, context.get_number("sample_volume") * context.get_whole_number("replicates"))
        if not record_responses(context, vessel, measured):
            _record_property(context, vessel, meter)
    context.reasoning = (
        "Declared readings, or the value on record with the osmometer's noise; no number where there is neither."
    )


def measure_contact_angle(context: ActionContext) -> None:
    samples = get_measured_samples(context)
    for vessel in samples:
        require_phase(vessel, ("solid",), "dipped as a fibre")
        record_readings(context, vessel, vessel.contents)
    draw_reagents(context, len(samples), len(samples))
    context.reasoning = "The declared angle; none where none is declared."


def run_voltammetry(context: ActionContext) -> None:
    """Sweep between two potentials in a solution that covers the electrodes."""
    electrode = context.vessels[context.values["reference_electrode"]]
    if electrode.phase in (LIQUID, SUSPENSION, SEDIMENTED, FROZEN) or electrode.unlimited:
        raise RefusalError(f"wrong material: reference_electrode is {electrode.name}, no prepared reference electrode")
    if context.values["start_potential"] == context.values["vertex_potential"]:
        raise RefusalError("no sweep: start_potential and vertex_potential are the same")
    for vessel in context.get_samples(electrode):
        vessel.require_liquid("put in an electrochemical cell")
        require_volume(vessel, _CELL_VOLUME)
        record_readings(context, vessel, vessel.contents)
    context.reasoning = "Potentials and currents follow the declared curves; none where none is declared."


def measure_spectrum(context: ActionContext) -> None:
    """Measure a sample in a cuvette without loss. From any other sample, draw a volume into a cuvette and use it up."""
    require_wavelengths(context)
    for vessel in context.get_samples():
        vessel.require_liquid("measured")
        measured = vessel.contents
        if _CUVETTE not in str(vessel.properties.get("container", "")).lower():
            measured = draw_load(vessel, context.get_number("sample_volume"))
        record_readings(context, vessel, measured)
    context.reasoning = "Signals follow the declared curve of the true content, with the declared noise."


def require_wavelengths(context: ActionContext) -> None:
    """Raise RefusalError if a wavelength that the mode needs is missing, or emission is not longer than excitation."""
    mode = context.values["mode"]
    if mode in ("absorbance", "transmittance"):
        require_parameter(context, "wavelength", f"{mode} is read at one")
    if mode == "fluorescence":
        require_parameter(context, "excitation_wavelength", "fluorescence needs both wavelengths")
        require_parameter(context, "emission_wavelength", "fluorescence needs both wavelengths")
        if context.get_number("emission_wavelength") <= context.get_number("excitation_wavelength"):
            raise RefusalError("wrong order: light is emitted at a longer wavelength than it is excited with")


def _compute_immersion_volume(context: ActionContext, meter: Meter) -> Decimal:
    if not meter.volumes:
        return context.get_number("sample_volume")
    return quantities.parse_quantity(meter.volumes[context.values[meter.selecting_parameter]], "volume").value


def _record_property(context: ActionContext, vessel: Vessel, meter: Meter) -> None:
    """Record noisy readings of the number in the liquid's properties. If there is none, record only the run."""
    true_value = parse_property_number(str(vessel.properties.get(meter.property_name, "")), meter.dimension)
    if true_value is None:
        record_run(context, vessel)
        return
    readings = simulate_replicates(context, vessel, true_value, meter.noise, meter.property_name)
    value = ", ".join(quantities.format_number(round(reading, meter.decimals)) for reading in readings)
    unit = quantities.base_unit(meter.dimension) if meter.dimension else ""
    context.record_observation(context.describe_run(vessel), "quantitative", f"{value} {unit}".strip())


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "probe": read_probe,
    "osmometer": measure_osmolality,
    "contact_angle": measure_contact_angle,
    "voltammetry": run_voltammetry,
    "spectrometer": measure_spectrum,
}
