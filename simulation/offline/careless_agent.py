"""The seeded lapses of a careless experimenter: how the agent of the cast `offline-lapses` departs from the protocol.

- skipped control: a step whose role is control or calibration is left out
- skipped replicate: one material is left out of a step that treats several alike
- wrong order: a step is done one position too late, after the step that should follow it
- wrong amount: a volume, mass or duration is ten times, a tenth, twice or half of what the protocol states
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.lab.experiment_checks import find_references
from simulation.lab.experiments import ExperimentSpec

_AMOUNTS = ("volume", "mass", "duration")
_MOST_LAPSES = 3

Steps = list[tuple[int, Mapping[str, Any]]]  # (position in the protocol, from 1; step)


class Lapse(NamedTuple):
    """One departure from the protocol. `step` is its position in the protocol, from 1."""

    kind: str
    step: int
    note: str


def plan_careless_protocol(spec: ExperimentSpec, seed: int) -> tuple[tuple[Mapping[str, Any], ...], tuple[Lapse, ...]]:
    """Return the protocol as a careless experimenter follows it, and its lapses: one to three, chosen by the seed."""
    rng = random.Random(f"{seed}:lapses:{spec.slug}")
    steps: Steps = list(enumerate(spec.protocol, start=1))
    lapses: list[Lapse] = []
    kinds = [rng.choice(_LAPSE_KINDS) for _ in range(rng.randint(1, _MOST_LAPSES))]
    for lapse in kinds:
        recorded = lapse(steps, {lapse.step for lapse in lapses}, rng)
        if recorded is not None:
            lapses.append(recorded)
    # If none of the drawn kinds fits this protocol, two steps are swapped.
    if not lapses and (recorded := _swap_steps(steps, set(), rng)):
        lapses.append(recorded)
    return tuple(step for _, step in steps), tuple(lapses)


def _skip_control(steps: Steps, spoiled: set[int], rng: random.Random) -> Lapse | None:
    candidates = [i for i, (position, step) in enumerate(steps) if step.get("role") in ("control", "calibration")
            and position not in spoiled]  # fmt: skip
    if not candidates:
        return None
    position, step = steps.pop(rng.choice(candidates))
    return Lapse("skipped control", position, f"{step['action']} ({step['role']}) was left out")


def _skip_replicate(steps: Steps, spoiled: set[int], rng: random.Random) -> Lapse | None:
    candidates = [
        (i, ref)
        for i, (position, step) in enumerate(steps)
        if position not in spoiled
        for ref in _list_replicates(step)
    ]
    if not candidates:
        return None
    index, left_out = rng.choice(candidates)
    position, step = steps[index]
    steps[index] = (position, {**step, "materials": [ref for ref in step["materials"] if ref != left_out]})
    return Lapse("skipped replicate", position, f"{step['action']} was done without {left_out}")


def _list_replicates(step: Mapping[str, Any]) -> list[str]:
    """Return the materials of a step if any one of them can be left out, else an empty list.

    None can be left out if there is only one, if a parameter names a material, or if the step yields materials.
    """
    in_parameters = {ref for value in step.get("parameters", {}).values() for ref in find_references(value)}
    free = [ref for ref in step["materials"] if ref not in in_parameters]
    return free if len(free) > 1 and not in_parameters and not step.get("yields") else []


def _swap_steps(steps: Steps, spoiled: set[int], rng: random.Random) -> Lapse | None:
    candidates = [
        i
        # Only where the later step uses the same materials; swapping independent steps would be no lapse.
        for i in range(len(steps) - 1)
        if not spoiled & {steps[i][0], steps[i + 1][0]} and _depends_on(steps[i + 1][1], steps[i][1])
    ]
    if not candidates:
        return None
    index = rng.choice(candidates)
    steps[index], steps[index + 1] = steps[index + 1], steps[index]
    position, step = steps[index + 1]
    return Lapse("wrong order", position, f"{step['action']} was done after {steps[index][1]['action']}, not before it")


def _depends_on(later: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    return bool(set(later["materials"]) & {*earlier["materials"], *earlier.get("yields", {})})


def _change_amount(steps: Steps, spoiled: set[int], rng: random.Random) -> Lapse | None:
    candidates = [
        (i, name, dimension)
        for i, (position, step) in enumerate(steps)
        if position not in spoiled
        for name, value in step.get("parameters", {}).items()
        if (dimension := _find_dimension(value))
    ]
    if not candidates:
        return None
    index, name, dimension = rng.choice(candidates)
    position, step = steps[index]
    correct = step["parameters"][name]
    factor = quantities.parse_quantity(rng.choice(("10", "0.1", "2", "0.5")), "count").value
    wrong = quantities.format_quantity(quantities.parse_quantity(correct, dimension).value * factor, dimension)
    steps[index] = (position, {**step, "parameters": {**step["parameters"], name: wrong}})
    return Lapse("wrong amount", position, f"{name} of {step['action']} was {wrong}, not {correct}")


def _find_dimension(value: Any) -> str:
    """Return the dimension of an amount that is written with its unit; "" for anything else."""
    # A bare number may be a count of cycles or replicates, so it is not taken for an amount.
    if not isinstance(value, str) or value.strip().lstrip("+-").replace(".", "").isdigit():
        return ""
    for dimension in _AMOUNTS:
        try:
            quantities.parse_quantity(value, dimension)
        except quantities.QuantityError:
            continue
        return dimension
    return ""


# This order must not change, because another order would give other lapses for the same seed.
_LAPSE_KINDS: tuple[Callable[[Steps, set[int], random.Random], Lapse | None], ...] = (
    _skip_control,
    _skip_replicate,
    _swap_steps,
    _change_amount,
)
