"""Instruments. A number comes from the computed state or from a declared response, with seeded noise, or not at all."""

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
# Actions whose reading may depend on what is in the reagents drawn.
_BINDING = ("BioLayerInterferometry", "qPCR", "ELISA", "CapillaryELISA", "CapillaryWestern")
_ICP_TAKES = Decimal(500)  # µL


def assay(job: Job) -> None:
    """Run each sample, use up what is injected or loaded, and read every signal declared for this instrument."""
    samples = samples_of(job)
    times = job.count(_repeats(job)) if _repeats(job) else 1
    load = job.number("injection_volume" if "injection_volume" in job.values else "sample_volume")
    for vessel in samples:
        if job.kind.name in _FORMATS:
            need_format(vessel, *_FORMATS[job.kind.name])
        vessel.need_liquid("measured")
        measured = use(vessel, load * times)
        read_or_record(job, vessel, with_reagents(job, measured) if job.kind.name in _BINDING else measured)
    draw_reagents(job, len(samples), len(samples) * times)
    job.how = "Signals follow the declared curve of the true content, with the declared noise."


def mass_spectrum(job: Job) -> None:
    """A plasma needs elements to look for and a steady flow; a dried spot needs its matrix."""
    if job.values["ionization"] == "ICP":
        need(job, "elements", "a plasma source measures chosen elements")
        if job.number("sample_volume") < _ICP_TAKES:
            least, set_to = show(_ICP_TAKES), show(job.number("sample_volume"))
            raise RefusalError(f"below the instrument's minimum of {least}: {set_to} for a reading with ICP")
    if job.values["ionization"] == "MALDI":
        need(job, "matrix", "MALDI embeds each sample in one")
    if job.number("mass_range_low") >= job.number("mass_range_high"):
        raise RefusalError("empty range: mass_range_low is not below mass_range_high")
    assay(job)


def protein(job: Job) -> None:
    if job.values["assay"] != "absorbance at 280 nm":
        need(job, "reagent", f"the {job.values['assay']} assay colours the protein with one")
    assay(job)


def melting_point(job: Job) -> None:
    if job.number("start_temperature") >= job.number("end_temperature"):
        raise RefusalError("empty range: start_temperature is not below end_temperature")
    for vessel in job.samples():
        need_phase(vessel, SOLIDS, "melted in a capillary")
        measured = vessel.contents
        vessel.draw_mass(job.number("sample_mass") * job.count("replicates"))
        read_or_record(job, vessel, measured)
    job.how = "The declared melting point; none where none is declared."


def sequence(job: Job) -> None:
    samples = samples_of(job)
    draw_reagents(job, len(samples), len(samples))
    for vessel in samples:
        vessel.need_liquid("sequenced")
        read = use(vessel, job.number("sample_volume"))
        lookups = job.declared("lookups")
        for lookup in lookups:
            value = look_up(read, lookup) or "no readable signal"
            job.say(f"{job.run_of(vessel)}: {lookup['signal']}", "instrumental", value)
        if not lookups:
            record(job, vessel)
    job.how = "The declared sequence of the animal or strain the DNA came from."


def _repeats(job: Job) -> str:
    return next((name for name in ("replicate_injections", "replicates") if name in job.values), "")


HANDLERS: dict[str, Callable[[Job], None]] = {
    **counting.HANDLERS,
    **weighing.HANDLERS,
    "assay": assay,
    "mass_spectrum": mass_spectrum,
    "protein": protein,
    "melting_point": melting_point,
    "sequence": sequence,
}
