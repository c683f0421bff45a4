"""Counting suspended cells and particles, one by one or as the fraction that is fluorescent."""

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.handlers.loading import (
    draw_load,
    draw_reagents,
    get_measured_samples,
    record_run,
    simulate_replicates,
)
from simulation.offline.ledger import CELLS, PARTICLES, ZERO, Contents
from simulation.offline.responses import record_responses
from simulation.offline.vessels import SEDIMENTED, SUSPENSION, RefusalError, Vessel, format_volume

_NOISE = "0.05"  # relative standard deviation if the experiment declares none
_COUNTED_VOLUME = Decimal(10)  # µL that a cell counter needs
_FEW = (
    25  # variance of the count; below it a normal approximation of the binomial is poor, so events are drawn one by one
)


def run_cytometry(context: ActionContext) -> None:
    for vessel in context.get_samples():
        vessel.require_liquid("run through a flow cell")
        if vessel.phase == SEDIMENTED and context.values["mix_first"]:
            vessel.phase = SUSPENSION
        if not vessel.contents.list_components_of_kind(CELLS, PARTICLES):
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        loaded = draw_load(vessel, context.get_number("sample_volume"))
        # A list, because any() on a generator would stop at the first fraction.
        sorted_out = [
            _record_fraction(context, vessel, loaded, fraction) for fraction in context.list_declared("fractions")
        ]
        if not record_responses(context, vessel, loaded) and not any(sorted_out):
            record_run(context, vessel)
    context.reasoning = "Positive events are a binomial draw from the true share of positive cells."


def count_cells(context: ActionContext) -> None:
    if context.get_number("minimum_diameter") >= context.get_number("maximum_diameter"):
        raise RefusalError("empty range: minimum_diameter is not below maximum_diameter")
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("counted")
        counted = _group_counted_components(context, vessel.contents, (CELLS,))
        if not counted:
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        if vessel.get_volume() < _COUNTED_VOLUME:
            needs, available = format_volume(_COUNTED_VOLUME), format_volume(vessel.get_volume())
            raise RefusalError(f"short of volume: needs {needs}, {available} usable in {vessel.name}")
        for label, names in counted.items():
            settings = f", sample volume {format_volume(vessel.get_volume())}"
            _record_density(
                context,
                vessel,
                f"{context.describe_run(vessel)}{settings}: density of {label}",
                label,
                names,
                vessel.contents,
            )
        # A cell counter takes the whole tube; the remaining volume is not returned.
        vessel.used_up = True
    context.reasoning = "True density with the counter's noise; the samples are used up."


def count_particles(context: ActionContext) -> None:
    """Count particles and cells whose size is within the bounds. Those of undeclared size are counted as well."""
    if context.get_number("size_minimum") >= context.get_number("size_maximum"):
        raise RefusalError("empty range: size_minimum is not below size_maximum")
    samples = get_measured_samples(context)
    for vessel in samples:
        vessel.require_liquid("counted")
        if vessel.phase == SEDIMENTED and _is_stirred(context):
            vessel.phase = SUSPENSION
        measured = draw_load(vessel, context.get_number("sample_volume") * _count_draws(context))
        counted = _group_counted_components(context, measured, (CELLS, PARTICLES))
        in_range = {
            label: [name for name in names if _is_in_size_range(context, name)] for label, names in counted.items()
        }
        for label, names in in_range.items():
            if names:
                _record_density(
                    context, vessel, f"{context.describe_run(vessel)}: density of {label}", label, names, measured
                )
        if not record_responses(context, vessel, measured) and not any(in_range.values()):
            record_run(context, vessel)
    draw_reagents(context, len(samples), len(samples))
    context.reasoning = "True density of what lies within the bounds of size, with the counter's noise."


def _is_stirred(context: ActionContext) -> bool:
    """Return whether the sample is stirred, so that nothing settles while it is counted."""
    return bool(context.values["stir"] if "stir" in context.values else context.values["stirring"])


def _group_counted_components(context: ActionContext, contents: Contents, kinds: Sequence[str]) -> dict[str, list[str]]:
    """Return, for each label that the counter reports, those components counted under it that are present."""
    declared = context.truth.get("counted", contents.list_components_of_kind(*kinds))
    groups = declared if isinstance(declared, Mapping) else {name: [name] for name in declared}
    present = {label: [name for name in names if contents.get_amount(name) != 0] for label, names in groups.items()}
    return {label: names for label, names in present.items() if names}


def _record_density(
    context: ActionContext, vessel: Vessel, description: str, label: str, names: Sequence[str], contents: Contents
) -> None:
    """Record one reading of the total density per replicate, or no number if the amount of a component is unknown."""
    densities = [contents.compute_concentration(name) for name in names]
    known = [density for density in densities if density is not None]
    if len(known) < len(densities):
        context.record_observation(f"{description}: run completed, data file recorded")
        return
    readings = simulate_replicates(context, vessel, sum(known, ZERO), _NOISE, label)
    context.record_observation(
        description,
        "quantitative",
        ", ".join(
            quantities.format_concentration(label, _round_to_three_digits(reading), "count") for reading in readings
        ),
    )


def _count_draws(context: ActionContext) -> int:
    """Return the number of portions drawn from a sample.

    A light-beam counter draws one per reading, and one more if the first is discarded. A Coulter counter dilutes one.
    """
    if "electrolyte" in context.values:
        return 1
    return context.get_whole_number("replicates") + (1 if context.values["discard_first"] else 0)


def _is_in_size_range(context: ActionContext, name: str) -> bool:
    size_text = context.truth.get("retained", {}).get(name)
    if size_text is None:
        return True
    size = quantities.parse_quantity(size_text, "length").value
    return context.get_number("size_minimum") <= size <= context.get_number("size_maximum")


def _round_to_three_digits(value: Decimal) -> Decimal:
    return Context(prec=3).plus(value)


def _record_fraction(context: ActionContext, vessel: Vessel, loaded: Contents, fraction: Mapping[str, Any]) -> bool:
    total, part = _sum_amounts(loaded, fraction["of"]), _sum_amounts(loaded, fraction["part"])
    if not total or part is None:
        return False
    background = Decimal(fraction["background"])
    share = min(Decimal(1), part / total)
    # A sample cannot give more events than it has cells.
    events = min(context.get_whole_number("events"), int(total))
    if events < 1:
        return False
    # Negative cells are counted as positive with the background's probability, so the share is never below it.
    positive = _draw_binomial(context.create_rng(vessel, "events"), events, float(share + background * (1 - share)))
    percent = quantities.format_number(Context(prec=4).plus(Decimal(100 * positive) / events))
    description = f"{context.describe_run(vessel)}: {fraction['signal']}"
    context.record_observation(description, "quantitative", f"{percent} % ({positive} of {events} events)")
    return True


def _sum_amounts(contents: Contents, names: str | Sequence[str]) -> Decimal | None:
    """Return the amount of one component or the sum of several, or None if one is unknown."""
    amounts = [contents.get_amount(name) for name in ([names] if isinstance(names, str) else names)]
    known = [amount for amount in amounts if amount is not None]
    return sum(known, ZERO) if len(known) == len(amounts) else None


def _draw_binomial(rng: random.Random, trials: int, share: float) -> int:
    variance = trials * share * (1 - share)
    if variance > _FEW:
        return min(trials, max(0, round(rng.gauss(trials * share, variance**0.5))))
    return sum(rng.random() < share for _ in range(trials))


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "cytometry": run_cytometry,
    "count_cells": count_cells,
    "count_particles": count_particles,
}
