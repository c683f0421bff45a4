"""Tests of whether a number separates two kinds of item: a rank test, an AUC with its interval, Holm's correction."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, mannwhitneyu, rankdata, wilcoxon
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ALPHA = 0.01  # after Holm's correction
MIN_AUC = 0.6  # below it a difference does not help a rater, however certain it is
MIN_DIFFERENT_PAIRS = 6  # pairs that differ: with fewer, neither test of pairs can be significant
_RESAMPLES = 500
_PERMUTATIONS = 30_000
_MAX_PERMUTED_PAIRS = 50  # pairs up to which signs are permuted: the normal approximation cannot get below 0.001 there


class Contrast(NamedTuple):
    """How well one number separates items of kind 1 (`ones`) from items of kind 0 (`noughts`).

    `auc` is at least one half, because the direction does not matter.
    """

    name: str
    n: int
    auc: float
    low: float
    high: float
    p: float
    adjusted: float = 1.0

    @property
    def is_telling(self) -> bool:
        """Return whether the separation is statistically significant, and large enough to help a rater."""
        return self.adjusted < ALPHA and self.auc > MIN_AUC

    def to_dict(self) -> dict[str, float | str]:
        rounded = {name: round(float(getattr(self, name)), 4) for name in ("auc", "low", "high", "p", "adjusted")}
        return {"name": self.name, "n": self.n, **rounded}


def adjust_holm(values: Sequence[float]) -> list[float]:
    """Return Holm's (1979) adjusted p-values, in the order of `values`."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, largest = [1.0] * len(values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, values[index] * (len(values) - rank)))
        adjusted[index] = largest
    return adjusted


def correct_contrasts(contrasts: Sequence[Contrast]) -> list[Contrast]:
    adjusted = adjust_holm([contrast.p for contrast in contrasts])
    return [contrast._replace(adjusted=p) for contrast, p in zip(contrasts, adjusted, strict=True)]


def compare_groups(name: str, noughts: Sequence[float], ones: Sequence[float], seed: int = 0) -> Contrast:
    """Compare two groups of items by the Mann-Whitney test. The 95% interval of the AUC comes from a bootstrap over
    items.
    """
    if not noughts or not ones or len({*noughts, *ones}) < 2:
        return Contrast(name, len(noughts) + len(ones), 0.5, 0.5, 0.5, 1.0)
    p = float(mannwhitneyu(ones, noughts).pvalue)
    auc, low, high = _bootstrap_auc(np.array(noughts), np.array(ones), seed)
    return Contrast(name, len(noughts) + len(ones), auc, low, high, p)


def can_differ(originals: Sequence[float], twins: Sequence[float]) -> bool:
    """Return whether enough pairs differ for a test of pairs to be significant."""
    return sum(original != twin for original, twin in zip(originals, twins, strict=True)) >= MIN_DIFFERENT_PAIRS


def compare_pairs(name: str, originals: Sequence[float], twins: Sequence[float], seed: int = 0) -> Contrast:
    """Compare each twin with its own original by the signed rank test, or by the sign test if all differences are
    equal in size.

    The AUC is that of all twins against all originals, with a bootstrap over pairs.
    """
    differences = [twin - original for original, twin in zip(originals, twins, strict=True) if twin != original]
    if len(differences) < MIN_DIFFERENT_PAIRS:
        p = 1.0
    # Ranks of equal differences are all tied: then the signs are all there is to test.
    elif len({abs(step) for step in differences}) == 1:
        p = float(binomtest(sum(step > 0 for step in differences), len(differences)).pvalue)
    else:
        p = (
            _permute_signed_ranks(differences, seed)
            if len(differences) <= _MAX_PERMUTED_PAIRS
            else float(wilcoxon(differences).pvalue)
        )
    if not originals:
        return Contrast(name, 0, 0.5, 0.5, 0.5, 1.0)
    auc, low, high = _bootstrap_auc(np.array(originals), np.array(twins), seed, is_paired=True)
    return Contrast(name, len(originals), auc, low, high, p)


def _permute_signed_ranks(differences: Sequence[float], seed: int) -> float:
    """Return the p-value of the signed rank test with permuted signs: all permutations for few pairs, else random
    ones.
    """
    ranks, n = rankdata(np.abs(differences)), len(differences)
    if exact := 2**n <= _PERMUTATIONS:
        signs = 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1
    else:
        signs = np.random.default_rng(seed).choice([-1, 1], size=(_PERMUTATIONS, n))
    # With the tolerance, sums that are equal except for rounding count as equal.
    n_extreme = int((np.abs(signs @ ranks) >= abs(float(np.sign(differences) @ ranks)) - 1e-9).sum())
    # Random signs: the observed ones count as one more permutation, so that p is never 0.
    return n_extreme / len(signs) if exact else (n_extreme + 1) / (len(signs) + 1)


def _bootstrap_auc(
    noughts: np.ndarray, ones: np.ndarray, seed: int, is_paired: bool = False
) -> tuple[float, float, float]:
    """Return the AUC, mirrored if it is below one half, and its 95% bootstrap interval in the same direction."""
    truth = np.concatenate([np.zeros(len(noughts)), np.ones(len(ones))])
    value = float(roc_auc_score(truth, np.concatenate([noughts, ones])))
    rng = np.random.default_rng(seed)
    noughts_drawn = rng.integers(len(noughts), size=(_RESAMPLES, len(noughts)))
    # Pairs are drawn as pairs, so that an original stays with its twin.
    ones_drawn = noughts_drawn if is_paired else rng.integers(len(ones), size=(_RESAMPLES, len(ones)))
    low, high = np.quantile(_compute_aucs(noughts[noughts_drawn], ones[ones_drawn]), [0.025, 0.975])
    return (1 - value, float(1 - high), float(1 - low)) if value < 0.5 else (value, float(low), float(high))


def _compute_aucs(noughts: np.ndarray, ones: np.ndarray) -> np.ndarray:
    """Return for each row the share of pairs in which the one is larger than the nought; ties count one half.

    This is the Mann-Whitney U divided by the number of pairs. Shapes: resamples by items.
    """
    # By ranks: comparing all pairs of each resample would take much more memory.
    ranks = rankdata(np.concatenate([noughts, ones], axis=1), axis=1)
    n_ones, n_noughts = ones.shape[1], noughts.shape[1]
    shares: np.ndarray = (ranks[:, n_noughts:].sum(axis=1) - n_ones * (n_ones + 1) / 2) / (n_ones * n_noughts)
    return shares


def compare_all_features(
    rows: Sequence[Sequence[float]], truth: Sequence[int], groups: Sequence[str], seed: int = 0
) -> Contrast | None:
    """Compare the two kinds by all features together, with the out-of-fold scores of a logistic regression.

    Versions of one thing stay in one fold. Returns None if there are too few items of either kind. p is that of the
    Mann-Whitney test of the scores.
    """
    fewest = min(truth.count(0), truth.count(1))
    folds = min(5, len(set(groups)))
    if fewest < 10 or folds < 3:
        return None
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    scores = cross_val_predict(
        model, np.array(rows), np.array(truth), groups=groups, cv=GroupKFold(folds), method="decision_function"
    )
    noughts = [float(s) for s, t in zip(scores, truth, strict=True) if t == 0]
    ones = [float(s) for s, t in zip(scores, truth, strict=True) if t == 1]
    return compare_groups("all features together", noughts, ones, seed)
