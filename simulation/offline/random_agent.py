"""A baseline agent that chooses allowed actions at random, and materials to which the action can plausibly be done."""

import random
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import QUIT, SUBMIT, Action, ActionType
from simulation.lab.bench import REJECTIONS_ALLOWED
from simulation.lab.errors import LabError
from simulation.lab.materials import UNLIMITED, Material
from simulation.lab.parameters import Parameter
from simulation.lab.roles import Situation

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
