"""Gels, capillaries and immunoassays. What is loaded is used up, and bands are recorded only where they are declared."""

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

# Only these show DNA. Protein stains leave the declared products invisible.
_DNA_STAINS = ("SYBR Safe", "GelGreen", "SYBR Gold", "ethidium bromide")
_LANES = {"AgaroseGelElectrophoresis": 96, "PAGE": 26}  # in all gels of one run together


def gel(context: Job) -> None:
    _run_gel(context, f"Agarose gel, {quantities.plain(context.number('agarose'))} %")
    context.how = "A band is seen where the lane holds at least the declared mass of a declared product."


def page(context: Job) -> None:
    _run_gel(context, f"Polyacrylamide gel, {quantities.plain(context.number('gel_percent'))} %")
    context.how = "Bands are told by declared readings, or by declared products where a DNA stain shows them."


def western(context: Job) -> None:
    """Load every capillary with sample and each diluted antibody, and record one band per declared reading."""
    _run_wells(context)
    context.how = "Bands are declared readings of the true content; an antibody counts as what is in its tube."


def elisa(context: Job) -> None:
    """Measure samples with the antibodies that the chosen format needs. Raises RefusalError if one is missing."""
    if context.values.get("format") == "sandwich":
        need(context, "capture_antibody", "a sandwich starts with one on the plate")
    if context.values.get("format") == "indirect":
        need(context, "secondary_antibody", "the first antibody carries no label in an indirect assay")
    if str(context.values.get("cartridge", "")).startswith("open"):
        need(context, "capture_antibody", "an open cartridge holds none")
        need(context, "detection_antibody", "an open cartridge holds none")
    if "dilution_factor" in context.values and context.number("dilution_factor") > 1:
        need(
            context, "diluent", f"samples are to be diluted {quantities.plain(context.number('dilution_factor'))} times"
        )
    _run_wells(context)


def amplify(context: Job) -> None:
    """Run qPCR. Raises RefusalError if template, primers, probe and mix do not fit in the reaction."""
    tubes = context.values["primers"]
    total_volume = (
        context.number("sample_volume")
        + context.number("master_mix_volume")
        + context.number("primer_volume") * len(tubes)
    )
    if context.values["probe"] is not None:
        total_volume += context.number("probe_volume")
    elif context.values["detection"] != "intercalating dye":
        need(context, "probe", f"detection is by {context.values['detection']}")
    if total_volume > context.number("reaction_volume"):
        reaction_volume = show(context.number("reaction_volume"))
        raise RefusalError(
            f"too much volume: {show(total_volume)} of template and reagents in a reaction of {reaction_volume}"
        )
    _run_wells(context)


def _run_wells(context: Job) -> None:
    samples = samples_of(context)
    runs = context.count("replicates")
    for vessel in samples:
        vessel.need_liquid("pipetted")
        # Drawn at once for all replicates, so that a sample too small for all of them is rejected as a whole.
        loaded = use(vessel, context.number("sample_volume") * runs)
        read_or_record(context, vessel, with_reagents(context, loaded))
    draw_reagents(context, len(samples), len(samples) * runs)
    context.how = "Signals follow the declared curve of the true content, with the declared noise."


def _run_gel(context: Job, name: str) -> None:
    """Run all samples on one slab, one lane each."""
    ladder = context.vessels.get(context.values["ladder"] or "")
    samples, lane_count = context.samples(), _LANES[context.kind.name]
    if len(samples) > lane_count:
        raise RefusalError(f"too many samples: {len(samples)} for {lane_count} lanes")
    # What is loaded stays in the slab, so that amounts are conserved.
    slab = Vessel("", {}, Contents(), GEL)
    for vessel in samples:
        vessel.need_liquid("loaded")
        loaded = use(vessel, context.number("load_volume"))
        slab.contents += loaded
        slab.sources.add(vessel, loaded)
        _say_lane(context, vessel, loaded, ladder)
    slab.name = context.free_name(name)
    slab.properties["lanes"] = "; ".join(f"{lane}: {vessel.name}" for lane, vessel in enumerate(samples, start=1))
    context.made.append(slab)


def _say_lane(context: Job, vessel: Vessel, loaded: Contents, ladder: Vessel | None) -> None:
    description = f"Gel lane of {vessel.name}"
    if vessel is ladder:
        context.say(description, "visual", "ladder, steps resolved")
        return
    bands = _bands(context, loaded, ladder is not None)
    if bands:
        context.say(description, "visual", bands)
    # Both are computed before the test: `or` would skip the look-ups where there are readings.
    has_readings, looked_up = read_responses(context, vessel, loaded), look_up_all(context, vessel, loaded)
    if not bands and not has_readings and not looked_up:
        context.say(f"{description}: run completed, data file recorded", "visual")


def _bands(context: Job, loaded: Contents, has_ladder: bool) -> str:
    """Describe the declared products in a lane; "" if none is declared or the stain does not show DNA."""
    if "bands" not in context.truth or context.values["stain"] not in _DNA_STAINS:
        return ""
    bands = []
    for band in context.truth["bands"]:
        mass = loaded.amount(band["component"])
        if mass and mass >= quantities.parse(band["minimum"], "mass").value:
            length = f" at about {_by_eye(band['length'])}" if has_ladder else ", length not read for want of a ladder"
            bands.append(f"one band{length}")
    return "; ".join(bands) or "no band"


def _by_eye(length: str) -> str:
    """Return a length to two digits, as it can be read against a ladder."""
    return quantities.show(Context(prec=2).plus(quantities.parse(length, "base_pairs").value), "base_pairs")


HANDLERS: dict[str, Callable[[Job], None]] = {
    "gel": gel,
    "page": page,
    "western": western,
    "elisa": elisa,
    "amplify": amplify,
}
