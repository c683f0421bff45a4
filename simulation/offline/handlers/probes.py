"""Probes and measuring cells that leave the sample unchanged or use up a little of it."""

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from simulation.lab import quantities
from simulation.offline.handlers.loading import (
    draw_reagents,
    need,
    need_phase,
    need_volume,
    noisy,
    read_or_record,
    record,
    samples_of,
    shown_number,
    use,
)
from simulation.offline.job import Job
from simulation.offline.responses import read_responses
from simulation.offline.vessels import FROZEN, LIQUID, SEDIMENTED, SUSPENSION, RefusalError, Vessel, show


class Meter(NamedTuple):
    """The volume a probe needs, by the option of the parameter that selects it, and the property it can read."""

    chosen_by: str
    needs: dict[str, str]
    shown: str = ""  # of the material; read if no response is declared
    dimension: str = ""  # "" for a bare number
    noise: str = "0"
    places: int = 2


_METERS = {
    "MeasurepH": Meter("probe", {"standard": "1 mL", "micro": "200 µL", "surface": "50 µL"}, "pH", "", "0.003"),
    "MeasureConductivity": Meter("probe", {"standard": "5 mL", "micro": "500 µL"}),
    "MeasureDissolvedOxygen": Meter("probe", dict.fromkeys(("polarographic", "galvanic", "optical"), "2 mL")),
    "MeasureSurfaceTension": Meter("", {}),
    "MeasureOsmolality": Meter(
        "method", {"freezing point depression": "20 µL", "vapour pressure": "10 µL"}, "osmolality", "osmolality", "0.007", 0
    ),
}  # fmt: skip
_CELL_HOLDS = Decimal(3000)  # µL to cover the three electrodes
_CUVETTES = "cuvette"


def probe(context: Job) -> None:
    """Record declared readings, else the value in the liquid's properties, else only the run."""
    meter = _METERS[context.kind.name]
    for vessel in context.samples():
        vessel.need_liquid("probed")
        need_volume(vessel, _immersed(context, meter))
        if not read_responses(context, vessel, vessel.contents):
            _say_property(context, vessel, meter)
    context.how = "Declared readings, or the value on record with the probe's noise; no number where there is neither."


def osmometer(context: Job) -> None:
    """Measure osmolality. Each reading uses up its drop."""
    meter = _METERS[context.kind.name]
    minimum = quantities.parse(meter.needs[context.values[meter.chosen_by]], "volume").value
    if context.number("sample_volume") < minimum:
        set_to = show(context.number("sample_volume"))
        raise RefusalError(
            f"below the instrument's minimum of {show(minimum)}: {set_to} for {context.values['method']}"
        )
    for vessel in context.samples():
        vessel.need_liquid("measured")
        measured = use(vessel, context.number("sample_volume") * context.count("replicates"))
        if not read_responses(context, vessel, measured):
            _say_property(context, vessel, meter)
    context.how = (
        "Declared readings, or the value on record with the osmometer's noise; no number where there is neither."
    )


def contact_angle(context: Job) -> None:
    samples = samples_of(context)
    for vessel in samples:
        need_phase(vessel, ("solid",), "dipped as a fibre")
        read_or_record(context, vessel, vessel.contents)
    draw_reagents(context, len(samples), len(samples))
    context.how = "The declared angle; none where none is declared."


def voltammetry(context: Job) -> None:
    """Sweep between two potentials in a solution that covers the electrodes."""
    electrode = context.vessels[context.values["reference_electrode"]]
    if electrode.phase in (LIQUID, SUSPENSION, SEDIMENTED, FROZEN) or electrode.unlimited:
        raise RefusalError(f"wrong material: reference_electrode is {electrode.name}, no prepared reference electrode")
    if context.values["start_potential"] == context.values["vertex_potential"]:
        raise RefusalError("no sweep: start_potential and vertex_potential are the same")
    for vessel in context.samples(electrode):
        vessel.need_liquid("put in an electrochemical cell")
        need_volume(vessel, _CELL_HOLDS)
        read_or_record(context, vessel, vessel.contents)
    context.how = "Potentials and currents follow the declared curves; none where none is declared."


def spectrometer(context: Job) -> None:
    """Measure a sample in its cuvette; of any other sample, fill one cuvette and use it up."""
    need_wavelengths(context)
    for vessel in context.samples():
        vessel.need_liquid("measured")
        measured = vessel.contents
        if _CUVETTES not in str(vessel.properties.get("container", "")).lower():
            measured = use(vessel, context.number("sample_volume"))
        read_or_record(context, vessel, measured)
    context.how = "Signals follow the declared curve of the true content, with the declared noise."


def need_wavelengths(context: Job) -> None:
    """Raise RefusalError if a wavelength that the mode needs is missing, or emission is not longer than excitation."""
    mode = context.values["mode"]
    if mode in ("absorbance", "transmittance"):
        need(context, "wavelength", f"{mode} is read at one")
    if mode == "fluorescence":
        need(context, "excitation_wavelength", "fluorescence needs both wavelengths")
        need(context, "emission_wavelength", "fluorescence needs both wavelengths")
        if context.number("emission_wavelength") <= context.number("excitation_wavelength"):
            raise RefusalError("wrong order: light is emitted at a longer wavelength than it is excited with")


def _immersed(context: Job, meter: Meter) -> Decimal:
    if not meter.needs:
        return context.number("sample_volume")
    return quantities.parse(meter.needs[context.values[meter.chosen_by]], "volume").value


def _say_property(context: Job, vessel: Vessel, meter: Meter) -> None:
    """Record readings around the number in the liquid's properties, or only the run if there is none."""
    true_value = shown_number(str(vessel.properties.get(meter.shown, "")), meter.dimension)
    if true_value is None:
        record(context, vessel)
        return
    readings = noisy(context, vessel, true_value, meter.noise, meter.shown)
    value = ", ".join(quantities.plain(round(reading, meter.places)) for reading in readings)
    unit = quantities.kept_unit(meter.dimension) if meter.dimension else ""
    context.say(context.run_of(vessel), "quantitative", f"{value} {unit}".strip())


HANDLERS: dict[str, Callable[[Job], None]] = {
    "probe": probe,
    "osmometer": osmometer,
    "contact_angle": contact_angle,
    "voltammetry": voltammetry,
    "spectrometer": spectrometer,
}
