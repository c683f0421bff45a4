"""Perturbers of the offline cast: each plants one error in a correct outcome and says which."""

import random
from collections.abc import Callable

from simulation.lab.actions import Action
from simulation.lab.errors import LabError, NoErrorFits
from simulation.lab.outcomes import Outcome, Perturbation, PerturbedOutcome
from simulation.lab.roles import Situation
from simulation.offline.injectors import obvious, subtle
from simulation.offline.injectors.changes import Case, Planted

KINDS: dict[Perturbation, dict[str, Callable[[Case, random.Random], Planted | None]]] = {
    Perturbation.OBVIOUS: obvious.KINDS,
    Perturbation.SUBTLE: subtle.KINDS,
}


class Injector:
    """Plants one obvious or one subtle error, chosen by seed among the kinds that apply."""

    def __init__(self, perturbation: Perturbation, seed: int) -> None:
        if perturbation not in KINDS:
            raise LabError(f"there is nothing to plant for {str(perturbation)!r}; known: {', '.join(KINDS)}")
        self.perturbation = perturbation
        self.kinds = KINDS[perturbation]
        self.seed = seed

    def applicable(self, action: Action, situation: Situation, outcome: Outcome) -> tuple[str, ...]:
        """Names of the kinds of error this outcome gives room for."""
        return tuple(self._plants(action, situation, outcome))

    def perturb(self, action: Action, situation: Situation, correct: Outcome) -> PerturbedOutcome:
        """The outcome with one error; NoErrorFits where none of this sort fits. `situation` is that before the step."""
        plants = self._plants(action, situation, correct)
        if not plants:
            raise NoErrorFits(f"no {self.perturbation} error fits this outcome of {action.name}")
        kind = self._rng(action, situation, "kind").choice(sorted(plants))
        planted = plants[kind]
        return PerturbedOutcome(planted.outcome, kind, planted.rule, planted.field, planted.why)

    def _plants(self, action: Action, situation: Situation, outcome: Outcome) -> dict[str, Planted]:
        """What each kind would plant; one that would leave the outcome as it is does not apply."""
        if not outcome.success:
            return {}
        case = Case(action, situation, outcome)
        plants = {name: kind(case, self._rng(action, situation, name)) for name, kind in self.kinds.items()}
        return {name: planted for name, planted in plants.items() if planted and planted.outcome != outcome}

    def _rng(self, action: Action, situation: Situation, purpose: str) -> random.Random:
        return random.Random(f"{self.seed}:{self.perturbation}:{len(situation.history)}:{action.name}:{purpose}")
