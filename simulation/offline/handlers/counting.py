"""Counting suspended cells and particles, one by one or as the fraction that is fluorescent."""

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
_COUNTED_VOLUME = Decimal(10)  # µL that a cell counter needs
_FEW = (
    25  # variance of the count; below it a normal approximation of the binomial is poor, so events are drawn one by one
)


def cytometry(context: Job) -> None:
    for vessel in context.samples():
        vessel.need_liquid("run through a flow cell")
        if vessel.phase == SEDIMENTED and context.values["mix_first"]:
            vessel.phase = SUSPENSION
        if not vessel.contents.of_kind(CELLS, PARTICLES):
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        loaded = use(vessel, context.number("sample_volume"))
        # A list, because any() on a generator would stop at the first fraction.
        sorted_out = [_sort(context, vessel, loaded, fraction) for fraction in context.declared("fractions")]
        if not read_responses(context, vessel, loaded) and not any(sorted_out):
            record(context, vessel)
    context.how = "Positive events are a binomial draw from the true share of positive cells."


def count_cells(context: Job) -> None:
    if context.number("minimum_diameter") >= context.number("maximum_diameter"):
        raise RefusalError("empty range: minimum_diameter is not below maximum_diameter")
    for vessel in context.changeable():
        vessel.need_liquid("counted")
        counted = _counted(context, vessel.contents, (CELLS,))
        if not counted:
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        if vessel.volume() < _COUNTED_VOLUME:
            needs, available = show(_COUNTED_VOLUME), show(vessel.volume())
            raise RefusalError(f"short of volume: needs {needs}, {available} usable in {vessel.name}")
        for label, names in counted.items():
            settings = f", sample volume {show(vessel.volume())}"
            _say_density(
                context,
                vessel,
                f"{context.run_of(vessel)}{settings}: density of {label}",
                label,
                names,
                vessel.contents,
            )
        # A cell counter takes the whole tube; the remaining volume is not returned.
        vessel.used_up = True
    context.how = "True density with the counter's noise; the samples are used up."


def count_particles(context: Job) -> None:
    """Count particles and cells of a size within the bounds. Those of undeclared size are counted too."""
    if context.number("size_minimum") >= context.number("size_maximum"):
        raise RefusalError("empty range: size_minimum is not below size_maximum")
    samples = samples_of(context)
    for vessel in samples:
        vessel.need_liquid("counted")
        if vessel.phase == SEDIMENTED and _stirred(context):
            vessel.phase = SUSPENSION
        measured = use(vessel, context.number("sample_volume") * _readings_drawn(context))
        counted = _counted(context, measured, (CELLS, PARTICLES))
        in_range = {label: [name for name in names if _in_range(context, name)] for label, names in counted.items()}
        for label, names in in_range.items():
            if names:
                _say_density(context, vessel, f"{context.run_of(vessel)}: density of {label}", label, names, measured)
        if not read_responses(context, vessel, measured) and not any(in_range.values()):
            record(context, vessel)
    draw_reagents(context, len(samples), len(samples))
    context.how = "True density of what lies within the bounds of size, with the counter's noise."


def _stirred(context: Job) -> bool:
    """Return whether the sample is stirred, so that nothing settles while it is counted."""
    return bool(context.values["stir"] if "stir" in context.values else context.values["stirring"])


def _counted(context: Job, contents: Contents, kinds: Sequence[str]) -> dict[str, list[str]]:
    """Return the labels that the counter reports, each with the components counted together that are present."""
    declared = context.truth.get("counted", contents.of_kind(*kinds))
    groups = declared if isinstance(declared, Mapping) else {name: [name] for name in declared}
    present = {label: [name for name in names if contents.amount(name) != 0] for label, names in groups.items()}
    return {label: names for label, names in present.items() if names}


def _say_density(
    context: Job, vessel: Vessel, description: str, label: str, names: Sequence[str], contents: Contents
) -> None:
    """Record one reading per replicate of the total density, or no number if one component is unknown."""
    densities = [contents.concentration(name) for name in names]
    known = [density for density in densities if density is not None]
    if len(known) < len(densities):
        context.say(f"{description}: run completed, data file recorded")
        return
    readings = noisy(context, vessel, sum(known, ZERO), _NOISE, label)
    context.say(
        description,
        "quantitative",
        ", ".join(quantities.show_concentration(label, _three(reading), "count") for reading in readings),
    )


def _readings_drawn(context: Job) -> int:
    """Return how many portions are drawn. A light-beam counter draws one per reading and one to rinse; a Coulter counter dilutes one."""
    if "electrolyte" in context.values:
        return 1
    return context.count("replicates") + (1 if context.values["discard_first"] else 0)


def _in_range(context: Job, name: str) -> bool:
    size_text = context.truth.get("retained", {}).get(name)
    if size_text is None:
        return True
    size = quantities.parse(size_text, "length").value
    return context.number("size_minimum") <= size <= context.number("size_maximum")


def _three(value: Decimal) -> Decimal:
    return Context(prec=3).plus(value)


def _sort(context: Job, vessel: Vessel, loaded: Contents, fraction: Mapping[str, Any]) -> bool:
    total, part = _together(loaded, fraction["of"]), _together(loaded, fraction["part"])
    if not total or part is None:
        return False
    background = Decimal(fraction["background"])
    share = min(Decimal(1), part / total)
    # A sample cannot give more events than it has cells.
    events = min(context.count("events"), int(total))
    if events < 1:
        return False
    # Negative cells are counted as positive with the background's probability, so the share is never below it.
    positive = _binomial(context.rng(vessel, "events"), events, float(share + background * (1 - share)))
    percent = quantities.plain(Context(prec=4).plus(Decimal(100 * positive) / events))
    description = f"{context.run_of(vessel)}: {fraction['signal']}"
    context.say(description, "quantitative", f"{percent} % ({positive} of {events} events)")
    return True


def _together(contents: Contents, names: str | Sequence[str]) -> Decimal | None:
    """Return the amount of one component or the sum of several, or None if one is unknown."""
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
