"""Perturbers of the rule-based cast. Each plants one error in a correct outcome and names the kind of error."""

import random
from collections.abc import Iterator

from simulation.lab.actions import Action
from simulation.lab.errors import LabError, NoErrorFits
from simulation.lab.outcomes import Outcome, Perturbation, PerturbedOutcome
from simulation.lab.roles import Situation
from simulation.offline.injectors import (
    amounts,
    conservation,
    instruments,
    limits,
    mix_ups,
    phases,
    settings,
    states,
    style_matching,
)
from simulation.offline.injectors.edits import (
    MATERIALS,
    OBSERVATIONS,
    Case,
    Edit,
    InjectorFunction,
    Plan,
    apply_edits,
    is_mentioned,
    list_units,
)

# Obvious: anyone who knows a laboratory sees that the outcome is impossible. Subtle: the outcome looks right and is
# wrong in a single number, setting or state. The function's name is stored as the kind of error with every
# twin, so these functions must not be renamed.
INJECTORS: dict[Perturbation, dict[str, InjectorFunction]] = {
    Perturbation.OBVIOUS: {kind.__name__: kind for topic in (conservation, phases, limits) for kind in topic.INJECTORS},
    Perturbation.SUBTLE: {
        kind.__name__: kind for topic in (amounts, mix_ups, settings, states, instruments) for kind in topic.INJECTORS
    },
}

# In these kinds the unit itself is the error.
_UNIT_ERRORS = ("unit_out_of_reach", "band_too_long", "reading_in_wrong_unit", "impossible_setting", "wrong_unit")
# These kinds fit nearly everywhere. They get a smaller weight, so that the specific kinds are planted as well.
_COMMON = (
    "frozen_in_the_warm", "another_phase", "impossible_place", "volume_gained", "wrong_setting", "wrong_phase",
    "wrong_place", "another_vessel", "unasked_change", "portion_slip", "off_by_ten", "swapped_solutes",
    "swapped_samples", "wrong_temperature", "swapped_identities",
)  # fmt: skip
# Where these kinds fit, an error that changes the style in the opposite way seldom fits, so balancing removes most.
_SCARCE = (
    "dilution_slip", "wrong_time", "negative_reading", "not_thawed", "swapped_readings", "consumed_comes_back",
    "wrong_objective", "share_and_count", "impossible_temperature",
)  # fmt: skip
_WEIGHTS = {
    name: 1 if name in _COMMON else 12 if name in _SCARCE else 4 for kinds in INJECTORS.values() for name in kinds
}


class Injector:
    """A perturber that plants one obvious or one subtle error.

    The seed chooses among the errors that fit, with probabilities such that the style of the text does not reveal them.
    """

    def __init__(self, perturbation: Perturbation, seed: int) -> None:
        if perturbation not in INJECTORS:
            raise LabError(f"no errors are defined for {str(perturbation)!r}; allowed: {', '.join(INJECTORS)}")
        self.perturbation = perturbation
        self.kinds = INJECTORS[perturbation]
        self.seed = seed

    def list_applicable_kinds(self, action: Action, situation: Situation, outcome: Outcome) -> tuple[str, ...]:
        """Return the names of the kinds of error that fit this outcome."""
        return tuple(self.list_plans(action, situation, outcome))

    def perturb_outcome(self, action: Action, situation: Situation, correct: Outcome) -> PerturbedOutcome:
        """Return the outcome with one error. `situation` is the situation before the step.

        Raises NoErrorFits if no obvious (or no subtle) error fits.
        """
        plans = self.list_plans(action, situation, correct)
        if not plans:
            raise NoErrorFits(f"no {self.perturbation} error fits this outcome of {action.name}")
        kind, plan = style_matching.choose_plan(plans, _WEIGHTS, self._create_rng(action, situation, "choice"))
        return PerturbedOutcome(
            apply_edits(correct, plan.edits), kind, plan.rule, plan.edits[0].json_path, plan.explanation
        )

    def list_plans(self, action: Action, situation: Situation, outcome: Outcome) -> dict[str, list[Plan]]:
        """Return all errors that could be planted here, by kind."""
        if not outcome.success:
            return {}
        case = Case(action, situation, outcome)
        plans_by_kind = {}
        for name, kind in self.kinds.items():
            # Each kind has its own random generator, so that a new kind does not change what the others plan.
            single = [
                plan for plan in kind(case, self._create_rng(action, situation, name)) if _is_single_error(case, plan)
            ]
            plans_by_kind[name] = (
                single if name in _UNIT_ERRORS else [plan for plan in single if _uses_familiar_units(case, plan)]
            )
        return {name: plans for name, plans in plans_by_kind.items() if plans}

    def _create_rng(self, action: Action, situation: Situation, purpose: str) -> random.Random:
        seed_parts = (situation.goal, len(situation.history), action.name, purpose)
        return random.Random(f"{self.seed}:{self.perturbation}:{seed_parts!r}")


def _is_single_error(case: Case, plan: Plan) -> bool:
    """Return whether the plan changes something and nothing else in the outcome contradicts the change.

    A number that occurs both in a material's property and in a reading of the material must change in both.
    """
    if any(edit.old == edit.new for edit in plan.edits):
        return False
    edited = {(edit.part, edit.position) for edit in plan.edits}
    return not any(
        (part, index) not in edited and is_mentioned(edit.old, text)
        for edit in plan.edits
        for part, index, text in _iter_other_mentions(case, edit)
    )


def _uses_familiar_units(case: Case, plan: Plan) -> bool:
    """Return whether all units in the plan's new texts occur in the step. An unfamiliar unit would reveal the error."""
    return all(unit in case.known_units for edit in plan.edits for unit in list_units(edit.new))


def _iter_other_mentions(case: Case, edit: Edit) -> Iterator[tuple[str, int, str]]:
    """Yield (part, index, text) of what else the outcome states about the edited material."""
    if edit.part == MATERIALS:
        for index, observation in case.iter_observations():
            if case.subject_indexes[index] == edit.position:
                yield OBSERVATIONS, index, observation.value
    elif edit.field == "value" and (material_index := case.subject_indexes[edit.position]) is not None:
        for value in case.outcome.new_materials[material_index].properties.values():
            yield MATERIALS, material_index, str(value)
