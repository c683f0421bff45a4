"""Instruments. A number comes from the computed state or from a declared response, with seeded noise, or not at all."""

import random
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.chemistry import read_concentration
from simulation.offline.handlers.thermal import need_format
from simulation.offline.job import Job, present
from simulation.offline.ledger import Contents, show_concentration
from simulation.offline.vessels import FROZEN, GEL, SUSPENSION, RefusalError, Vessel, cells_in, show

# Relative standard deviation of one reading where the experiment declares none.
_NOISE = {"CellCounter": "0.05", "MeasureVolume": "0.01", "MeasureWeight": "0.0002", "MeasurepH": "0.003"}
_FORMATS = {"HPLC": (("vial", "plate"), "the autosampler takes vials and plates")}
_COUNTED_VOLUME = Decimal(10)  # µL a cell counter needs
_FEW = 25  # variance below which a count of events is drawn event by event


def assay(job: Job) -> None:
    """Run each sample, use up what is injected or loaded, and read every signal declared for this instrument."""
    times = job.count(_repeats(job)) if _repeats(job) else 1
    load = job.number("injection_volume" if "injection_volume" in job.values else "sample_volume")
    for vessel in job.samples():
        if job.kind.name in _FORMATS:
            need_format(vessel, *_FORMATS[job.kind.name])
        measured = vessel.contents
        vessel.need_liquid("measured")
        use(vessel, load * times)
        read = [_read(job, vessel, measured, response) for response in job.declared("responses")]
        if not any(read):
            record(job, vessel)
    job.how = "Signals are straight-line responses to the true concentration, with the declared noise."


def cytometry(job: Job) -> None:
    for vessel in job.samples():
        if vessel.phase != SUSPENSION:
            vessel.need_liquid("run through a flow cell")
        if not cells_in(vessel.contents):
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        loaded = use(vessel, job.number("sample_volume"))
        read = [_sort(job, vessel, loaded, fraction) for fraction in job.declared("fractions")]
        if not any(read):
            record(job, vessel)
    job.how = "Positive events are a binomial draw from the true share of positive cells."


def count_cells(job: Job) -> None:
    for vessel in job.changeable():
        vessel.need_liquid("counted")
        names = [name for name in job.truth.get("counted", cells_in(vessel.contents)) if present(vessel, [name])]
        if not names:
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        if vessel.volume() < _COUNTED_VOLUME:
            needs, have = show(_COUNTED_VOLUME), show(vessel.volume())
            raise RefusalError(f"short of volume: needs {needs}, {have} usable in {vessel.name}")
        for name in names:
            true = vessel.contents.concentration(name)
            readings = [] if true is None else _noisy(job, vessel, true, name)
            value = ", ".join(show_concentration(name, three(reading), "count") for reading in readings)
            said = f"{job.run_of(vessel)}, sample volume {show(vessel.volume())}: density of {name}"
            job.say(said, "quantitative", value)
        vessel.used_up = True
    job.how = "True density with the counter's noise; the samples are used up."


def measure_volume(job: Job) -> None:
    for vessel in job.samples():
        if vessel.phase == FROZEN:
            vessel.need_liquid("measured")
        true = vessel.contents.volume
        readings = [] if true is None else _noisy(job, vessel, true, "volume")
        value = ", ".join(quantities.show(four(reading), "volume") for reading in readings)
        job.say(f"{job.run_of(vessel)}", "quantitative", value)
    job.how = "The volume in the books with the instrument's noise."


def measure_weight(job: Job) -> None:
    for vessel in job.samples():
        true = vessel.contents.mass
        readings = [] if true is None else _noisy(job, vessel, true, "mass")
        value = ", ".join(quantities.show(reading, "mass") for reading in readings)
        what = "" if readings else ": run completed, data recorded"
        job.say(f"{job.run_of(vessel)}{what}", "quantitative", value)
    job.how = "The mass in the books with the balance's noise; none where no mass is known."


def probe(job: Job) -> None:
    """The pH stands in the properties of a pure liquid, or is not known to the simulation."""
    for vessel in job.samples():
        vessel.need_liquid("probed")
        written = str(vessel.properties.get("pH", ""))
        try:
            true = Decimal(written)
        except ArithmeticError:
            record(job, vessel)
            continue
        value = ", ".join(quantities.plain(round(reading, 2)) for reading in _noisy(job, vessel, true, "pH"))
        job.say(f"{job.run_of(vessel)}", "quantitative", value)
    job.how = "The pH on record with the probe's noise; no number where there is none."


def sequence(job: Job) -> None:
    for vessel in job.samples():
        vessel.need_liquid("sequenced")
        use(vessel, job.number("sample_volume"))
        lookups = job.declared("lookups")
        for lookup in lookups:
            value = look_up(vessel, lookup) or "no readable signal"
            job.say(f"{job.run_of(vessel)}: {lookup['signal']}", "instrumental", value)
        if not lookups:
            record(job, vessel)
    job.how = "The declared sequence of the animal or strain the DNA came from."


def gel(job: Job) -> None:
    ladder = job.vessels.get(job.values["ladder"] or "")
    samples, load = job.samples(), job.number("load_volume")
    slab = Vessel("", {}, Contents(), GEL)
    for vessel in samples:
        vessel.need_liquid("loaded")
        loaded = use(vessel, load)
        slab.contents += loaded
        slab.sources.add(vessel, loaded)
        job.say(f"Gel lane of {vessel.name}", "visual", _lane(job, loaded, vessel is ladder, ladder is not None))
    slab.name = job.free_name(f"Agarose gel, {quantities.plain(job.number('agarose'))} %")
    slab.properties["lanes"] = "; ".join(f"{lane}: {vessel.name}" for lane, vessel in enumerate(samples, start=1))
    job.made.append(slab)
    job.how = "A band is seen where the lane holds at least the declared mass of a declared product."


def use(vessel: Vessel, volume: Decimal) -> Contents:
    """Take what the instrument uses up of a sample."""
    if volume > 0:
        return vessel.draw(volume)
    return Contents()


def record(job: Job, vessel: Vessel) -> None:
    """The honest answer where nothing is declared: it was run, and no number is made up."""
    job.say(f"{job.run_of(vessel)}: run completed, data file recorded")


def look_up(vessel: Vessel, lookup: Mapping[str, Any]) -> str:
    """The declared value of the one origin in it; "" if what is looked at is not in there."""
    if not present(vessel, lookup.get("requires", ())):
        return ""
    found = sorted({lookup["values"][key] for key in vessel.contents.origins if key in lookup["values"]})
    if len(found) > 1:
        return "mixed signal of several origins"
    return found[0] if found else ""


def three(value: Decimal) -> Decimal:
    """Rounded to three significant digits."""
    return Context(prec=3).plus(value)


def four(value: Decimal) -> Decimal:
    return Context(prec=4).plus(value)


def _repeats(job: Job) -> str:
    return next((name for name in ("replicate_injections", "replicates") if name in job.values), "")


def _read(job: Job, vessel: Vessel, measured: Contents, response: Mapping[str, Any]) -> bool:
    """Say one declared signal of a sample; False if it cannot be known."""
    true = measured.concentration(response["component"])
    if true is None:
        return False
    said = f"{job.run_of(vessel)}: {response['signal']}"
    if true < read_concentration(response["detection_limit"])[1]:
        job.say(said, "quantitative", "not detected")
        return True
    if "upper_limit" in response and true > read_concentration(response["upper_limit"])[1]:
        job.say(said, "quantitative", "off scale, above the linear range")
        return True
    signal = (Decimal(response["slope"]) * true * _scale(job, response)) + Decimal(response["intercept"])
    times = job.count(response["repeats"]) if "repeats" in response else 1
    noise = Decimal(response["noise"])
    readings = [signal * job.noise(vessel, noise, response["signal"], number) for number in range(times)]
    text = ", ".join(quantities.plain(four(reading)) for reading in readings)
    job.say(said, "quantitative", f"{text} {response['unit']}".strip())
    return True


def _scale(job: Job, response: Mapping[str, Any]) -> Decimal:
    """How much more is injected than the response is declared for."""
    if "scales_with" not in response:
        return Decimal(1)
    name = response["scales_with"]["parameter"]
    parameter = next(p for p in job.kind.parameters if p.name == name)
    return job.number(name) / Decimal(parameter.read(response["scales_with"]["reference"]))


def _sort(job: Job, vessel: Vessel, loaded: Contents, fraction: Mapping[str, Any]) -> bool:
    whole, part = loaded.amount(fraction["of"]), loaded.amount(fraction["part"])
    if not whole or part is None:
        return False
    background = Decimal(fraction["background"])
    share = min(Decimal(1), part / whole)
    events = min(job.count("events"), int(whole))
    if events < 1:
        return False
    positive = _binomial(job.rng(vessel, "events"), events, float(share + background * (1 - share)))
    percent = quantities.plain(four(Decimal(100 * positive) / events))
    said = f"{job.run_of(vessel)}: {fraction['signal']}"
    job.say(said, "quantitative", f"{percent} % ({positive} of {events} events)")
    return True


def _binomial(rng: random.Random, trials: int, share: float) -> int:
    variance = trials * share * (1 - share)
    if variance > _FEW:
        return min(trials, max(0, round(rng.gauss(trials * share, variance**0.5))))
    return sum(rng.random() < share for _ in range(trials))


def _noisy(job: Job, vessel: Vessel, true: Decimal, what: str) -> list[Decimal]:
    """One reading per replicate around the true value."""
    name = job.kind.name
    noise = Decimal(job.truth.get("noise", {}).get(name, _NOISE[name]))
    return [true * job.noise(vessel, noise, what, number) for number in range(job.count("replicates"))]


def _lane(job: Job, loaded: Contents, is_ladder: bool, has_ladder: bool) -> str:
    if is_ladder:
        return "ladder, steps resolved"
    if "bands" not in job.truth:
        return ""
    bands = []
    for band in job.truth["bands"]:
        mass = loaded.amount(band["component"])
        if mass and mass >= quantities.parse(band["minimum"], "mass").value:
            bands.append(
                f"one band at about {_by_eye(band['length'])}"
                if has_ladder
                else "one band, length not read for want of a ladder"
            )
    return "; ".join(bands) or "no band"


def _by_eye(length: str) -> str:
    """A length as it can be read against a ladder: two digits."""
    return quantities.show(Context(prec=2).plus(quantities.parse(length, "base_pairs").value), "base_pairs")


HANDLERS: dict[str, Callable[[Job], None]] = {
    "assay": assay,
    "cytometry": cytometry,
    "count_cells": count_cells,
    "measure_volume": measure_volume,
    "measure_weight": measure_weight,
    "probe": probe,
    "sequence": sequence,
    "gel": gel,
}
