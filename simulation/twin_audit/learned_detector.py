"""A small detector that is trained on other experiments: gradient boosting of features that need no science.

Its features are the scores of the other detectors and plain counts. It measures what can be found by combining them.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from simulation.twin_audit.pairs import ShownStep
from simulation.twin_audit.step_reading import NUMBER, group_replicates, iter_texts, list_rows, read_bulk

NAME, LOOKS_AT = "learned", "all of these together with plain counts, trained on other experiments"
_ROUNDS, _LEAVES, _LEAST_STEPS = 80, 8, 20


def count_features(step: ShownStep) -> list[float]:
    """Return counts of a step: its rows, texts, lengths, digits, changes and differing replicates."""
    rows = list_rows(step)
    texts = [text for _, text in iter_texts(step)]
    numbers = [number for text in texts for number in NUMBER.findall(text)]
    continued = [row for row in rows if row.before]
    changed = [
        {name for name in {*row.before, *row.after} if row.before.get(name) != row.after.get(name)} for row in continued
    ]
    digits = [number.strip("-").replace(".", "").strip("0") for number in numbers]
    ratios = [
        abs(np.log((after[name] + 1e-9) / (before[name] + 1e-9)))
        for row in continued
        for before, after in [(read_bulk(row.before), read_bulk(row.after))]
        for name in before.keys() & after.keys()
    ]
    differing = [group for group in group_replicates(step) if len({one.after for one in group}) > 1]
    return [
        len(rows), len(step.inputs), len(step.observations), len(texts), sum(map(len, texts)),
        max(map(len, texts), default=0), len(numbers), max(map(len, digits), default=0),
        float(np.mean([len(digit) for digit in digits] or [0])),
        float(np.mean([float(digit[:1] or 0) for digit in digits] or [0])),
        sum("." in number for number in numbers), sum(number.endswith("0") for number in numbers),
        sum(map(bool, changed)), sum(map(len, changed)), max(map(len, changed), default=0),
        sum("phase" in names for names in changed), sum("environmental_condition" in names for names in changed),
        sum("volume" in names for names in changed), sum(not names for names in changed),
        max(ratios, default=0.0), min(ratios, default=0.0), len(differing),
        len(step.action["parameters"]), len({row.after.get("phase") for row in rows}),
    ]  # fmt: skip


def fit_classifier(features: np.ndarray, is_twin: np.ndarray, seed: int) -> HistGradientBoostingClassifier:
    """Return a classifier that is fitted to steps with and without an error."""
    model = HistGradientBoostingClassifier(
        max_iter=_ROUNDS, max_leaf_nodes=_LEAVES, min_samples_leaf=_LEAST_STEPS, learning_rate=0.1, random_state=seed
    )
    return model.fit(features, is_twin)
