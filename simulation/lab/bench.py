"""One attempt at an experiment: its steps, its clock, and how it can end (paper, section 3.4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from simulation.lab.actions import QUIT, SUBMIT, Action, Catalogue
from simulation.lab.errors import LabError
from simulation.lab.manifest import MANIFEST, fulfil
from simulation.lab.materials import UNLIMITED, Draft, Inventory, Material, fresh_barcode
from simulation.lab.outcomes import Outcome, RejectedBy
from simulation.lab.roles import Situation, TranscriptStep, TransitionModel

REJECTIONS_ALLOWED = 3


class Ending(StrEnum):
    """How an attempt ends by the rules; `truncated` is Gymnasium's truncation, the others its termination."""

    SUBMITTED = "submitted"
    QUIT = "quit"
    REJECTED_OUT = "rejected_out"
    TRUNCATED = "truncated"


@dataclass(frozen=True)
class Step:
    """One attempted action and what came of it. `barcodes[i]` is that of `outcome.new_materials[i]`."""

    number: int
    started_at: int
    ended_at: int
    action: Action
    inputs: tuple[Material, ...]
    outcome: Outcome
    barcodes: tuple[str, ...]

    def transcript(self) -> TranscriptStep:
        outputs = []
        for code, draft in zip(self.barcodes, self.outcome.new_materials, strict=True):
            shown = draft.to_json()
            del shown["ledger"]
            outputs.append({"barcode": code, **shown})
        return TranscriptStep(
            number=self.number,
            started_at=self.started_at,
            ended_at=self.ended_at,
            action=self.action.name,
            parameters=dict(self.action.parameters),
            inputs=tuple(material.seen() for material in self.inputs),
            outputs=tuple(outputs),
            observations=tuple(observation.to_json() for observation in self.outcome.new_observations),
            rejected=self.outcome.failure_reason if not self.outcome.success else "",
        )


@dataclass
class Bench:
    """What is on the bench and what has been done so far. Barcodes and times are given here and nowhere else."""

    goal: str
    catalogue: Catalogue
    inventory: Inventory
    seed: int
    max_steps: int = 100
    manifest: tuple[Draft, ...] | None = None  # what ManifestMaterials may give; None: it is off, as in a benchmark
    history: list[Step] = field(default_factory=list)
    elapsed: int = 0
    ending: Ending | None = None

    def __post_init__(self) -> None:
        if self.manifest is None:
            self.catalogue = self.catalogue.without(MANIFEST)

    def replay(self, steps: Iterable[Step]) -> None:
        """Take steps that were recorded before; nothing about them is asked again."""
        for step in steps:
            self._append(step)

    @property
    def steps(self) -> int:
        """Attempted actions that count against `max_steps`; a rejected one counts too."""
        return sum(1 for step in self.history if self._costs_step(step))

    @property
    def rejections_running(self) -> int:
        running = 0
        for step in reversed(self.history):
            if step.outcome.success:
                break
            running += 1
        return running

    def situation(self) -> Situation:
        return Situation(
            self.goal, self.catalogue, self.inventory, tuple(self.history), self.elapsed, self.max_steps - self.steps
        )

    def attempt(self, action: Action) -> tuple[Action, Outcome | None]:
        """The action under its catalogue name, and its outcome if no transition model is needed to know it."""
        action = self.catalogue.read(action)
        if reason := self.catalogue.refuse(action, self.inventory):
            return action, Outcome.rejected(reason, RejectedBy.CATALOGUE)
        if action.name in (SUBMIT, QUIT):
            return action, Outcome(success=True)
        if action.name == MANIFEST:
            return action, fulfil(action, self.manifest or (), self.inventory)
        return action, None

    def record(self, action: Action, outcome: Outcome) -> Step:
        """Take an outcome into the history: materials get their barcodes, the clock moves, the attempt may end.

        LabError if no bench could be left so; then nothing has changed.
        """
        inputs = tuple(m for code in action.materials if (m := self.inventory.get(code)))
        if problem := _problem(outcome, inputs):
            raise LabError(f"{action.name} was answered with an outcome that cannot be: {problem}")
        number = len(self.history) + 1
        known = self.catalogue.find(action.name)
        accepted = outcome.success and known is not None
        step = Step(
            number=number,
            started_at=self.elapsed,
            ended_at=self.elapsed + (known.seconds(action) if accepted and known else 0),
            action=action,
            inputs=inputs,
            outcome=outcome,
            barcodes=self._barcodes(number, outcome),
        )
        self._append(step)
        return step

    def step(self, action: Action, model: TransitionModel) -> Step:
        """Try one action. One the catalogue refuses costs a step but no call of the model."""
        action, outcome = self.attempt(action)
        return self.record(action, outcome or model.predict(action, self.situation()))

    def transcript(self) -> tuple[TranscriptStep, ...]:
        """What any classifier gets: every action with all its settings, its materials, timing and observations, in order."""
        return tuple(self._full(step) for step in self.history if step.action.name not in (SUBMIT, QUIT))

    def _full(self, step: Step) -> TranscriptStep:
        """A step with the defaults that held where the agent left a parameter out."""
        shown, known = step.transcript(), self.catalogue.find(step.action.name)
        if known is None or not step.outcome.success:
            return shown
        defaults = {p.name: p.default for p in known.parameters if p.default is not None}
        return shown._replace(parameters={**defaults, **shown.parameters})

    def _append(self, step: Step) -> None:
        self.history.append(step)
        self.elapsed = step.ended_at
        if step.outcome.success:
            touched = [material.barcode for material in step.inputs]
            self.inventory = self.inventory.changed(step.outcome.new_materials, step.barcodes, touched, step.ended_at)
        self.ending = self._ending(step)

    def _ending(self, step: Step) -> Ending | None:
        if step.outcome.success and step.action.name == SUBMIT:
            return Ending.SUBMITTED
        if step.outcome.success and step.action.name == QUIT:
            return Ending.QUIT
        if self.rejections_running >= REJECTIONS_ALLOWED:
            return Ending.REJECTED_OUT
        if self.steps >= self.max_steps:
            return Ending.TRUNCATED
        return None

    def _barcodes(self, number: int, outcome: Outcome) -> tuple[str, ...]:
        taken = {material.barcode for material in self.inventory}
        codes = []
        for index, draft in enumerate(outcome.new_materials):
            code = draft.replaces or fresh_barcode(self.seed, number, index, taken)
            taken.add(code)
            codes.append(code)
        return tuple(codes)

    def _costs_step(self, step: Step) -> bool:
        known = self.catalogue.find(step.action.name)
        return known is None or known.costs_step


def _problem(outcome: Outcome, inputs: Sequence[Material]) -> str:
    """Why the environment cannot take this outcome of an action on these materials; "" if it can."""
    if outcome.success == bool(outcome.failure_reason):
        return "it is accepted with a reason of rejection, or rejected without one"
    if outcome.new_materials and not outcome.success:
        return "it is rejected and hands over materials"
    limited = {material.barcode for material in inputs if material.available_for_use != UNLIMITED}
    known = {material.barcode for material in inputs}
    for draft in outcome.new_materials:
        if problem := draft.problem():
            return problem
        if foreign := set(draft.derived_from) - known:
            return f"{draft.name} comes from {min(foreign)!r}, which is not among the materials of the action"
        if draft.replaces and draft.replaces not in limited:
            return (
                f"{draft.name} hands back {draft.replaces!r}: not among the materials, unlimited, or handed back twice"
            )
        limited.discard(draft.replaces)
    return ""


def step_to_json(step: Step) -> Mapping[str, Any]:
    """A step as JSON, the inverse of `step_from_json`."""
    return {
        "number": step.number,
        "started_at": step.started_at,
        "ended_at": step.ended_at,
        "action": step.action.to_json(),
        "inputs": [material.to_json() for material in step.inputs],
        "outcome": step.outcome.to_json(),
        "barcodes": list(step.barcodes),
    }


def step_from_json(data: Mapping[str, Any]) -> Step:
    return Step(
        number=data["number"],
        started_at=data["started_at"],
        ended_at=data["ended_at"],
        action=Action.from_json(data["action"]),
        inputs=tuple(Material.from_json(m) for m in data["inputs"]),
        outcome=Outcome.from_json(data["outcome"]),
        barcodes=tuple(data["barcodes"]),
    )
