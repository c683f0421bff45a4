"""Gels, capillaries and immunoassays. What is loaded is used up, and bands are recorded only where they are declared."""

from collections.abc import Callable
from decimal import Context

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.handlers.loading import (
    add_reagents_to_sample,
    draw_load,
    draw_reagents,
    get_measured_samples,
    record_lookups,
    record_readings,
    require_parameter,
)
from simulation.offline.ledger import Contents
from simulation.offline.responses import record_responses
from simulation.offline.vessels import GEL, RefusalError, Vessel, format_volume

# Only these show DNA. Protein stains leave the declared products invisible.
_DNA_STAINS = ("SYBR Safe", "GelGreen", "SYBR Gold", "ethidium bromide")
_LANES = {"AgaroseGelElectrophoresis": 96, "PAGE": 26}  # in all gels of one run together


def run_agarose_gel(context: ActionContext) -> None:
    _run_gel(context, f"Agarose gel, {quantities.format_number(context.get_number('agarose'))} %")
    context.reasoning = "A band is seen where the lane holds at least the declared mass of a declared product."


def run_polyacrylamide_gel(context: ActionContext) -> None:
    _run_gel(context, f"Polyacrylamide gel, {quantities.format_number(context.get_number('gel_percent'))} %")
    context.reasoning = "Bands are told by declared readings, or by declared products where a DNA stain shows them."


def run_western_blot(context: ActionContext) -> None:
    """Load each capillary with sample and the selected diluted antibodies, and record the declared bands."""
    _measure_wells(context)
    context.reasoning = "Bands are declared readings of the true content; an antibody counts as what is in its tube."


def run_elisa(context: ActionContext) -> None:
    """Measure samples with the antibodies that the chosen format needs. Raises RefusalError if one is missing."""
    if context.values.get("format") == "sandwich":
        require_parameter(context, "capture_antibody", "a sandwich starts with one on the plate")
    if context.values.get("format") == "indirect":
        require_parameter(context, "secondary_antibody", "the first antibody carries no label in an indirect assay")
    if str(context.values.get("cartridge", "")).startswith("open"):
        require_parameter(context, "capture_antibody", "an open cartridge holds none")
        require_parameter(context, "detection_antibody", "an open cartridge holds none")
    if "dilution_factor" in context.values and context.get_number("dilution_factor") > 1:
        require_parameter(
            context,
            "diluent",
            f"samples are to be diluted {quantities.format_number(context.get_number('dilution_factor'))} times",
        )
    _measure_wells(context)


def amplify_dna(context: ActionContext) -> None:
    """Run qPCR. Raises RefusalError if a needed probe is missing or the volumes do not fit into the reaction."""
    tubes = context.values["primers"]
    total_volume = (
        context.get_number("sample_volume")
        + context.get_number("master_mix_volume")
        + context.get_number("primer_volume") * len(tubes)
    )
    if context.values["probe"] is not None:
        total_volume += context.get_number("probe_volume")
    elif context.values["detection"] != "intercalating dye":
        require_parameter(context, "probe", f"detection is by {context.values['detection']}")
    if total_volume > context.get_number("reaction_volume"):
        reaction_volume = format_volume(context.get_number("reaction_volume"))
        raise RefusalError(
            f"too much volume: {format_volume(total_volume)} of template and reagents in a reaction of {reaction_volume}"
        )
    _measure_wells(context)


def _measure_wells(context: ActionContext) -> None:
    samples = get_measured_samples(context)
    runs = context.get_whole_number("replicates")
    for vessel in samples:
        vessel.require_liquid("pipetted")
        # The volume for all replicates is drawn at once, so that a sample too small for all of them is rejected.
        loaded = draw_load(vessel, context.get_number("sample_volume") * runs)
        record_readings(context, vessel, add_reagents_to_sample(context, loaded))
    draw_reagents(context, len(samples), len(samples) * runs)
    context.reasoning = "Signals follow the declared curve of the true content, with the declared noise."


def _run_gel(context: ActionContext, name: str) -> None:
    """Run all samples on one slab, one lane each."""
    ladder = context.vessels.get(context.values["ladder"] or "")
    samples, lane_count = context.get_samples(), _LANES[context.action_type.name]
    if len(samples) > lane_count:
        raise RefusalError(f"too many samples: {len(samples)} for {lane_count} lanes")
    # What is loaded stays in the slab, so that amounts are conserved.
    slab = Vessel("", {}, Contents(), GEL)
    for vessel in samples:
        vessel.require_liquid("loaded")
        loaded = draw_load(vessel, context.get_number("load_volume"))
        slab.contents += loaded
        slab.sources.add_from_vessel(vessel, loaded)
        _record_lane(context, vessel, loaded, ladder)
    slab.name = context.reserve_name(name)
    slab.properties["lanes"] = "; ".join(f"{lane}: {vessel.name}" for lane, vessel in enumerate(samples, start=1))
    context.new_vessels.append(slab)


def _record_lane(context: ActionContext, vessel: Vessel, loaded: Contents, ladder: Vessel | None) -> None:
    description = f"Gel lane of {vessel.name}"
    if vessel is ladder:
        context.record_observation(description, "visual", "ladder, steps resolved")
        return
    bands = _describe_bands(context, loaded, ladder is not None)
    if bands:
        context.record_observation(description, "visual", bands)
    # Both are computed before the test: `or` would skip the look-ups where there are readings.
    has_readings, looked_up = record_responses(context, vessel, loaded), record_lookups(context, vessel, loaded)
    if not bands and not has_readings and not looked_up:
        context.record_observation(f"{description}: run completed, data file recorded", "visual")


def _describe_bands(context: ActionContext, loaded: Contents, has_ladder: bool) -> str:
    """Return a description of the declared bands in a lane; "" if none is declared or the stain does not show DNA."""
    if "bands" not in context.truth or context.values["stain"] not in _DNA_STAINS:
        return ""
    bands = []
    for band in context.truth["bands"]:
        mass = loaded.get_amount(band["component"])
        if mass and mass >= quantities.parse_quantity(band["minimum"], "mass").value:
            length = (
                f" at about {_estimate_length(band['length'])}"
                if has_ladder
                else ", length not read for want of a ladder"
            )
            bands.append(f"one band{length}")
    return "; ".join(bands) or "no band"


def _estimate_length(length: str) -> str:
    """Return a length rounded to two significant digits, as precisely as it can be read against a ladder."""
    return quantities.format_quantity(
        Context(prec=2).plus(quantities.parse_quantity(length, "base_pairs").value), "base_pairs"
    )


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "gel": run_agarose_gel,
    "page": run_polyacrylamide_gel,
    "western": run_western_blot,
    "elisa": run_elisa,
    "amplify": amplify_dna,
}
