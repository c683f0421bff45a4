"""Instruments. A number is recorded, with seeded noise, only if the true state or a declared response gives it."""

from collections.abc import Callable
from decimal import Decimal

from simulation.offline.action_context import ActionContext
from simulation.offline.handlers import counting, weighing
from simulation.offline.handlers.loading import (
    add_reagents_to_sample,
    draw_load,
    draw_reagents,
    find_lookup_text,
    get_measured_samples,
    record_readings,
    record_run,
    require_parameter,
    require_phase,
)
from simulation.offline.handlers.thermal import require_container_format
from simulation.offline.vessels import SOLIDS, RefusalError, format_volume

_FORMATS = {"HPLC": (("vial", "plate"), "the autosampler takes vials and plates")}
# Actions whose reading may depend on the contents of the reagents.
_BINDING = ("BioLayerInterferometry", "qPCR", "ELISA", "CapillaryELISA", "CapillaryWestern")
_ICP_TAKES = Decimal(500)  # µL for a steady flow into the plasma


def run_assay(context: ActionContext) -> None:
    """Run each sample, use up what is injected or loaded, and record every signal declared for this instrument."""
    samples = get_measured_samples(context)
    repeats = context.get_whole_number(_find_repeat_parameter(context)) if _find_repeat_parameter(context) else 1
    load = context.get_number("injection_volume" if "injection_volume" in context.values else "sample_volume")
    for vessel in samples:
        if context.action_type.name in _FORMATS:
            require_container_format(vessel, *_FORMATS[context.action_type.name])
        vessel.require_liquid("measured")
        measured = draw_load(vessel, load * repeats)
        record_readings(
            context,
            vessel,
            add_reagents_to_sample(context, measured) if context.action_type.name in _BINDING else measured,
        )
    draw_reagents(context, len(samples), len(samples) * repeats)
    context.reasoning = "Signals follow the declared curve of the true content, with the declared noise."


def measure_mass_spectrum(context: ActionContext) -> None:
    """Measure a mass spectrum. Raises RefusalError if ICP lacks elements or sample volume, or MALDI lacks a matrix."""
    if context.values["ionization"] == "ICP":
        require_parameter(context, "elements", "a plasma source measures chosen elements")
        if context.get_number("sample_volume") < _ICP_TAKES:
            least, set_to = format_volume(_ICP_TAKES), format_volume(context.get_number("sample_volume"))
            raise RefusalError(f"below the instrument's minimum of {least}: {set_to} for a reading with ICP")
    if context.values["ionization"] == "MALDI":
        require_parameter(context, "matrix", "MALDI embeds each sample in one")
    if context.get_number("mass_range_low") >= context.get_number("mass_range_high"):
        raise RefusalError("empty range: mass_range_low is not below mass_range_high")
    run_assay(context)


def measure_protein(context: ActionContext) -> None:
    if context.values["assay"] != "absorbance at 280 nm":
        require_parameter(context, "reagent", f"the {context.values['assay']} assay colours the protein with one")
    run_assay(context)


def measure_melting_point(context: ActionContext) -> None:
    if context.get_number("start_temperature") >= context.get_number("end_temperature"):
        raise RefusalError("empty range: start_temperature is not below end_temperature")
    for vessel in context.get_samples():
        require_phase(vessel, SOLIDS, "melted in a capillary")
        # Read before the draw, which may empty the vessel.
        measured = vessel.contents
        vessel.draw_mass(context.get_number("sample_mass") * context.get_whole_number("replicates"))
        record_readings(context, vessel, measured)
    context.reasoning = "The declared melting point; none where none is declared."


def sequence_dna(context: ActionContext) -> None:
    samples = get_measured_samples(context)
    draw_reagents(context, len(samples), len(samples))
    for vessel in samples:
        vessel.require_liquid("sequenced")
        loaded = draw_load(vessel, context.get_number("sample_volume"))
        lookups = context.list_declared("lookups")
        for lookup in lookups:
            value = find_lookup_text(loaded, lookup) or "no readable signal"
            context.record_observation(f"{context.describe_run(vessel)}: {lookup['signal']}", "instrumental", value)
        if not lookups:
            record_run(context, vessel)
    context.reasoning = "The declared sequence of the animal or strain the DNA came from."


def _find_repeat_parameter(context: ActionContext) -> str:
    return next((name for name in ("replicate_injections", "replicates") if name in context.values), "")


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    **counting.HANDLERS,
    **weighing.HANDLERS,
    "assay": run_assay,
    "mass_spectrum": measure_mass_spectrum,
    "protein": measure_protein,
    "melting_point": measure_melting_point,
    "sequence": sequence_dna,
}
