"""The choice among all errors that fit an outcome: places, fields, kinds and scopes in balance, and no feature of style.

A wrong text differs from the right one in style: it is longer or shorter, or has more or fewer digits. The errors that fit
an outcome are chosen with probabilities such that each feature of style grows as often as it shrinks. Then no feature
distinguishes a twin from its original.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

from simulation.lab.outcomes import NOTE
from simulation.offline.injectors import edits
from simulation.offline.injectors.scopes import ALL, ONE

_NUMBER = re.compile(r"(?:(?<![\w.])-)?[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?")
# Rounds of the iteration. Each round adjusts the shares feature by feature. Adjusting one feature disturbs the features
# before it, so rounds are repeated.
_ROUNDS = 40
_NEGLIGIBLE = 1e-9  # a smaller share counts as zero, so that nothing is divided by it
# Observations are rarer than materials: half of all steps have none but a note of what was delivered. Where there are
# measurements, most errors are planted in them; in a note alone, an error contradicts the materials and is found by that.
_MEASURED_SHARE, _NOTED_SHARE = 0.97, 0.48
# Where errors fit in one field of the notes only, which would otherwise have more errors than any other.
_SINGLE_NOTE_SHARE = 0.18
# Fields that nearly every step has: with the share of a rare field they would make most of all errors.
_COMMON_FIELDS = {
    "volume": 0.02, "concentration": 0.015, "phase": 0.04, "container": 0.04, "container_capacity": 0.06, "medium": 0.045,
    "available_for_use": 0.03, "environmental_condition": 0.05, "Delivered from": 0.15, "Delivered from (heading)": 0.13,
    "setting in a heading": 0.6, "Appearance of": 0.08, "cell type": 0.25, "appearance": 0.3, "temperature": 0.12,
}  # fmt: skip
# Settings and notes that several vessels share are wrong for all of them, so single errors are chosen more often elsewhere.
_SCOPE_WEIGHTS = {ONE: 1.0, ALL: 0.5}
_SCIENCE_WEIGHT = 8.0  # of kinds and of the fields that have one
# Where one step allows a feature of measure_style to change in one direction only, the shares of the errors that change it
# are multiplied by these. Over all steps the directions balance: names are exchanged for shorter ones as often as for
# longer ones, and numbers lose digits as often as they gain some, which the tests check.
_PENALTIES = dict.fromkeys(range(11), 0.5) | dict.fromkeys((1, 2, 3, 4), 0.4)
# The part of the choice in which style is balanced over all fields of a step, and not within each. Balanced over all
# alone, the few fields whose numbers can change in both directions (volumes above all) would have most errors.
_OVERALL_PART = 0.3
# Numbers that are much larger or much smaller than the right one are both longer: 10 mL, 120 mL, 0.12 mL.
_LONGER, _MORE_DIGITS = 0.65, 0.8
Style = tuple[int, ...]


class Candidate(NamedTuple):
    """A plan with what the choice balances."""

    kind: str
    scope: str  # one vessel or all its replicates
    place: str  # materials or observations
    field: str  # the property, or the quantity of an observation
    plan: edits.Plan


def find_field(case: edits.Case, edit: edits.Edit) -> str:
    """Return the name of the property or of the observed quantity that an edit changes."""
    if edit.part == edits.MATERIALS:
        name = edit.field.removeprefix("properties.")
        return "concentration" if name.endswith(" concentration") else name
    reading = case.readings[edit.position]
    if reading.measurement_type == NOTE:
        head = re.match(r"Delivered from|Taken off|Appearance of|Volume of|\w+ display", reading.description)
        return (head[0] if head else "note") + (" (heading)" if edit.field == "description" else "")
    if edit.field == "description":
        return "setting in a heading"
    return reading.description.rpartition(": ")[2] if ": " in reading.description else "appearance observed"


def choose_candidate(
    candidates: Sequence[Candidate], kinds: dict[str, edits.ErrorKind], has_measurements: bool, rng: random.Random
) -> Candidate:
    """Return one candidate: places, fields, kinds and scopes with their shares, as far as the balance of style allows."""
    groups: dict[tuple[str, str, str, str, Style], list[Candidate]] = defaultdict(list)
    # Sorted, so that the choice does not depend on the order in which kinds were planned.
    for candidate in sorted(candidates, key=lambda each: (each.place, each.field, each.kind, each.scope)):
        style = compute_style_change(candidate.plan.edits)
        groups[candidate.place, candidate.field, candidate.kind, candidate.scope, style].append(candidate)
    keys = list(groups)
    styles = [key[4] for key in keys]
    parts = compute_shares([key[:4] for key in keys], kinds, has_measurements)
    shares = [share * _weigh_style(style) for share, style in zip(parts, styles, strict=True)]
    within = balance_fields(shares, [key[:2] for key in keys], styles)
    overall = balance_shares(shares, styles, _PENALTIES)
    mixed = [_OVERALL_PART * one + (1 - _OVERALL_PART) * other for one, other in zip(overall, within, strict=True)]
    key = rng.choices(keys, mixed)[0]
    return rng.choice(groups[key])


def _weigh_style(style: Style) -> float:
    """Return the factor that makes up for errors that lengthen a text being more numerous than those that shorten it."""
    length, digits = style[0], style[3]
    return float(_LONGER**length * _MORE_DIGITS**digits)


def balance_fields(shares: Sequence[float], fields: Sequence[tuple[str, str]], forms: Sequence[Style]) -> list[float]:
    """Return the shares with style balanced among the errors of each field, so that every field keeps its share."""
    adjusted = list(shares)
    for field in set(fields):
        chosen = [index for index, other in enumerate(fields) if other == field]
        total = sum(shares[index] for index in chosen)
        parts = balance_shares([shares[index] for index in chosen], [forms[index] for index in chosen], _PENALTIES)
        for index, part in zip(chosen, parts, strict=True):
            adjusted[index] = total * part
    return adjusted


def compute_shares(
    keys: Sequence[tuple[str, str, str, str]], kinds: dict[str, edits.ErrorKind], has_measurements: bool
) -> list[float]:
    """Return the share of each (place, field, kind, scope) before style is balanced.

    A place's share is divided among its fields, a field's among its kinds, a kind's among its scopes, and a scope's
    equally among equal keys.
    """
    noted_fields = {field for place, field, _, _ in keys if place == edits.OBSERVATIONS}
    noted = _NOTED_SHARE if len(noted_fields) > 1 else _SINGLE_NOTE_SHARE
    observed = _MEASURED_SHARE if has_measurements else noted
    place_weights = {edits.OBSERVATIONS: observed, edits.MATERIALS: 1 - observed}
    scientific = {field for _, field, kind, _ in keys if kinds[kind].science}
    weights = [
        (
            place_weights[place],
            _COMMON_FIELDS.get(field, 1.0) * (_SCIENCE_WEIGHT if field in scientific else 1.0),
            kinds[kind].weight * (_SCIENCE_WEIGHT if kinds[kind].science else 1.0),
            _SCOPE_WEIGHTS[scope],
        )
        for place, field, kind, scope in keys
    ]
    shares = [1.0] * len(keys)
    for level in range(4):
        # The parts of one whole are the different values at this level below the same values of the levels above.
        parts: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
        for key, weight in zip(keys, weights, strict=True):
            parts[key[:level]][key[level]] = weight[level]
        for index, key in enumerate(keys):
            siblings = parts[key[:level]]
            shares[index] *= siblings[key[level]] / sum(siblings.values())
    counts = Counter(keys)
    return [share / counts[key] for share, key in zip(shares, keys, strict=True)]


@lru_cache(maxsize=20_000)  # the same texts are edited by many candidates
def measure_style(text: str) -> Style:
    """Return the features of a text.

    They are the length, the numbers of characters in numbers, of decimal points and of digits that are not padding, the
    sum of first digits, the number of characters of each other class, and the number of numbers that end in 0. First digits are included because invented
    numbers begin with high digits too often.
    """
    numbers = _NUMBER.findall(text)
    words = _NUMBER.sub("", text)
    return (
        len(text),
        sum(map(len, numbers)),
        sum("." in number for number in numbers),
        sum(len(number.partition("e")[0].strip("-").replace(".", "").strip("0")) for number in numbers),
        sum(int(number.lstrip("-0.")[:1] or 0) for number in numbers),
        sum(map(str.islower, words)),
        sum(map(str.isupper, words)),
        sum(map(str.isspace, words)),
        sum(not character.isascii() for character in words),
        sum(not character.isalnum() and not character.isspace() for character in words),
        sum(number.endswith("0") for number in numbers),
    )


def compute_style_change(planned: Sequence[edits.Edit]) -> Style:
    """Return for each feature whether the edits together increase it (1), decrease it (-1) or leave it (0)."""
    styles = [(measure_style(edit.old), measure_style(edit.new)) for edit in planned]
    changes = [[after - before for before, after in zip(*pair, strict=True)] for pair in styles]
    totals = map(sum, zip(*changes, strict=True))
    return tuple((total > 0) - (total < 0) for total in totals)


def balance_shares(
    shares: Sequence[float], forms: Sequence[Style], penalties: Mapping[int, float] | None = None
) -> list[float]:
    """Return the shares, adjusted as little as necessary until each feature grows as often as it shrinks.

    If every error that changes a feature changes it in the same direction, the shares of these errors become
    negligible, as long as other errors remain; with a penalty for the feature, they are multiplied by it instead.
    """
    adjusted = list(shares)
    one_sided = [_is_one_sided(signs) for signs in zip(*forms, strict=True)]
    spared = {position: factor for position, factor in (penalties or {}).items() if one_sided[position]}
    for index, form in enumerate(forms):
        # The strongest penalty only: features that change together would count several times.
        adjusted[index] *= min((factor for position, factor in spared.items() if form[position]), default=1.0)
    for _ in range(_ROUNDS):
        for position, signs in enumerate(zip(*forms, strict=True)):
            if position not in spared:
                factors = _compute_factors(adjusted, signs)
                adjusted = [share * factors[sign] for share, sign in zip(adjusted, signs, strict=True)]
        total = sum(adjusted)
        adjusted = [share / total for share in adjusted]
    return adjusted


def _is_one_sided(signs: Sequence[int]) -> bool:
    return not (1 in signs and -1 in signs)


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
