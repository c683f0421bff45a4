"""Simulated reader studies for bench/coverage.py, and what their statistics would be with endlessly many items.

Probit with random effects: rater j gives item i of source s verdict 1 if mu_s + a_i + b_j (+ g_j in error sources) + noise is
above 0. a_i has standard deviation 0.7, b_j 0.35, g_j 0.2, the noise 1, half of its variance the same at a second look; mu_s is set so that
over raters and items the source's rate comes out. Confidence is the distance from 0, stretched by the rater's own use of
the scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from ratings.stats import Ratings
from ratings.stats.table import Bools, Floats, Ints, Repeat

SOURCES = ("A genuine", "B genuine", "obvious error", "subtle error")
TRUTH = np.array([1, 1, 0, 0])
RATES = np.array([0.90, 0.93, 0.03, 0.84])
SD_ITEM, SD_RATER, SD_SENSITIVITY, SD_SCALE = 0.7, 0.35, 0.2, 0.3
LASTING = 0.5  # of the noise's variance: what a rater sees again in an item
CUTS = np.array([-1.9, -1.2, -0.7, -0.3, 0.0, 0.3, 0.7, 1.2, 1.9])
CONFIDENCE = np.array([5, 4, 3, 2, 1, 1, 2, 3, 4, 5])  # of each of the ten levels between the cuts
YES = np.array([False] * 5 + [True] * 5)
REPEATS = 20  # items each rater judges twice
MODEL = (0.2, -0.3)  # the model's b and g: sharper than most raters

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Design:
    """Items of each source; `shares`: each rater rates so large a part of them, at random; `each`: or so many of the
    raters rate an item."""

    raters: int
    sizes: tuple[int, ...] = (60, 60, 30, 50)
    shares: tuple[float, ...] = ()
    each: int = 0

    @property
    def source(self) -> Ints:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def mix(self) -> Floats:
        return np.array(self.sizes) / sum(self.sizes)

    def rated(self, items: int, rng: np.random.Generator) -> Bools:
        """Who rates what, shape (items, raters)."""
        if self.each:
            order = rng.random((items, self.raters)).argsort(axis=1)
            return order < self.each
        shares = np.array(self.shares or [1.0] * self.raters)
        return rng.random((items, self.raters)) < shares

    @cached_property
    def weights(self) -> "Weights":
        """How much raters and pairs of raters count in the coefficients of many, in the long run."""
        rated = self.rated(100_000 if self.each or self.shares else 1, np.random.default_rng(1)).astype(np.float64)
        given = rated.sum(axis=1)
        two, pairable = rated[given > 1], given[given > 1]
        pair = (two / (pairable * (pairable - 1))[:, None]).T @ two
        alpha = (two / (pairable - 1)[:, None]).T @ two
        rater = (rated[given > 0] / given[given > 0][:, None]).sum(axis=0)
        for matrix in (pair, alpha):
            np.fill_diagonal(matrix, 0)
        return Weights(pair / pair.sum(), rater / rater.sum(), alpha / alpha.sum())


class Weights(NamedTuple):
    """pair, alpha: shape (raters, raters), 0 on the diagonal; rater: shape (raters,). Each adds up to 1."""

    pair: Floats
    rater: Floats
    alpha: Floats


@dataclass(frozen=True)
class Raters:
    """b: how ready to say 1; g: how much readier in error sources; scale: how soon sure. Shapes (raters,)."""

    b: Floats
    g: Floats
    scale: Floats

    @property
    def means(self) -> Floats:
        """Where the trace of an average item of each source lies, shape (raters, sources)."""
        spread = 1 + SD_ITEM**2 + SD_RATER**2 + np.where(TRUTH == 0, SD_SENSITIVITY**2, 0)
        own: Floats = ndtri(RATES) * np.sqrt(spread) + self.b[:, None] + np.where(TRUTH == 0, self.g[:, None], 0)
        return own

    @cached_property
    def levels(self) -> Floats:
        """The chance of each of the ten levels at each node of the item's effect, shape (raters, sources, nodes, 10)."""
        centre = self.means[:, :, None, None] + SD_ITEM * _NODES[:, None]
        below = ndtr(CUTS / self.scale[:, None, None, None] - centre)
        whole = np.concatenate([np.zeros_like(below[..., :1]), below, np.ones_like(below[..., :1])], axis=-1)
        return np.diff(whole, axis=-1)

    @cached_property
    def marginal(self) -> Floats:
        """The chance of each level, shape (raters, sources, 10)."""
        return np.einsum("jsnl,n->jsl", self.levels, _WEIGHTS)

    def yes(self, mix: Floats) -> Floats:
        """The chance of verdict 1 over sources mixed so, shape (raters,)."""
        found: Floats = self.marginal[..., YES].sum(axis=-1) @ mix
        return found

    def same_twice(self, mix: Floats) -> Floats:
        """The chance that two looks at one item both end in 1, shape (raters,)."""
        trace = self.means[:, :, None] + sqrt(SD_ITEM**2 + LASTING) * _NODES
        found: Floats = np.einsum("jsn,n->js", ndtr(trace / sqrt(1 - LASTING)) ** 2, _WEIGHTS) @ mix
        return found


def drawn_raters(n: int, rng: np.random.Generator) -> Raters:
    return _raters(rng.standard_normal((3, n)))


def all_raters() -> Raters:
    """Whom new raters are drawn from: 1,024 that fill the distribution evenly."""
    return _raters(qmc.MultivariateNormalQMC(np.zeros(3), seed=1).random(1024).T)


def _raters(deviates: Floats) -> Raters:
    return Raters(SD_RATER * deviates[0], SD_SENSITIVITY * deviates[1], np.exp(SD_SCALE * deviates[2]))


MODEL_RATER = Raters(np.array([MODEL[0]]), np.array([MODEL[1]]), np.ones(1))


@dataclass(frozen=True)
class Played:
    """One simulated study: its ratings as the application has them, repeats, and a model's verdicts."""

    design: Design
    raters: Raters
    table: Ratings
    repeats: tuple[Repeat, ...]
    model: Mapping[str, int]


def play(design: Design, rng: np.random.Generator) -> Played:
    """A study of this design with raters and items of its own."""
    source, raters = design.source, drawn_raters(design.raters, rng)
    items = len(source)
    effect = SD_ITEM * rng.standard_normal(items)
    lasting, first, second = rng.standard_normal((3, items, design.raters))
    seen = raters.means.T[source] + effect[:, None] + sqrt(LASTING) * lasting
    trace, again = (seen + sqrt(1 - LASTING) * fresh for fresh in (first, second))
    rated = design.rated(items, rng)
    item, rater = np.nonzero(rated)
    level = np.searchsorted(CUTS, (trace * raters.scale)[item, rater])
    names = tuple(f"item {at:04}" for at in range(items))
    labels = tuple(f"R{at + 1}" for at in range(design.raters))
    table = Ratings(
        item=item,
        rater=rater,
        verdict=YES[level].astype(np.int64),
        confidence=CONFIDENCE[level].astype(np.float64),
        reference=TRUTH[source[item]],
        source=source[item],
        items=names,
        raters=labels,
        sources=SOURCES,
    )
    twice = rng.random((items, design.raters))
    chosen = np.argsort(np.where(rated, twice, 2), axis=0)[:REPEATS]
    repeats = tuple(
        Repeat(names[at], labels[who], int(trace[at, who] > 0), int(again[at, who] > 0))
        for who in range(design.raters)
        for at in chosen[:, who]
        if rated[at, who]
    )
    judged = MODEL_RATER.means[0, source] + effect + rng.standard_normal(items) > 0
    return Played(design, raters, table, repeats, dict(zip(names, judged.astype(int).tolist(), strict=True)))


def pair_kappas(one: Raters, two: Raters, mix: Floats) -> Floats:
    """Cohen's kappa of each of these raters with each of those over endlessly many items, shape (ones, twos)."""
    agreed, by_chance = pair_agreements(one, two, mix), _by_chance(one.yes(mix)[:, None], two.yes(mix)[None, :])
    found: Floats = (agreed - by_chance) / (1 - by_chance)
    return found


def pair_agreements(one: Raters, two: Raters, mix: Floats) -> Floats:
    """How often they agree, shape (ones, twos)."""
    yes = [raters.levels[..., YES].sum(axis=-1) for raters in (one, two)]
    both = np.einsum("jsn,ksn,s,n->jk", yes[0], yes[1], mix, _WEIGHTS, optimize=True)
    found: Floats = 1 + 2 * both - one.yes(mix)[:, None] - two.yes(mix)[None, :]
    return found


def _by_chance(one: Floats, two: Floats) -> Floats:
    return one * two + (1 - one) * (1 - two)


def joint(raters: Raters, mix: Floats, pair: Floats | None = None) -> Floats:
    """The chance of two raters' levels on one item, shape (10, 10): pairs weighted so, or any two of all raters."""
    if pair is None:
        mean = raters.levels.mean(axis=0)
        return np.einsum("snl,snm,s,n->lm", mean, mean, mix, _WEIGHTS, optimize=True)
    return np.einsum("jk,jsnl,ksnm,s,n->lm", pair, raters.levels, raters.levels, mix, _WEIGHTS, optimize=True)


def area(positive: Floats, negative: Floats) -> Floats:
    """P(a positive's level is above a negative's) + half of P(equal), shapes (..., levels)."""
    below = np.cumsum(negative, axis=-1) - negative / 2
    found: Floats = (positive * below).sum(axis=-1) / (positive.sum(axis=-1) * negative.sum(axis=-1))
    return found
