"""Attempts that no person would make: a protocol with parameters at their bounds, and random actions in between."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulation.lab.actions import QUIT, SUBMIT, Action, ActionType, Catalogue
from simulation.lab.bench import MANIFEST, Bench, Step
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import Inventory, Material
from simulation.lab.parameters import Parameter, ParameterError
from simulation.offline.agents import RandomAgent
from simulation.offline.rules import RuleBasedTransitionModel

NEVER = (SUBMIT, QUIT, MANIFEST)
_WET = ("liquid", "suspension", "pellet and supernatant", "adherent culture")
_TEXTS = ("sample", "What can be seen in this sample?", "ACGTACGTACGTACGTACGT", "UACG", "MKTAYIAKQR", "1")
_VOLUMES = ("10 µL", "100 µL", "1 mL", "10 mL")


class ProtocolFollower:
    """Follow the protocol step by step, whatever else happens in between, as long as the materials of a step exist."""

    def __init__(self, spec: ExperimentSpec, inventory: Inventory) -> None:
        self.codes = {key: material.barcode for (key, _), material in zip(spec.materials, inventory, strict=True)}
        self.planned = iter(spec.protocol)
        self.yields: Mapping[str, int] = {}

    def next_action(self) -> Action | None:
        """Return the next step whose materials exist, or None at the end of the protocol."""
        for step in self.planned:
            if set(step["materials"]) <= set(self.codes):
                self.yields = step.get("yields", {})
                codes = tuple(self.codes[label] for label in step["materials"])
                return Action(step["action"], codes, self._fill_references(step.get("parameters", {})))
        return None

    def record_yields(self, step: Step) -> None:
        """Record the new materials of that step under their labels."""
        self.codes |= {
            label: step.barcodes[index] for label, index in self.yields.items() if index < len(step.barcodes)
        }

    def _fill_references(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: self._fill_references(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._fill_references(part) for part in value]
        return self.codes.get(value[1:], value) if isinstance(value, str) and value.startswith("@") else value


def iter_wild_steps(
    spec: ExperimentSpec, catalogue: Catalogue, inventory: Inventory, seed: int, number: int
) -> Iterator[tuple[Inventory, Step, Bench]]:
    """Yield (inventory before, step, bench after it) for `number` actions; rejections do not end the attempt."""
    bench = Bench(spec.goal, catalogue, inventory, seed, max_steps=10**6)
    model, rng = RuleBasedTransitionModel(seed, spec.truth), random.Random(f"{seed} wild {spec.slug}")
    follower, random_agent = ProtocolFollower(spec, inventory), RandomAgent(seed)
    names = sorted(set(catalogue.types) - {*NEVER})
    for _ in range(number):
        dice = rng.random()
        planned = follower.next_action() if dice < 0.6 else None
        if planned:
            action = vary_action(planned, catalogue, rng)
        elif dice < 0.8:
            action = random_agent.choose_action(bench.get_situation())
        else:
            action = draw_wild_action(catalogue.types[rng.choice(names)], bench.inventory.list_usable(), rng)
        if action.name in NEVER:
            continue
        before, step = bench.inventory, bench.take_step(action, model)
        if planned:
            follower.record_yields(step)
        yield before, step, bench


def vary_action(action: Action, catalogue: Catalogue, rng: random.Random) -> Action:
    """Return the action, every third time with one parameter at a bound or drawn at random."""
    kind = catalogue.types[action.name]
    if not kind.parameters or rng.random() < 0.65:
        return action
    parameter = rng.choice(kind.parameters)
    value = draw_extreme_value(parameter, action.materials, rng)
    return (
        action if value is None else Action(action.name, action.materials, {**action.parameters, parameter.name: value})
    )


def draw_wild_action(kind: ActionType, bench: Sequence[Material], rng: random.Random) -> Action:
    """Draw any materials and any allowed parameters. Volumes are small half of the time, so that some actions succeed."""
    wet = [material for material in bench if material.properties.get("phase") in _WET] or list(bench)
    containers = [material for material in bench if material.properties.get("phase") == "empty container"]
    chosen = [] if not kind.max_materials else [rng.choice(wet if rng.random() < 0.6 else bench)]
    parameters: dict[str, Any] = {}
    small = rng.random() < 0.5
    for parameter in kind.parameters:
        if not parameter.required and rng.random() < 0.6:
            continue
        if parameter.type.endswith("material_selector"):
            chosen.append(rng.choice(wet if rng.random() < 0.75 else bench) if rng.random() < 0.9 else chosen[0])
            parameters[parameter.name] = chosen[-1].barcode
            continue
        value = draw_extreme_value(parameter, (), rng)
        if small and parameter.dimension == "volume":
            value = next((text for text in _VOLUMES if _is_allowed(parameter, text)), value)
        if value is not None:
            parameters[parameter.name] = value
    if containers and chosen and rng.random() < 0.6:
        chosen.append(rng.choice(containers))
    codes = list(dict.fromkeys(material.barcode for material in chosen))
    rng.shuffle(codes)
    return Action(kind.name, tuple(codes), parameters)


def draw_extreme_value(parameter: Parameter, codes: Sequence[str], rng: random.Random) -> Any:
    """Draw an allowed value, preferably a bound; None if there is none."""
    match parameter.type:
        case "range" | "range_with_units":
            return str(rng.choice((parameter.minimum, parameter.maximum, parameter.default or parameter.minimum)))
        case "select":
            return rng.choice(parameter.options)
        case "multiselect":
            return rng.sample(parameter.options, rng.choice((1, len(parameter.options))))
        case "boolean":
            return rng.choice((True, False))
        case "object":
            typed = {key: kind for key, kind in parameter.keys.items() if kind}
            return {key: draw_extreme_value(kind, codes, rng) for key, kind in typed.items()} or parameter.default
        case "text":
            return next((text for text in _TEXTS if _is_allowed(parameter, text)), parameter.default)
        case _:
            return rng.choice(codes) if codes else None


def _is_allowed(parameter: Parameter, text: str) -> bool:
    try:
        parameter.parse_value(text)
    except ParameterError:
        return False
    return True
