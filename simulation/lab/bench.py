"""One attempt at an experiment: its steps, its clock, and its endings (paper, section 3.4)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Any

from simulation.lab.actions import QUIT, SUBMIT, Action, Catalogue
from simulation.lab.errors import LabError
from simulation.lab.materials import UNLIMITED, Inventory, Material, NewMaterial, make_unused_barcode
from simulation.lab.outcomes import Outcome, RejectedBy
from simulation.lab.roles import Situation, TranscriptStep, TransitionModel

MANIFEST = "ManifestMaterials"
REJECTIONS_ALLOWED = 3  # this many consecutive rejections end an episode
_WORD = re.compile(r"[\w.%µ]+")


def fulfil_request(action: Action, offered: Sequence[NewMaterial], inventory: Inventory) -> Outcome:
    """Return an outcome with the offered materials that the request names and the bench lacks, or a rejection."""
    request = str(action.parameters.get("request", ""))
    # Compared by name: agents never see the keys of the data file.
    requested = [draft for draft in offered if _is_named_in(request, draft.name)]
    on_bench = {material.name for material in inventory}
    new = [draft for draft in requested if draft.name not in on_bench]
    if new:
        message = f"Given from the list of this experiment: {', '.join(draft.name for draft in new)}."
        return Outcome(True, tuple(new), reasoning=message, fidelity="bookkeeping only")
    if requested:
        reason = f"already on the bench: {', '.join(draft.name for draft in requested)}"
    else:
        names = "; ".join(draft.name for draft in offered) or "nothing at all"
        reason = f"not on the list: what can be asked for is {names}"
    return Outcome.make_rejected(reason, RejectedBy.CATALOGUE)


def _is_named_in(request: str, name: str) -> bool:
    """Return whether a request contains every word of a material's name up to the first comma in the name."""
    request_words = {_stem_word(word) for word in _WORD.findall(request)}
    # The part after the first comma is a detail that a request need not repeat.
    return all(_stem_word(word) in request_words for word in _WORD.findall(name.partition(",")[0]))


def _stem_word(word: str) -> str:
    return word.lower().strip(".").removesuffix("s")  # singular and plural


class Ending(StrEnum):
    """How an episode ends by its rules. Gymnasium calls TRUNCATED truncation and the other endings termination."""

    SUBMITTED = "submitted"
    QUIT = "quit"
    REJECTED_OUT = "rejected_out"
    TRUNCATED = "truncated"


@dataclass(frozen=True)
class Step:
    """One attempted action and its outcome. `barcodes[i]` belongs to `outcome.new_materials[i]`."""

    number: int
    started_at: int
    ended_at: int
    action: Action
    inputs: tuple[Material, ...]
    outcome: Outcome
    barcodes: tuple[str, ...]
    # Every later prompt of the episode contains the step, so its text is kept with it.
    texts: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def to_transcript(self) -> TranscriptStep:
        outputs = []
        for code, draft in zip(self.barcodes, self.outcome.new_materials, strict=True):
            output = draft.to_json()
            # The hidden ledger has the true contents; neither classifiers nor raters may see it.
            del output["ledger"]
            outputs.append({"barcode": code, **output})
        return TranscriptStep(
            number=self.number,
            started_at=self.started_at,
            ended_at=self.ended_at,
            action=self.action.name,
            parameters=dict(self.action.parameters),
            inputs=tuple(material.to_visible() for material in self.inputs),
            outputs=tuple(outputs),
            observations=tuple(observation.to_json() for observation in self.outcome.new_observations),
            rejected=self.outcome.failure_reason if not self.outcome.success else "",
        )


@dataclass
class Bench:
    """The inventory and history of one episode. Barcodes and times are assigned here and nowhere else."""

    goal: str
    catalogue: Catalogue
    inventory: Inventory
    seed: int
    max_steps: int = 100
    manifest: tuple[NewMaterial, ...] | None = None  # what ManifestMaterials may provide; None disables it (benchmarks)
    protocol: str = ""  # the written protocol that the agent is given; "" gives it none
    history: list[Step] = field(default_factory=list)
    elapsed: int = 0
    ending: Ending | None = None

    def __post_init__(self) -> None:
        if self.manifest is None:
            # Removed from the catalogue, not only rejected, so that an agent is not offered it.
            self.catalogue = self.catalogue.without_action(MANIFEST)

    def replay_steps(self, steps: Iterable[Step]) -> None:
        """Apply recorded steps to this bench without calling an agent or transition model again."""
        for step in steps:
            self._append_step(step)

    @property
    def steps_used(self) -> int:
        """Return the number of attempted actions that count against `max_steps`, including rejected ones."""
        return sum(1 for step in self.history if self._costs_step(step))

    @property
    def consecutive_rejections(self) -> int:
        return sum(1 for _ in takewhile(lambda step: not step.outcome.success, reversed(self.history)))

    def get_situation(self) -> Situation:
        steps_left = self.max_steps - self.steps_used
        return Situation(
            self.goal, self.catalogue, self.inventory, tuple(self.history), self.elapsed, steps_left, self.protocol
        )

    def resolve_action(self, action: Action) -> tuple[Action, Outcome | None]:
        """Return the action with its catalogue name, and its outcome, or None if it needs a transition model."""
        action = self.catalogue.normalise_action(action)
        if reason := self.catalogue.find_rejection(action, self.inventory):
            return action, Outcome.make_rejected(reason, RejectedBy.CATALOGUE)
        if action.name in (SUBMIT, QUIT):
            return action, Outcome(success=True)
        if action.name == MANIFEST:
            return action, fulfil_request(action, self.manifest or (), self.inventory)
        return action, None

    def record_outcome(self, action: Action, outcome: Outcome) -> Step:
        """Append an outcome to the history: assign barcodes, advance the clock, and end the episode if a rule requires it.

        Raises LabError and changes nothing if the outcome is impossible.
        """
        # Inputs are stored as they were before the step, because the inventory changes with the step.
        inputs = tuple(m for code in action.materials if (m := self.inventory.get(code)))
        if problem := _find_problem(outcome, inputs):
            raise LabError(f"{action.name} was answered with an impossible outcome: {problem}")
        number = len(self.history) + 1
        action_type = self.catalogue.find_type(action.name) if outcome.success else None
        step = Step(
            number=number,
            started_at=self.elapsed,
            # A rejected action takes no time: nothing was done.
            ended_at=self.elapsed + (action_type.compute_seconds(action) if action_type else 0),
            action=action,
            inputs=inputs,
            outcome=outcome,
            barcodes=self._assign_barcodes(number, outcome),
        )
        self._append_step(step)
        return step

    def take_step(self, action: Action, model: TransitionModel) -> Step:
        """Try one action. An action that the catalogue rejects costs a step but no model call."""
        action, outcome = self.resolve_action(action)
        return self.record_outcome(action, outcome or model.predict_outcome(action, self.get_situation()))

    def get_transcript(self) -> tuple[TranscriptStep, ...]:
        """Return the transcript for classifiers: actions in order with settings, materials, times and observations."""
        # Submitting and quitting are decisions of the agent, not evidence, so they are left out.
        return tuple(self._with_defaults(step) for step in self.history if step.action.name not in (SUBMIT, QUIT))

    def _with_defaults(self, step: Step) -> TranscriptStep:
        """Return the step for the transcript, with the defaults of omitted parameters if the step was accepted."""
        transcript_step, action_type = step.to_transcript(), self.catalogue.find_type(step.action.name)
        if action_type is None or not step.outcome.success:
            return transcript_step
        defaults = {p.name: p.default for p in action_type.parameters if p.default is not None}
        return transcript_step._replace(parameters={**defaults, **transcript_step.parameters})

    def _append_step(self, step: Step) -> None:
        self.history.append(step)
        self.elapsed = step.ended_at
        if step.outcome.success:
            input_barcodes = [material.barcode for material in step.inputs]
            self.inventory = self.inventory.after_step(
                step.outcome.new_materials, step.barcodes, input_barcodes, step.ended_at
            )
        self.ending = self._find_ending(step)

    def _find_ending(self, step: Step) -> Ending | None:
        if step.outcome.success and step.action.name == SUBMIT:
            return Ending.SUBMITTED
        if step.outcome.success and step.action.name == QUIT:
            return Ending.QUIT
        if self.consecutive_rejections >= REJECTIONS_ALLOWED:
            return Ending.REJECTED_OUT
        if self.steps_used >= self.max_steps:
            return Ending.TRUNCATED
        return None

    def _assign_barcodes(self, number: int, outcome: Outcome) -> tuple[str, ...]:
        taken = {material.barcode for material in self.inventory}
        codes = []
        for index, draft in enumerate(outcome.new_materials):
            # A material that continues an input keeps its barcode; every other material gets a new one.
            code = draft.replaces or make_unused_barcode(self.seed, number, index, taken)
            taken.add(code)
            codes.append(code)
        return tuple(codes)

    def _costs_step(self, step: Step) -> bool:
        action_type = self.catalogue.find_type(step.action.name)
        # An action that is not in the catalogue costs a step too; otherwise an agent could guess names without limit.
        return action_type is None or action_type.costs_step


def _find_problem(outcome: Outcome, inputs: Sequence[Material]) -> str:
    """Return why this outcome is impossible for an action on these materials, or "" if it is possible."""
    if outcome.success == bool(outcome.failure_reason):
        return "it is accepted with a reason for rejection, or rejected without one"
    if outcome.new_materials and not outcome.success:
        return "it is rejected and returns materials"
    # A barcode is removed from this set when its material is returned, so that a second return is detected.
    limited = {material.barcode for material in inputs if material.available_for_use != UNLIMITED}
    input_barcodes = {material.barcode for material in inputs}
    for draft in outcome.new_materials:
        if problem := draft.find_problem():
            return problem
        if foreign := set(draft.derived_from) - input_barcodes:
            return f"{draft.name} comes from {min(foreign)!r}, which is not among the materials of the action"
        if draft.replaces and draft.replaces not in limited:
            return f"{draft.name} returns {draft.replaces!r}: not among the materials, unlimited, or returned twice"
        limited.discard(draft.replaces)
    return ""


def step_to_json(step: Step) -> Mapping[str, Any]:
    """Return a step as JSON, the inverse of `step_from_json`."""
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
