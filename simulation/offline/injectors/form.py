"""Which of many possible errors is planted: one whose form says nothing.

A wrong text differs from the right one in its form: it is longer or shorter, has more or fewer digits. The errors that
fit an outcome are taken with such chances that each figure of form grows as often as it shrinks; then none of them
tells a twin from an original.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from simulation.offline.injectors.changes import Edit, Plan

Form = tuple[int, ...]
_NUMBER = re.compile(r"(?:(?<![\w.])-)?[0-9]+(?:\.[0-9]+)?")
_ROUNDS = 40
_LITTLE = 1e-9


class Cell(NamedTuple):
    """All errors of one kind that change the form alike."""

    kind: str
    form: Form
    plans: list[Plan]


def of(text: str) -> Form:
    """Length, characters of figures, decimal points, digits that are no padding, first digits, and each other class.

    First digits, because figures made up begin with high digits too often.
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


def change(edits: Sequence[Edit]) -> Form:
    """In which direction the edits change each figure of the outcome's form: more (1), less (-1) or not at all (0)."""
    changes = [[new - old for old, new in zip(of(edit.old), of(edit.new), strict=True)] for edit in edits]
    totals = map(sum, zip(*changes, strict=True))
    return tuple((total > 0) - (total < 0) for total in totals)


def choose(plans: Mapping[str, Sequence[Plan]], weights: Mapping[str, int], rng: random.Random) -> tuple[str, Plan]:
    """One plan and its kind. Kinds of more weight are taken more often, as far as the balance of form allows."""
    groups = _cells(plans)
    group_counts = Counter(group.kind for group in groups)
    shares = balanced(
        [weights[group.kind] / group_counts[group.kind] for group in groups], [group.form for group in groups]
    )
    group = rng.choices(groups, shares)[0]
    return group.kind, rng.choice(group.plans)


def _cells(plans: Mapping[str, Sequence[Plan]]) -> list[Cell]:
    groups: dict[tuple[str, Form], list[Plan]] = defaultdict(list)
    for kind in sorted(plans):
        for plan in plans[kind]:
            groups[kind, change(plan.edits)].append(plan)
    return [Cell(kind, form, group) for (kind, form), group in groups.items()]


def balanced(shares: Sequence[float], forms: Sequence[Form]) -> list[float]:
    """The shares moved, as little as need be, until each figure of form grows as often as it shrinks.

    What makes a figure grow that nothing makes shrink is given up, as long as something else is left.
    """
    adjusted = list(shares)
    for _ in range(_ROUNDS):
        for feature in range(len(forms[0])):
            factors = _factors(adjusted, [form[feature] for form in forms])
            adjusted = [share * factors[form[feature]] for share, form in zip(adjusted, forms, strict=True)]
        total = sum(adjusted)
        adjusted = [share / total for share in adjusted]
    return adjusted


def _factors(shares: Sequence[float], signs: Sequence[int]) -> dict[int, float]:
    """By what to multiply the shares of those that grow (1), stay (0) and shrink (-1)."""
    more = sum(share for share, sign in zip(shares, signs, strict=True) if sign > 0)
    less = sum(share for share, sign in zip(shares, signs, strict=True) if sign < 0)
    if more > _LITTLE and less > _LITTLE:
        return {1: sqrt(less / more), 0: 1.0, -1: sqrt(more / less)}
    return {1: 0.5, 0: 1.0, -1: 0.5}
