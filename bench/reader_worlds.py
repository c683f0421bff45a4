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

from ratings.stats.ratings_table import Bools, Floats, Ints, Ratings, RepeatedRating

SOURCES = ("A genuine", "B genuine", "obvious error", "subtle error")
TRUTH = np.array([1, 1, 0, 0])
RATES = np.array([0.90, 0.93, 0.03, 0.84])
SD_ITEM, SD_RATER, SD_SENSITIVITY, SD_SCALE = 0.7, 0.35, 0.2, 0.3
REPEATED_NOISE = 0.5  # share of the noise variance that is the same when a rater sees an item again
LEVEL_CUTS = np.array([-1.9, -1.2, -0.7, -0.3, 0.0, 0.3, 0.7, 1.2, 1.9])
CONFIDENCE = np.array([5, 4, 3, 2, 1, 1, 2, 3, 4, 5])  # confidence at each of the ten levels between the cuts
IS_YES = np.array([False] * 5 + [True] * 5)
REPEATED_ITEMS = 20  # items each rater judges twice
MODEL_EFFECTS = (0.2, -0.3)  # b and g of the model: better than most raters

# Gauss-Hermite quadrature over the item effect; the weights are scaled to those of a normal density.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class StudyDesign:
    """Items of each source. `shares`: each rater rates this share of the items, at random. `each`: alternatively, this many raters
    rate each item.
    """

    raters: int
    sizes: tuple[int, ...] = (60, 60, 30, 50)
    shares: tuple[float, ...] = ()
    each: int = 0

    @property
    def item_sources(self) -> Ints:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def source_shares(self) -> Floats:
        return np.array(self.sizes) / sum(self.sizes)

    def draw_rated_cells(self, items: int, rng: np.random.Generator) -> Bools:
        """Return who rates what, shape (items, raters)."""
        if self.each:
            order = rng.random((items, self.raters)).argsort(axis=1)
            return order < self.each
        shares = np.array(self.shares or [1.0] * self.raters)
        return rng.random((items, self.raters)) < shares

    @cached_property
    def coefficient_weights(self) -> "CoefficientWeights":
        """Return the long-run weights of raters and pairs of raters in the coefficients for many raters."""
        rated = self.draw_rated_cells(100_000 if self.each or self.shares else 1, np.random.default_rng(1)).astype(
            np.float64
        )
        ratings_per_item = rated.sum(axis=1)
        shared_rated, shared_counts = rated[ratings_per_item > 1], ratings_per_item[ratings_per_item > 1]
        pair = (shared_rated / (shared_counts * (shared_counts - 1))[:, None]).T @ shared_rated
        alpha = (shared_rated / (shared_counts - 1)[:, None]).T @ shared_rated
        rater = (rated[ratings_per_item > 0] / ratings_per_item[ratings_per_item > 0][:, None]).sum(axis=0)
        for matrix in (pair, alpha):
            np.fill_diagonal(matrix, 0)
        return CoefficientWeights(pair / pair.sum(), rater / rater.sum(), alpha / alpha.sum())


class CoefficientWeights(NamedTuple):
    """pair, alpha: shape (raters, raters), 0 on the diagonal; rater: shape (raters,). Each sums to 1."""

    pair: Floats
    rater: Floats
    alpha: Floats


@dataclass(frozen=True)
class RaterEffects:
    """b: readiness to give verdict 1; g: additional readiness in error sources; scale: use of the confidence scale. Shapes (raters,)."""

    b: Floats
    g: Floats
    scale: Floats

    @property
    def latent_means(self) -> Floats:
        """Return the latent value of an average item of each source, shape (raters, sources)."""
        spread = 1 + SD_ITEM**2 + SD_RATER**2 + np.where(TRUTH == 0, SD_SENSITIVITY**2, 0)
        means: Floats = ndtri(RATES) * np.sqrt(spread) + self.b[:, None] + np.where(TRUTH == 0, self.g[:, None], 0)
        return means

    @cached_property
    def level_probabilities(self) -> Floats:
        """Return the probability of each of the ten levels at each node of the item effect, shape (raters, sources, nodes, 10)."""
        centre = self.latent_means[:, :, None, None] + SD_ITEM * _NODES[:, None]
        below = ndtr(LEVEL_CUTS / self.scale[:, None, None, None] - centre)
        cumulative = np.concatenate([np.zeros_like(below[..., :1]), below, np.ones_like(below[..., :1])], axis=-1)
        return np.diff(cumulative, axis=-1)

    @cached_property
    def marginal_probabilities(self) -> Floats:
        """Return the probability of each level, shape (raters, sources, 10)."""
        return np.einsum("jsnl,n->jsl", self.level_probabilities, _WEIGHTS)

    def yes_probability(self, mix: Floats) -> Floats:
        """Return the probability of verdict 1 over sources in these shares, shape (raters,)."""
        probabilities: Floats = self.marginal_probabilities[..., IS_YES].sum(axis=-1) @ mix
        return probabilities

    def both_yes_probability(self, mix: Floats) -> Floats:
        """Return the probability that two ratings of one item are both 1, shape (raters,)."""
        trace = self.latent_means[:, :, None] + sqrt(SD_ITEM**2 + REPEATED_NOISE) * _NODES
        probabilities: Floats = np.einsum("jsn,n->js", ndtr(trace / sqrt(1 - REPEATED_NOISE)) ** 2, _WEIGHTS) @ mix
        return probabilities


def draw_raters(n: int, rng: np.random.Generator) -> RaterEffects:
    return build_raters(rng.standard_normal((3, n)))


def build_rater_population() -> RaterEffects:
    """Return the population of new raters: 1,024 that fill the distribution evenly."""
    # Quasi-random: the mean over 1,024 such raters is closer to that of the population than over random
    # ones.
    return build_raters(qmc.MultivariateNormalQMC(np.zeros(3), seed=1).random(1024).T)


def build_raters(deviates: Floats) -> RaterEffects:
    return RaterEffects(SD_RATER * deviates[0], SD_SENSITIVITY * deviates[1], np.exp(SD_SCALE * deviates[2]))


MODEL_RATER = RaterEffects(np.array([MODEL_EFFECTS[0]]), np.array([MODEL_EFFECTS[1]]), np.ones(1))


@dataclass(frozen=True)
class SimulatedStudy:
    """One simulated study: its ratings in the application's form, repeats, and a model's verdicts."""

    design: StudyDesign
    raters: RaterEffects
    table: Ratings
    repeats: tuple[RepeatedRating, ...]
    model: Mapping[str, int]


def simulate_study(design: StudyDesign, rng: np.random.Generator) -> SimulatedStudy:
    """Simulate a study of this design with newly drawn raters and items."""
    source, raters = design.item_sources, draw_raters(design.raters, rng)
    items = len(source)
    effect = SD_ITEM * rng.standard_normal(items)
    lasting, first, second = rng.standard_normal((3, items, design.raters))
    latent = raters.latent_means.T[source] + effect[:, None] + sqrt(REPEATED_NOISE) * lasting
    trace, repeated_trace = (latent + sqrt(1 - REPEATED_NOISE) * fresh for fresh in (first, second))
    rated = design.draw_rated_cells(items, rng)
    item, rater = np.nonzero(rated)
    level = np.searchsorted(LEVEL_CUTS, (trace * raters.scale)[item, rater])
    names = tuple(f"item {index:04}" for index in range(items))
    labels = tuple(f"R{index + 1}" for index in range(design.raters))
    table = Ratings(
        item=item,
        rater=rater,
        verdict=IS_YES[level].astype(np.int64),
        confidence=CONFIDENCE[level].astype(np.float64),
        reference=TRUTH[source[item]],
        source=source[item],
        items=names,
        raters=labels,
        sources=SOURCES,
    )
    order = rng.random((items, design.raters))
    chosen = np.argsort(np.where(rated, order, 2), axis=0)[:REPEATED_ITEMS]
    repeats = tuple(
        RepeatedRating(names[i], labels[j], int(trace[i, j] > 0), int(repeated_trace[i, j] > 0))
        for j in range(design.raters)
        for i in chosen[:, j]
        if rated[i, j]
    )
    model_verdicts = MODEL_RATER.latent_means[0, source] + effect + rng.standard_normal(items) > 0
    return SimulatedStudy(
        design, raters, table, repeats, dict(zip(names, model_verdicts.astype(int).tolist(), strict=True))
    )


def compute_pair_kappas(first: RaterEffects, second: RaterEffects, mix: Floats) -> Floats:
    """Return Cohen's kappa of each of the first raters with each of the second, for infinitely many items; shape (first, second)."""
    agreement, chance = (
        compute_pair_agreements(first, second, mix),
        compute_chance_agreement(first.yes_probability(mix)[:, None], second.yes_probability(mix)[None, :]),
    )
    kappas: Floats = (agreement - chance) / (1 - chance)
    return kappas


def compute_pair_agreements(first: RaterEffects, second: RaterEffects, mix: Floats) -> Floats:
    """Return the probability that they agree, shape (first, second)."""
    yes = [raters.level_probabilities[..., IS_YES].sum(axis=-1) for raters in (first, second)]
    both = np.einsum("jsn,ksn,s,n->jk", yes[0], yes[1], mix, _WEIGHTS, optimize=True)
    agreements: Floats = 1 + 2 * both - first.yes_probability(mix)[:, None] - second.yes_probability(mix)[None, :]
    return agreements


def compute_chance_agreement(first: Floats, second: Floats) -> Floats:
    return first * second + (1 - first) * (1 - second)


def compute_joint_levels(raters: RaterEffects, mix: Floats, pair: Floats | None = None) -> Floats:
    """Return the joint probability of two raters' levels on one item, shape (10, 10): for pairs with these weights, or any two of all raters."""
    if pair is None:
        mean = raters.level_probabilities.mean(axis=0)
        return np.einsum("snl,snm,s,n->lm", mean, mean, mix, _WEIGHTS, optimize=True)
    return np.einsum(
        "jk,jsnl,ksnm,s,n->lm",
        pair,
        raters.level_probabilities,
        raters.level_probabilities,
        mix,
        _WEIGHTS,
        optimize=True,
    )


def compute_area(positive: Floats, negative: Floats) -> Floats:
    """Return P(level of a positive > level of a negative) + P(equal) / 2, for inputs of shape (..., levels)."""
    below = np.cumsum(negative, axis=-1) - negative / 2
    areas: Floats = (positive * below).sum(axis=-1) / (positive.sum(axis=-1) * negative.sum(axis=-1))
    return areas
