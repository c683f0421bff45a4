"""The outcome of an action, and a classifier's verdict on a record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from simulation.lab.materials import NewMaterial

MEASUREMENT_TYPES = ("visual", "quantitative", "qualitative", "instrumental")
# The type of a routine note: what a worker writes down in passing, such as a volume delivered. A note is no measurement, so
# it never counts as evidence.
NOTE = "note"


class Perturbation(StrEnum):
    """Whether an outcome has a planted error: the paper's error types 0, 1 and 2."""

    NONE = "none"
    OBVIOUS = "obvious"
    SUBTLE = "subtle"


class RejectedBy(StrEnum):
    """The part of the system that rejected an action."""

    NOBODY = ""
    PARSER = "parser"
    CATALOGUE = "catalogue"
    TRANSITION_MODEL = "transition_model"


@dataclass(frozen=True)
class Observation:
    """One observation or instrument reading. `value` is empty if there is no reading."""

    description: str
    measurement_type: str
    value: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Outcome:
    """What a transition model returns for one action. A rejected outcome has a reason and changes nothing."""

    success: bool
    new_materials: tuple[NewMaterial, ...] = ()
    new_observations: tuple[Observation, ...] = ()
    reasoning: str = ""
    failure_reason: str = ""
    rejected_by: str = RejectedBy.NOBODY
    fidelity: str = ""

    @classmethod
    def make_rejected(cls, reason: str, by: RejectedBy = RejectedBy.TRANSITION_MODEL) -> Self:
        return cls(success=False, failure_reason=reason, rejected_by=by)

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {
            "new_materials": [draft.to_json() for draft in self.new_materials],
            "new_observations": [observation.to_json() for observation in self.new_observations],
            "rejected_by": str(self.rejected_by),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        new_materials = tuple(NewMaterial.from_json(m) for m in data["new_materials"])
        new_observations = tuple(Observation(**o) for o in data["new_observations"])
        return cls(**{**data, "new_materials": new_materials, "new_observations": new_observations})


class PerturbedOutcome(NamedTuple):
    """An outcome with one planted error and its description. All but `outcome` is secret."""

    outcome: Outcome
    kind: str  # the injector's name, for example "dilution_slip"; "" if a model planted it and nobody has named it
    rule: str  # the rule that the error breaks, in words
    field: str  # the changed field, for example "new_materials[1].properties.volume"
    explanation: str  # why the outcome is now wrong, with the numbers


@dataclass(frozen=True)
class Verdict:
    """A classifier's answer: is the record sufficient for the goal?"""

    sufficient: bool
    reasoning: str
    confidence: float  # 0 to 1
    goal_relevance: str = "directly supports goal"
    evidence_strength: str = "moderate"
    lines: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)  # rubric lines: {"line", "met", "reason"}
    summarised: bool = False  # the record was too long for the model, so a summary was judged

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"lines": [dict(line) for line in self.lines]}
