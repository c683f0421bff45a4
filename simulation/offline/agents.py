"""The rule-based agents: one follows the protocol, with seeded lapses if asked to, the other acts at random.

They decide from the situation alone, so that another process can continue their episode. The lapses of a careless
experimenter:

- skipped control: a step whose role is control or calibration is left out
- skipped replicate: one material is left out of a step that treats several alike
- wrong order: a step is done one position too late, after the step that should follow it
- wrong amount: a volume, mass or duration is ten times, a tenth, twice or half of what the protocol states
"""

import random
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.lab.actions import QUIT, SUBMIT, Action, ActionType, Catalogue
from simulation.lab.bench import REJECTIONS_ALLOWED
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import UNLIMITED, Material
from simulation.lab.parameters import Parameter
from simulation.lab.protocols import find_references
from simulation.lab.roles import Situation

_AMOUNTS = ("volume", "mass", "duration")
_MOST_LAPSES = 3
_SUBMITS_ONE_IN = 15  # mean number of choices until the random agent submits
# Tried in turn for a text parameter; the first one that its pattern allows is used.
_TEXTS = ("sample", "What can be seen in this sample?", "ACGTACGTACGTACGTACGT", "MKTAYIAKQR", "1")
_USUAL_MOST = 4  # materials at most, unless the action needs more
_SAFE_ACTION = "VisualInspection"  # an action that is hardly ever rejected
_EMPTY_CONTAINER = "empty container"
_FLUID_PHASES = ("liquid", "suspension", "pellet and supernatant")

Steps = list[tuple[int, Mapping[str, Any]]]  # (position in the protocol, from 1; step)


class ProtocolAgent:
    """An agent that tries each step of the reference protocol once and submits. `lapses` adds seeded mistakes."""

    def __init__(self, spec: ExperimentSpec, seed: int, lapses: bool = False) -> None:
        self.keys = tuple(key for key, _ in spec.materials)
        self.steps = plan_careless_protocol(spec, seed)[0] if lapses else spec.protocol

    def choose_action(self, situation: Situation) -> Action:
        """Return the first planned step that was not tried yet. Steps whose materials were never made are skipped."""
        # The last step is used for the submission.
        if situation.steps_left <= 1:
            return Action(SUBMIT)
        materials = situation.inventory.materials
        barcodes = {key: material.barcode for key, material in zip(self.keys, materials, strict=False)}
        # The agent keeps no state: it repeats its own choices along the history to find the barcodes that each step
        # produced.
        tried = iter(situation.history)
        for step in self.steps:
            action = _resolve_step(step, barcodes, situation.catalogue)
            if action is None:
                continue
            done = next(tried, None)
            if done is None:
                return action
            if done.outcome.success:
                yields = step.get("yields", {}).items()
                barcodes |= {label: done.barcodes[index] for label, index in yields if index < len(done.barcodes)}
        return Action(SUBMIT)


def _resolve_step(step: Mapping[str, Any], barcodes: Mapping[str, str], catalogue: Catalogue) -> Action | None:
    """Return the step with barcodes in place of names, or None if it needs a material that is missing."""
    present = [reference for reference in step["materials"] if reference in barcodes]
    parameters, action_type = step.get("parameters", {}), catalogue.find_type(step["action"])
    fewest = max(1, action_type.min_materials if action_type else 0)
    # One can be left out if enough others remain, but not if the step yields materials, which have a planned order.
    if len(present) < len(step["materials"]) and (step.get("yields") or len(present) < fewest):
        return None
    if any(reference not in barcodes for value in parameters.values() for reference in find_references(value)):
        return None
    filled = {name: _fill_references(value, barcodes) for name, value in parameters.items()}
    return Action(step["action"], tuple(barcodes[reference] for reference in present), filled)


def _fill_references(value: Any, barcodes: Mapping[str, str]) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return barcodes[value[1:]]
    return [_fill_references(part, barcodes) for part in value] if isinstance(value, list | tuple) else value


class Lapse(NamedTuple):
    """One departure from the protocol. `step` is its position in the protocol, from 1."""

    kind: str
    step: int
    note: str


def plan_careless_protocol(spec: ExperimentSpec, seed: int) -> tuple[tuple[Mapping[str, Any], ...], tuple[Lapse, ...]]:
    """Return the protocol as a careless experimenter follows it, and its lapses: one to three, chosen by the seed."""
    rng = random.Random(f"{seed}:lapses:{spec.slug}")
    steps: Steps = list(enumerate(spec.protocol, start=1))
    # This order must not change, because another order would give other lapses for the same seed.
    kinds = (_skip_control, _skip_replicate, _swap_steps, _change_amount)
    lapses: list[Lapse] = []
    for add_lapse in [rng.choice(kinds) for _ in range(rng.randint(1, _MOST_LAPSES))]:
        if lapse := add_lapse(steps, {lapse.step for lapse in lapses}, rng):
            lapses.append(lapse)
    # If none of the drawn kinds fits this protocol, two steps are swapped.
    if not lapses and (lapse := _swap_steps(steps, set(), rng)):
        lapses.append(lapse)
    return tuple(step for _, step in steps), tuple(lapses)


def _skip_control(steps: Steps, spoiled: set[int], rng: random.Random) -> Lapse | None:
    controls = [index for index, (_, step) in enumerate(steps) if step.get("role") in ("control", "calibration")]
    candidates = [index for index in controls if steps[index][0] not in spoiled]
    if not candidates:
        return None
    position, step = steps.pop(rng.choice(candidates))
    return Lapse("skipped control", position, f"{step['action']} ({step['role']}) was left out")


def _skip_replicate(steps: Steps, spoiled: set[int], rng: random.Random) -> Lapse | None:
    candidates = [
        (index, reference)
        for index, (position, step) in enumerate(steps)
        if position not in spoiled
        # Any material can be left out if none is named or yields others.
        if len(step["materials"]) > 1
        and not any(find_references(value) for value in step.get("parameters", {}).values())
        and not step.get("yields")
        for reference in step["materials"]
    ]
    if not candidates:
        return None
    index, left_out = rng.choice(candidates)
    position, step = steps[index]
    materials = [reference for reference in step["materials"] if reference != left_out]
    steps[index] = (position, {**step, "materials": materials})
    return Lapse("skipped replicate", position, f"{step['action']} was done without {left_out}")


def _swap_steps(steps: Steps, spoiled: set[int], rng: random.Random) -> Lapse | None:
    candidates = [
        index
        for index, ((first, earlier), (second, later)) in enumerate(pairwise(steps))
        # Only where the later step uses the same materials; swapping independent steps would be no lapse.
        if not spoiled & {first, second}
        and set(later["materials"]) & {*earlier["materials"], *earlier.get("yields", {})}
    ]
    if not candidates:
        return None
    index = rng.choice(candidates)
    steps[index], steps[index + 1] = steps[index + 1], steps[index]
    position, step = steps[index + 1]
    return Lapse("wrong order", position, f"{step['action']} was done after {steps[index][1]['action']}, not before it")


def _change_amount(steps: Steps, spoiled: set[int], rng: random.Random) -> Lapse | None:
    candidates = [
        (index, name, dimension)
        for index, (position, step) in enumerate(steps)
        if position not in spoiled
        for name, value in step.get("parameters", {}).items()
        if (dimension := _find_dimension(value))
    ]
    if not candidates:
        return None
    index, name, dimension = rng.choice(candidates)
    position, step = steps[index]
    correct, factor = step["parameters"][name], Decimal(rng.choice(("10", "0.1", "2", "0.5")))
    wrong = quantities.format_quantity(quantities.parse_quantity(correct, dimension).value * factor, dimension)
    steps[index] = (position, {**step, "parameters": {**step["parameters"], name: wrong}})
    return Lapse("wrong amount", position, f"{name} of {step['action']} was {wrong}, not {correct}")


def _find_dimension(value: Any) -> str:
    """Return the dimension of an amount that is written with its unit; "" for anything else."""
    # A bare number may be a count of cycles or replicates, so it is not taken for an amount.
    if not isinstance(value, str) or value.strip().lstrip("+-").replace(".", "").isdigit():
        return ""
    quantity = quantities.find_quantity(value, *_AMOUNTS)
    return quantity.dimension if quantity else ""


class RandomAgent:
    """An agent that tries allowed actions at random, and submits at random or when only one step is left.

    After two rejections in a row it inspects something, because a third rejection would end the attempt. So its
    attempts are long enough to show whether a classifier can be satisfied by chance.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choose_action(self, situation: Situation) -> Action:
        # The agent keeps no state: its seed includes the history's length, so another process can continue the episode.
        rng = random.Random(f"{self.seed}:random agent:{len(situation.history)}")
        usable = situation.inventory.list_usable()
        if situation.steps_left <= 1 or not rng.randrange(_SUBMITS_ONE_IN):
            return Action(SUBMIT)
        # Sorted before shuffling, because the order of a set differs between processes.
        names = sorted(set(situation.catalogue.types) - {SUBMIT, QUIT})
        rng.shuffle(names)
        rejected = list(takewhile(lambda step: not step.outcome.success, reversed(situation.history)))
        if len(rejected) >= REJECTIONS_ALLOWED - 1:
            names = [_SAFE_ACTION]
        for name in names:
            known = situation.catalogue.types.get(name)
            if known and (action := _build_random_action(known, usable, rng)):
                return action
        return Action(SUBMIT)


def _build_random_action(action_type: ActionType, usable: Sequence[Material], rng: random.Random) -> Action | None:
    """Return this action with random allowed materials and parameters, or None if a required one cannot be found."""
    chosen = _choose_materials(action_type, usable, rng)
    if chosen is None:
        return None
    codes = [material.barcode for material in chosen]
    volumes = [quantities.find_quantity(material.properties.get("volume"), "volume") for material in chosen]
    smallest_volume = min((volume.value for volume in volumes if volume and volume.value), default=None)
    parameters: dict[str, Any] = {}
    for parameter in action_type.parameters:
        if not parameter.required and rng.random() < 0.5:
            continue
        value = _choose_value(parameter, codes, smallest_volume, rng)
        if value is not None:
            parameters[parameter.name] = value
        elif parameter.required:
            return None
    return Action(action_type.name, tuple(codes), parameters)


def _choose_materials(action_type: ActionType, usable: Sequence[Material], rng: random.Random) -> list[Material] | None:
    """Return random limited materials, mostly liquids, and a supply of containers if needed; None if too few."""
    if action_type.max_materials == 0:
        return []
    supplies = [material for material in usable if material.available_for_use == UNLIMITED]
    boxes = [supply for supply in supplies if supply.properties.get("phase") == _EMPTY_CONTAINER]
    limited = [material for material in usable if material.available_for_use != UNLIMITED]
    fluid = [material for material in limited if material.properties.get("phase") in _FLUID_PHASES]
    pool = fluid if len(fluid) >= action_type.min_materials and rng.random() < 0.8 else limited
    boxed = boxes and "container" in action_type.inputs
    fewest = max(1, action_type.min_materials - (1 if boxed else 0))
    most = min(max(fewest, _USUAL_MOST), action_type.max_materials, len(pool))
    if most < fewest:
        return None
    chosen = rng.sample(pool, rng.randint(fewest, most))
    return [*chosen, rng.choice(boxes)] if boxed and len(chosen) < action_type.max_materials else chosen


def _choose_value(
    parameter: Parameter, chosen: Sequence[str], smallest_volume: Decimal | None, rng: random.Random
) -> Any:
    match parameter.type:
        case "select":
            return rng.choice(parameter.options)
        case "multiselect":
            return rng.sample(parameter.options, rng.randint(1, len(parameter.options)))
        case "range" | "range_with_units":
            return _choose_amount(parameter, smallest_volume, rng)
        case "boolean":
            return rng.choice((True, False))
        case "object":
            return parameter.default
        case "material_selector":
            return rng.choice(chosen) if chosen else None
        case "multi_material_selector":
            return rng.sample(chosen, rng.randint(1, len(chosen))) if chosen else None
        case _:
            return next((text for text in _TEXTS if _is_allowed(parameter, text)), parameter.default)


def _choose_amount(parameter: Parameter, smallest_volume: Decimal | None, rng: random.Random) -> str:
    """Return a random number within the bounds, with two significant digits; an integer if both bounds are integers.

    Low numbers are more likely, because bounds are wide. In 90 % of cases, a volume is at most half the volume of the
    smallest chosen material.
    """
    low, high = parameter.parse_value(parameter.minimum), parameter.parse_value(parameter.maximum)
    if parameter.dimension == "volume" and smallest_volume and rng.random() < 0.9:
        high = max(low, min(high, smallest_volume / 2))
    # The cube of a uniform number favours the lower end: half of all draws are in the lowest eighth.
    amount = Context(prec=2).plus(low + (high - low) * Decimal(str(round(rng.random() ** 3, 4))))
    if parameter.type == "range_with_units":
        text = quantities.format_quantity(amount, parameter.dimension)
    else:
        is_whole = low == low.to_integral_value() and high == high.to_integral_value()
        text = quantities.format_number(amount.to_integral_value() if is_whole else amount)
    return text if _is_allowed(parameter, text) else str(parameter.minimum)


def _is_allowed(parameter: Parameter, value: Any) -> bool:
    try:
        parameter.parse_value(value)
    except LabError:
        return False
    return True
