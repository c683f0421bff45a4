"""Tests of whether a number tells two kinds of item apart: a rank test, an AUC with its interval, Holm's correction."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, mannwhitneyu, rankdata, wilcoxon
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ALPHA = 0.01
LEAST_AUC = 0.6
FEWEST_MOVED = 6  # pairs that differ: with fewer, neither test of pairs can say anything
_RESAMPLES = 500
_PERMUTATIONS = 30_000
_FEW = 50  # pairs up to which signs are permuted: the usual approximation cannot get below 0.001 there


class Contrast(NamedTuple):
    """How well one number tells ones from noughts. `auc` is at least one half: the direction does not matter."""

    name: str
    n: int
    auc: float
    low: float
    high: float
    p: float
    adjusted: float = 1.0

    @property
    def tells(self) -> bool:
        """Too good for chance, and good enough to be of use to a rater."""
        return self.adjusted < ALPHA and self.auc > LEAST_AUC

    def to_json(self) -> dict[str, float | str]:
        rounded = {name: round(float(getattr(self, name)), 4) for name in ("auc", "low", "high", "p", "adjusted")}
        return {"name": self.name, "n": self.n, **rounded}


def holm(values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, worst = [1.0] * len(values), 0.0
    for rank, at in enumerate(order):
        worst = max(worst, min(1.0, values[at] * (len(values) - rank)))
        adjusted[at] = worst
    return adjusted


def corrected(contrasts: Sequence[Contrast]) -> list[Contrast]:
    adjusted = holm([contrast.p for contrast in contrasts])
    return [contrast._replace(adjusted=p) for contrast, p in zip(contrasts, adjusted, strict=True)]


def unpaired(name: str, noughts: Sequence[float], ones: Sequence[float], seed: int = 0) -> Contrast:
    """Two groups of items, by Mann and Whitney; the interval is a bootstrap over items."""
    if not noughts or not ones or len({*noughts, *ones}) < 2:
        return Contrast(name, len(noughts) + len(ones), 0.5, 0.5, 0.5, 1.0)
    p = float(mannwhitneyu(ones, noughts).pvalue)
    auc, low, high = _auc(np.array(noughts), np.array(ones), seed)
    return Contrast(name, len(noughts) + len(ones), auc, low, high, p)


def may_tell(originals: Sequence[float], twins: Sequence[float]) -> bool:
    """Whether enough pairs differ for a test of pairs to find anything."""
    return sum(one != other for one, other in zip(originals, twins, strict=True)) >= FEWEST_MOVED


def paired(name: str, originals: Sequence[float], twins: Sequence[float], seed: int = 0) -> Contrast:
    """Each twin beside its own original: the signed rank test, or the sign test where it has too few; AUC over all."""
    moved = [twin - original for original, twin in zip(originals, twins, strict=True) if twin != original]
    if len(moved) < FEWEST_MOVED:
        p = 1.0
    elif len({abs(step) for step in moved}) == 1:
        p = float(binomtest(sum(step > 0 for step in moved), len(moved)).pvalue)
    else:
        p = _signed_ranks(moved, seed) if len(moved) <= _FEW else float(wilcoxon(moved).pvalue)
    if not originals:
        return Contrast(name, 0, 0.5, 0.5, 0.5, 1.0)
    auc, low, high = _auc(np.array(originals), np.array(twins), seed, together=True)
    return Contrast(name, len(originals), auc, low, high, p)


def _signed_ranks(moved: Sequence[float], seed: int) -> float:
    """The signed rank test with its signs permuted, ties included: all ways for few pairs, else many of them."""
    ranks, n = rankdata(np.abs(moved)), len(moved)
    if exact := 2**n <= _PERMUTATIONS:
        signs = 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1
    else:
        signs = np.random.default_rng(seed).choice([-1, 1], size=(_PERMUTATIONS, n))
    beyond = int((np.abs(signs @ ranks) >= abs(float(np.sign(moved) @ ranks)) - 1e-9).sum())
    return beyond / len(signs) if exact else (beyond + 1) / (len(signs) + 1)


def _auc(noughts: np.ndarray, ones: np.ndarray, seed: int, together: bool = False) -> tuple[float, float, float]:
    """The AUC turned to at least one half, and the 95 % bootstrap interval of the same direction."""
    truth = np.concatenate([np.zeros(len(noughts)), np.ones(len(ones))])
    value = float(roc_auc_score(truth, np.concatenate([noughts, ones])))
    rng = np.random.default_rng(seed)
    first = rng.integers(len(noughts), size=(_RESAMPLES, len(noughts)))
    second = first if together else rng.integers(len(ones), size=(_RESAMPLES, len(ones)))
    low, high = np.quantile(_aucs(noughts[first], ones[second]), [0.025, 0.975])
    return (1 - value, float(1 - high), float(1 - low)) if value < 0.5 else (value, float(low), float(high))


def _aucs(noughts: np.ndarray, ones: np.ndarray) -> np.ndarray:
    """Of each row of a resampling: the share of pairs that the one wins, ties counting one half (Mann-Whitney's U)."""
    ranks = rankdata(np.concatenate([noughts, ones], axis=1), axis=1)
    few, many = ones.shape[1], noughts.shape[1]
    won: np.ndarray = (ranks[:, many:].sum(axis=1) - few * (few + 1) / 2) / (few * many)
    return won


def together(
    rows: Sequence[Sequence[float]], truth: Sequence[int], groups: Sequence[str], seed: int = 0
) -> Contrast | None:
    """All features at once: logistic regression, out of fold, versions of one thing never on both sides.

    None where there are too few of either kind. p is that of the out-of-fold scores by Mann and Whitney.
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
    return unpaired("all features together", noughts, ones, seed)
