"""Perturbers of the rule-based cast. Each plants one error in a correct outcome and names the kind of error.

Numeric errors have declared sizes (`sizes`), hit one vessel or all its replicates (`scopes`), and are chosen such that no
field, place or style gives them away (`choice`). To add a kind of error, declare it with `@plants` in a module of this
package.
"""

import random
from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from simulation.lab.actions import Action
from simulation.lab.deviations import DEFAULT_SIZES, SizeRange
from simulation.lab.errors import LabError, NoErrorFits
from simulation.lab.outcomes import NOTE, Outcome, Perturbation, PerturbedOutcome
from simulation.lab.planted_errors.error_type import Change, decide_error_type
from simulation.lab.roles import Situation
from simulation.offline.injectors import edits
from simulation.offline.injectors.choice import Candidate, choose_candidate, find_field
from simulation.offline.injectors.scopes import list_scopes
from simulation.offline.injectors.sizes import has_size_of

# Importing a module declares its injectors.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

# Of a kind with very many variants, this many are considered: their number does not make it likelier, only slower.
_MOST_PLANS = 20
_NOTE_FIRST = 0.5


class Injector:
    """A perturber that plants one obvious or one subtle error.

    The seed chooses among the errors that fit, with probabilities such that the style of the text does not reveal them.
    Numbers of subtle errors deviate by a size from `sizes`. `truth` is what the experiment declares: with it, wrong readings
    are sized by the noise of their instruments.
    """

    def __init__(
        self,
        perturbation: Perturbation,
        seed: int,
        sizes: SizeRange = DEFAULT_SIZES,
        truth: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if perturbation not in edits.INJECTORS:
            raise LabError(f"no errors are defined for {str(perturbation)!r}; allowed: {', '.join(edits.INJECTORS)}")
        self.perturbation = perturbation
        self.kinds = edits.INJECTORS[perturbation]
        self.seed = seed
        self.sizes = sizes
        self.truth = truth

    def perturb_outcome(self, action: Action, situation: Situation, correct: Outcome) -> PerturbedOutcome:
        """Return the outcome with one error. `situation` is the situation before the step.

        Raises NoErrorFits if no obvious (or no subtle) error fits.
        """
        candidates = self.list_candidates(action, situation, correct)
        if not candidates:
            raise NoErrorFits(f"no {self.perturbation} error fits this outcome of {action.name}")
        measured = any(one.measurement_type != NOTE for one in correct.new_observations)
        rng = self._create_rng(action, situation, "choice")
        kind, _, _, _, plan = choose_candidate(candidates, self.kinds, measured, rng)
        perturbed, location = edits.apply_edits(correct, plan.edits), plan.edits[0].json_path
        return PerturbedOutcome(perturbed, kind, plan.rule, location, plan.explanation)

    def list_plans(self, action: Action, situation: Situation, outcome: Outcome) -> dict[str, list[edits.Plan]]:
        """Return all errors that could be planted here, by kind."""
        plans: dict[str, list[edits.Plan]] = {}
        for candidate in self.list_candidates(action, situation, outcome):
            plans.setdefault(candidate.kind, []).append(candidate.plan)
        return plans

    def list_candidates(self, action: Action, situation: Situation, outcome: Outcome) -> list[Candidate]:
        """Return all errors that could be planted here, in one vessel or in all replicates."""
        if not outcome.success:
            return []
        case = edits.Case(action, situation, outcome, self.sizes, self.truth)
        candidates = []
        for name, kind in self.kinds.items():
            # Each kind has its own random generator, so that a new kind does not change what the others plan.
            rng = self._create_rng(action, situation, name)
            plans = list(kind.iter_plans(case, rng))
            for plan in rng.sample(plans, min(len(plans), _MOST_PLANS)):
                for scope, fitting in list_scopes(case, plan, kind.systematic):
                    # A note that repeats a wrong volume is as much the location of the error as the vessel is.
                    scoped = _begin_with_note(fitting) if rng.random() < _NOTE_FIRST else fitting
                    if self._fits(case, scoped):
                        place, field = scoped.edits[0].part, find_field(case, scoped.edits[0])
                        candidates.append(Candidate(name, scope, place, field, scoped))
        return candidates

    def _fits(self, case: edits.Case, plan: edits.Plan) -> bool:
        """Return whether the plan has the right size, units that occur in the step, and nothing that contradicts it."""
        sized = has_size_of(self.perturbation, self.sizes, plan.edits[0])
        # An unfamiliar unit would reveal the error.
        if not sized or not _is_single_error(case, plan) or not case.has_units_of(plan):
            return False
        # What the visible difference says must not contradict the type, so that obvious and subtle do not overlap.
        decided = decide_error_type(_describe_change(case, edit) for edit in plan.edits)
        return decided in (None, self.perturbation)

    def _create_rng(self, action: Action, situation: Situation, purpose: str) -> random.Random:
        seed_parts = (situation.goal, len(situation.history), action.name, purpose)
        return random.Random(f"{self.seed}:{self.perturbation}:{seed_parts!r}")


def _begin_with_note(plan: edits.Plan) -> edits.Plan:
    """Return the plan with an edit of a record as its location, if it has one beside edits of materials."""
    ordered = sorted(plan.edits, key=lambda edit: edit.part != edits.OBSERVATIONS)
    return plan._replace(edits=tuple(ordered))


def _describe_change(case: edits.Case, edit: edits.Edit) -> Change:
    """Return the edit as the rule on types of errors reads it."""
    if edit.part == edits.OBSERVATIONS:
        return Change(case.readings[edit.position].description, "", edit.old, edit.new)
    before = case.all_materials[edit.position].before
    name = edit.field.removeprefix("properties.")
    if before is None:
        return Change(name, "", edit.old, edit.new)
    text = before.properties.get(name, getattr(before, name, ""))
    return Change(name, str(text), edit.old, edit.new)


def _is_single_error(case: edits.Case, plan: edits.Plan) -> bool:
    """Return whether the plan changes something and no other statement about the material contradicts it."""
    if any(edit.old == edit.new for edit in plan.edits):
        return False
    edited = {(edit.part, edit.position) for edit in plan.edits}
    return not any(
        (part, index) not in edited and edits.is_mentioned(edit.old, text)
        for edit in plan.edits
        for part, index, text in _iter_other_mentions(case, edit)
    )


def _iter_other_mentions(case: edits.Case, edit: edits.Edit) -> Iterator[tuple[str, int, str]]:
    """Yield (part, index, text) of what else the outcome states about the edited material."""
    if edit.part == edits.MATERIALS:
        for reading in case.list_readings_of(case.all_materials[edit.position]):
            yield edits.OBSERVATIONS, reading.position, reading.value
    elif edit.field == "value" and (subject := case.readings[edit.position].subject) is not None:
        for value in case.all_materials[subject].draft.properties.values():
            yield edits.MATERIALS, subject, str(value)
