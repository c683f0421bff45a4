"""Choose which of many possible errors to plant, so that the style of the text does not reveal it.

A wrong text differs from the right one in style: it is longer or shorter, or has more or fewer digits. The errors that fit
an outcome are chosen with probabilities such that each feature of style grows as often as it shrinks. Then no feature
distinguishes a twin from its original.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from simulation.offline.injectors.edits import Edit, Plan

Style = tuple[int, ...]
_NUMBER = re.compile(r"(?:(?<![\w.])-)?[0-9]+(?:\.[0-9]+)?")
# Rounds of the iteration. Each round adjusts the shares feature by feature. Adjusting one feature disturbs the features
# before it, so rounds are repeated.
_ROUNDS = 40
_NEGLIGIBLE = 1e-9  # a smaller share counts as zero, so that nothing is divided by it


class PlanGroup(NamedTuple):
    """All errors of one kind that change the style in the same way."""

    kind: str
    style_change: Style
    plans: list[Plan]


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


def compute_style_change(edits: Sequence[Edit]) -> Style:
    """Return for each feature whether the edits together increase it (1), decrease it (-1) or leave it (0)."""
    changes = [
        [new - old for old, new in zip(measure_style(edit.old), measure_style(edit.new), strict=True)] for edit in edits
    ]
    totals = map(sum, zip(*changes, strict=True))
    return tuple((total > 0) - (total < 0) for total in totals)


def choose_plan(
    plans: Mapping[str, Sequence[Plan]], weights: Mapping[str, int], rng: random.Random
) -> tuple[str, Plan]:
    """Return one plan and its kind. Kinds with more weight are chosen more often, as far as the balance of style allows."""
    groups = _group_plans(plans)
    group_counts = Counter(group.kind for group in groups)
    # A kind's weight is divided among its groups; otherwise kinds with many variants would dominate.
    shares = balance_shares(
        [weights[group.kind] / group_counts[group.kind] for group in groups], [group.style_change for group in groups]
    )
    group = rng.choices(groups, shares)[0]
    return group.kind, rng.choice(group.plans)


def _group_plans(plans: Mapping[str, Sequence[Plan]]) -> list[PlanGroup]:
    groups: dict[tuple[str, Style], list[Plan]] = defaultdict(list)
    # Sorted, so that the choice does not depend on the order in which kinds were planned.
    for kind in sorted(plans):
        for plan in plans[kind]:
            groups[kind, compute_style_change(plan.edits)].append(plan)
    return [PlanGroup(kind, form, group) for (kind, form), group in groups.items()]


def balance_shares(shares: Sequence[float], forms: Sequence[Style]) -> list[float]:
    """Return the shares, adjusted as little as necessary until each feature grows as often as it shrinks.

    If every error that changes a feature changes it in the same direction, the shares of these errors become
    negligible, as long as other errors remain.
    """
    adjusted = list(shares)
    for _ in range(_ROUNDS):
        for feature in range(len(forms[0])):
            factors = _compute_factors(adjusted, [form[feature] for form in forms])
            adjusted = [share * factors[form[feature]] for share, form in zip(adjusted, forms, strict=True)]
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
