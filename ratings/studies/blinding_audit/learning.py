"""How well texts tell two kinds of item apart: a classifier judged on held-out pairs, its interval, p-value and power.

A text is the counts of its pieces (words and signs) and of two in a row. Within each training part the few that go most
with the kind are chosen for a linear discriminant, so that one word among hundreds is found. Fitting takes a millisecond,
so the power is measured: by a word planted in the study's own texts.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GroupKFold

FEWEST = 20  # items of either kind that share an action with one of the other kind
FEWEST_PAIRS = 10
MOST = 800  # items that are read: a sample of pairs beyond that, which keeps an audit at minutes
RESAMPLES = 1_000
PERMUTATIONS = 199
MOST_P = 0.025  # one-sided, as the lower end of the interval
TRIALS, TRIAL_RESAMPLES = 40, 300
POWER = 0.8
PLANTED = "\N{SECTION SIGN}planted\N{SECTION SIGN}"  # a piece that no text has
_PIECES = 10
_RARE = 5  # texts of a training part that a piece must stand in
_RIDGE = 0.5
_FOLDS = 5
_Z_INTERVAL, _Z_POWER = 1.959964, 0.841621  # two-sided 95 %; power of 80 %


class Example(NamedTuple):
    """A text with its kind (1 or 0), the pair whose versions stay together, and within what it is compared."""

    text: str
    kind: int
    pair: Hashable
    stratum: str


class Told(NamedTuple):
    """The AUC of held-out scores with its 95 % interval and permutation p. `pairs` were resampled.

    `chance` is what an AUC must be above for a p of at most MOST_P.
    """

    n: tuple[int, int]
    pairs: int
    auc: float
    low: float
    high: float
    p: float
    chance: float

    def is_above(self, margin: float) -> bool:
        """Return whether the interval lies above the margin and chance alone seldom gives such an AUC."""
        return self.low > margin and self.p <= MOST_P


class Power(NamedTuple):
    """A planted word that tells kinds apart with this AUC was found in `found` of TRIALS trials."""

    auc: float
    found: int


class Fold(NamedTuple):
    """A training and a test part, with their counts of the pieces that are not rare in the training part, to its scale."""

    train: np.ndarray
    test: np.ndarray
    seen: np.ndarray
    unseen: np.ndarray


def comparable(examples: Sequence[Example]) -> list[Example]:
    """Return the examples of strata in which both kinds occur: no other can be compared without their content."""
    both = {e.stratum for e in examples if e.kind} & {e.stratum for e in examples if not e.kind}
    return [example for example in examples if example.stratum in both]


def counts(examples: Sequence[Example]) -> tuple[int, int]:
    """Return how many there are of kind 0 and of kind 1."""
    ones = sum(example.kind for example in examples)
    return len(examples) - ones, ones


def sampled(examples: Sequence[Example], seed: int) -> list[Example]:
    """Return all, or whole pairs drawn at random up to the number that is read."""
    if len(examples) <= MOST:
        return list(examples)
    pairs = list(dict.fromkeys(example.pair for example in examples))
    order = {pairs[at]: rank for rank, at in enumerate(np.random.default_rng(seed).permutation(len(pairs)))}
    kept: list[Example] = sorted(examples, key=lambda example: order[example.pair])[:MOST]
    return comparable(kept)


def judge(examples: Sequence[Example], seed: int) -> Told:
    """Return how well the texts tell kind 1 from kind 0. Needs FEWEST of each and FEWEST_PAIRS pairs."""
    layout = _layout(examples)
    folds = folded(_counted([example.text for example in examples]), layout.pairs)
    scores = held_out(folds, layout.kinds)
    every = np.ones(len(layout.kinds))
    value = auc(scores, layout.kinds, layout.strata, every)
    rng = np.random.default_rng(seed)
    low, high = _interval(scores, layout, RESAMPLES, rng)
    others = (permuted(*layout, rng) for _ in range(PERMUTATIONS))
    by_chance = np.array([auc(held_out(folds, other), other, layout.strata, every) for other in others])
    p = (int((by_chance >= value).sum()) + 1) / (PERMUTATIONS + 1)
    chance = float(np.sort(by_chance)[PERMUTATIONS - int(MOST_P * (PERMUTATIONS + 1))])
    return Told(counts(examples), len(set(layout.pairs)), value, low, high, p, chance)


def find_power(examples: Sequence[Example], margin: float, chance: float, seed: int) -> Power | None:
    """Return the smallest AUC of a planted word that is found often enough; None if not even a word in every one is.

    In each trial the kinds are exchanged by chance, and a word that stands in no text is put into a share of those of kind
    1, once each, where chance has it. Whoever looks for it reaches an AUC of one half plus half that share.
    """
    layout = _layout(examples)
    rng = np.random.default_rng(seed)
    texts = [example.text for example in examples]
    counted = _counted([*texts, *(_planted(text, rng) for text in texts)])
    without, planted = counted[: len(texts)], counted[len(texts) :]
    seeds = rng.integers(2**32, size=TRIALS)
    levels = [level / 20 for level in range(int(margin * 20 + 0.5) + 1, 21)]

    def found(level: float) -> int:
        return sum(_finds(without, planted, layout, level, margin, chance, int(one)) for one in seeds)

    best = None
    low, high = 0, len(levels)
    while low < high:
        at = (low + high) // 2
        times = found(levels[at])
        if times >= POWER * TRIALS:
            best, high = Power(levels[at], times), at
        else:
            low = at + 1
    return best


def _finds(
    without: np.ndarray, planted: np.ndarray, layout: "_Layout", level: float, margin: float, chance: float, seed: int
) -> bool:
    rng = np.random.default_rng(
        seed
    )  # the same at each level: a word once planted stays planted at the next higher one
    kinds = permuted(*layout, rng)
    has_it = (kinds == 1) & (rng.random(len(kinds)) < 2 * level - 1)
    scores = held_out(folded(np.where(has_it[:, None], planted, without), layout.pairs), kinds)
    value = auc(scores, kinds, layout.strata, np.ones(len(kinds)))
    if value <= max(margin, chance):
        return False
    return _interval(scores, layout._replace(kinds=kinds), TRIAL_RESAMPLES, rng)[0] > margin


def _planted(text: str, rng: np.random.Generator) -> str:
    pieces = text.split()
    pieces.insert(int(rng.integers(len(pieces) + 1)), PLANTED)
    return " ".join(pieces)


class _Layout(NamedTuple):
    kinds: np.ndarray
    pairs: np.ndarray
    strata: np.ndarray


def _layout(examples: Sequence[Example]) -> _Layout:
    pairs = {pair: at for at, pair in enumerate(dict.fromkeys(example.pair for example in examples))}
    strata = {name: at for at, name in enumerate(dict.fromkeys(example.stratum for example in examples))}
    return _Layout(
        np.array([example.kind for example in examples]),
        np.array([pairs[example.pair] for example in examples]),
        np.array([strata[example.stratum] for example in examples]),
    )


def _interval(scores: np.ndarray, layout: _Layout, times: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the 95 % interval of the AUC over resampled pairs."""
    pairs = layout.pairs.max() + 1
    drawn = rng.multinomial(pairs, np.full(pairs, 1 / pairs), size=times)[:, layout.pairs]
    low, high = np.nanquantile(resampled(scores, layout.kinds, layout.strata, drawn), [0.025, 0.975])
    return float(low), float(high)


def _counted(texts: Sequence[str]) -> np.ndarray:
    """Return the logarithms of one more than the counts of single pieces and of two in a row, the rare ones left out."""
    if not any(map(str.split, texts)):
        return np.zeros((len(texts), 0), np.float32)
    vectorizer = CountVectorizer(token_pattern=r"\S+", lowercase=False, ngram_range=(1, 2), dtype=np.float32)
    counted = vectorizer.fit_transform(texts).tocsc()
    rows: np.ndarray = counted[:, np.flatnonzero(np.diff(counted.indptr) >= _RARE)].log1p().toarray()
    return rows


def folded(rows: np.ndarray, pairs: np.ndarray) -> list[Fold]:
    """Return the folds, each without pieces that are rare in its training part. No label is read."""
    folds = []
    for train, test in GroupKFold(_FOLDS).split(pairs, None, pairs):
        seen, unseen = rows[train], rows[test]
        kept = np.flatnonzero(np.count_nonzero(seen, axis=0) >= _RARE)
        seen, unseen = seen[:, kept], unseen[:, kept]
        mean, spread = seen.mean(axis=0), np.maximum(seen.std(axis=0), 1e-3)
        folds.append(Fold(train, test, (seen - mean) / spread, (unseen - mean) / spread))
    return folds


def held_out(folds: Sequence[Fold], kinds: np.ndarray) -> np.ndarray:
    """Return each item's score by a model that has seen no version of its pair.

    The model is a linear discriminant of the pieces that go most with the kind in its training part.
    """
    scores = np.zeros(len(kinds))
    for fold in folds:
        ones = kinds[fold.train] == 1
        if ones.all() or not ones.any():
            continue
        strength = np.abs((ones - ones.mean()).astype(np.float32) @ fold.seen)
        best = np.argsort(-strength, kind="stable")[:_PIECES]
        seen, unseen = fold.seen[:, best].astype(float), fold.unseen[:, best].astype(float)
        above, below = seen[ones].mean(axis=0), seen[~ones].mean(axis=0)
        shared = seen.T @ seen / len(seen) + _RIDGE * np.eye(len(best))
        scores[fold.test] = (unseen - (above + below) / 2) @ np.linalg.solve(shared, above - below)
    return scores


def auc(scores: np.ndarray, kinds: np.ndarray, strata: np.ndarray, weights: np.ndarray) -> float:
    """Return the share of comparisons within a stratum in which kind 1 scores higher, ties as one half."""
    return float(resampled(scores, kinds, strata, weights[None, :])[0])


def resampled(scores: np.ndarray, kinds: np.ndarray, strata: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the AUC for each row of weights; not a number where a row leaves nothing to compare."""
    won, every = np.zeros(len(weights)), np.zeros(len(weights))
    for stratum in np.unique(strata):
        ones, noughts = (np.flatnonzero((strata == stratum) & (kinds == kind)) for kind in (1, 0))
        wins = (np.sign(scores[ones][:, None] - scores[noughts][None, :]) + 1) / 2
        won += ((weights[:, ones] @ wins) * weights[:, noughts]).sum(axis=1)
        every += weights[:, ones].sum(axis=1) * weights[:, noughts].sum(axis=1)
    share: np.ndarray = np.divide(won, every, out=np.full(len(weights), np.nan), where=every > 0)
    return share


def permuted(kinds: np.ndarray, pairs: np.ndarray, strata: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the kinds exchanged by chance, within a stratum only.

    Where a pair has items of both kinds, they exchange theirs; the other pairs exchange theirs as wholes.
    """
    other = kinds.copy()
    for stratum in np.unique(strata):
        inside = np.flatnonzero(strata == stratum)
        ones = np.bincount(pairs[inside], weights=kinds[inside], minlength=pairs.max() + 1)
        of_pair = np.bincount(pairs[inside], minlength=len(ones))
        mixed = ((ones > 0) & (ones < of_pair))[pairs[inside]]
        both, one = inside[mixed], inside[~mixed]
        place = both[np.lexsort((rng.random(len(both)), pairs[both]))]
        other[place] = kinds[both[np.argsort(pairs[both], kind="stable")]]
        wholes, first, at = np.unique(pairs[one], return_index=True, return_inverse=True)
        other[one] = kinds[one][first][rng.permutation(len(wholes))][at]
    return other


def smallest_auc(noughts: int, ones: int, margin: float) -> float | None:
    """Return the smallest AUC of scores whose 95 % interval lies above the margin in 80 % of studies; None if none does.

    By the standard error of Hanley and McNeil (1982). It takes scores as given: what a classifier fails to learn from few
    texts is not in it, so it serves for planning alone.
    """
    if min(noughts, ones) < 2:
        return None

    def over(value: float) -> float:
        return value - margin - (_Z_INTERVAL + _Z_POWER) * standard_error(value, noughts, ones)

    most = 0.99
    return float(brentq(over, margin, most)) if over(most) > 0 else None


def needed(auc_wanted: float, margin: float) -> int:
    """Return how many items of each kind it takes to confirm scores with this AUC with a power of 80 %."""
    for n in range(2, 100_000):
        smallest = smallest_auc(n, n, margin)
        if smallest is not None and smallest <= auc_wanted:
            return n
    raise ValueError(f"no number of items detects {auc_wanted} above {margin}")


def standard_error(value: float, noughts: int, ones: int) -> float:
    """Return Hanley and McNeil's standard error of an AUC."""
    first, second = value / (2 - value), 2 * value**2 / (1 + value)
    spread = value * (1 - value) + (ones - 1) * (first - value**2) + (noughts - 1) * (second - value**2)
    return float(np.sqrt(spread / (noughts * ones)))
