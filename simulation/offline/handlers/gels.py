"""Gels and sequencing: what is read of separated or sequenced DNA and protein.

A band is seen where a lane holds enough of a declared product. A sequence is read from the one primer in the reaction.
"""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.handlers import loading
from simulation.offline.ledger import ONE, Contents
from simulation.offline.responses import list_names
from simulation.offline.vessels import Phase, RefusalError, Vessel

_NO_READ = "no readable signal"
# Only these show DNA. Protein stains leave the declared products invisible.
_DNA_STAINS = ("SYBR Safe", "GelGreen", "SYBR Gold", "ethidium bromide")
_LANES = {"AgaroseGelElectrophoresis": 96, "PAGE": 26}  # in all gels of one run together
_EXPOSURE, _MOST_EXPOSURE = (
    Decimal("0.5"),
    Decimal(20),
)  # s, at which the least visible masses hold; times as much saturates
_MOST_MASS = Decimal("0.5")  # µg of DNA in one band; more smears
# Share of the length times the percentage of agarose: 9 % in 2 % agarose, 6 % in 3 %.
_AGAROSE_RESOLUTION, _ACRYLAMIDE_RESOLUTION = Decimal("0.18"), Decimal("0.02")


class _Band(NamedTuple):
    """DNA of one length in a lane, in bp and µg."""

    length: Decimal
    mass: Decimal


@handles("gel", "A band is seen where the lane holds at least the declared mass of a declared product.", actions=_LANES)
def run_agarose_gel(context: ActionContext) -> None:
    _run_gel(context, f"Agarose gel, {quantities.format_number(context.get_number('agarose'))} %")


@handles(
    "page", "Bands are told by declared readings, or by declared products where a DNA stain shows them.", actions=_LANES
)
def run_polyacrylamide_gel(context: ActionContext) -> None:
    _run_gel(context, f"Polyacrylamide gel, {quantities.format_number(context.get_number('gel_percent'))} %")


@handles(
    "sequence", "The declared sequence of the animal or strain the DNA came from, read from the primer in the reaction."
)
def sequence_dna(context: ActionContext) -> None:
    """Read each sample from the one primer in its reaction. Without one, or from several at once, nothing is readable."""
    samples = loading.get_measured_samples(context)
    tube = context.find_selected_vessel("primer_tube")
    added = _list_primers(tube.contents) if tube else set()
    loading.draw_reagents(context, len(samples), len(samples))
    for vessel in samples:
        vessel.require_liquid("sequenced")
        loaded = loading.draw_load(vessel, context.get_number("sample_volume"))
        lookups = context.list_declared("lookups")
        # Primers of a polymerase chain reaction are in the sample until it is cleaned up.
        primers = added if context.values["clean_up"] else added | _list_primers(loaded)
        for signal, value in _list_reads(context, loaded, lookups, primers) if lookups else []:
            context.record_observation(f"{context.describe_run(vessel)}: {signal}", "instrumental", value)
        if not lookups:
            context.record_run(vessel)


def _list_primers(contents: Contents) -> set[str]:
    return {name for name in contents.components if "primer" in name.lower() and contents.get_amount(name) != 0}


def _list_reads(
    context: ActionContext, loaded: Contents, lookups: Sequence[Mapping[str, Any]], primers: set[str]
) -> list[tuple[str, str]]:
    """Return (signal, text) of each read. A Sanger reaction extends all of its primers, and needs exactly one."""
    reads, from_primer = [], context.values["method"] == "Sanger"
    for lookup in lookups:
        value = loading.find_lookup_text(loaded, lookup)
        binding = list_names(lookup.get("chosen", {}).get("primer_tube", {}).get("holds", ()))
        if not from_primer or not binding or primers.intersection(binding):
            reads.append((lookup["signal"], value or _NO_READ))
    if from_primer and len(primers) > 1 and any(value != _NO_READ for _, value in reads):
        return [("read", "superimposed peaks from the first base on")]
    return reads or [("read", _NO_READ)]


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
    exposure = context.get_number("exposure_time") / _EXPOSURE if "exposure_time" in context.values else ONE
    if exposure > _MOST_EXPOSURE:
        return "whole lane white, image saturated"
    seen = []
    for band in context.truth["bands"]:
        mass, least = (
            loaded.as_delivered().get_amount(band["component"]),
            quantities.parse_quantity(band["minimum"], "mass").value,
        )
        # A short exposure shows only what is bright; a longer one than usual shows no more than the dye does.
        if mass and mass >= least / min(exposure, ONE):
            seen.append(_Band(quantities.parse_quantity(band["length"], "base_pairs").value, mass))
    bands = []
    for band in _merge_bands(sorted(seen), _compute_resolution(context)):
        # Two significant digits: a length is not read more precisely against a ladder.
        length = quantities.format_quantity(Context(prec=2).plus(band.length), "base_pairs")
        look = "one broad, smeared band" if band.mass > _MOST_MASS else "one band"
        bands.append(f"{look} at about {length}" if has_ladder else f"{look}, length not read for want of a ladder")
    return "; ".join(bands) or "no band"


def _compute_resolution(context: ActionContext) -> Decimal:
    """Return the smallest difference of two lengths, as a share of the longer one, that the gel tells apart."""
    if "agarose" in context.values:
        return _AGAROSE_RESOLUTION / context.get_number("agarose")
    return _ACRYLAMIDE_RESOLUTION


def _merge_bands(bands: Sequence[_Band], resolution: Decimal) -> list[_Band]:
    """Return the bands from short to long, with those that run together joined at their mean length by mass."""
    merged: list[_Band] = []
    for band in bands:
        if merged and (band.length - merged[-1].length) / band.length < resolution:
            mass = merged[-1].mass + band.mass
            length = (merged[-1].length * merged[-1].mass + band.length * band.mass) / mass
            merged[-1] = _Band(length, mass)
        else:
            merged.append(band)
    return merged
