"""Functions that all instruments share: use up a load, draw reagents, and record readings or only the run."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.ledger import Contents, round_to_grain
from simulation.offline.responses import matches_chosen_materials, record_responses
from simulation.offline.vessels import EMPTY, SMALLEST_DRAW, RefusalError, Vessel, format_volume

_Volume = Callable[
    [ActionContext, int, int], Decimal
]  # arguments: the action, the number of samples, the number of runs of all samples together
_WASH_VOLUME = Decimal(300)  # µL per wash


def _per_run(volume: str) -> _Volume:
    """Return a function for the total volume of a reagent: the value of the parameter `volume` for every run."""
    return lambda context, samples, runs: context.get_number(volume) * runs


def _per_run_diluted(volume: str, dilution: str) -> _Volume:
    """Return a function for the total volume of a reagent that is diluted first: volume / dilution for every run."""
    return lambda context, samples, runs: round_to_grain(
        context.get_number(volume) * runs / context.get_number(dilution)
    )


def _per_sample(volume: str) -> _Volume:
    """Return a function for the total volume of a reagent: the value of the parameter `volume` for every sample."""
    return lambda context, samples, runs: context.get_number(volume) * samples


def _once_per_action(volume: str) -> _Volume:
    return lambda context, samples, runs: quantities.parse_quantity(volume, "volume").value


def _compute_primer_volume(context: ActionContext, samples: int, runs: int) -> Decimal:
    return context.get_number("primer_volume") * samples * (2 if context.values["direction"] == "both" else 1)


def _compute_wash_volume(context: ActionContext, samples: int, runs: int) -> Decimal:
    antibodies = [context.values[name] for name in ("capture_antibody", "primary_antibody", "secondary_antibody")]
    return _WASH_VOLUME * runs * context.get_number("wash_cycles") * sum(code is not None for code in antibodies)


def _compute_diluent_volume(context: ActionContext, samples: int, runs: int) -> Decimal:
    return context.get_number("sample_volume") * (context.get_number("dilution_factor") - 1) * runs


_ANTIBODY = _per_run_diluted("antibody_volume", "antibody_dilution")
# The reagents that each action draws: the parameter that selects a reagent -> the function for its total volume.
_REAGENTS: dict[str, dict[str, _Volume]] = {
    "CapillaryElectrophoresis": {"background_electrolyte": _once_per_action("2 mL")},
    "MassSpectrometry": {
        "internal_standard": _per_run("internal_standard_volume"),
        "matrix": _per_run("matrix_volume"),
    },
    "TotalProteinQuantification": {"reagent": _per_run("reagent_volume")},
    "CountLiquidParticles": {"rinse": lambda job, samples, runs: Decimal(5000) * samples},
    "CoulterCount": {"electrolyte": _per_sample("electrolyte_volume")},
    "MeasureContactAngle": {"wetting_liquid": _per_sample("wetting_liquid_volume")},
    "DNASequencing": {"primer_tube": _compute_primer_volume},
    "qPCR": {
        "primers": _per_run("primer_volume"),
        "probe": _per_run("probe_volume"),
        "master_mix": _per_run("master_mix_volume"),
    },
    "BioLayerInterferometry": {
        "ligand": _per_run("well_volume"),
        "buffer": _per_run("well_volume"),
        "regeneration_solution": _per_run("well_volume"),
    },
    "CapillaryWestern": {
        "primary_antibody": _per_run_diluted("antibody_volume", "primary_dilution"),
        "loading_control_antibody": _per_run_diluted("antibody_volume", "primary_dilution"),
        "secondary_antibody": _per_run_diluted("antibody_volume", "secondary_dilution"),
    },
    "CapillaryELISA": {
        "wash_buffer": _once_per_action("10 mL"),
        "capture_antibody": _per_run("antibody_volume"),
        "detection_antibody": _per_run("antibody_volume"),
        "diluent": _compute_diluent_volume,
    },
    "ELISA": {
        "capture_antibody": _ANTIBODY,
        "primary_antibody": _ANTIBODY,
        "secondary_antibody": _ANTIBODY,
        "wash_buffer": _compute_wash_volume,
        "blocking_buffer": lambda job, samples, runs: _WASH_VOLUME * runs,
        "substrate": _per_run("substrate_volume"),
        "stop_solution": _per_run("stop_volume"),
    },
}


def get_measured_samples(context: ActionContext) -> list[Vessel]:
    """Return the materials to be measured: all except supplies and the reagents that parameters select."""
    return context.get_samples(
        *(
            vessel
            for name in _REAGENTS.get(context.action_type.name, ())
            for vessel in _get_chosen_vessels(context, name)
        )
    )


def draw_reagents(context: ActionContext, samples: int, runs: int) -> None:
    """Draw from every selected reagent the volume that all runs need, at least the smallest that a pipette delivers."""
    for name, volume in _REAGENTS.get(context.action_type.name, {}).items():
        needed = volume(context, samples, runs)
        for vessel in _get_chosen_vessels(context, name) if needed > 0 else ():
            vessel.draw_volume(max(needed, SMALLEST_DRAW))


def add_reagents_to_sample(context: ActionContext, sample: Contents) -> Contents:
    """Return the sample with the components of all reagents. Readings may require an antibody, primer or ligand."""
    components = dict(sample.components)
    for name in _REAGENTS.get(context.action_type.name, {}):
        for vessel in _get_chosen_vessels(context, name):
            # The sample's own amounts take precedence. Declared responses depend only on a reagent's presence.
            components = {**vessel.contents.components, **components}
    return Contents(components, sample.origins, sample.volume, sample.mass)


def draw_load(vessel: Vessel, volume: Decimal) -> Contents:
    """Remove and return the volume of a sample that the instrument uses up, which may be zero."""
    return vessel.draw_volume(volume) if volume > 0 else Contents()


def require_volume(vessel: Vessel, volume: Decimal) -> None:
    """Raise RefusalError if the sample's volume is known and smaller than the volume that the instrument needs."""
    available = vessel.contents.volume
    if available is not None and available < volume and not vessel.unlimited:
        raise RefusalError(
            f"short of volume: needs {format_volume(volume)}, {format_volume(available)} usable in {vessel.name}"
        )


def require_phase(vessel: Vessel, phases: Iterable[str], doing: str) -> None:
    """Raise RefusalError if the material is not in one of these phases."""
    if vessel.phase == EMPTY:
        raise RefusalError(f"empty: there is nothing to be {doing} in {vessel.name}")
    if vessel.phase not in phases:
        vessel.require_liquid(doing)
        raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, which cannot be {doing}")


def require_parameter(context: ActionContext, parameter: str, reason: str) -> None:
    """Raise RefusalError if this parameter, which the run needs, is missing."""
    if context.values[parameter] is None:
        raise RefusalError(f"critically unclear: {parameter} is not given; {reason}")


def record_readings(context: ActionContext, vessel: Vessel, measured: Contents) -> None:
    """Record every declared reading of the sample. If there is none, record only that the run was completed."""
    # Both are computed before the test: `or` would skip the look-ups where there are readings.
    has_readings, looked_up = record_responses(context, vessel, measured), record_lookups(context, vessel, measured)
    if not has_readings and not looked_up:
        record_run(context, vessel)


def record_run(context: ActionContext, vessel: Vessel) -> None:
    """Record only that the run was completed, without a number, because no reading is declared."""
    context.record_observation(f"{context.describe_run(vessel)}: run completed, data file recorded")


def record_lookups(context: ActionContext, vessel: Vessel, measured: Contents) -> bool:
    """Record the declared text of every look-up that has a value for the sample's origin. Return False if none has."""
    declared = [
        entry
        for entry in context.list_declared("lookups")
        if matches_chosen_materials(context, entry.get("chosen", {}))
    ]
    texts = [(lookup["signal"], find_lookup_text(measured, lookup)) for lookup in declared]
    for signal, value in texts:
        if value:
            context.record_observation(f"{context.describe_run(vessel)}: {signal}", "instrumental", value)
    return any(value for _, value in texts)


def find_lookup_text(measured: Contents, lookup: Mapping[str, Any]) -> str:
    """Return the declared text for the origin of a sample; "" if it lacks a required component or has an excluded one."""
    if any(measured.get_amount(name) == 0 for name in lookup.get("requires", ())):
        return ""
    if any(measured.get_amount(name) != 0 for name in lookup.get("without", ())):
        return ""
    # Different keys may have the same text; that is not a mixture. The order is sorted, so that it is the same in
    # every process.
    values = sorted({lookup["values"][key] for key in measured.origins if key in lookup["values"]})
    if len(values) > 1:
        return "mixed signal of several origins"
    return values[0] if values else ""


def parse_property_number(text: str, dimension: str) -> Decimal | None:
    """Return the number in a property, which is written with or without a unit, or None if there is none."""
    try:
        number = quantities.parse_quantity(text, dimension).value if dimension else Decimal(text)
    except (ArithmeticError, quantities.QuantityError):
        return None
    return number if number.is_finite() else None


def simulate_replicates(
    context: ActionContext, vessel: Vessel, true_value: Decimal, noise: str, purpose: str
) -> list[Decimal]:
    """Return one noisy reading of the true value per replicate. A noise that the experiment declares has precedence."""
    relative = Decimal(context.truth.get("noise", {}).get(context.action_type.name, noise))
    return [
        true_value * context.compute_noise_factor(vessel, relative, purpose, number)
        for number in range(context.get_whole_number("replicates"))
    ]


def _get_chosen_vessels(context: ActionContext, parameter: str) -> list[Vessel]:
    """Return the materials that a selector names. Raises RefusalError if one is a supply, from which nothing can be drawn."""
    value = context.values[parameter]
    codes = (value,) if isinstance(value, str) else value or ()
    for code in codes:
        vessel = context.vessels[code]
        if vessel.is_supply:
            raise RefusalError(f"wrong material: {parameter} is {vessel.name}, which is {vessel.phase}")
    return [context.vessels[code] for code in codes]
