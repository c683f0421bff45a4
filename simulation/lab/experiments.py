"""An experiment as the laboratory needs it: goal, materials, hidden truth, reference protocol, rubric."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulation.lab.materials import Draft


@dataclass(frozen=True)
class ExperimentSpec:
    """A data file of fixtures/experiments, read and checked.

    `materials` are (key, draft) pairs: the key is how protocol and rubric name the material. `truth` is what the
    unknowns really are: the offline transition model may know it, an agent or a classifier never does.
    """

    slug: str
    name: str
    group: str
    goal: str
    max_steps: int
    materials: tuple[tuple[str, Draft], ...]
    truth: Mapping[str, Any] = field(default_factory=dict)
    protocol: tuple[Mapping[str, Any], ...] = ()
    rubric: tuple[Mapping[str, Any], ...] = ()
    provenance: str = ""

    def drafts(self) -> tuple[Draft, ...]:
        return tuple(draft for _, draft in self.materials)
