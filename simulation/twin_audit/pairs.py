"""Steps of offline episodes, each with a correct outcome and a twin that has one planted error.

A detector receives one `ShownStep`: what a rater sees of a step, and nothing of where it came from.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simulation.casts import data_files
from simulation.lab.actions import Action, Catalogue
from simulation.lab.bench import Bench
from simulation.lab.errors import NoErrorFits
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import build_inventory
from simulation.lab.outcomes import Outcome, Perturbation
from simulation.lab.roles import Agent, Situation
from simulation.offline.agents import ProtocolAgent, RandomAgent
from simulation.offline.injectors import Injector
from simulation.offline.rules import RuleBasedTransitionModel

ERROR_TYPES = (Perturbation.OBVIOUS, Perturbation.SUBTLE)
_HIDDEN_FIELDS = ("ledger", "taken")  # of a new material
_SHOWN_FIELDS = ("new_materials", "new_observations")
_AGENTS = ("protocol", "lapses", "random")


class ShownStep(NamedTuple):
    """The materials before a step, its action, and the materials and observations after it, as JSON."""

    inputs: Sequence[Mapping[str, Any]]
    action: Mapping[str, Any]
    materials: Sequence[Mapping[str, Any]]
    observations: Sequence[Mapping[str, Any]]


class TwinPair(NamedTuple):
    """One step with its correct outcome and with a planted error."""

    experiment: str
    error_type: str
    kind: str
    field: str
    original: ShownStep
    twin: ShownStep


def build_step(inputs: Sequence[Mapping[str, Any]], action: Mapping[str, Any], outcome: Mapping[str, Any]) -> ShownStep:
    """Return the visible part of a step. `outcome` is an outcome's JSON."""
    materials = [
        {name: value for name, value in material.items() if name not in _HIDDEN_FIELDS}
        for material in outcome["new_materials"]
    ]
    shown = {name: action[name] for name in ("name", "materials", "parameters")}
    return ShownStep(inputs, shown, materials, outcome["new_observations"])


def create_pairs(directory: Path, number: int, seed: int, only: Sequence[str] = ()) -> Iterator[TwinPair]:
    """Yield `number` pairs of each error type or a few more, in equal shares of all experiments, or of those in `only`.

    Every step comes from an attempt that follows the protocol, that makes mistakes, or that chooses at random.
    """
    actions, _, files = data_files.load_data_files(directory)
    specs = [spec for spec, _ in files if not only or spec.slug in only]
    share = -(-number // len(specs))
    for spec in specs:
        left = dict.fromkeys(ERROR_TYPES, share)
        for pair in _iter_experiment_pairs(spec, actions, seed):
            if left[Perturbation(pair.error_type)]:
                left[Perturbation(pair.error_type)] -= 1
                yield pair
            if not any(left.values()):
                break


def _iter_experiment_pairs(spec: ExperimentSpec, actions: Catalogue, seed: int) -> Iterator[TwinPair]:
    """Yield pairs without end, from one attempt after the other."""
    number = 0
    while True:
        for agent in _AGENTS:
            yield from _iter_attempt_pairs(spec, actions, agent, seed * 1000 + number)
        number += 1


def _iter_attempt_pairs(spec: ExperimentSpec, actions: Catalogue, agent: str, seed: int) -> Iterator[TwinPair]:
    chooser: Agent = RandomAgent(seed) if agent == "random" else ProtocolAgent(spec, seed, lapses=agent == "lapses")
    inventory = build_inventory(spec.initial_materials(), seed)
    bench = Bench(goal=spec.goal, catalogue=actions, inventory=inventory, seed=seed, max_steps=spec.max_steps)
    model = RuleBasedTransitionModel(seed, spec.truth)
    while bench.ending is None:
        situation = bench.get_situation()
        action, outcome = bench.resolve_action(chooser.choose_action(situation))
        outcome = outcome or model.predict_outcome(action, situation)
        if outcome.success:
            yield from _iter_step_pairs(spec, action, situation, outcome, seed)
        bench.record_outcome(action, outcome)


def _iter_step_pairs(
    spec: ExperimentSpec, action: Action, situation: Situation, outcome: Outcome, seed: int
) -> Iterator[TwinPair]:
    inputs = [material.to_visible() for code in action.materials if (material := situation.inventory.get(code))]
    original = build_step(inputs, action.to_json(), outcome.to_json())
    for error_type in ERROR_TYPES:
        try:
            planted = Injector(error_type, seed, truth=spec.truth).perturb_outcome(action, situation, outcome)
        except NoErrorFits:
            continue
        twin = build_step(inputs, action.to_json(), planted.outcome.to_json())
        yield TwinPair(spec.slug, str(error_type), planted.kind, planted.field, original, twin)


def write_pairs(path: Path, pairs: Sequence[TwinPair]) -> None:
    """Write the pairs as JSON lines."""
    with path.open("w", encoding="utf-8") as stream:
        for pair in pairs:
            line = pair._asdict() | {name: getattr(pair, name)._asdict() for name in ("original", "twin")}
            print(json.dumps(line, ensure_ascii=False), file=stream)


def read_pairs(path: Path) -> list[TwinPair]:
    """Return the pairs of a file of `write_pairs`."""
    with path.open(encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    return [
        TwinPair(**{**line, "original": ShownStep(**line["original"]), "twin": ShownStep(**line["twin"])})
        for line in lines
    ]
