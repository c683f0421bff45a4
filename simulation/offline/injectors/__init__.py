"""Perturbers of the offline cast: each plants one error in a correct outcome and says which."""

import random
from collections.abc import Iterator

from simulation.lab.actions import Action
from simulation.lab.errors import LabError, NoErrorFits
from simulation.lab.outcomes import Outcome, Perturbation, PerturbedOutcome
from simulation.lab.roles import Situation
from simulation.offline.injectors import (
    amounts,
    conservation,
    form,
    instruments,
    limits,
    phases,
    settings,
    states,
    swaps,
)
from simulation.offline.injectors.changes import (
    MATERIALS,
    OBSERVATIONS,
    Case,
    Edit,
    Kind,
    Plan,
    applied,
    told,
    units,
)

# Obvious: anyone who knows a laboratory sees that this cannot have happened. Subtle: it looks like a good outcome
# and is wrong in a single figure, setting or state.
KINDS: dict[Perturbation, dict[str, Kind]] = {
    Perturbation.OBVIOUS: {kind.__name__: kind for topic in (conservation, phases, limits) for kind in topic.KINDS},
    Perturbation.SUBTLE: {
        kind.__name__: kind for topic in (amounts, swaps, settings, states, instruments) for kind in topic.KINDS
    },
}

# In these the unit is the error.
_OF_UNITS = ("unit_out_of_reach", "band_too_long", "reading_in_wrong_unit", "impossible_setting", "wrong_unit")
# These fit nearly everywhere and are taken less often, so that the particular ones are seen.
_EVERYWHERE = (
    "frozen_in_the_warm", "another_phase", "impossible_place", "volume_gained", "wrong_setting", "wrong_phase",
    "wrong_place", "another_vessel", "unasked_change", "portion_slip", "off_by_ten", "swapped_solutes",
    "swapped_samples", "wrong_temperature", "swapped_identities",
)  # fmt: skip
# Their form seldom has its opposite beside it.
_SCARCE = (
    "dilution_slip", "wrong_time", "negative_reading", "not_thawed", "swapped_readings", "consumed_comes_back",
    "wrong_objective", "share_and_count", "impossible_temperature",
)  # fmt: skip
_WEIGHTS = {
    name: 1 if name in _EVERYWHERE else 12 if name in _SCARCE else 4 for kinds in KINDS.values() for name in kinds
}


class Injector:
    """Plants one obvious or one subtle error, chosen by seed among those that fit and that their form does not betray."""

    def __init__(self, perturbation: Perturbation, seed: int) -> None:
        if perturbation not in KINDS:
            raise LabError(f"there is nothing to plant for {str(perturbation)!r}; known: {', '.join(KINDS)}")
        self.perturbation = perturbation
        self.kinds = KINDS[perturbation]
        self.seed = seed

    def applicable(self, action: Action, situation: Situation, outcome: Outcome) -> tuple[str, ...]:
        """Names of the kinds of error this outcome gives room for."""
        return tuple(self.plans(action, situation, outcome))

    def perturb(self, action: Action, situation: Situation, correct: Outcome) -> PerturbedOutcome:
        """The outcome with one error; NoErrorFits where none of this sort fits. `situation` is that before the step."""
        plans = self.plans(action, situation, correct)
        if not plans:
            raise NoErrorFits(f"no {self.perturbation} error fits this outcome of {action.name}")
        kind, plan = form.choose(plans, _WEIGHTS, self._rng(action, situation, "choice"))
        return PerturbedOutcome(applied(correct, plan.edits), kind, plan.rule, plan.edits[0].place, plan.why)

    def plans(self, action: Action, situation: Situation, outcome: Outcome) -> dict[str, list[Plan]]:
        """What each kind could plant here."""
        if not outcome.success:
            return {}
        case = Case(action, situation, outcome)
        plans_by_kind = {}
        for name, kind in self.kinds.items():
            single = [plan for plan in kind(case, self._rng(action, situation, name)) if _single(case, plan)]
            plans_by_kind[name] = single if name in _OF_UNITS else [plan for plan in single if _familiar(case, plan)]
        return {name: plans for name, plans in plans_by_kind.items() if plans}

    def _rng(self, action: Action, situation: Situation, purpose: str) -> random.Random:
        seed_parts = (situation.goal, len(situation.history), action.name, purpose)
        return random.Random(f"{self.seed}:{self.perturbation}:{seed_parts!r}")


def _single(case: Case, plan: Plan) -> bool:
    """Whether it changes something, and nothing else in the outcome gives the lie to what it changes.

    A figure that stands both in a property and in a reading of that material would have to change in both.
    """
    if any(edit.old == edit.new for edit in plan.edits):
        return False
    edited = {(edit.part, edit.at) for edit in plan.edits}
    return not any(
        (part, index) not in edited and told(edit.old, text)
        for edit in plan.edits
        for part, index, text in _beside(case, edit)
    )


def _familiar(case: Case, plan: Plan) -> bool:
    """Whether it brings in no unit that stands nowhere else in the step: that would catch the eye before the error does."""
    return all(unit in case.units for edit in plan.edits for unit in units(edit.new))


def _beside(case: Case, edit: Edit) -> Iterator[tuple[str, int, str]]:
    """What else the outcome says of the same material, in readings or in properties."""
    if edit.part == MATERIALS:
        for index, observation in case.observations():
            if case.subjects[index] == edit.at:
                yield OBSERVATIONS, index, observation.value
    elif edit.field == "value" and (material_index := case.subjects[edit.at]) is not None:
        for value in case.outcome.new_materials[material_index].properties.values():
            yield MATERIALS, material_index, str(value)
