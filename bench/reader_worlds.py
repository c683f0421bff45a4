"""Simulated reader studies for bench/coverage.py, and the values that their statistics approach with infinitely many items.

Probit model with random effects: rater j gives item i of source s verdict 1 if mu_s + a_i + b_j (+ g_j in error sources) + noise is
above 0. a_i has standard deviation 0.7, b_j 0.35, g_j 0.2, the noise 1; half of the noise variance is the same when the rater sees
the item again. mu_s is chosen so that the mean rate over raters and items is that of the source. Confidence is the distance from 0,
stretched by the rater's own use of the scale.
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
LASTING = 0.5  # share of the noise variance that is the same when a rater sees an item again
CUTS = np.array([-1.9, -1.2, -0.7, -0.3, 0.0, 0.3, 0.7, 1.2, 1.9])
CONFIDENCE = np.array([5, 4, 3, 2, 1, 1, 2, 3, 4, 5])  # confidence at each of the ten levels between the cuts
YES = np.array([False] * 5 + [True] * 5)
REPEATS = 20  # items each rater judges twice
MODEL = (0.2, -0.3)  # b and g of the model: better than most raters

# Gauss-Hermite quadrature over the item effect; the weights are scaled to those of a normal density.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Design:
    """Items of each source. `shares`: each rater rates this share of the items, at random. `each`: alternatively, this many raters
    rate each item.
    """

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
        """Return who rates what, shape (items, raters)."""
        if self.each:
            order = rng.random((items, self.raters)).argsort(axis=1)
            return order < self.each
        shares = np.array(self.shares or [1.0] * self.raters)
        return rng.random((items, self.raters)) < shares

    @cached_property
    def weights(self) -> "Weights":
        """Return the long-run weights of raters and pairs of raters in the coefficients for many raters."""
        rated = self.rated(100_000 if self.each or self.shares else 1, np.random.default_rng(1)).astype(np.float64)
        ratings_per_item = rated.sum(axis=1)
        shared_rated, shared_counts = rated[ratings_per_item > 1], ratings_per_item[ratings_per_item > 1]
        pair = (shared_rated / (shared_counts * (shared_counts - 1))[:, None]).T @ shared_rated
        alpha = (shared_rated / (shared_counts - 1)[:, None]).T @ shared_rated
        rater = (rated[ratings_per_item > 0] / ratings_per_item[ratings_per_item > 0][:, None]).sum(axis=0)
        for matrix in (pair, alpha):
            np.fill_diagonal(matrix, 0)
        return Weights(pair / pair.sum(), rater / rater.sum(), alpha / alpha.sum())


class Weights(NamedTuple):
    """pair, alpha: shape (raters, raters), 0 on the diagonal; rater: shape (raters,). Each sums to 1."""

    pair: Floats
    rater: Floats
    alpha: Floats


@dataclass(frozen=True)
class Raters:
    """b: readiness to give verdict 1; g: additional readiness in error sources; scale: use of the confidence scale. Shapes (raters,)."""

    b: Floats
    g: Floats
    scale: Floats

    @property
    def means(self) -> Floats:
        """Return the latent value of an average item of each source, shape (raters, sources)."""
        spread = 1 + SD_ITEM**2 + SD_RATER**2 + np.where(TRUTH == 0, SD_SENSITIVITY**2, 0)
        means: Floats = ndtri(RATES) * np.sqrt(spread) + self.b[:, None] + np.where(TRUTH == 0, self.g[:, None], 0)
        return means

    @cached_property
    def levels(self) -> Floats:
        """Return the probability of each of the ten levels at each node of the item effect, shape (raters, sources, nodes, 10)."""
        centre = self.means[:, :, None, None] + SD_ITEM * _NODES[:, None]
        below = ndtr(CUTS / self.scale[:, None, None, None] - centre)
        cumulative = np.concatenate([np.zeros_like(below[..., :1]), below, np.ones_like(below[..., :1])], axis=-1)
        return np.diff(cumulative, axis=-1)

    @cached_property
    def marginal(self) -> Floats:
        """Return the probability of each level, shape (raters, sources, 10)."""
        return np.einsum("jsnl,n->jsl", self.levels, _WEIGHTS)

    def yes(self, mix: Floats) -> Floats:
        """Return the probability of verdict 1 over sources in these shares, shape (raters,)."""
        probabilities: Floats = self.marginal[..., YES].sum(axis=-1) @ mix
        return probabilities

    def same_twice(self, mix: Floats) -> Floats:
        """Return the probability that two ratings of one item are both 1, shape (raters,)."""
        trace = self.means[:, :, None] + sqrt(SD_ITEM**2 + LASTING) * _NODES
        probabilities: Floats = np.einsum("jsn,n->js", ndtr(trace / sqrt(1 - LASTING)) ** 2, _WEIGHTS) @ mix
        return probabilities


def drawn_raters(n: int, rng: np.random.Generator) -> Raters:
    return _raters(rng.standard_normal((3, n)))


def all_raters() -> Raters:
    """Return the population of new raters: 1,024 that fill the distribution evenly."""
    # Quasi-random: the mean over 1,024 such raters is closer to that of the population than over random
    # ones.
    return _raters(qmc.MultivariateNormalQMC(np.zeros(3), seed=1).random(1024).T)


def _raters(deviates: Floats) -> Raters:
    return Raters(SD_RATER * deviates[0], SD_SENSITIVITY * deviates[1], np.exp(SD_SCALE * deviates[2]))


MODEL_RATER = Raters(np.array([MODEL[0]]), np.array([MODEL[1]]), np.ones(1))


@dataclass(frozen=True)
class Played:
    """One simulated study: its ratings in the application's form, repeats, and a model's verdicts."""

    design: Design
    raters: Raters
    table: Ratings
    repeats: tuple[Repeat, ...]
    model: Mapping[str, int]


def play(design: Design, rng: np.random.Generator) -> Played:
    """Simulate a study of this design with newly drawn raters and items."""
    source, raters = design.source, drawn_raters(design.raters, rng)
    items = len(source)
    effect = SD_ITEM * rng.standard_normal(items)
    lasting, first, second = rng.standard_normal((3, items, design.raters))
    latent = raters.means.T[source] + effect[:, None] + sqrt(LASTING) * lasting
    trace, repeated_trace = (latent + sqrt(1 - LASTING) * fresh for fresh in (first, second))
    rated = design.rated(items, rng)
    item, rater = np.nonzero(rated)
    level = np.searchsorted(CUTS, (trace * raters.scale)[item, rater])
    names = tuple(f"item {index:04}" for index in range(items))
    labels = tuple(f"R{index + 1}" for index in range(design.raters))
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
    order = rng.random((items, design.raters))
    chosen = np.argsort(np.where(rated, order, 2), axis=0)[:REPEATS]
    repeats = tuple(
        Repeat(names[i], labels[j], int(trace[i, j] > 0), int(repeated_trace[i, j] > 0))
        for j in range(design.raters)
        for i in chosen[:, j]
        if rated[i, j]
    )
    model_verdicts = MODEL_RATER.means[0, source] + effect + rng.standard_normal(items) > 0
    return Played(design, raters, table, repeats, dict(zip(names, model_verdicts.astype(int).tolist(), strict=True)))


def pair_kappas(one: Raters, two: Raters, mix: Floats) -> Floats:
    """Return Cohen's kappa of each of the first raters with each of the second, for infinitely many items; shape (first, second)."""
    agreement, chance = pair_agreements(one, two, mix), _by_chance(one.yes(mix)[:, None], two.yes(mix)[None, :])
    kappas: Floats = (agreement - chance) / (1 - chance)
    return kappas


def pair_agreements(one: Raters, two: Raters, mix: Floats) -> Floats:
    """Return the probability that they agree, shape (first, second)."""
    yes = [raters.levels[..., YES].sum(axis=-1) for raters in (one, two)]
    both = np.einsum("jsn,ksn,s,n->jk", yes[0], yes[1], mix, _WEIGHTS, optimize=True)
    agreements: Floats = 1 + 2 * both - one.yes(mix)[:, None] - two.yes(mix)[None, :]
    return agreements


def _by_chance(one: Floats, two: Floats) -> Floats:
    return one * two + (1 - one) * (1 - two)


def joint(raters: Raters, mix: Floats, pair: Floats | None = None) -> Floats:
    """Return the joint probability of two raters' levels on one item, shape (10, 10): for pairs with these weights, or any two of all raters."""
    if pair is None:
        mean = raters.levels.mean(axis=0)
        return np.einsum("snl,snm,s,n->lm", mean, mean, mix, _WEIGHTS, optimize=True)
    return np.einsum("jk,jsnl,ksnm,s,n->lm", pair, raters.levels, raters.levels, mix, _WEIGHTS, optimize=True)


def area(positive: Floats, negative: Floats) -> Floats:
    """Return P(level of a positive > level of a negative) + P(equal) / 2, for inputs of shape (..., levels)."""
    below = np.cumsum(negative, axis=-1) - negative / 2
    areas: Floats = (positive * below).sum(axis=-1) / (positive.sum(axis=-1) * negative.sum(axis=-1))
    return areas
