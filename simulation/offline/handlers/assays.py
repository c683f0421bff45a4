"""Instruments, gels, capillaries and immunoassays. What is loaded is used up.

A number or band is recorded, with seeded noise, only if the true state or a declared response gives it.
"""

from decimal import Context, Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.handlers import loading
from simulation.offline.handlers.thermal import require_container_format
from simulation.offline.ledger import Contents
from simulation.offline.vessels import Phase, RefusalError, Vessel, format_volume

_FORMATS = {"HPLC": (("vial", "plate"), "the autosampler takes vials and plates")}
# Actions whose reading may depend on the contents of the reagents.
_BINDING = ("BioLayerInterferometry", "qPCR", "ELISA", "CapillaryELISA", "CapillaryWestern")
_ICP_TAKES = Decimal(500)  # µL for a steady flow into the plasma
# Only these show DNA. Protein stains leave the declared products invisible.
_DNA_STAINS = ("SYBR Safe", "GelGreen", "SYBR Gold", "ethidium bromide")
_LANES = {"AgaroseGelElectrophoresis": 96, "PAGE": 26}  # in all gels of one run together
_FROM_CURVE = "Signals follow the declared curve of the true content, with the declared noise."


@handles("assay", _FROM_CURVE)
def run_assay(context: ActionContext, doing: str = "measured") -> None:
    """Run each sample, use up what is injected or loaded, and record every signal declared for this instrument."""
    name, samples = context.action_type.name, loading.get_measured_samples(context)
    repeat_parameter = next((name for name in ("replicate_injections", "replicates") if name in context.values), "")
    repeats = context.get_whole_number(repeat_parameter) if repeat_parameter else 1
    load = context.get_number("injection_volume" if "injection_volume" in context.values else "sample_volume")
    for vessel in samples:
        if name in _FORMATS:
            require_container_format(vessel, *_FORMATS[name])
        vessel.require_liquid(doing)
        # The volume for all replicates is drawn at once, so that a sample too small for all of them is rejected.
        measured = loading.draw_load(vessel, load * repeats)
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


@handles("sequence", "The declared sequence of the animal or strain the DNA came from.")
def sequence_dna(context: ActionContext) -> None:
    samples = loading.get_measured_samples(context)
    loading.draw_reagents(context, len(samples), len(samples))
    for vessel in samples:
        vessel.require_liquid("sequenced")
        loaded = loading.draw_load(vessel, context.get_number("sample_volume"))
        lookups = context.list_declared("lookups")
        for lookup in lookups:
            value = loading.find_lookup_text(loaded, lookup) or "no readable signal"
            context.record_observation(f"{context.describe_run(vessel)}: {lookup['signal']}", "instrumental", value)
        if not lookups:
            context.record_run(vessel)


@handles("gel", "A band is seen where the lane holds at least the declared mass of a declared product.", actions=_LANES)
def run_agarose_gel(context: ActionContext) -> None:
    _run_gel(context, f"Agarose gel, {quantities.format_number(context.get_number('agarose'))} %")


@handles(
    "page", "Bands are told by declared readings, or by declared products where a DNA stain shows them.", actions=_LANES
)
def run_polyacrylamide_gel(context: ActionContext) -> None:
    _run_gel(context, f"Polyacrylamide gel, {quantities.format_number(context.get_number('gel_percent'))} %")


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


def _run_gel(context: ActionContext, name: str) -> None:
    """Run all samples on one slab, one lane each."""
    ladder = context.vessels.get(context.values["ladder"] or "")
    samples, lane_count = context.get_samples(), _LANES[context.action_type.name]
    if len(samples) > lane_count:
        raise RefusalError(f"too many samples: {len(samples)} for {lane_count} lanes")
    # What is loaded stays in the slab, so that amounts are conserved.
    slab = Vessel("", {}, Contents(), Phase.GEL)
    for vessel in samples:
        vessel.require_liquid("loaded")
        loaded = loading.draw_load(vessel, context.get_number("load_volume"))
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
    if not loading.record_declared(context, vessel, loaded) and not bands:
        context.record_observation(f"{description}: run completed, data file recorded", "visual")


def _describe_bands(context: ActionContext, loaded: Contents, has_ladder: bool) -> str:
    """Return a description of the declared bands in a lane; "" if none is declared or the stain does not show DNA."""
    if "bands" not in context.truth or context.values["stain"] not in _DNA_STAINS:
        return ""
    bands = []
    for band in context.truth["bands"]:
        mass = loaded.get_amount(band["component"])
        if mass and mass >= quantities.parse_quantity(band["minimum"], "mass").value:
            # Two significant digits: a length is not read more precisely against a ladder.
            length = Context(prec=2).plus(quantities.parse_quantity(band["length"], "base_pairs").value)
            read = f" at about {quantities.format_quantity(length, 'base_pairs')}"
            bands.append(f"one band{read if has_ladder else ', length not read for want of a ladder'}")
    return "; ".join(bands) or "no band"
