"""Instruments, probes and immunoassays.

A number is recorded, with seeded noise, only if the true state or a declared response gives it. Probes leave the
sample unchanged or use up a little of it; what is loaded is used up.
"""

from collections.abc import Collection
from decimal import Context, Decimal
from typing import NamedTuple

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.handlers import loading
from simulation.offline.handlers.thermal import require_container_format
from simulation.offline.ledger import Contents
from simulation.offline.responses import compute_signal, record_responses
from simulation.offline.run_conditions import add_carryover, describe_pump_stop
from simulation.offline.vessels import Phase, RefusalError, Vessel, format_volume

_CELL_VOLUME = Decimal(3000)  # µL to cover the three electrodes
_CUVETTE = "cuvette"
_VOLUME_NOISE, _DENSITY_NOISE = "0.01", "0.0005"  # relative standard deviation if the experiment declares none
_READING = "Declared readings, or the value on record with the {}'s noise; no number where there is neither."
_FORMATS = {"HPLC": (("vial", "plate"), "the autosampler takes vials and plates")}
# Actions whose reading may depend on the contents of the reagents.
_BINDING = ("BioLayerInterferometry", "qPCR", "ELISA", "CapillaryELISA", "CapillaryWestern")
_ICP_TAKES = Decimal(500)  # µL for a steady flow into the plasma
_FROM_CURVE = "Signals follow the declared curve of the true content, with the declared noise."


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


def _get_meter_options(action: str) -> dict[str, Collection[str]]:
    return {_METERS[action].selecting_parameter: _METERS[action].volumes}


@handles("probe", _READING.format("probe"), actions=_METERS, options_of=_get_meter_options)
def read_probe(context: ActionContext) -> None:
    """Record declared readings, else the value in the liquid's properties, else only that the run was completed."""
    meter = _METERS[context.action_type.name]
    for vessel in context.get_samples():
        vessel.require_liquid("probed")
        volume = _get_needed_volume(context, meter) if meter.volumes else context.get_number("sample_volume")
        loading.require_volume(vessel, volume)
        if not record_responses(context, vessel, vessel.contents):
            _record_property(context, vessel, meter)


@handles("osmometer", _READING.format("osmometer"), actions=_METERS, options_of=_get_meter_options)
def measure_osmolality(context: ActionContext) -> None:
    """Measure osmolality. Each reading uses up `sample_volume`."""
    meter, volume = _METERS[context.action_type.name], context.get_number("sample_volume")
    minimum = _get_needed_volume(context, meter)
    if volume < minimum:
        least, asked = format_volume(minimum), f"{format_volume(volume)} for {context.values['method']}"
        raise RefusalError(f"below the instrument's minimum of {least}: {asked}")
    for vessel in context.get_samples():
        vessel.require_liquid("measured")
        measured = loading.draw_load(vessel, volume * context.get_whole_number("replicates"))
        if not record_responses(context, vessel, measured):
            _record_property(context, vessel, meter)


@handles("contact_angle", "The declared angle; none where none is declared.")
def measure_contact_angle(context: ActionContext) -> None:
    samples = loading.get_measured_samples(context)
    for vessel in samples:
        loading.require_phase(vessel, ("solid",), "dipped as a fibre")
        loading.record_readings(context, vessel, vessel.contents)
    loading.draw_reagents(context, len(samples), len(samples))


@handles("voltammetry", "Potentials and currents follow the declared curves; none where none is declared.")
def run_voltammetry(context: ActionContext) -> None:
    """Sweep between two potentials in a solution that covers the electrodes."""
    electrode = context.vessels[context.values["reference_electrode"]]
    if electrode.phase in (*Phase.LIQUIDS, Phase.FROZEN) or electrode.unlimited:
        raise RefusalError(f"wrong material: reference_electrode is {electrode.name}, no prepared reference electrode")
    if context.values["start_potential"] == context.values["vertex_potential"]:
        raise RefusalError("no sweep: start_potential and vertex_potential are the same")
    if context.values["end_potential"] is None:
        context.values = {**context.values, "end_potential": context.values["start_potential"]}
    for vessel in context.get_samples(electrode):
        vessel.require_liquid("put in an electrochemical cell")
        loading.require_volume(vessel, _CELL_VOLUME)
        loading.record_readings(context, vessel, vessel.contents)


@handles("spectrometer", "Signals follow the declared curve of the true content, with the declared noise.")
def measure_spectrum(context: ActionContext) -> None:
    """Measure a sample in a cuvette without loss. From any other sample, draw a volume into a cuvette and use it up."""
    require_wavelengths(context)
    for vessel in context.get_samples():
        vessel.require_liquid("measured")
        in_cuvette = _CUVETTE in vessel.container.lower()
        measured = vessel.contents if in_cuvette else loading.draw_load(vessel, context.get_number("sample_volume"))
        loading.record_readings(context, vessel, measured)


@handles(
    "measure_volume",
    "The volume that was really delivered, with the instrument's noise; none where no volume is known.",
)
def measure_volume(context: ActionContext) -> None:
    for vessel in context.get_samples():
        loading.require_phase(vessel, (*Phase.LIQUIDS, Phase.ADHERENT), "measured by volume")
        if (true_volume := vessel.contents.as_delivered().volume) is None:
            context.record_run(vessel)
            continue
        readings = loading.simulate_replicates(context, vessel, true_volume, _VOLUME_NOISE, "volume")
        value = ", ".join(format_volume(Context(prec=4).plus(reading)) for reading in readings)
        context.record_observation(context.describe_run(vessel), "quantitative", value)


@handles(
    "measure_density",
    "The recorded mass divided by the recorded volume, or the declared density, with the instrument's noise.",
)
def measure_density(context: ActionContext) -> None:
    """Record declared readings, else mass divided by volume, else the density in the properties."""
    for vessel in context.get_samples():
        vessel.require_liquid("measured")
        loading.require_volume(vessel, context.get_number("sample_volume"))
        if not record_responses(context, vessel, vessel.contents):
            _record_density(context, vessel)
        if not context.values["recover_sample"]:
            loading.draw_load(vessel, context.get_number("sample_volume"))


def require_wavelengths(context: ActionContext) -> None:
    """Raise RefusalError if a wavelength that the mode needs is missing, or emission is not longer than excitation."""
    mode = context.values["mode"]
    if mode in ("absorbance", "transmittance"):
        loading.require_parameter(context, "wavelength", f"{mode} is read at one")
    if mode == "fluorescence":
        loading.require_parameter(context, "excitation_wavelength", "fluorescence needs both wavelengths")
        loading.require_parameter(context, "emission_wavelength", "fluorescence needs both wavelengths")
        if context.get_number("emission_wavelength") <= context.get_number("excitation_wavelength"):
            raise RefusalError("wrong order: light is emitted at a longer wavelength than it is excited with")


def _get_needed_volume(context: ActionContext, meter: Meter) -> Decimal:
    return quantities.parse_quantity(meter.volumes[context.values[meter.selecting_parameter]], "volume").value


def _record_property(context: ActionContext, vessel: Vessel, meter: Meter) -> None:
    """Record noisy readings of the number in the liquid's properties. If there is none, record only the run."""
    true_value = loading.parse_property_number(str(vessel.properties.get(meter.property_name, "")), meter.dimension)
    if true_value is None:
        context.record_run(vessel)
        return
    readings = loading.simulate_replicates(context, vessel, true_value, meter.noise, meter.property_name)
    value = ", ".join(quantities.format_number(round(reading, meter.decimals)) for reading in readings)
    unit = quantities.base_unit(meter.dimension) if meter.dimension else ""
    context.record_observation(context.describe_run(vessel), "quantitative", f"{value} {unit}".strip())


def _record_density(context: ActionContext, vessel: Vessel) -> None:
    mass, volume = vessel.compute_net_mass(), vessel.contents.as_delivered().volume
    density_text = vessel.properties.get("density")
    if mass is not None and volume:
        true_density = mass / volume / 1000  # µg/µL to g/mL
    elif density_text:
        true_density = quantities.parse_quantity(density_text, "density").value
    else:
        context.record_run(vessel)
        return
    readings = loading.simulate_replicates(context, vessel, true_density, _DENSITY_NOISE, "density")
    value = ", ".join(f"{reading:.4f}" for reading in readings)
    context.record_observation(context.describe_run(vessel), "quantitative", f"{value} g/mL")


def _describe_late_peak(context: ActionContext, measured: Contents) -> str:
    """Return what an HPLC records if the declared retention time is longer than the run; "" if the peak comes in time."""
    run_time = context.get_number("run_time") / 60
    for response in context.list_declared("responses"):
        if response["unit"] == "min" and "retention time" in response["signal"]:
            retention = compute_signal(context, measured, response)
            if retention is not None and retention > run_time:
                return f"no peak within the run time of {context.get_written_setting('run_time')}"
    return ""


@handles("assay", _FROM_CURVE)
def run_assay(context: ActionContext, doing: str = "measured") -> None:
    """Run each sample, use up what is injected or loaded, and record every signal declared for this instrument."""
    name, samples = context.action_type.name, loading.get_measured_samples(context)
    repeat_parameter = next((name for name in ("replicate_injections", "replicates") if name in context.values), "")
    repeats = context.get_whole_number(repeat_parameter) if repeat_parameter else 1
    load = context.get_number("injection_volume" if "injection_volume" in context.values else "sample_volume")
    pump_stop, previous = describe_pump_stop(context) if name == "HPLC" else "", None
    for vessel in samples:
        if name in _FORMATS:
            require_container_format(vessel, *_FORMATS[name])
        vessel.require_liquid(doing)
        if pump_stop:
            context.record_observation(f"{context.describe_run(vessel)}: {pump_stop}")
            continue
        # The volume for all replicates is drawn at once, so that a sample too small for all of them is rejected.
        measured = previous = add_carryover(context, previous, loading.draw_load(vessel, load * repeats))
        if late := _describe_late_peak(context, measured) if name == "HPLC" else "":
            context.record_observation(f"{context.describe_run(vessel)}: {late}")
            continue
        loading.record_readings(
            context, vessel, loading.add_reagents_to_sample(context, measured) if name in _BINDING else measured
        )
    loading.draw_reagents(context, len(samples), len(samples) * repeats)


@handles("mass_spectrum", _FROM_CURVE)
def measure_mass_spectrum(context: ActionContext) -> None:
    """Measure a mass spectrum. Raises RefusalError if ICP lacks elements or sample volume, or MALDI lacks a matrix."""
    if context.values["ionization"] == "ICP":
        loading.require_parameter(context, "elements", "a plasma source measures chosen elements")
        if context.get_number("sample_volume") < _ICP_TAKES:
            least, set_to = format_volume(_ICP_TAKES), format_volume(context.get_number("sample_volume"))
            raise RefusalError(f"below the instrument's minimum of {least}: {set_to} for a reading with ICP")
    if context.values["ionization"] == "MALDI":
        loading.require_parameter(context, "matrix", "MALDI embeds each sample in one")
    if context.get_number("mass_range_low") >= context.get_number("mass_range_high"):
        raise RefusalError("empty range: mass_range_low is not below mass_range_high")
    run_assay(context)


@handles("protein", _FROM_CURVE)
def measure_protein(context: ActionContext) -> None:
    if context.values["assay"] != "absorbance at 280 nm":
        loading.require_parameter(
            context, "reagent", f"the {context.values['assay']} assay colours the protein with one"
        )
    run_assay(context)


@handles("melting_point", "The declared melting point; none where none is declared.")
def measure_melting_point(context: ActionContext) -> None:
    if context.get_number("start_temperature") >= context.get_number("end_temperature"):
        raise RefusalError("empty range: start_temperature is not below end_temperature")
    for vessel in context.get_samples():
        loading.require_phase(vessel, Phase.SOLIDS, "melted in a capillary")
        # Read before the draw, which may empty the vessel.
        measured = vessel.contents
        vessel.draw_mass(context.get_number("sample_mass") * context.get_whole_number("replicates"))
        loading.record_readings(context, vessel, measured)


@handles("western", "Bands are declared readings of the true content; an antibody counts as what is in its tube.")
def run_western_blot(context: ActionContext) -> None:
    """Load each capillary with sample and the selected diluted antibodies, and record the declared bands."""
    run_assay(context, "pipetted")


@handles("elisa", _FROM_CURVE)
def run_elisa(context: ActionContext) -> None:
    """Measure samples with the antibodies that the chosen format needs. Raises RefusalError if one is missing."""
    if context.values.get("format") == "sandwich":
        loading.require_parameter(context, "capture_antibody", "a sandwich starts with one on the plate")
    if context.values.get("format") == "indirect":
        loading.require_parameter(
            context, "secondary_antibody", "the first antibody carries no label in an indirect assay"
        )
    if str(context.values.get("cartridge", "")).startswith("open"):
        loading.require_parameter(context, "capture_antibody", "an open cartridge holds none")
        loading.require_parameter(context, "detection_antibody", "an open cartridge holds none")
    if "dilution_factor" in context.values and context.get_number("dilution_factor") > 1:
        factor = quantities.format_number(context.get_number("dilution_factor"))
        loading.require_parameter(context, "diluent", f"samples are to be diluted {factor} times")
    run_assay(context, "pipetted")


@handles("amplify", _FROM_CURVE)
def amplify_dna(context: ActionContext) -> None:
    """Run qPCR. Raises RefusalError if a needed probe is missing or the volumes do not fit into the reaction."""
    total_volume = context.get_number("sample_volume") + context.get_number("master_mix_volume")
    total_volume += context.get_number("primer_volume") * len(context.values["primers"])
    if context.values["probe"] is not None:
        total_volume += context.get_number("probe_volume")
    elif context.values["detection"] != "intercalating dye":
        loading.require_parameter(context, "probe", f"detection is by {context.values['detection']}")
    if total_volume > context.get_number("reaction_volume"):
        needed, reaction_volume = format_volume(total_volume), format_volume(context.get_number("reaction_volume"))
        raise RefusalError(f"too much volume: {needed} of template and reagents in a reaction of {reaction_volume}")
    run_assay(context, "pipetted")
