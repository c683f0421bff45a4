"""A small detector that is trained on other experiments: gradient boosting of features that need no science.

Its features are the scores of the other detectors, what they are computed from, and plain counts. It measures what can be
found by combining them.
"""

from collections.abc import Iterator
from math import log

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from simulation.twin_audit.detectors import list_repetition_scores, score_odd_one_out, score_sums
from simulation.twin_audit.pairs import ShownStep
from simulation.twin_audit.step_reading import group_replicates, list_rows, list_texts, read_numbers

NAME, LOOKS_AT = "learned", "all of these together with plain counts, trained on other experiments"
_ROUNDS, _LEAVES, _LEAST_STEPS = 80, 8, 20
_NOTHING = 1e-9
_BULK = ("volume", "mass")


def measure_features(step: ShownStep) -> list[float]:
    """Return the raw scores of a step, how far its numbers are from those of its inputs, and counts of rows and changes."""
    rows = list_rows(step)
    changed = [
        {name for name in {*row.before, *row.after} if row.before.get(name) != row.after.get(name)}
        for row in rows
        if row.before
    ]
    distances = [*_iter_distances(step)]
    differing = [group for group in group_replicates(step) if len({one.after for one in group}) > 1]
    return [
        score_odd_one_out(step), score_sums(step), *list_repetition_scores(step),
        max((distance for name, distance in distances if name.endswith("concentration")), default=0.0),
        max((distance for name, distance in distances if not name.endswith("concentration")), default=0.0),
        sum(row.before.get(name) != text for row in rows for name, text in row.after.items() if name.startswith("container")),
        len(rows), len(step.observations), len(differing), sum(map(bool, changed)), max(map(len, changed), default=0),
    ]  # fmt: skip


def _iter_distances(step: ShownStep) -> Iterator[tuple[str, float]]:
    """Yield (property, logarithm of the factor to the nearest number of the same property of an input)."""
    inputs = [list_texts(material) for material in step.inputs]
    for row in list_rows(step):
        for name, text in row.after.items():
            known = [numbers[0] for texts in inputs if (numbers := read_numbers(texts.get(name, "")))]
            if name not in _BULK and known and (numbers := read_numbers(text)):
                yield name, min(abs(log((abs(numbers[0]) + _NOTHING) / (abs(other) + _NOTHING))) for other in known)


def fit_classifier(features: np.ndarray, is_twin: np.ndarray, seed: int) -> HistGradientBoostingClassifier:
    """Return a classifier that is fitted to steps with and without an error."""
    model = HistGradientBoostingClassifier(
        max_iter=_ROUNDS, max_leaf_nodes=_LEAVES, min_samples_leaf=_LEAST_STEPS, learning_rate=0.1, random_state=seed
    )
    return model.fit(features, is_twin)
