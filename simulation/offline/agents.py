"""The rule-based agents: one follows the protocol, with seeded lapses if asked to, the other acts at random.

They decide from the situation alone, so that another process can continue their episode. The lapses of a careless experimenter:

- skipped control: a step whose role is control or calibration is left out
- skipped replicate: one material is left out of a step that treats several alike
- wrong order: a step is done one position too late, after the step that should follow it
- wrong amount: a volume, mass or duration is ten times, a tenth, twice or half of what the protocol states
"""

import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.lab.actions import QUIT, SUBMIT, Action, ActionType, Catalogue
from simulation.lab.bench import REJECTIONS_ALLOWED
from simulation.lab.errors import LabError
from simulation.lab.experiment_files import find_references
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import UNLIMITED, Material
from simulation.lab.parameters import Parameter
from simulation.lab.roles import Situation

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
    """Return the step with barcodes in place of names, or None if it needs a material that is missing.

    A missing material is left out if enough others remain and no parameter refers to it. But if the step yields
    materials, the result is None, because its new materials would no longer be in the planned order.
    """
    missing = [reference for reference in step["materials"] if reference not in barcodes]
    parameters = step.get("parameters", {})
    references_in_parameters = [reference for value in parameters.values() for reference in find_references(value)]
    action_type = catalogue.find_type(step["action"])
    fewest = action_type.min_materials if action_type else 0
    if missing and (step.get("yields") or len(step["materials"]) - len(missing) < max(1, fewest)):
        return None
    if any(reference not in barcodes for reference in references_in_parameters):
        return None
    chosen = tuple(barcodes[reference] for reference in step["materials"] if reference not in missing)
    return Action(
        step["action"], chosen, {name: _fill_references(value, barcodes) for name, value in parameters.items()}
    )


def _fill_references(value: Any, barcodes: Mapping[str, str]) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return barcodes[value[1:]]
    return [_fill_references(part, barcodes) for part in value] if isinstance(value, list | tuple) else value


_SUBMITS_ONE_IN = 15  # mean number of choices until the agent submits
# Tried in turn for a text parameter; the first one that its pattern allows is used.
_TEXTS = ("sample", "What can be seen in this sample?", "ACGTACGTACGTACGTACGT", "MKTAYIAKQR", "1")
_USUAL_MOST = 4  # materials at most, unless the action needs more
_SAFE_ACTION = "VisualInspection"  # an action that is hardly ever rejected
_EMPTY_CONTAINER = "empty container"
_FLUID_PHASES = ("liquid", "suspension", "pellet and supernatant")


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
        if _count_recent_rejections(situation) >= REJECTIONS_ALLOWED - 1:
            names = [_SAFE_ACTION]
        for name in names:
            known = situation.catalogue.types.get(name)
            if known and (action := _build_random_action(known, usable, rng)):
                return action
        return Action(SUBMIT)


def _count_recent_rejections(situation: Situation) -> int:
    running = 0
    for step in reversed(situation.history):
        if step.outcome.success:
            break
        running += 1
    return running


def _build_random_action(action_type: ActionType, usable: Sequence[Material], rng: random.Random) -> Action | None:
    """Return this action with random allowed materials and parameters, or None if a required one cannot be found."""
    chosen = _choose_materials(action_type, usable, rng)
    if chosen is None:
        return None
    codes = [material.barcode for material in chosen]
    smallest_volume = min((volume for material in chosen if (volume := _parse_volume(material))), default=None)
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
    """Return random limited materials, mostly liquids, and a supply of containers if the action takes containers.

    Return None if there are too few materials.
    """
    if action_type.max_materials == 0:
        return []
    boxes = [
        material
        for material in usable
        if _get_phase(material) == _EMPTY_CONTAINER and material.available_for_use == UNLIMITED
    ]
    limited = [material for material in usable if material.available_for_use != UNLIMITED]
    fluid = [material for material in limited if _get_phase(material) in _FLUID_PHASES]
    pool = fluid if len(fluid) >= action_type.min_materials and rng.random() < 0.8 else limited
    boxed = boxes and "container" in action_type.inputs
    fewest = max(1, action_type.min_materials - (1 if boxed else 0))
    most = min(max(fewest, _USUAL_MOST), action_type.max_materials, len(pool))
    if most < fewest:
        return None
    chosen = rng.sample(pool, rng.randint(fewest, most))
    return [*chosen, rng.choice(boxes)] if boxed and len(chosen) < action_type.max_materials else chosen


def _get_phase(material: Material) -> str:
    return str(material.properties.get("phase", ""))


def _parse_volume(material: Material) -> Decimal | None:
    try:
        return quantities.parse_quantity(material.properties.get("volume"), "volume").value
    except quantities.QuantityError:
        return None


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
    amount = low + (high - low) * Decimal(str(round(rng.random() ** 3, 4)))
    amount = Context(prec=2).plus(amount)
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
