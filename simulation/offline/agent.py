"""The planning half of the offline cast. Both agents decide from the situation alone: another process can go on."""

import random
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import QUIT, SUBMIT, Action, ActionType, Catalogue, Parameter
from simulation.lab.errors import LabError
from simulation.lab.experiment_checks import references
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.roles import Situation
from simulation.offline.lapses import planned_protocol

_SUBMITS_ONE_IN = 15
# Tried in turn for a text parameter: the first its pattern allows is written.
_TEXTS = ("sample", "What can be seen in this sample?", "ACGTACGTACGTACGTACGT", "MKTAYIAKQR", "1")
_FEW = 4


class ProtocolAgent:
    """Follows the reference protocol, each step tried once, and submits; with lapses it follows it carelessly."""

    def __init__(self, spec: ExperimentSpec, seed: int, lapses: bool = False) -> None:
        self.keys = tuple(key for key, _ in spec.materials)
        self.steps = planned_protocol(spec, seed)[0] if lapses else spec.protocol

    def choose(self, situation: Situation) -> Action:
        """The first planned step not tried yet; steps whose materials never came about are passed over."""
        if situation.steps_left <= 1:
            return Action(SUBMIT)
        materials = situation.inventory.materials
        barcodes = {key: material.barcode for key, material in zip(self.keys, materials, strict=False)}
        tried = iter(situation.history)
        for step in self.steps:
            action = _resolve(step, barcodes, situation.catalogue)
            if action is None:
                continue
            done = next(tried, None)
            if done is None:
                return action
            if done.outcome.success:
                yields = step.get("yields", {}).items()
                barcodes |= {label: done.barcodes[at] for label, at in yields if at < len(done.barcodes)}
        return Action(SUBMIT)


def _resolve(step: Mapping[str, Any], barcodes: Mapping[str, str], catalogue: Catalogue) -> Action | None:
    """The step with barcodes for names; None if it cannot be done without what is missing.

    A missing material is dropped from the list where nothing else depends on it: a step that yields materials is left
    out whole, because its outcome would no longer stand in the planned order.
    """
    missing = [ref for ref in step["materials"] if ref not in barcodes]
    parameters = step.get("parameters", {})
    named = [ref for value in parameters.values() for ref in references(value)]
    known = catalogue.find(step["action"])
    fewest = known.min_materials if known else 0
    if missing and (step.get("yields") or len(step["materials"]) - len(missing) < max(1, fewest)):
        return None
    if any(ref not in barcodes for ref in named):
        return None
    chosen = tuple(barcodes[ref] for ref in step["materials"] if ref not in missing)
    return Action(step["action"], chosen, {name: _filled(value, barcodes) for name, value in parameters.items()})


def _filled(value: Any, barcodes: Mapping[str, str]) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return barcodes[value[1:]]
    return [_filled(part, barcodes) for part in value] if isinstance(value, list | tuple) else value


class RandomAgent:
    """Tries allowed actions at random on whatever is usable, and submits at random or when steps run out."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choose(self, situation: Situation) -> Action:
        rng = random.Random(f"{self.seed}:random agent:{len(situation.history)}")
        usable = [material.barcode for material in situation.inventory.usable()]
        names = sorted(set(situation.catalogue.types) - {SUBMIT, QUIT})
        if situation.steps_left <= 1 or not rng.randrange(_SUBMITS_ONE_IN):
            return Action(SUBMIT)
        rng.shuffle(names)
        for name in names:
            if action := _random_action(situation.catalogue.types[name], usable, rng):
                return action
        return Action(SUBMIT)


def _random_action(known: ActionType, usable: Sequence[str], rng: random.Random) -> Action | None:
    """Some allowed use of this action, or None where the bench or a text pattern offers none."""
    most = min(known.max_materials, max(known.min_materials, _FEW), len(usable))
    if most < known.min_materials:
        return None
    chosen = tuple(rng.sample(usable, rng.randint(known.min_materials, most)))
    parameters: dict[str, Any] = {}
    for parameter in known.parameters:
        if not parameter.required and rng.random() < 0.5:
            continue
        value = _random_value(parameter, chosen, rng)
        if value is not None:
            parameters[parameter.name] = value
        elif parameter.required:
            return None
    return Action(known.name, chosen, parameters)


def _random_value(parameter: Parameter, chosen: Sequence[str], rng: random.Random) -> Any:
    match parameter.type:
        case "select":
            return rng.choice(parameter.options)
        case "multiselect":
            return rng.sample(parameter.options, rng.randint(1, len(parameter.options)))
        case "range" | "range_with_units":
            return _random_amount(parameter, rng)
        case "boolean":
            return rng.choice((True, False))
        case "object":
            return parameter.default
        case "material_selector":
            return rng.choice(chosen) if chosen else None
        case "multi_material_selector":
            return rng.sample(chosen, rng.randint(1, len(chosen))) if chosen else None
        case _:
            return next((text for text in _TEXTS if _allowed(parameter, text)), parameter.default)


def _random_amount(parameter: Parameter, rng: random.Random) -> str:
    """A round number within the bounds, whole where both are; low more often than not, as bounds are wide."""
    low, high = parameter.read(parameter.minimum), parameter.read(parameter.maximum)
    amount = low + (high - low) * Decimal(str(round(rng.random() ** 3, 4)))
    amount = Context(prec=2).plus(amount)
    if parameter.type == "range_with_units":
        written = quantities.show(amount, parameter.dimension)
    else:
        whole = low == low.to_integral_value() and high == high.to_integral_value()
        written = quantities.plain(amount.to_integral_value() if whole else amount)
    return written if _allowed(parameter, written) else str(parameter.minimum)


def _allowed(parameter: Parameter, value: Any) -> bool:
    try:
        parameter.read(value)
    except LabError:
        return False
    return True
