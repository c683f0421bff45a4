"""What instruments have in common: the load they use up, the reagents they draw, and the record where no reading is declared."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.job import Job
from simulation.offline.ledger import Contents, grain
from simulation.offline.responses import chosen_fits, read_responses
from simulation.offline.vessels import EMPTY, SMALLEST_DRAW, RefusalError, Vessel, show

_Volume = Callable[
    [Job, int, int], Decimal
]  # arguments: the action, the number of samples, the number of runs of all samples together
_WASHES_OF_A_WELL = Decimal(300)  # µL per wash


def _each(volume: str) -> _Volume:
    """Return a volume as the parameter gives it, for every run."""
    return lambda context, samples, runs: context.number(volume) * runs


def _diluted(volume: str, dilution: str) -> _Volume:
    """Return the volume that every run takes of a solution that is diluted first."""
    return lambda context, samples, runs: grain(context.number(volume) * runs / context.number(dilution))


def _sample(volume: str) -> _Volume:
    """Return a volume as the parameter gives it, for each sample."""
    return lambda context, samples, runs: context.number(volume) * samples


def _once(volume: str) -> _Volume:
    return lambda context, samples, runs: quantities.parse(volume, "volume").value


def _strands(context: Job, samples: int, runs: int) -> Decimal:
    return context.number("primer_volume") * samples * (2 if context.values["direction"] == "both" else 1)


def _washes(context: Job, samples: int, runs: int) -> Decimal:
    antibodies = [context.values[name] for name in ("capture_antibody", "primary_antibody", "secondary_antibody")]
    return _WASHES_OF_A_WELL * runs * context.number("wash_cycles") * sum(code is not None for code in antibodies)


def _diluent(context: Job, samples: int, runs: int) -> Decimal:
    return context.number("sample_volume") * (context.number("dilution_factor") - 1) * runs


_ANTIBODY = _diluted("antibody_volume", "antibody_dilution")
# What an action draws besides its samples: the parameter that selects it -> the volume in all.
_REAGENTS: dict[str, dict[str, _Volume]] = {
    "CapillaryElectrophoresis": {"background_electrolyte": _once("2 mL")},
    "MassSpectrometry": {"internal_standard": _each("internal_standard_volume"), "matrix": _each("matrix_volume")},
    "TotalProteinQuantification": {"reagent": _each("reagent_volume")},
    "CountLiquidParticles": {"rinse": lambda job, samples, runs: Decimal(5000) * samples},
    "CoulterCount": {"electrolyte": _sample("electrolyte_volume")},
    "MeasureContactAngle": {"wetting_liquid": _sample("wetting_liquid_volume")},
    "DNASequencing": {"primer_tube": _strands},
    "qPCR": {
        "primers": _each("primer_volume"),
        "probe": _each("probe_volume"),
        "master_mix": _each("master_mix_volume"),
    },
    "BioLayerInterferometry": {
        "ligand": _each("well_volume"),
        "buffer": _each("well_volume"),
        "regeneration_solution": _each("well_volume"),
    },
    "CapillaryWestern": {
        "primary_antibody": _diluted("antibody_volume", "primary_dilution"),
        "loading_control_antibody": _diluted("antibody_volume", "primary_dilution"),
        "secondary_antibody": _diluted("antibody_volume", "secondary_dilution"),
    },
    "CapillaryELISA": {
        "wash_buffer": _once("10 mL"),
        "capture_antibody": _each("antibody_volume"),
        "detection_antibody": _each("antibody_volume"),
        "diluent": _diluent,
    },
    "ELISA": {
        "capture_antibody": _ANTIBODY,
        "primary_antibody": _ANTIBODY,
        "secondary_antibody": _ANTIBODY,
        "wash_buffer": _washes,
        "blocking_buffer": lambda job, samples, runs: _WASHES_OF_A_WELL * runs,
        "substrate": _each("substrate_volume"),
        "stop_solution": _each("stop_volume"),
    },
}


def samples_of(context: Job) -> list[Vessel]:
    """Return the materials to be measured: all except supplies and the reagents that parameters select."""
    return context.samples(
        *(vessel for name in _REAGENTS.get(context.kind.name, ()) for vessel in _chosen(context, name))
    )


def draw_reagents(context: Job, samples: int, runs: int) -> None:
    """Draw what all runs need of every selected reagent, but at least the smallest volume a pipette delivers."""
    for name, volume in _REAGENTS.get(context.kind.name, {}).items():
        needed = volume(context, samples, runs)
        for vessel in _chosen(context, name) if needed > 0 else ():
            vessel.draw(max(needed, SMALLEST_DRAW))


def with_reagents(context: Job, sample: Contents) -> Contents:
    """Return the sample as it is measured if a reading may depend on which antibody, primer or ligand is present."""
    components = dict(sample.components)
    for name in _REAGENTS.get(context.kind.name, {}):
        for vessel in _chosen(context, name):
            # Amounts of the sample win. Of a reagent only its presence matters to the declared responses.
            components = {**vessel.contents.components, **components}
    return Contents(components, sample.origins, sample.volume, sample.mass)


def use(vessel: Vessel, volume: Decimal) -> Contents:
    """Remove and return what the instrument uses up of a sample."""
    return vessel.draw(volume) if volume > 0 else Contents()


def need_volume(vessel: Vessel, volume: Decimal) -> None:
    """Raise RefusalError if a known volume does not reach the probe or fill the cell."""
    available = vessel.contents.volume
    if available is not None and available < volume and not vessel.unlimited:
        raise RefusalError(f"short of volume: needs {show(volume)}, {show(available)} usable in {vessel.name}")


def need_phase(vessel: Vessel, phases: Iterable[str], doing: str) -> None:
    """Raise RefusalError if the material is not in one of these phases."""
    if vessel.phase == EMPTY:
        raise RefusalError(f"empty: there is nothing to be {doing} in {vessel.name}")
    if vessel.phase not in phases:
        vessel.need_liquid(doing)
        raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, which cannot be {doing}")


def need(context: Job, parameter: str, reason: str) -> None:
    """Raise RefusalError if a parameter is missing that the run cannot do without."""
    if context.values[parameter] is None:
        raise RefusalError(f"critically unclear: {parameter} is not given; {reason}")


def read_or_record(context: Job, vessel: Vessel, measured: Contents) -> None:
    """Record every declared reading of the sample; if there is none, only that the run was completed."""
    # Both are computed before the test: `or` would skip the look-ups where there are readings.
    has_readings, looked_up = read_responses(context, vessel, measured), look_up_all(context, vessel, measured)
    if not has_readings and not looked_up:
        record(context, vessel)


def record(context: Job, vessel: Vessel) -> None:
    """Record that the run was completed. No number is invented if nothing is declared."""
    context.say(f"{context.run_of(vessel)}: run completed, data file recorded")


def look_up_all(context: Job, vessel: Vessel, measured: Contents) -> bool:
    """Record the declared text of every look-up that has a value for the sample's origin. Return False if none has."""
    declared = [entry for entry in context.declared("lookups") if chosen_fits(context, entry.get("chosen", {}))]
    texts = [(lookup["signal"], look_up(measured, lookup)) for lookup in declared]
    for signal, value in texts:
        if value:
            context.say(f"{context.run_of(vessel)}: {signal}", "instrumental", value)
    return any(value for _, value in texts)


def look_up(measured: Contents, lookup: Mapping[str, Any]) -> str:
    """Return the declared text for the origin of a sample; "" if it lacks a required component or has an excluded one."""
    if any(measured.amount(name) == 0 for name in lookup.get("requires", ())):
        return ""
    if any(measured.amount(name) != 0 for name in lookup.get("without", ())):
        return ""
    # Different keys may have the same text, which is then no mixture; sorted for the same result in every
    # process.
    values = sorted({lookup["values"][key] for key in measured.origins if key in lookup["values"]})
    if len(values) > 1:
        return "mixed signal of several origins"
    return values[0] if values else ""


def shown_number(text: str, dimension: str) -> Decimal | None:
    """Return the number in a property, bare or with a unit, or None if it contains none."""
    try:
        number = quantities.parse(text, dimension).value if dimension else Decimal(text)
    except (ArithmeticError, quantities.QuantityError):
        return None
    return number if number.is_finite() else None


def noisy(context: Job, vessel: Vessel, true_value: Decimal, noise: str, purpose: str) -> list[Decimal]:
    """Return one reading per replicate around the true value. An experiment may declare another noise."""
    relative = Decimal(context.truth.get("noise", {}).get(context.kind.name, noise))
    return [
        true_value * context.noise(vessel, relative, purpose, number) for number in range(context.count("replicates"))
    ]


def _chosen(context: Job, parameter: str) -> list[Vessel]:
    """Return the materials that a selector names. Raises RefusalError if one is a supply, from which nothing can be drawn."""
    value = context.values[parameter]
    codes = (value,) if isinstance(value, str) else value or ()
    for code in codes:
        vessel = context.vessels[code]
        if vessel.is_supply:
            raise RefusalError(f"wrong material: {parameter} is {vessel.name}, which is {vessel.phase}")
    return [context.vessels[code] for code in codes]
