"""Decide from the visible difference alone whether a planted error is obvious or subtle.

The rule knows neither who planted the error nor its kind. It reads what a correct outcome states and what is stated instead:
numbers by their factor, temperatures and pH by their distance, states and places by their class. Words that are none of these
need science, so it leaves them undecided.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from simulation.lab.deviations import measure_deviation
from simulation.lab.outcomes import Perturbation

# A number that is off by less than this factor is subtle. Subtle errors have deviations up to 40 % unless the order states
# another range (1.4 up, 1.67 down); obvious ones are off by a factor of two or more.
OBVIOUS_FACTOR = 1.8
OBVIOUS_DEGREES = 30.0  # °C; no setting of this laboratory is read so far from what was set
OBVIOUS_PH = 1.5  # pH units, a factor of thirty in acidity
_FLUID = ("liquid", "suspension", "adherent culture", "pellet and supernatant", "pellet")
_STATE_CLASSES = {**dict.fromkeys(_FLUID, "fluid"), "frozen": "frozen", "empty container": "empty"}
_FREEZING = ("-20C", "-80C", "-196C", "dry_ice")
_DEGREES = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?= °C)")
_NUMBER = re.compile(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?")
_PH = re.compile(r"\bpH\b")


class Change(NamedTuple):
    """A text that an error replaced."""

    place: str  # the name of a property or field, or the description of a record
    before_step: str  # "" if there was none
    correct: str
    planted: str


def decide_error_type(changes: Iterable[Change]) -> Perturbation | None:
    """Return whether the changes together are an obvious or a subtle error, or None if the rule cannot decide.

    One obvious change makes the error obvious.
    """
    decided = {_decide_change(change) for change in changes}
    for error_type in (Perturbation.OBVIOUS, Perturbation.SUBTLE):
        if error_type in decided:
            return error_type
    return None


def _decide_change(change: Change) -> Perturbation | None:
    if change.place == "available_for_use":
        return Perturbation.OBVIOUS  # a material that is used up and can be used
    if change.place == "phase":
        return _decide_class(change, *(_STATE_CLASSES.get(text, "dry") for text in (change.correct, change.planted)))
    if change.place == "environmental_condition":
        return _decide_class(change, *(str(text in _FREEZING) for text in (change.correct, change.planted)))
    if _PH.search(change.place):
        return _decide_distance(_NUMBER, change, OBVIOUS_PH)
    if _DEGREES.search(change.correct):
        return _decide_distance(_DEGREES, change, OBVIOUS_DEGREES)
    deviation = measure_deviation(change.correct, change.planted)
    if deviation is None:
        return None
    factor = 1 + deviation
    # A factor of zero or less: a negative number, or nothing, of what is there.
    is_large = factor <= 1 / OBVIOUS_FACTOR or factor >= OBVIOUS_FACTOR
    return Perturbation.OBVIOUS if is_large else Perturbation.SUBTLE


def _decide_class(change: Change, correct: str, planted: str) -> Perturbation:
    """Return SUBTLE for a state or place of the same class, or one that the step should have changed and did not."""
    is_plausible = correct == planted or change.planted == change.before_step
    return Perturbation.SUBTLE if is_plausible else Perturbation.OBVIOUS


def _decide_distance(pattern: re.Pattern[str], change: Change, limit: float) -> Perturbation | None:
    correct, planted = (
        [float(number) for number in pattern.findall(text)] for text in (change.correct, change.planted)
    )
    if not correct or len(correct) != len(planted):
        return None
    distance = max(abs(new - old) for old, new in zip(correct, planted, strict=True))
    if not distance:
        return None
    return Perturbation.OBVIOUS if distance >= limit else Perturbation.SUBTLE
