"""Counting what is afloat: cells and particles, one by one or by the share that shines."""

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.handlers.loading import draw_reagents, noisy, record, samples_of, use
from simulation.offline.job import Job
from simulation.offline.ledger import CELLS, PARTICLES, ZERO, Contents
from simulation.offline.responses import read_responses
from simulation.offline.vessels import SEDIMENTED, SUSPENSION, RefusalError, Vessel, show

_NOISE = "0.05"  # relative, where the experiment declares none
_COUNTED_VOLUME = Decimal(10)  # µL a cell counter needs
_FEW = 25  # variance below which a count of events is drawn event by event


def cytometry(job: Job) -> None:
    for vessel in job.samples():
        vessel.need_liquid("run through a flow cell")
        if vessel.phase == SEDIMENTED and job.values["mix_first"]:
            vessel.phase = SUSPENSION
        if not vessel.contents.of_kind(CELLS, PARTICLES):
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        loaded = use(vessel, job.number("sample_volume"))
        sorted_out = [_sort(job, vessel, loaded, fraction) for fraction in job.declared("fractions")]
        if not read_responses(job, vessel, loaded) and not any(sorted_out):
            record(job, vessel)
    job.how = "Positive events are a binomial draw from the true share of positive cells."


def count_cells(job: Job) -> None:
    if job.number("minimum_diameter") >= job.number("maximum_diameter"):
        raise RefusalError("empty range: minimum_diameter is not below maximum_diameter")
    for vessel in job.changeable():
        vessel.need_liquid("counted")
        counted = _counted(job, vessel.contents, (CELLS,))
        if not counted:
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        if vessel.volume() < _COUNTED_VOLUME:
            needs, have = show(_COUNTED_VOLUME), show(vessel.volume())
            raise RefusalError(f"short of volume: needs {needs}, {have} usable in {vessel.name}")
        for told, names in counted.items():
            settings = f", sample volume {show(vessel.volume())}"
            _say_density(
                job, vessel, f"{job.run_of(vessel)}{settings}: density of {told}", told, names, vessel.contents
            )
        vessel.used_up = True
    job.how = "True density with the counter's noise; the samples are used up."


def count_particles(job: Job) -> None:
    """Particles and cells of a size within the bounds; one whose size is not declared is counted."""
    if job.number("size_minimum") >= job.number("size_maximum"):
        raise RefusalError("empty range: size_minimum is not below size_maximum")
    samples = samples_of(job)
    for vessel in samples:
        vessel.need_liquid("counted")
        if vessel.phase == SEDIMENTED and _stirred(job):
            vessel.phase = SUSPENSION
        measured = use(vessel, job.number("sample_volume") * _readings_drawn(job))
        counted = _counted(job, measured, (CELLS, PARTICLES))
        inside = {told: [name for name in names if _in_range(job, name)] for told, names in counted.items()}
        for told, names in inside.items():
            if names:
                _say_density(job, vessel, f"{job.run_of(vessel)}: density of {told}", told, names, measured)
        if not read_responses(job, vessel, measured) and not any(inside.values()):
            record(job, vessel)
    draw_reagents(job, len(samples), len(samples))
    job.how = "True density of what lies within the bounds of size, with the counter's noise."


def _stirred(job: Job) -> bool:
    """Whether the sample is kept in motion, so that nothing lies on the bottom while it is counted."""
    return bool(job.values["stir"] if "stir" in job.values else job.values["stirring"])


def _counted(job: Job, contents: Contents, kinds: Sequence[str]) -> dict[str, list[str]]:
    """What the counter tells -> the components counted together as that, as far as they are there."""
    declared = job.truth.get("counted", contents.of_kind(*kinds))
    together = declared if isinstance(declared, Mapping) else {name: [name] for name in declared}
    there = {told: [name for name in names if contents.amount(name) != 0] for told, names in together.items()}
    return {told: names for told, names in there.items() if names}


def _say_density(job: Job, vessel: Vessel, said: str, told: str, names: Sequence[str], contents: Contents) -> None:
    """One reading per replicate of these components together; no number where one of them is not known."""
    densities = [contents.concentration(name) for name in names]
    known = [density for density in densities if density is not None]
    if len(known) < len(densities):
        job.say(f"{said}: run completed, data file recorded")
        return
    readings = noisy(job, vessel, sum(known, ZERO), _NOISE, told)
    job.say(
        said,
        "quantitative",
        ", ".join(quantities.show_concentration(told, _three(reading), "count") for reading in readings),
    )


def _readings_drawn(job: Job) -> int:
    """A beam counter draws for every reading, and once more to rinse; a Coulter counter dilutes one portion."""
    if "electrolyte" in job.values:
        return 1
    return job.count("replicates") + (1 if job.values["discard_first"] else 0)


def _in_range(job: Job, name: str) -> bool:
    written = job.truth.get("retained", {}).get(name)
    if written is None:
        return True
    size = quantities.parse(written, "length").value
    return job.number("size_minimum") <= size <= job.number("size_maximum")


def _three(value: Decimal) -> Decimal:
    """Rounded to three significant digits."""
    return Context(prec=3).plus(value)


def _sort(job: Job, vessel: Vessel, loaded: Contents, fraction: Mapping[str, Any]) -> bool:
    whole, part = _together(loaded, fraction["of"]), _together(loaded, fraction["part"])
    if not whole or part is None:
        return False
    background = Decimal(fraction["background"])
    share = min(Decimal(1), part / whole)
    events = min(job.count("events"), int(whole))
    if events < 1:
        return False
    positive = _binomial(job.rng(vessel, "events"), events, float(share + background * (1 - share)))
    percent = quantities.plain(Context(prec=4).plus(Decimal(100 * positive) / events))
    said = f"{job.run_of(vessel)}: {fraction['signal']}"
    job.say(said, "quantitative", f"{percent} % ({positive} of {events} events)")
    return True


def _together(contents: Contents, names: str | Sequence[str]) -> Decimal | None:
    """The amount of one component, or of several summed; None if one is unknown."""
    amounts = [contents.amount(name) for name in ([names] if isinstance(names, str) else names)]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, ZERO) if len(known) == len(amounts) else None


def _binomial(rng: random.Random, trials: int, share: float) -> int:
    variance = trials * share * (1 - share)
    if variance > _FEW:
        return min(trials, max(0, round(rng.gauss(trials * share, variance**0.5))))
    return sum(rng.random() < share for _ in range(trials))


HANDLERS: dict[str, Callable[[Job], None]] = {
    "cytometry": cytometry,
    "count_cells": count_cells,
    "count_particles": count_particles,
}
