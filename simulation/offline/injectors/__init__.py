"""Perturbers of the rule-based cast. Each plants one error in a correct outcome and names the kind of error.

A wrong text differs from the right one in style: it is longer or shorter, or has more or fewer digits. The errors that fit
an outcome are chosen with probabilities such that each feature of style grows as often as it shrinks. Then no feature
distinguishes a twin from its original. To add a kind of error, declare it with `@plants` in a module of this package.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from math import sqrt
from pkgutil import iter_modules

from simulation.lab.actions import Action
from simulation.lab.deviations import DEFAULT_SIZES, SizeRange
from simulation.lab.errors import LabError, NoErrorFits
from simulation.lab.outcomes import Outcome, Perturbation, PerturbedOutcome
from simulation.lab.roles import Situation
from simulation.offline.injectors import edits

# Importing a module declares its injectors.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

_NUMBER = re.compile(r"(?:(?<![\w.])-)?[0-9]+(?:\.[0-9]+)?")
# Rounds of the iteration. Each round adjusts the shares feature by feature. Adjusting one feature disturbs the features
# before it, so rounds are repeated.
_ROUNDS = 40
_NEGLIGIBLE = 1e-9  # a smaller share counts as zero, so that nothing is divided by it
Style = tuple[int, ...]


class Injector:
    """A perturber that plants one obvious or one subtle error.

    The seed chooses among the errors that fit, with probabilities such that the style of the text does not reveal them.
    """

    def __init__(self, perturbation: Perturbation, seed: int, sizes: SizeRange = DEFAULT_SIZES) -> None:
        if perturbation not in edits.INJECTORS:
            raise LabError(f"no errors are defined for {str(perturbation)!r}; allowed: {', '.join(edits.INJECTORS)}")
        self.perturbation = perturbation
        self.kinds = edits.INJECTORS[perturbation]
        self.seed = seed
        self.sizes = sizes

    def perturb_outcome(self, action: Action, situation: Situation, correct: Outcome) -> PerturbedOutcome:
        """Return the outcome with one error. `situation` is the situation before the step.

        Raises NoErrorFits if no obvious (or no subtle) error fits.
        """
        plans = self.list_plans(action, situation, correct)
        if not plans:
            raise NoErrorFits(f"no {self.perturbation} error fits this outcome of {action.name}")
        weights = {name: self.kinds[name].weight for name in plans}
        kind, plan = choose_plan(plans, weights, self._create_rng(action, situation, "choice"))
        perturbed, location = edits.apply_edits(correct, plan.edits), plan.edits[0].json_path
        return PerturbedOutcome(perturbed, kind, plan.rule, location, plan.explanation)

    def list_plans(self, action: Action, situation: Situation, outcome: Outcome) -> dict[str, list[edits.Plan]]:
        """Return all errors that could be planted here, by kind."""
        if not outcome.success:
            return {}
        case, plans = edits.Case(action, situation, outcome), {}
        for name, kind in self.kinds.items():
            # Each kind has its own random generator, so that a new kind does not change what the others plan.
            rng = self._create_rng(action, situation, name)
            fitting = [plan for plan in kind.iter_plans(case, rng) if _is_single_error(case, plan)]
            # An unfamiliar unit would reveal the error.
            plans[name] = fitting if kind.changes_unit else [plan for plan in fitting if case.has_units_of(plan)]
        return {name: fitting for name, fitting in plans.items() if fitting}

    def _create_rng(self, action: Action, situation: Situation, purpose: str) -> random.Random:
        seed_parts = (situation.goal, len(situation.history), action.name, purpose)
        return random.Random(f"{self.seed}:{self.perturbation}:{seed_parts!r}")


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


def measure_style(text: str) -> Style:
    """Return the features of a text.

    They are the length, the numbers of characters in numbers, of decimal points and of digits that are not padding, the
    sum of first digits, and the number of characters of each other class. First digits are included because invented
    numbers begin with high digits too often.
    """
    numbers = _NUMBER.findall(text)
    words = _NUMBER.sub("", text)
    return (
        len(text),
        sum(map(len, numbers)),
        sum("." in number for number in numbers),
        sum(len(number.strip("-").replace(".", "").strip("0")) for number in numbers),
        sum(int(number.lstrip("-0.")[:1] or 0) for number in numbers),
        sum(map(str.islower, words)),
        sum(map(str.isupper, words)),
        sum(map(str.isspace, words)),
        sum(not character.isascii() for character in words),
        sum(not character.isalnum() and not character.isspace() for character in words),
    )


def compute_style_change(planned: Sequence[edits.Edit]) -> Style:
    """Return for each feature whether the edits together increase it (1), decrease it (-1) or leave it (0)."""
    styles = [(measure_style(edit.old), measure_style(edit.new)) for edit in planned]
    changes = [[after - before for before, after in zip(*pair, strict=True)] for pair in styles]
    totals = map(sum, zip(*changes, strict=True))
    return tuple((total > 0) - (total < 0) for total in totals)


def choose_plan(
    plans: Mapping[str, Sequence[edits.Plan]], weights: Mapping[str, int], rng: random.Random
) -> tuple[str, edits.Plan]:
    """Return one plan and its kind. Kinds with more weight are chosen more often, as far as the balance of style allows."""
    groups: dict[tuple[str, Style], list[edits.Plan]] = defaultdict(list)
    # Sorted, so that the choice does not depend on the order in which kinds were planned.
    for kind in sorted(plans):
        for plan in plans[kind]:
            groups[kind, compute_style_change(plan.edits)].append(plan)
    keys = list(groups)
    group_counts = Counter(kind for kind, _ in keys)
    # A kind's weight is divided among its groups; otherwise kinds with many variants would dominate.
    shares = balance_shares([weights[kind] / group_counts[kind] for kind, _ in keys], [style for _, style in keys])
    key = rng.choices(keys, shares)[0]
    return key[0], rng.choice(groups[key])


def balance_shares(shares: Sequence[float], forms: Sequence[Style]) -> list[float]:
    """Return the shares, adjusted as little as necessary until each feature grows as often as it shrinks.

    If every error that changes a feature changes it in the same direction, the shares of these errors become
    negligible, as long as other errors remain.
    """
    adjusted = list(shares)
    for _ in range(_ROUNDS):
        for signs in zip(*forms, strict=True):
            factors = _compute_factors(adjusted, signs)
            adjusted = [share * factors[sign] for share, sign in zip(adjusted, signs, strict=True)]
        total = sum(adjusted)
        adjusted = [share / total for share in adjusted]
    return adjusted


def _compute_factors(shares: Sequence[float], signs: Sequence[int]) -> dict[int, float]:
    """Return the factors for the shares of errors that increase (1), leave (0) and decrease (-1) a feature."""
    more = sum(share for share, sign in zip(shares, signs, strict=True) if sign > 0)
    less = sum(share for share, sign in zip(shares, signs, strict=True) if sign < 0)
    if more > _NEGLIGIBLE and less > _NEGLIGIBLE:
        # After this both sides have the weight sqrt(more * less).
        return {1: sqrt(less / more), 0: 1.0, -1: sqrt(more / less)}
    # These shares are halved in every round and then normalised, so they vanish only if errors that leave this feature
    # unchanged remain.
    return {1: 0.5, 0: 1.0, -1: 0.5}
