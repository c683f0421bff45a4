"""How well a classifier separates two kinds of item by their texts: AUC on held-out pairs, interval, p, power.

The features of a text are the counts of its pieces (words and signs) and of pairs of neighbouring pieces. Within each
training part the pieces most associated with the kind are chosen for a linear discriminant, so that one word among
hundreds is found. Fitting takes a millisecond, so the power can be measured with a word that is planted in the
study's own texts.
"""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GroupKFold

from ratings.stats.planning.precision import compute_auc_variance

MIN_ITEMS = 20  # items of each kind that share an action with one of the other kind
MIN_PAIRS = 10
MAX_ITEMS = 800  # items that are classified; beyond that a sample of pairs, which keeps an audit within minutes
RESAMPLES = 1_000
PERMUTATIONS = 199
MAX_P = 0.025  # one-sided, like the lower end of the interval
TRIALS, TRIAL_RESAMPLES = 40, 300
POWER = 0.8
PLANTED_WORD = "\N{SECTION SIGN}planted\N{SECTION SIGN}"  # a piece that occurs in no text
_MAX_FEATURES = 10  # features of each discriminant
_MIN_TEXTS = 5  # texts of a training part in which a piece must occur
_RIDGE = 0.5  # added to the variances (1 after scaling), so that correlated pieces have a stable solution
_FOLDS = 5
_Z_INTERVAL, _Z_POWER = 1.959964, 0.841621  # two-sided 95%; power of 80%


class Example(NamedTuple):
    """A text with its kind (1 or 0), the pair that stays in one fold, and the stratum it is compared in."""

    text: str
    kind: int
    pair: Hashable
    stratum: str


class Separation(NamedTuple):
    """The AUC of held-out scores with its 95% interval and the p-value of a permutation test.

    `pairs` is the number of pairs resampled. `chance` is the AUC that must be exceeded for a p of at most MAX_P.
    """

    n: tuple[int, int]
    pairs: int
    auc: float
    low: float
    high: float
    p: float
    chance: float

    def is_above(self, margin: float) -> bool:
        """Return whether the interval lies above the margin and such an AUC would rarely arise by chance."""
        return self.low > margin and self.p <= MAX_P


class DetectionPower(NamedTuple):
    """A planted word that separates kinds with this AUC was found in `n_detected` of TRIALS trials."""

    auc: float
    n_detected: int


class Fold(NamedTuple):
    """Indices of a training and a test part, with scaled counts of the pieces that are not rare in training."""

    train: np.ndarray
    test: np.ndarray
    train_counts: np.ndarray
    test_counts: np.ndarray


def select_comparable(examples: Sequence[Example]) -> list[Example]:
    """Return the examples of strata in which both kinds occur."""
    # Texts of different actions differ by their content, which must not count as style.
    shared_strata = {e.stratum for e in examples if e.kind} & {e.stratum for e in examples if not e.kind}
    return [example for example in examples if example.stratum in shared_strata]


def count_kinds(examples: Sequence[Example]) -> tuple[int, int]:
    """Return the number of examples of kind 0 and of kind 1."""
    ones = sum(example.kind for example in examples)
    return len(examples) - ones, ones


def sample_pairs(examples: Sequence[Example], seed: int) -> list[Example]:
    """Return all examples, or a random sample of whole pairs of at most MAX_ITEMS examples."""
    if len(examples) <= MAX_ITEMS:
        return list(examples)
    pairs = list(dict.fromkeys(example.pair for example in examples))
    order = {pairs[index]: rank for rank, index in enumerate(np.random.default_rng(seed).permutation(len(pairs)))}
    sample: list[Example] = sorted(examples, key=lambda example: order[example.pair])[:MAX_ITEMS]
    return select_comparable(sample)


def evaluate_classifier(examples: Sequence[Example], seed: int) -> Separation:
    """Return how well the texts separate kind 1 from kind 0.

    Needs MIN_ITEMS examples of each kind and MIN_PAIRS pairs. The p-value is that of a permutation test, (b + 1) / (m
    + 1).
    """
    layout = _build_layout(examples)
    # The folds depend on pairs alone, so all permutations share them.
    folds = split_folds(_count_pieces([example.text for example in examples]), layout.pairs)
    scores = compute_held_out_scores(folds, layout.kinds)
    weights = np.ones(len(layout.kinds))
    value = compute_auc(scores, layout.kinds, layout.strata, weights)
    rng = np.random.default_rng(seed)
    low, high = _compute_interval(scores, layout, RESAMPLES, rng)
    permutations = (permute_kinds(*layout, rng) for _ in range(PERMUTATIONS))
    scored = ((compute_held_out_scores(folds, kinds), kinds) for kinds in permutations)
    chance_values = np.array([compute_auc(*both, layout.strata, weights) for both in scored])
    p = (int((chance_values >= value).sum()) + 1) / (PERMUTATIONS + 1)
    chance = float(np.sort(chance_values)[PERMUTATIONS - int(MAX_P * (PERMUTATIONS + 1))])
    return Separation(count_kinds(examples), len(set(layout.pairs)), value, low, high, p, chance)


def find_power(examples: Sequence[Example], margin: float, chance: float, seed: int) -> DetectionPower | None:
    """Return the smallest AUC of a planted word that is detected in at least 80% of trials, or None if there is none.

    In each trial the kinds are permuted, and a word that occurs in no text is inserted once, at a random position,
    into a share of the texts of kind 1. A classifier that uses that word perfectly has an AUC of one half plus half
    that share.
    """
    layout = _build_layout(examples)
    rng = np.random.default_rng(seed)
    texts = [example.text for example in examples]
    planted_texts = []
    for pieces in map(str.split, texts):
        pieces.insert(int(rng.integers(len(pieces) + 1)), PLANTED_WORD)
        planted_texts.append(" ".join(pieces))
    piece_counts = _count_pieces([*texts, *planted_texts])
    without, planted = piece_counts[: len(texts)], piece_counts[len(texts) :]
    seeds = rng.integers(2**32, size=TRIALS)
    # AUCs in steps of 0.05 above the margin; an AUC below the margin never counts as detected.
    levels = [level / 20 for level in range(int(margin * 20 + 0.5) + 1, 21)]
    weakest = None
    low, high = 0, len(levels)
    # Binary search: a word in more texts is found at least as often, because trials share their seeds.
    while low < high:
        middle = (low + high) // 2
        trials = (_is_detected(without, planted, layout, levels[middle], margin, chance, int(seed)) for seed in seeds)
        if (n_detected := sum(trials)) >= POWER * TRIALS:
            weakest, high = DetectionPower(levels[middle], n_detected), middle
        else:
            low = middle + 1
    return weakest


def _is_detected(
    without: np.ndarray, planted: np.ndarray, layout: "_Layout", level: float, margin: float, chance: float, seed: int
) -> bool:
    rng = np.random.default_rng(seed)  # the same at each level: a text with the word keeps it at the next higher level
    kinds = permute_kinds(*layout, rng)
    has_it = (kinds == 1) & (rng.random(len(kinds)) < 2 * level - 1)
    scores = compute_held_out_scores(split_folds(np.where(has_it[:, None], planted, without), layout.pairs), kinds)
    value = compute_auc(scores, kinds, layout.strata, np.ones(len(kinds)))
    # The interval cannot be above the margin then, and computing it takes longest.
    if value <= max(margin, chance):
        return False
    return _compute_interval(scores, layout._replace(kinds=kinds), TRIAL_RESAMPLES, rng)[0] > margin


class _Layout(NamedTuple):
    kinds: np.ndarray
    pairs: np.ndarray
    strata: np.ndarray


def _build_layout(examples: Sequence[Example]) -> _Layout:
    pairs = {pair: index for index, pair in enumerate(dict.fromkeys(example.pair for example in examples))}
    strata = {name: index for index, name in enumerate(dict.fromkeys(example.stratum for example in examples))}
    return _Layout(
        np.array([example.kind for example in examples]),
        np.array([pairs[example.pair] for example in examples]),
        np.array([strata[example.stratum] for example in examples]),
    )


def _compute_interval(scores: np.ndarray, layout: _Layout, times: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the 95% interval of the AUC from a bootstrap over pairs."""
    pairs = layout.pairs.max() + 1
    # A bootstrap over pairs as weights: drawing a pair twice is counting its items twice.
    weights = rng.multinomial(pairs, np.full(pairs, 1 / pairs), size=times)[:, layout.pairs]
    low, high = np.nanquantile(compute_weighted_aucs(scores, layout.kinds, layout.strata, weights), [0.025, 0.975])
    return float(low), float(high)


def _count_pieces(texts: Sequence[str]) -> np.ndarray:
    """Return log(1 + n) for the counts n of pieces and neighbouring pairs that are not rare: texts by features."""
    if not any(map(str.split, texts)):
        return np.zeros((len(texts), 0), np.float32)
    vectorizer = CountVectorizer(token_pattern=r"\S+", lowercase=False, ngram_range=(1, 2), dtype=np.float32)
    piece_counts = vectorizer.fit_transform(texts).tocsc()
    # Selected while the matrix is sparse: most pieces are rare.
    rows: np.ndarray = piece_counts[:, np.flatnonzero(np.diff(piece_counts.indptr) >= _MIN_TEXTS)].log1p().toarray()
    return rows


def split_folds(rows: np.ndarray, pairs: np.ndarray) -> list[Fold]:
    """Return the folds, each without the pieces that are rare in its training part. Kinds are not used."""
    folds = []
    for train, test in GroupKFold(_FOLDS).split(pairs, None, pairs):
        train_counts, test_counts = rows[train], rows[test]
        columns = np.flatnonzero(np.count_nonzero(train_counts, axis=0) >= _MIN_TEXTS)
        train_counts, test_counts = train_counts[:, columns], test_counts[:, columns]
        # Scaled by the training part alone; the floor protects pieces that have one count in every text.
        mean, spread = train_counts.mean(axis=0), np.maximum(train_counts.std(axis=0), 1e-3)
        folds.append(Fold(train, test, (train_counts - mean) / spread, (test_counts - mean) / spread))
    return folds


def compute_held_out_scores(folds: Sequence[Fold], kinds: np.ndarray) -> np.ndarray:
    """Return each item's score by a model that was trained without any version of its pair.

    The model is a linear discriminant of the pieces most associated with the kind in its training part.
    """
    scores = np.zeros(len(kinds))
    for fold in folds:
        ones = kinds[fold.train] == 1
        # A training part of one kind has nothing to learn from: its test part keeps a score of 0.
        if ones.all() or not ones.any():
            continue
        strength = np.abs((ones - ones.mean()).astype(np.float32) @ fold.train_counts)
        # Stable, so that ties are resolved in the same way on every machine.
        strongest = np.argsort(-strength, kind="stable")[:_MAX_FEATURES]
        train_best, test_best = (counts[:, strongest].astype(float) for counts in (fold.train_counts, fold.test_counts))
        mean_ones, mean_noughts = train_best[ones].mean(axis=0), train_best[~ones].mean(axis=0)
        covariance = train_best.T @ train_best / len(train_best) + _RIDGE * np.eye(len(strongest))
        direction = np.linalg.solve(covariance, mean_ones - mean_noughts)
        scores[fold.test] = (test_best - (mean_ones + mean_noughts) / 2) @ direction
    return scores


def compute_auc(scores: np.ndarray, kinds: np.ndarray, strata: np.ndarray, weights: np.ndarray) -> float:
    """Return the share of comparisons in a stratum in which kind 1 has the higher score; ties count one half."""
    return float(compute_weighted_aucs(scores, kinds, strata, weights[None, :])[0])


def compute_weighted_aucs(scores: np.ndarray, kinds: np.ndarray, strata: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the AUC for each row of weights (rows by items); NaN where a row leaves nothing to compare."""
    wins_total, total = np.zeros(len(weights)), np.zeros(len(weights))
    for stratum in np.unique(strata):
        ones, noughts = (np.flatnonzero((strata == stratum) & (kinds == kind)) for kind in (1, 0))
        wins = (np.sign(scores[ones][:, None] - scores[noughts][None, :]) + 1) / 2
        wins_total += ((weights[:, ones] @ wins) * weights[:, noughts]).sum(axis=1)
        total += weights[:, ones].sum(axis=1) * weights[:, noughts].sum(axis=1)
    share: np.ndarray = np.divide(wins_total, total, out=np.full(len(weights), np.nan), where=total > 0)
    return share


def permute_kinds(kinds: np.ndarray, pairs: np.ndarray, strata: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Permute the kinds in each stratum: within mixed pairs items exchange kinds, pairs of one kind with each other."""
    permutation = kinds.copy()
    for stratum in np.unique(strata):
        inside = np.flatnonzero(strata == stratum)
        # A plain permutation would separate versions of one kind, and so make the distribution by chance too narrow.
        ones_of_pair = np.bincount(pairs[inside], weights=kinds[inside], minlength=pairs.max() + 1)
        of_pair = np.bincount(pairs[inside], minlength=len(ones_of_pair))
        mixed = ((ones_of_pair > 0) & (ones_of_pair < of_pair))[pairs[inside]]
        mixed_items, uniform_items = inside[mixed], inside[~mixed]
        place = mixed_items[np.lexsort((rng.random(len(mixed_items)), pairs[mixed_items]))]
        permutation[place] = kinds[mixed_items[np.argsort(pairs[mixed_items], kind="stable")]]
        uniform_pairs, first, index_of_pair = np.unique(pairs[uniform_items], return_index=True, return_inverse=True)
        permutation[uniform_items] = kinds[uniform_items][first][rng.permutation(len(uniform_pairs))][index_of_pair]
    return permutation


def compute_smallest_auc(noughts: int, ones: int, margin: float) -> float | None:
    """Return the smallest AUC whose 95% interval lies above the margin in 80% of studies; None if there is none.

    It is computed from the standard error of Hanley and McNeil (1982). It takes scores as given and ignores what a
    classifier fails to learn from few texts, so it serves for planning alone.
    """
    if min(noughts, ones) < 2:
        return None

    def compute_excess(value: float) -> float:
        standard_error = math.sqrt(compute_auc_variance(value, ones, noughts))
        return value - margin - (_Z_INTERVAL + _Z_POWER) * standard_error

    max_auc = 0.99
    return float(brentq(compute_excess, margin, max_auc)) if compute_excess(max_auc) > 0 else None


def count_needed_items(auc_wanted: float, margin: float) -> int:
    """Return how many items of each kind confirm such an AUC with a power of 80%. Raises ValueError if none."""
    for n in range(2, 100_000):
        smallest = compute_smallest_auc(n, n, margin)
        if smallest is not None and smallest <= auc_wanted:
            return n
    raise ValueError(f"no number of items detects {auc_wanted} above {margin}")
