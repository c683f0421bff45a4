"""How many planted errors each detector finds at 5 % false alarms, on experiments that it has not seen."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from simulation.lab.outcomes import Perturbation
from simulation.twin_audit import learned_detector
from simulation.twin_audit.detectors import DETECTORS, Score
from simulation.twin_audit.pairs import ERROR_TYPES, ShownStep, TwinPair

FALSE_ALARMS = 0.05
# The largest share that a detector may find: above it, a rater needs no science to look like an expert.
AIMS = {Perturbation.OBVIOUS: 0.65, Perturbation.SUBTLE: 0.55}
_FOLDS = 6


class Found(NamedTuple):
    """The share of errors of one type that a detector finds, with the exact 95 % interval over twins."""

    error_type: str
    share: float
    low: float
    high: float
    twins: int

    @property
    def aim(self) -> float:
        return AIMS[Perturbation(self.error_type)]

    @property
    def is_within_aim(self) -> bool:
        return self.share <= self.aim


class DetectorResult(NamedTuple):
    """What a detector found of each type of error."""

    name: str
    looks_at: str
    found: tuple[Found, ...]


class _Steps(NamedTuple):
    """All steps to score, the fold of each, and its label: "" for a correct outcome, else the type of its error."""

    steps: list[ShownStep]
    folds: np.ndarray
    labels: np.ndarray


def measure_detectors(
    pairs: Sequence[TwinPair], seed: int = 0, report_progress: Callable[[str], None] = lambda _: None
) -> list[DetectorResult]:
    """Return what every detector finds. Whatever it learns, it learns from the experiments of the other folds."""
    data = _collect_steps(pairs, seed)
    columns: list[np.ndarray] = []
    results = []
    for detector in DETECTORS:
        report_progress(detector.name)
        columns.append(_score_steps(data, detector.fit))
        results.append(DetectorResult(detector.name, detector.looks_at, tuple(_count_found(data, columns[-1]))))
    report_progress(learned_detector.NAME)
    learned = _score_by_learning(data, columns, seed)
    return [
        *results,
        DetectorResult(learned_detector.NAME, learned_detector.LOOKS_AT, tuple(_count_found(data, learned))),
    ]


def _collect_steps(pairs: Sequence[TwinPair], seed: int) -> _Steps:
    """Return every different original once, and every twin. All steps of an experiment are in one fold."""
    experiments = sorted({pair.experiment for pair in pairs})
    order = np.random.default_rng(seed).permutation(len(experiments))
    fold_of = {name: int(order[position]) % _FOLDS for position, name in enumerate(experiments)}
    rows: list[tuple[ShownStep, int, str]] = []
    previous = None
    for pair in pairs:
        fold = fold_of[pair.experiment]
        # The two twins of a step follow each other.
        if pair.original != previous:
            rows.append((pair.original, fold, ""))
        previous = pair.original
        rows.append((pair.twin, fold, pair.error_type))
    steps, folds, labels = zip(*rows, strict=True)
    return _Steps([*steps], np.array(folds), np.array(labels))


def _score_steps(data: _Steps, fit: Callable[[Sequence[ShownStep]], Score]) -> np.ndarray:
    """Return the score of every step, fitted to the correct steps of the other folds."""
    scores = np.zeros(len(data.steps))
    for fold in range(_FOLDS):
        correct = np.flatnonzero((data.folds != fold) & (data.labels == ""))
        score = fit([data.steps[position] for position in correct])
        for position in np.flatnonzero(data.folds == fold):
            scores[position] = score(data.steps[position])
    return scores


def _score_by_learning(data: _Steps, columns: Sequence[np.ndarray], seed: int) -> np.ndarray:
    measured = np.array([learned_detector.measure_features(step) for step in data.steps])
    features = np.column_stack([*columns, measured])
    scores = np.zeros(len(data.steps))
    for fold in range(_FOLDS):
        train, test = data.folds != fold, data.folds == fold
        if test.any():
            model = learned_detector.fit_classifier(features[train], data.labels[train] != "", seed)
            scores[test] = model.predict_proba(features[test])[:, 1]
    return scores


def _count_found(data: _Steps, scores: np.ndarray) -> Iterator[Found]:
    for error_type in ERROR_TYPES:
        twins = scores[data.labels == error_type]
        if len(twins):
            share = find_share_at(scores[data.labels == ""], twins, FALSE_ALARMS)
            low, high = binomtest(round(share * len(twins)), len(twins)).proportion_ci(0.95, "exact")
            yield Found(str(error_type), share, float(low), float(high), len(twins))


def find_share_at(correct: np.ndarray, twins: np.ndarray, false_alarms: float) -> float:
    """Return the share of twins that score above the threshold with this share of correct steps above it.

    Steps with the score of the threshold itself count in the proportion that makes the false alarms exact, as if they
    were called in random order.
    """
    threshold = np.quantile(correct, 1 - false_alarms, method="higher")
    above, at = np.mean(correct > threshold), np.mean(correct == threshold)
    part = (false_alarms - above) / at if at else 0.0
    return float(np.mean(twins > threshold) + np.clip(part, 0, 1) * np.mean(twins == threshold))
