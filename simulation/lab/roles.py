"""The three roles of an episode, and the role that plants errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from simulation.lab.actions import Action, Catalogue
from simulation.lab.materials import Inventory
from simulation.lab.outcomes import Outcome, PerturbedOutcome, Verdict

if TYPE_CHECKING:
    from simulation.lab.bench import Step


@dataclass(frozen=True)
class Situation:
    """What an agent or a transition model receives: the current bench and everything done so far."""

    goal: str
    catalogue: Catalogue
    inventory: Inventory
    history: "Sequence[Step]"
    elapsed: int  # seconds since the episode began
    steps_left: int
    protocol: str = ""  # the written protocol with its gaps; "" if the agent is given none


class TranscriptStep(NamedTuple):
    """One step as a classifier reads it. Materials are dicts without their hidden ledgers."""

    number: int
    started_at: int
    ended_at: int
    action: str
    parameters: Mapping[str, Any]
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]  # also with "replaces", "derived_from" and "taken"
    observations: tuple[Mapping[str, Any], ...]
    rejected: str


class Agent(Protocol):
    """The role that chooses the next action."""

    def choose_action(self, situation: Situation) -> Action: ...


class TransitionModel(Protocol):
    """The role that answers an action with new materials and observations, or rejects it."""

    def predict_outcome(self, action: Action, situation: Situation) -> Outcome: ...


class EvidenceClassifier(Protocol):
    """The role that judges whether the transcript is sufficient for the goal. It receives nothing else."""

    def judge_evidence(self, goal: str, transcript: Sequence[TranscriptStep]) -> Verdict: ...


class Perturber(Protocol):
    """The role that returns an outcome with one planted error, given an action and its correct outcome."""

    def perturb_outcome(self, action: Action, situation: Situation, correct: Outcome) -> PerturbedOutcome: ...
