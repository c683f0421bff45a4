"""Functions that all instruments share: use up a load, draw reagents, and record readings or only the run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.declared_numbers import parse_concentration
from simulation.offline.ledger import ZERO, Contents, round_to_grain
from simulation.offline.responses import matches_chosen_materials, record_responses
from simulation.offline.vessels import SMALLEST_DRAW, Phase, RefusalError, Vessel, describe_shortage

_WASH_VOLUME = 300  # µL per wash


class Reagent(NamedTuple):
    """How much of a reagent an action draws."""

    volume: str | int  # the name of a parameter, or µL
    per: str = "run"  # "run", "sample" or "action"
    dilution: str = ""  # a parameter: the reagent is diluted so many times before it is used
    times: Callable[[ActionContext], Decimal | int] = lambda context: 1  # how many times that volume is drawn

    def compute_volume(self, context: ActionContext, samples: int, runs: int) -> Decimal:
        """Return the total volume for all samples and runs in µL."""
        once = Decimal(self.volume) if isinstance(self.volume, int) else context.get_number(self.volume)
        total = once * {"run": runs, "sample": samples, "action": 1}[self.per] * self.times(context)
        return round_to_grain(total / context.get_number(self.dilution)) if self.dilution else total


def _count_washes(context: ActionContext) -> Decimal:
    antibodies = [context.values[name] for name in ("capture_antibody", "primary_antibody", "secondary_antibody")]
    return context.get_number("wash_cycles") * sum(code is not None for code in antibodies)


_ANTIBODY, _WELL = Reagent("antibody_volume", dilution="antibody_dilution"), Reagent("well_volume")
_PRIMARY = Reagent("antibody_volume", dilution="primary_dilution")
# The reagents that each action draws, by the parameter that selects a reagent.
_REAGENTS: dict[str, dict[str, Reagent]] = {
    "CapillaryElectrophoresis": {"background_electrolyte": Reagent(2000, "action")},
    "MassSpectrometry": {"internal_standard": Reagent("internal_standard_volume"), "matrix": Reagent("matrix_volume")},
    "TotalProteinQuantification": {"reagent": Reagent("reagent_volume")},
    "CountLiquidParticles": {"rinse": Reagent(5000, "sample")},
    "CoulterCount": {"electrolyte": Reagent("electrolyte_volume", "sample")},
    "MeasureContactAngle": {"wetting_liquid": Reagent("wetting_liquid_volume", "sample")},
    "DNASequencing": {
        "primer_tube": Reagent(
            "primer_volume", "sample", times=lambda context: 2 if context.values["direction"] == "both" else 1
        )
    },
    "qPCR": {
        "primers": Reagent("primer_volume"),
        "probe": Reagent("probe_volume"),
        "master_mix": Reagent("master_mix_volume"),
    },
    "BioLayerInterferometry": {"ligand": _WELL, "buffer": _WELL, "regeneration_solution": _WELL},
    "CapillaryWestern": {
        "primary_antibody": _PRIMARY,
        "loading_control_antibody": _PRIMARY,
        "secondary_antibody": Reagent("antibody_volume", dilution="secondary_dilution"),
    },
    "CapillaryELISA": {
        "wash_buffer": Reagent(10_000, "action"),
        "capture_antibody": Reagent("antibody_volume"),
        "detection_antibody": Reagent("antibody_volume"),
        "diluent": Reagent("sample_volume", times=lambda context: context.get_number("dilution_factor") - 1),
    },
    "ELISA": {
        "capture_antibody": _ANTIBODY,
        "primary_antibody": _ANTIBODY,
        "secondary_antibody": _ANTIBODY,
        "wash_buffer": Reagent(_WASH_VOLUME, times=_count_washes),
        "blocking_buffer": Reagent(_WASH_VOLUME),
        "substrate": Reagent("substrate_volume"),
        "stop_solution": Reagent("stop_volume"),
    },
}


def _get_reagents(context: ActionContext) -> dict[str, Reagent]:
    return _REAGENTS.get(context.action_type.name, {})


def get_measured_samples(context: ActionContext) -> list[Vessel]:
    """Return the materials to be measured: all except supplies and the reagents that parameters select."""
    reagents = [vessel for name in _get_reagents(context) for vessel in context.list_selected_vessels(name)]
    return context.get_samples(*reagents)


def draw_reagents(context: ActionContext, samples: int, runs: int) -> None:
    """Draw from every selected reagent the volume that all runs need, at least the smallest that a pipette delivers."""
    for name, reagent in _get_reagents(context).items():
        needed = reagent.compute_volume(context, samples, runs)
        for vessel in context.list_selected_vessels(name) if needed > 0 else ():
            vessel.draw_volume(max(needed, SMALLEST_DRAW))


def add_reagents_to_sample(context: ActionContext, sample: Contents) -> Contents:
    """Return the sample with the components of all reagents. Readings may require an antibody, primer or ligand."""
    components = dict(sample.components)
    for name in _get_reagents(context):
        for vessel in context.list_selected_vessels(name):
            # The sample's own amounts take precedence. Declared responses depend only on a reagent's presence.
            components = {**vessel.contents.components, **components}
    return replace(sample, components=components)


def draw_load(vessel: Vessel, volume: Decimal) -> Contents:
    """Remove and return the volume of a sample that the instrument uses up, which may be zero."""
    return vessel.draw_volume(volume) if volume > 0 else Contents()


def require_volume(vessel: Vessel, volume: Decimal) -> None:
    """Raise RefusalError if the sample's volume is known and smaller than the volume that the instrument needs."""
    available = vessel.contents.volume
    if available is not None and available < volume and not vessel.unlimited:
        raise RefusalError(describe_shortage(volume, available, vessel))


def require_phase(vessel: Vessel, phases: Iterable[str], doing: str) -> None:
    """Raise RefusalError if the material is not in one of these phases."""
    if vessel.phase == Phase.EMPTY:
        raise RefusalError(f"empty: there is nothing to be {doing} in {vessel.name}")
    if vessel.phase not in phases:
        vessel.require_liquid(doing)
        raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, which cannot be {doing}")


def require_parameter(context: ActionContext, parameter: str, reason: str) -> None:
    """Raise RefusalError if this parameter, which the run needs, is missing."""
    if context.values[parameter] is None:
        raise RefusalError(f"critically unclear: {parameter} is not given; {reason}")


def record_declared(context: ActionContext, vessel: Vessel, measured: Contents) -> bool:
    """Record every declared reading and look-up of the sample. Return False if there is none."""
    # Both are called before the test: `or` would skip the look-ups where there are readings.
    has_readings, looked_up = record_responses(context, vessel, measured), _record_lookups(context, vessel, measured)
    return has_readings or looked_up


def record_readings(context: ActionContext, vessel: Vessel, measured: Contents) -> None:
    """Record every declared reading of the sample. If there is none, record only that the run was completed."""
    if not record_declared(context, vessel, measured):
        context.record_run(vessel)


def _record_lookups(context: ActionContext, vessel: Vessel, measured: Contents) -> bool:
    """Record the declared text of every look-up that has a value for the sample's origin. Return False if none has."""
    recorded = False
    for lookup in context.list_declared("lookups"):
        if not matches_chosen_materials(context, lookup.get("chosen", {})):
            continue
        if value := find_lookup_text(measured, lookup):
            context.record_observation(f"{context.describe_run(vessel)}: {lookup['signal']}", "instrumental", value)
            recorded = True
    return recorded


def find_lookup_text(measured: Contents, lookup: Mapping[str, Any]) -> str:
    """Return the declared text for the origin of a sample; "" if it lacks a required component or has an excluded one."""
    least = parse_concentration(lookup["visible_from"])[1] if "visible_from" in lookup else ZERO

    def is_present(name: str) -> bool:
        concentration = measured.compute_concentration(name) if least else None
        return measured.get_amount(name) != 0 and (concentration is None or concentration >= least)

    if not all(map(is_present, lookup.get("requires", ()))) or any(map(is_present, lookup.get("without", ()))):
        return ""
    # Different keys may have the same text; that is not a mixture. The order is sorted, so that it is the same in
    # every process.
    values = sorted({lookup["values"][key] for key in measured.origins if key in lookup["values"]})
    if len(values) > 1:
        return str(lookup.get("mixed", "mixed signal of several origins"))
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
