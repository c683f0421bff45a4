"""Which steps of a reference protocol are essential, and masks that hide some of them.

A step is essential if the record without it is not sufficient. These are the counterparts of the functions of a replication
task that a test case reaches.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from simulation.lab.actions import SUBMIT, Catalogue
from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.hidden_steps.masks import Drawing, ProtocolMask, list_candidates
from simulation.offline.hidden_steps.protocol_runs import ProtocolRun, run_protocol

FEWEST_ESSENTIAL = 5  # an experiment with fewer has no masking curve
SEED = 1  # of the noise when steps are left out; the hidden truth is the reference truth


class EssentialSteps(NamedTuple):
    """The essential steps of an experiment, from 1, and the number of all steps of its reference protocol."""

    slug: str
    steps: int
    essential: tuple[int, ...]

    @property
    def fault(self) -> str:
        """Return why no masks can be drawn from this protocol, or ""."""
        if len(self.essential) >= FEWEST_ESSENTIAL:
            return ""
        return f"{self.slug}: {len(self.essential)} essential steps, needed: {FEWEST_ESSENTIAL}"

    def to_dict(self) -> dict[str, Any]:
        return {"experiment": self.slug, "steps": self.steps, "essential": list(self.essential), "fault": self.fault}


def find_essential_steps(spec: ExperimentSpec, catalogue: Catalogue, seed: int = SEED) -> EssentialSteps:
    """Run the reference protocol without each of its steps in turn. Raises LabError if the whole protocol is not VALID."""
    if not spec.protocol:
        raise LabError(f"{spec.slug} has no reference protocol, so no step of it can be hidden")
    if not run_protocol(spec, catalogue, seed).valid:
        raise LabError(f"the reference protocol of {spec.slug} is not VALID, so no step of it can be hidden")
    # Submitting is how an attempt ends, and no step of the work.
    numbers = [number for number, step in enumerate(spec.protocol, start=1) if step["action"] != SUBMIT]
    essential = tuple(number for number in numbers if not run_without(spec, catalogue, [number], seed).valid)
    return EssentialSteps(spec.slug, len(numbers), essential)


def draw_masks(
    spec: ExperimentSpec, catalogue: Catalogue, essential: Sequence[int], drawing: Drawing, hide: Sequence[int]
) -> list[ProtocolMask]:
    """Return the first masks for each number of hidden steps in `hide`, at most `drawing.per_n` each, fewer if fewer exist.

    More masks never change earlier ones. Every mask is run: one whose record would be sufficient without the hidden steps
    is passed over. Raises LabError if the experiment has fewer essential steps.
    """
    # Of two lines for one requirement, the whole protocol meets one. The other is not missed because of the hidden steps.
    reference = run_protocol(spec, catalogue, SEED)
    masks: list[ProtocolMask] = []
    for n in hide:
        position = 0
        for hidden in list_candidates(essential, n, spec.slug, drawing.mode, drawing.seed):
            run = run_without(spec, catalogue, hidden) if hidden else reference
            # Without any hidden step it must be sufficient, with some it must not.
            if run.valid == (n == 0):
                position += 1
                lines = tuple(line for line in run.missed if line not in reference.missed)
                masks.append(ProtocolMask(hidden, drawing.mode, drawing.help, position, drawing.seed, lines))
            if position == drawing.per_n:
                break
    return masks


def run_without(spec: ExperimentSpec, catalogue: Catalogue, hidden: Sequence[int], seed: int = SEED) -> ProtocolRun:
    """Run the reference protocol without these steps, counted from 1."""
    remaining = [step for number, step in enumerate(spec.protocol, start=1) if number not in hidden]
    return run_protocol(spec, catalogue, seed, remaining)
