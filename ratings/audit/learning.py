"""How well texts tell two kinds of item apart: a classifier judged on held-out pairs, its interval, p-value and power.

Characters and words are hashed, so nothing is fitted to held-out texts; a truncated singular value decomposition, which
knows no labels, makes them few enough for a logistic regression.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

FEWEST = 20  # items of either kind that share an action with one of the other kind
FEWEST_PAIRS = 10
MOST = 800  # items that are read: a sample of pairs beyond that, which keeps an audit at minutes
RESAMPLES = 1_000
PERMUTATIONS = 99
_DIMENSIONS = 40
_FOLDS = 5
_Z_INTERVAL, _Z_POWER = 1.959964, 0.841621  # two-sided 95 %; power of 80 %


class Example(NamedTuple):
    """A text with its kind (1 or 0), the pair whose versions stay together, and within what it is compared."""

    text: str
    kind: int
    pair: Hashable
    stratum: str


class Told(NamedTuple):
    """The AUC of held-out scores with its 95 % interval and permutation p. `pairs` were resampled."""

    n: tuple[int, int]
    pairs: int
    auc: float
    low: float
    high: float
    p: float


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


def judge(examples: Sequence[Example], analyzer: str, ngrams: tuple[int, int], seed: int) -> Told:
    """Return how well the texts tell kind 1 from kind 0. Needs FEWEST of each and FEWEST_PAIRS pairs."""
    kinds = np.array([example.kind for example in examples])
    numbers = {pair: at for at, pair in enumerate(dict.fromkeys(example.pair for example in examples))}
    pairs = np.array([numbers[example.pair] for example in examples])
    names = {name: at for at, name in enumerate(dict.fromkeys(example.stratum for example in examples))}
    strata = np.array([names[example.stratum] for example in examples])
    rows = _features([example.text for example in examples], analyzer, ngrams, seed)
    scores = held_out(rows, kinds, pairs)
    value = auc(scores, kinds, strata, np.ones(len(kinds)))
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(numbers), np.full(len(numbers), 1 / len(numbers)), size=RESAMPLES)
    low, high = np.nanquantile(resampled(scores, kinds, strata, drawn[:, pairs]), [0.025, 0.975])
    beyond = 0
    for _ in range(PERMUTATIONS):
        other = permuted(kinds, pairs, strata, rng)
        beyond += auc(held_out(rows, other, pairs), other, strata, np.ones(len(kinds))) >= value
    p = (beyond + 1) / (PERMUTATIONS + 1)
    return Told(counts(examples), len(numbers), value, float(low), float(high), p)


def _features(texts: Sequence[str], analyzer: str, ngrams: tuple[int, int], seed: int) -> np.ndarray:
    pattern = {"token_pattern": r"\S+"} if analyzer == "word" else {}
    hashed = HashingVectorizer(analyzer=analyzer, ngram_range=ngrams, n_features=2**13, lowercase=False, **pattern)
    sparse = hashed.transform(texts)
    dimensions = min(_DIMENSIONS, len(texts) - 1)
    rows: np.ndarray = TruncatedSVD(dimensions, random_state=seed).fit_transform(sparse)
    spread = rows.std(axis=0)
    scaled: np.ndarray = (rows - rows.mean(axis=0)) / np.where(spread > 1e-9, spread, 1.0)
    return scaled


def held_out(rows: np.ndarray, kinds: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return each item's score by a model that has seen no version of its pair."""
    scores = np.zeros(len(kinds))
    for train, test in GroupKFold(_FOLDS).split(rows, kinds, pairs):
        if len(set(kinds[train])) == 2:
            model = LogisticRegression(C=0.1, solver="liblinear", class_weight="balanced", random_state=0)
            scores[test] = model.fit(rows[train], kinds[train]).decision_function(rows[test])
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
    """Return the kinds exchanged within each stratum; the items of one pair and kind keep a kind together."""
    other = kinds.copy()
    blocks = pairs * 2 + kinds
    for stratum in np.unique(strata):
        inside = np.flatnonzero(strata == stratum)
        names, at = np.unique(blocks[inside], return_inverse=True)
        other[inside] = rng.permutation(names % 2)[at]
    return other


def smallest_auc(noughts: int, ones: int, margin: float) -> float | None:
    """Return the smallest true AUC whose 95 % interval lies above the margin in 80 % of studies; None if none does.

    By the standard error of Hanley and McNeil (1982).
    """
    if min(noughts, ones) < 2:
        return None

    def over(value: float) -> float:
        return value - margin - (_Z_INTERVAL + _Z_POWER) * standard_error(value, noughts, ones)

    most = 0.99
    return float(brentq(over, margin, most)) if over(most) > 0 else None


def needed(auc_wanted: float, margin: float) -> int:
    """Return how many items of each kind it takes to detect this AUC with a power of 80 %."""
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
