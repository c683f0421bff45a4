"""What instruments have in common: the load they use up, the reagents they draw, and the record where nothing is declared."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.job import Job
from simulation.offline.ledger import Contents, grain
from simulation.offline.responses import chosen_fits, read_responses
from simulation.offline.vessels import EMPTY, SMALLEST_DRAW, RefusalError, Vessel, show

_Volume = Callable[[Job, int, int], Decimal]  # of a job with so many samples and so many runs in all
_WASHES_OF_A_WELL = Decimal(300)  # µL


def _each(volume: str) -> _Volume:
    """As the parameter says, in every run."""
    return lambda job, samples, runs: job.number(volume) * runs


def _diluted(volume: str, dilution: str) -> _Volume:
    """What every run takes of a solution that is diluted first."""
    return lambda job, samples, runs: grain(job.number(volume) * runs / job.number(dilution))


def _sample(volume: str) -> _Volume:
    """As the parameter says, once for each sample."""
    return lambda job, samples, runs: job.number(volume) * samples


def _once(volume: str) -> _Volume:
    return lambda job, samples, runs: quantities.parse(volume, "volume").value


def _strands(job: Job, samples: int, runs: int) -> Decimal:
    return job.number("primer_volume") * samples * (2 if job.values["direction"] == "both" else 1)


def _washes(job: Job, samples: int, runs: int) -> Decimal:
    antibodies = [job.values[name] for name in ("capture_antibody", "primary_antibody", "secondary_antibody")]
    return _WASHES_OF_A_WELL * runs * job.number("wash_cycles") * sum(code is not None for code in antibodies)


def _diluent(job: Job, samples: int, runs: int) -> Decimal:
    return job.number("sample_volume") * (job.number("dilution_factor") - 1) * runs


_ANTIBODY = _diluted("antibody_volume", "antibody_dilution")
# What an action draws besides its samples: parameter that names it -> how much in all.
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


def samples_of(job: Job) -> list[Vessel]:
    """The materials to be measured: all but supplies and the reagents that parameters name."""
    return job.samples(*(vessel for name in _REAGENTS.get(job.kind.name, ()) for vessel in _chosen(job, name)))


def draw_reagents(job: Job, samples: int, runs: int) -> None:
    """Take what all runs need of every reagent named, with one stroke of a pipette at least."""
    for name, volume in _REAGENTS.get(job.kind.name, {}).items():
        needed = volume(job, samples, runs)
        for vessel in _chosen(job, name) if needed > 0 else ():
            vessel.draw(max(needed, SMALLEST_DRAW))


def with_reagents(job: Job, sample: Contents) -> Contents:
    """The sample as it is measured, where a reading may depend on which antibody, primer or ligand is there."""
    components = dict(sample.components)
    for name in _REAGENTS.get(job.kind.name, {}):
        for vessel in _chosen(job, name):
            components = {**vessel.contents.components, **components}
    return Contents(components, sample.origins, sample.volume, sample.mass)


def use(vessel: Vessel, volume: Decimal) -> Contents:
    """Take what the instrument uses up of a sample."""
    return vessel.draw(volume) if volume > 0 else Contents()


def need_volume(vessel: Vessel, volume: Decimal) -> None:
    """Refuse what does not reach up to the probe or fill the cell, as far as its volume is known."""
    have = vessel.contents.volume
    if have is not None and have < volume and not vessel.unlimited:
        raise RefusalError(f"short of volume: needs {show(volume)}, {show(have)} usable in {vessel.name}")


def need_phase(vessel: Vessel, phases: Iterable[str], doing: str) -> None:
    """Refuse what is in no state to be measured so."""
    if vessel.phase == EMPTY:
        raise RefusalError(f"empty: there is nothing to be {doing} in {vessel.name}")
    if vessel.phase not in phases:
        vessel.need_liquid(doing)
        raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, which cannot be {doing}")


def need(job: Job, parameter: str, why: str) -> None:
    """Refuse a run for want of a setting nobody could do it without."""
    if job.values[parameter] is None:
        raise RefusalError(f"critically unclear: {parameter} is not given; {why}")


def read_or_record(job: Job, vessel: Vessel, measured: Contents) -> None:
    """Every reading declared for the sample; if there is none, only that it was run."""
    read, looked = read_responses(job, vessel, measured), look_up_all(job, vessel, measured)
    if not read and not looked:
        record(job, vessel)


def record(job: Job, vessel: Vessel) -> None:
    """The honest answer where nothing is declared: it was run, and no number is made up."""
    job.say(f"{job.run_of(vessel)}: run completed, data file recorded")


def look_up_all(job: Job, vessel: Vessel, measured: Contents) -> bool:
    """Say the declared text of every look-up that the sample's origin has a value in; False if there is none."""
    declared = [one for one in job.declared("lookups") if chosen_fits(job, one.get("chosen", {}))]
    found = [(lookup["signal"], look_up(measured, lookup)) for lookup in declared]
    for signal, value in found:
        if value:
            job.say(f"{job.run_of(vessel)}: {signal}", "instrumental", value)
    return any(value for _, value in found)


def look_up(measured: Contents, lookup: Mapping[str, Any]) -> str:
    """The declared value of the one origin in it; "" if what is looked at is not in there."""
    if any(measured.amount(name) == 0 for name in lookup.get("requires", ())):
        return ""
    if any(measured.amount(name) != 0 for name in lookup.get("without", ())):
        return ""
    found = sorted({lookup["values"][key] for key in measured.origins if key in lookup["values"]})
    if len(found) > 1:
        return "mixed signal of several origins"
    return found[0] if found else ""


def shown_number(written: str, dimension: str) -> Decimal | None:
    """The number that a property tells, bare or with a unit; None where it tells none."""
    try:
        number = quantities.parse(written, dimension).value if dimension else Decimal(written)
    except (ArithmeticError, quantities.QuantityError):
        return None
    return number if number.is_finite() else None


def noisy(job: Job, vessel: Vessel, true: Decimal, noise: str, what: str) -> list[Decimal]:
    """One reading per replicate around the true value; the experiment may declare another noise."""
    relative = Decimal(job.truth.get("noise", {}).get(job.kind.name, noise))
    return [true * job.noise(vessel, relative, what, number) for number in range(job.count("replicates"))]


def _chosen(job: Job, parameter: str) -> list[Vessel]:
    """The materials that a selector names, one or several; a box or a tool is nothing to draw from."""
    written = job.values[parameter]
    codes = (written,) if isinstance(written, str) else written or ()
    for code in codes:
        vessel = job.vessels[code]
        if vessel.is_supply:
            raise RefusalError(f"wrong material: {parameter} is {vessel.name}, which is {vessel.phase}")
    return [job.vessels[code] for code in codes]
