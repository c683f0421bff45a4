"""Gels, capillaries and antibodies: what is loaded is used up, and bands are seen only where they are declared."""

from collections.abc import Callable
from decimal import Context

from simulation.lab import quantities
from simulation.offline.handlers.loading import (
    draw_reagents,
    look_up_all,
    need,
    read_or_record,
    samples_of,
    use,
    with_reagents,
)
from simulation.offline.job import Job
from simulation.offline.ledger import Contents
from simulation.offline.responses import read_responses
from simulation.offline.vessels import GEL, RefusalError, Vessel, show

_DNA_STAINS = ("SYBR Safe", "GelGreen", "SYBR Gold", "ethidium bromide")
_LANES = {"AgaroseGelElectrophoresis": 96, "PAGE": 26}  # of all gels of one run


def gel(job: Job) -> None:
    _run_gel(job, f"Agarose gel, {quantities.plain(job.number('agarose'))} %")
    job.how = "A band is seen where the lane holds at least the declared mass of a declared product."


def page(job: Job) -> None:
    _run_gel(job, f"Polyacrylamide gel, {quantities.plain(job.number('gel_percent'))} %")
    job.how = "Bands are told by declared readings, or by declared products where a DNA stain shows them."


def western(job: Job) -> None:
    """Every capillary takes its load of sample and of each diluted antibody; one band per declared reading."""
    _run_wells(job)
    job.how = "Bands are declared readings of the true content; an antibody counts as what is in its tube."


def elisa(job: Job) -> None:
    """Samples are held and seen by the antibodies of the format chosen."""
    if job.values.get("format") == "sandwich":
        need(job, "capture_antibody", "a sandwich starts with one on the plate")
    if job.values.get("format") == "indirect":
        need(job, "secondary_antibody", "the first antibody carries no label in an indirect assay")
    if str(job.values.get("cartridge", "")).startswith("open"):
        need(job, "capture_antibody", "an open cartridge holds none")
        need(job, "detection_antibody", "an open cartridge holds none")
    if "dilution_factor" in job.values and job.number("dilution_factor") > 1:
        need(job, "diluent", f"samples are to be diluted {quantities.plain(job.number('dilution_factor'))} times")
    _run_wells(job)


def amplify(job: Job) -> None:
    """Template, primers, probe and mix must fit in the reaction."""
    tubes = job.values["primers"]
    inside = job.number("sample_volume") + job.number("master_mix_volume") + job.number("primer_volume") * len(tubes)
    if job.values["probe"] is not None:
        inside += job.number("probe_volume")
    elif job.values["detection"] != "intercalating dye":
        need(job, "probe", f"detection is by {job.values['detection']}")
    if inside > job.number("reaction_volume"):
        holds = show(job.number("reaction_volume"))
        raise RefusalError(f"too much volume: {show(inside)} of template and reagents in a reaction of {holds}")
    _run_wells(job)


def _run_wells(job: Job) -> None:
    samples = samples_of(job)
    runs = job.count("replicates")
    for vessel in samples:
        vessel.need_liquid("pipetted")
        loaded = use(vessel, job.number("sample_volume") * runs)
        read_or_record(job, vessel, with_reagents(job, loaded))
    draw_reagents(job, len(samples), len(samples) * runs)
    job.how = "Signals follow the declared curve of the true content, with the declared noise."


def _run_gel(job: Job, name: str) -> None:
    """One slab out of all samples, a lane each."""
    ladder = job.vessels.get(job.values["ladder"] or "")
    samples, most = job.samples(), _LANES[job.kind.name]
    if len(samples) > most:
        raise RefusalError(f"too many samples: {len(samples)} for {most} lanes")
    slab = Vessel("", {}, Contents(), GEL)
    for vessel in samples:
        vessel.need_liquid("loaded")
        loaded = use(vessel, job.number("load_volume"))
        slab.contents += loaded
        slab.sources.add(vessel, loaded)
        _say_lane(job, vessel, loaded, ladder)
    slab.name = job.free_name(name)
    slab.properties["lanes"] = "; ".join(f"{lane}: {vessel.name}" for lane, vessel in enumerate(samples, start=1))
    job.made.append(slab)


def _say_lane(job: Job, vessel: Vessel, loaded: Contents, ladder: Vessel | None) -> None:
    said = f"Gel lane of {vessel.name}"
    if vessel is ladder:
        job.say(said, "visual", "ladder, steps resolved")
        return
    seen = _bands(job, loaded, ladder is not None)
    if seen:
        job.say(said, "visual", seen)
    read, looked = read_responses(job, vessel, loaded), look_up_all(job, vessel, loaded)
    if not seen and not read and not looked:
        job.say(f"{said}: run completed, data file recorded", "visual")


def _bands(job: Job, loaded: Contents, has_ladder: bool) -> str:
    """Declared products in a lane; "" where nothing is declared or the stain shows no DNA."""
    if "bands" not in job.truth or job.values["stain"] not in _DNA_STAINS:
        return ""
    bands = []
    for band in job.truth["bands"]:
        mass = loaded.amount(band["component"])
        if mass and mass >= quantities.parse(band["minimum"], "mass").value:
            length = f" at about {_by_eye(band['length'])}" if has_ladder else ", length not read for want of a ladder"
            bands.append(f"one band{length}")
    return "; ".join(bands) or "no band"


def _by_eye(length: str) -> str:
    """A length as it can be read against a ladder: two digits."""
    return quantities.show(Context(prec=2).plus(quantities.parse(length, "base_pairs").value), "base_pairs")


HANDLERS: dict[str, Callable[[Job], None]] = {
    "gel": gel,
    "page": page,
    "western": western,
    "elisa": elisa,
    "amplify": amplify,
}
