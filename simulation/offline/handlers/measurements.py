"""Instruments. A number comes from the computed state or from a declared response, with seeded noise, or is not given."""

from collections.abc import Callable
from decimal import Decimal

from simulation.offline.handlers import counting, weighing
from simulation.offline.handlers.loading import (
    draw_reagents,
    look_up,
    need,
    need_phase,
    read_or_record,
    record,
    samples_of,
    use,
    with_reagents,
)
from simulation.offline.handlers.thermal import need_format
from simulation.offline.job import Job
from simulation.offline.vessels import SOLIDS, RefusalError, show

_FORMATS = {"HPLC": (("vial", "plate"), "the autosampler takes vials and plates")}
# Actions whose reading may depend on the contents of the reagents.
_BINDING = ("BioLayerInterferometry", "qPCR", "ELISA", "CapillaryELISA", "CapillaryWestern")
_ICP_TAKES = Decimal(500)  # µL for a steady flow into the plasma


def assay(context: Job) -> None:
    """Run each sample, use up what is injected or loaded, and record every signal declared for this instrument."""
    samples = samples_of(context)
    repeats = context.count(_repeats(context)) if _repeats(context) else 1
    load = context.number("injection_volume" if "injection_volume" in context.values else "sample_volume")
    for vessel in samples:
        if context.kind.name in _FORMATS:
            need_format(vessel, *_FORMATS[context.kind.name])
        vessel.need_liquid("measured")
        measured = use(vessel, load * repeats)
        read_or_record(context, vessel, with_reagents(context, measured) if context.kind.name in _BINDING else measured)
    draw_reagents(context, len(samples), len(samples) * repeats)
    context.how = "Signals follow the declared curve of the true content, with the declared noise."


def mass_spectrum(context: Job) -> None:
    """Measure a mass spectrum. A plasma source needs elements and a steady flow; MALDI needs a matrix."""
    if context.values["ionization"] == "ICP":
        need(context, "elements", "a plasma source measures chosen elements")
        if context.number("sample_volume") < _ICP_TAKES:
            least, set_to = show(_ICP_TAKES), show(context.number("sample_volume"))
            raise RefusalError(f"below the instrument's minimum of {least}: {set_to} for a reading with ICP")
    if context.values["ionization"] == "MALDI":
        need(context, "matrix", "MALDI embeds each sample in one")
    if context.number("mass_range_low") >= context.number("mass_range_high"):
        raise RefusalError("empty range: mass_range_low is not below mass_range_high")
    assay(context)


def protein(context: Job) -> None:
    if context.values["assay"] != "absorbance at 280 nm":
        need(context, "reagent", f"the {context.values['assay']} assay colours the protein with one")
    assay(context)


def melting_point(context: Job) -> None:
    if context.number("start_temperature") >= context.number("end_temperature"):
        raise RefusalError("empty range: start_temperature is not below end_temperature")
    for vessel in context.samples():
        need_phase(vessel, SOLIDS, "melted in a capillary")
        # Read before the draw, which may empty the vessel.
        measured = vessel.contents
        vessel.draw_mass(context.number("sample_mass") * context.count("replicates"))
        read_or_record(context, vessel, measured)
    context.how = "The declared melting point; none where none is declared."


def sequence(context: Job) -> None:
    samples = samples_of(context)
    draw_reagents(context, len(samples), len(samples))
    for vessel in samples:
        vessel.need_liquid("sequenced")
        loaded = use(vessel, context.number("sample_volume"))
        lookups = context.declared("lookups")
        for lookup in lookups:
            value = look_up(loaded, lookup) or "no readable signal"
            context.say(f"{context.run_of(vessel)}: {lookup['signal']}", "instrumental", value)
        if not lookups:
            record(context, vessel)
    context.how = "The declared sequence of the animal or strain the DNA came from."


def _repeats(context: Job) -> str:
    return next((name for name in ("replicate_injections", "replicates") if name in context.values), "")


HANDLERS: dict[str, Callable[[Job], None]] = {
    **counting.HANDLERS,
    **weighing.HANDLERS,
    "assay": assay,
    "mass_spectrum": mass_spectrum,
    "protein": protein,
    "melting_point": melting_point,
    "sequence": sequence,
}
