"""A rule-based agent for protocols with hidden steps: it fills each gap with the right step, another one, or none."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from simulation.lab.actions import SUBMIT
from simulation.lab.experiments import ExperimentSpec
from simulation.offline.agents import ProtocolAgent

RIGHT_PROBABILITY = 0.6  # that a gap is filled with the step that is missing
RIGHT, OTHER, NONE = "right", "other", "none"


class Filling(NamedTuple):
    """What is done at a gap: the right step, the step of another place (`taken_from`, else 0), or nothing."""

    step: int
    kind: str
    taken_from: int = 0


def plan_gaps(spec: ExperimentSpec, hidden: Sequence[int], seed: int) -> list[Filling]:
    """Return how each gap is filled: rightly with probability 0.6, otherwise with another step or nothing, equally often."""
    fillings = []
    for number in hidden:
        # A generator for each gap, so that a gap that is in two masks is filled rightly in both or in neither.
        rng = random.Random(f"{seed}:gaps:{spec.slug}:{number}")
        if rng.random() < RIGHT_PROBABILITY:
            fillings.append(Filling(number, RIGHT))
        elif rng.random() < 0.5:
            others = [
                other
                for other, step in enumerate(spec.protocol, start=1)
                if other not in hidden and step["action"] != SUBMIT
            ]
            fillings.append(Filling(number, OTHER, rng.choice(others)) if others else Filling(number, NONE))
        else:
            fillings.append(Filling(number, NONE))
    return fillings


def build_gap_agent(spec: ExperimentSpec, hidden: Sequence[int], seed: int) -> ProtocolAgent:
    """Return an agent that follows the written protocol and fills its gaps as `plan_gaps` says."""
    fillings = {filling.step: filling for filling in plan_gaps(spec, hidden, seed)}
    steps: list[Mapping[str, Any]] = []
    for number, step in enumerate(spec.protocol, start=1):
        filling = fillings.get(number, Filling(number, RIGHT))
        if filling.kind == OTHER:
            # Its products are nobody's: later steps use those of the step in its own place.
            steps.append({**spec.protocol[filling.taken_from - 1], "yields": {}})
        elif filling.kind == RIGHT:
            steps.append(step)
    return ProtocolAgent(replace(spec, protocol=tuple(steps)), seed)
