"""Detectors of planted errors that know no science. Each scores one step; a higher score is more suspicious.

A rater who finds an error in this way has not judged whether the step is plausible. So what these find limits what a
result on planted errors can mean.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import log
from statistics import median
from typing import NamedTuple

from simulation.twin_audit.pairs import ShownStep
from simulation.twin_audit.step_reading import (
    NUMBER,
    Statement,
    group_replicates,
    iter_parameter_texts,
    iter_texts,
    list_rows,
    list_texts,
    read_amounts,
    read_bulk,
    read_numbers,
)

_NOTHING = 1e-9
_SAME = 0.005  # relative difference that rounding explains
_NEAR = 0.75  # two amounts that differ by less may be meant to be the same
_ALONE = 100.0  # score of a text that differs from the equal texts of all other replicates
_PRIOR_STEPS = 5
_STATES = ("phase", "environmental_condition", "available_for_use")
# What a note on appearance can mean for the state, by the words alone.
_LOOKS = {
    "frozen solid": ("frozen",),
    "liquid over a sediment": ("pellet and supernatant",),
    "pellet": ("pellet",),
    "dry powder": ("powder", "solid"),
    "cloudy": ("suspension",),
}

Score = Callable[[ShownStep], float]


class Detector(NamedTuple):
    """A detector's name, what it looks at, and the function that learns from correct steps and returns its score."""

    name: str
    looks_at: str
    fit: Callable[[Sequence[ShownStep]], Score]


def score_odd_one_out(step: ShownStep) -> float:
    """Return how far one of several replicates is from the others, in units of the spread of the others."""
    return max((_score_group(group) for group in group_replicates(step) if len(group) > 2), default=0.0)


def _score_group(group: Sequence[Statement]) -> float:
    texts = Counter(statement.after for statement in group)
    if len(texts) == 1:
        return 0.0
    numbers = [read_numbers(statement.after) for statement in group]
    is_numeric = len({NUMBER.sub("#", text) for text in texts}) == 1 and all(numbers)
    if not is_numeric:
        (_, most), *others = texts.most_common()
        return _ALONE if len(others) == 1 and most == len(group) - 1 else 0.0
    return max(_score_numbers(column) for column in zip(*numbers, strict=True))


def _score_numbers(values: Sequence[float]) -> float:
    """Return the distance of the most distant value from the median of the others, in units of their spread."""
    distances = []
    for position, value in enumerate(values):
        others = [*values[:position], *values[position + 1 :]]
        middle = median(others)
        spread = max(others) - min(others) + _SAME * abs(middle) + _NOTHING
        distances.append(min(abs(value - middle) / spread, _ALONE))
    return max(distances)


def score_sums(step: ShownStep) -> float:
    """Return the volume or mass that appears or is missing, as a share of what was moved."""
    # What is drawn from an unlimited supply is missing nowhere.
    unlimited = any(
        material["available_for_use"] == "unlimited" and read_bulk(list_texts(material)) for material in step.inputs
    )
    worst = 0.0
    for name in ("volume", "mass"):
        gain = moved = 0.0
        for row in list_rows(step):
            change = read_bulk(row.after).get(name, 0.0) - read_bulk(row.before).get(name, 0.0)
            gain, moved = gain + change, moved + abs(change)
        if moved > _NOTHING and not unlimited:
            worst = max(worst, abs(gain) / moved)
    return worst


def score_repetitions(step: ShownStep) -> float:
    """Return how far a statement is from the nearest one that it repeats: notes, settings and volumes of one step."""
    return max(list_repetition_scores(step))


def list_repetition_scores(step: ShownStep) -> list[float]:
    """Return the scores of noted amounts, settings, appearances, shares and noted sources, each on its own."""
    parts = (_score_notes, _score_settings, _score_looks, _score_shares, _score_sources)
    return [score(step) for score in parts]


def _score_notes(step: ShownStep) -> float:
    """Return the largest relative distance of a noted amount from the nearest amount of the step that it may repeat."""
    known: list[tuple[str, float]] = [amount for _, text in iter_parameter_texts(step) for amount in read_amounts(text)]
    for row in list_rows(step):
        before, after = read_bulk(row.before), read_bulk(row.after)
        known += [*after.items(), *((name, abs(value - before.get(name, 0.0))) for name, value in after.items())]
    worst = 0.0
    for record in step.observations:
        for dimension, value in read_amounts(str(record["value"])):
            others = [other for kind, other in known if kind == dimension and other]
            nearest = min((abs(value - other) / abs(other) for other in others), default=0.0)
            worst = max(worst, nearest if _SAME < nearest < _NEAR else 0.0)
    return worst


def _score_settings(step: ShownStep) -> float:
    """Return 1 if a record names a setting of the action with another value, 0 if not."""
    settings: dict[str, list[str]] = {}
    for name, text in iter_parameter_texts(step):
        settings.setdefault(name, []).append(text)
    for record in step.observations:
        for name, texts in settings.items():
            stated = re.search(rf", {re.escape(name)} (.*?)(?=, [a-z]|: |$)", str(record["description"]))
            if stated and not any(text in stated[1] or stated[1] in text for text in texts):
                return 1.0
    return 0.0


def _score_looks(step: ShownStep) -> float:
    """Return 1 if a note on appearance and the state of the only material that it can mean differ in words."""
    phases = {row.after.get("phase", "") for row in list_rows(step)}
    looks = [
        str(record["value"]) for record in step.observations if str(record["description"]).startswith("Appearance")
    ]
    return 1.0 if any(look in _LOOKS and not phases & set(_LOOKS[look]) for look in looks) else 0.0


def _score_sources(step: ShownStep) -> float:
    """Return the number of notes on a delivery that name no material of which there is less than before."""
    reduced = [
        row.name
        for row in list_rows(step)
        if any(read_bulk(row.after).get(name, 0.0) < value for name, value in read_bulk(row.before).items())
    ]
    notes = [str(record["description"]) for record in step.observations]
    delivered = [note for note in notes if note.startswith("Delivered from ")]
    return 1.0 * sum(not any(name in note for name in reduced) for note in delivered if reduced)


def _score_shares(step: ShownStep) -> float:
    """Return the relative distance of a percentage from the two counts in the same text, "12 % (24 of 200 events)"."""
    worst = 0.0
    for record in step.observations:
        for percent, part, whole in re.findall(r"([0-9.]+) % \(([0-9]+) of ([0-9]+)", str(record["value"])):
            expected = 100 * float(part) / max(float(whole), 1)
            worst = max(worst, abs(float(percent) - expected) / max(expected, 1) if expected <= 100 else _ALONE)
    return worst


def fit_state_changes(steps: Sequence[ShownStep]) -> Score:
    """Return the score of the rarest change of phase, place or availability, as its surprise among correct steps."""
    counts = Counter(change for step in steps for change in set(_list_state_changes(step)))
    totals = Counter(change[:2] for step in steps for change in set(_list_state_changes(step)))

    def score(step: ShownStep) -> float:
        surprises = (log((totals[change[:2]] + 20) / (counts[change] + 0.5)) for change in _list_state_changes(step))
        return max(surprises, default=0.0)

    return score


def fit_carried_over(steps: Sequence[ShownStep]) -> Score:
    """Return the score of the text that is most rarely new after such an action, rather than as it was before."""
    counts = Counter(origin for step in steps for origin in set(_list_origins(step)))
    totals = Counter(origin[:3] for step in steps for origin in set(_list_origins(step)))

    def score(step: ShownStep) -> float:
        surprises = (log((totals[origin[:3]] + 1) / (counts[origin] + 0.5)) for origin in _list_origins(step))
        return max(surprises, default=0.0)

    return score


def _list_origins(step: ShownStep) -> list[tuple[str, str, str, str]]:
    """Return (action, place, "continued" or "new", where the text comes from) of each text of the materials."""
    shown = [list_texts(material) for material in step.inputs]
    settings = {text for _, text in iter_parameter_texts(step)}
    origins = []
    for row in list_rows(step):
        for name, text in row.after.items():
            if row.before.get(name) == text:
                origin = "as before"
            elif any(texts.get(name) == text for texts in shown):
                origin = "as in an input"
            else:
                origin = "as set" if any(text in setting or setting in text for setting in settings) else "new"
            place = "concentration" if name.endswith(" concentration") else name
            origins.append((step.action["name"], place, "continued" if row.before else "new", origin))
    return origins


def _list_state_changes(step: ShownStep) -> list[tuple[str, str, str]]:
    """Return (field, value before, value after) of each material's states, also of those that did not change."""
    changes = []
    for row in list_rows(step):
        changes += [(name, row.before.get(name, ""), row.after.get(name, "")) for name in _STATES]
        # A state that does not fit the place needs no knowledge either, only a table of what occurs together.
        changes.append(("state and place", row.after.get("phase", ""), row.after["environmental_condition"]))
    return changes


def fit_digits(steps: Sequence[ShownStep]) -> Score:
    """Return the score of the rarest form of a number: its digits before and after the point, zeros, and its unit."""
    forms = Counter(form for step in steps for form in set(_list_number_forms(step)))
    places = Counter(form[0] for step in steps for form in set(_list_number_forms(step)))

    def score(step: ShownStep) -> float:
        return max(
            (log((places[form[0]] + 20) / (forms[form] + 0.5)) for form in _list_number_forms(step)), default=0.0
        )

    return score


def _list_number_forms(step: ShownStep) -> list[tuple[str, str]]:
    """Return (place, form) of each text with a number: "12.50 mL" has the form "##.#0 mL"."""
    known = {str(value) for material in step.inputs for value in material["properties"].values()}
    texts = [(place, text) for place, text in iter_texts(step) if text not in known]
    return [(place, re.sub("[1-9]", "#", text)) for place, text in texts if NUMBER.search(text) and len(text) < 40]


def fit_lengths(steps: Sequence[ShownStep]) -> Score:
    """Return the score of the text whose length is rarest at its place, or of a jump in length among like texts."""
    lengths: dict[str, Counter[int]] = {}
    for step in steps:
        for place, text in iter_texts(step):
            lengths.setdefault(place, Counter())[len(text)] += 1

    def score(step: ShownStep) -> float:
        worst = 0.0
        for place, text in iter_texts(step):
            counts: Mapping[int, int] = lengths.get(place, {})
            worst = max(worst, log((sum(counts.values()) + 20) / (counts.get(len(text), 0) + 0.5)))
        for group in group_replicates(step):
            sizes = sorted(len(statement.after) for statement in group)
            worst = max(worst, *(1.0 * (after - before) for before, after in pairwise(sizes)))
        return worst

    return score


def compare_within_actions(raw_score: Score) -> Callable[[Sequence[ShownStep]], Score]:
    """Return a detector whose score is the surprise of the raw score among correct steps of the same action.

    What is unusual in a transfer may be usual in a serial dilution; a program learns that without any science.
    """

    def fit(steps: Sequence[ShownStep]) -> Score:
        by_action: dict[str, list[float]] = {}
        for step in steps:
            by_action.setdefault(step.action["name"], []).append(raw_score(step))
        everything = sorted(value for values in by_action.values() for value in values)
        ordered = {action: sorted(values) for action, values in by_action.items()}

        def score(step: ShownStep) -> float:
            value = raw_score(step)
            if value <= 0:
                return 0.0
            same = ordered.get(step.action["name"], [])
            overall = (len(everything) - bisect_left(everything, value) + 1) / (len(everything) + 1)
            # Few steps of an action do not establish what is usual there, so all steps count as some more of it.
            share = (len(same) - bisect_left(same, value) + _PRIOR_STEPS * overall) / (len(same) + _PRIOR_STEPS)
            return -log(share) + min(value, _ALONE) * _NOTHING

        return score

    return fit


def fit_three_rules(steps: Sequence[ShownStep]) -> Score:
    """Return the largest score of three of these detectors, as a short script would combine them."""
    fitted = [compare_within_actions(raw)(steps) for raw in (score_odd_one_out, score_sums)]
    fitted.append(fit_state_changes(steps))
    return lambda step: max(score(step) for score in fitted)


DETECTORS = (
    Detector("odd one out", "one of several replicates differs", compare_within_actions(score_odd_one_out)),
    Detector("sums", "volumes or masses that do not add up", compare_within_actions(score_sums)),
    Detector(
        "repetitions", "notes and settings that contradict what they repeat", compare_within_actions(score_repetitions)
    ),
    Detector("state changes", "rare changes of phase, place or availability", fit_state_changes),
    Detector("carried over", "texts that are rarely new after such an action", fit_carried_over),
    Detector("digits", "rare forms of numbers", fit_digits),
    Detector("lengths", "rare lengths of texts", fit_lengths),
    Detector("three rules", "odd one out, sums and state changes together", fit_three_rules),
)
