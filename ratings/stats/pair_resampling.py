"""Mean agreement and kappa over pairs of raters in every resample of the items."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.pairing import Pairs
from ratings.stats.resampling import weight_chunks
from ratings.stats.table import Floats, Ints, Ratings

EXPANDED = 3_000_000  # pairs of ratings written out one by one; beyond it each resample is a dense matrix product
CELLS = 4_000_000  # numbers held at once

Counts = Callable[[Ints], Floats]  # weights of the items, (resamples, items) -> the pairs' cells, (cells, resamples)


class Means(NamedTuple):
    """Means over pairs, one a resample or a single number each. NaN where no pair has a value."""

    agreement: Floats
    kappa: Floats
    weighted: Floats  # kappa, pairs weighted by the items they share


class Scoped(NamedTuple):
    """Ratings, and those pairs of their raters that the means are over."""

    own: Ratings
    used: Pairs


def means(n: Floats, agreement: Floats, kappa: Floats) -> Means:
    """Means over the first axis, pairs without a value left out of that mean. Shapes (pairs, ...) to (...)."""
    return Means(mean_of_defined(agreement), mean_of_defined(kappa), mean_of_defined(kappa, n))


def mean_of_defined(values: Floats, weights: Floats | float = 1.0) -> Floats:
    """The weighted mean of the defined ones over the first axis; NaN where none is."""
    defined = np.isfinite(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(defined, values * weights, 0).sum(axis=0) / (defined * weights).sum(axis=0)
    return found


def replicates(scoped: Sequence[Scoped], strata: Ints, resamples: int, rng: np.random.Generator) -> list[Means]:
    """The means of each scope in each resample, shape (resamples,): all scopes from the same draws of items within strata.

    Pairs are those given, whatever their overlap in a resample; one without a kappa there is left out of its mean.
    """
    if not resamples or not any(len(one.used) for one in scoped):
        return [Means(*(np.full(resamples, np.nan) for _ in Means._fields))] * len(scoped)
    counting = [_counting(one) for one in scoped]
    found: list[list[Means]] = [[] for _ in scoped]
    for weights in weight_chunks(strata, resamples, rng):
        for one, counts, parts in zip(scoped, counting, found, strict=True):
            for some in _split(weights, len(one.used.count)):
                drawn = counts(some)
                parts.append(means(one.used.shared(drawn), one.used.agreements(drawn), one.used.kappas(drawn)))
    return [Means(*(np.concatenate(column) for column in zip(*parts, strict=True))) for parts in found]


def resampled_cells(one: Scoped, strata: Ints, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The counts of the pairs' cells in each resample of the items within strata, shapes (cells, resamples of a chunk)."""
    counts = _counting(one)
    for weights in weight_chunks(strata, resamples, rng):
        for some in _split(weights, len(one.used.count)):
            yield counts(some)


def _split(weights: Ints, cells: int) -> Iterator[Ints]:
    rows = max(1, CELLS // max(1, cells))
    for start in range(0, len(weights), rows):
        yield weights[start : start + rows]


def _counting(one: Scoped) -> Counts:
    each = np.bincount(one.own.item)
    if np.sum(each * (each - 1)) // 2 <= EXPANDED:
        matrix = _expanded(one)
        return lambda weights: matrix @ weights.T.astype(np.float64)
    return _products(one)


def _expanded(one: Scoped) -> csr_array:
    """Which cell each pair of ratings of one item falls into, shape (cells, items)."""
    own, used, size = one.own, one.used, len(one.own.categories)
    place = np.full((len(own.raters), len(own.raters)), -1, dtype=np.int64)
    place[used.first, used.second] = np.arange(len(used))
    keys = (used.pair * size + used.given) * size + used.other
    found: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for lag in range(1, int(np.bincount(own.item).max(initial=1))):
        at = np.flatnonzero(own.item[lag:] == own.item[:-lag])
        pair = place[own.rater[at], own.rater[at + lag]]
        at, pair = at[pair >= 0], pair[pair >= 0]
        key = (pair * size + own.verdict[at]) * size + own.verdict[at + lag]
        found.append((np.searchsorted(keys, key), own.item[at]))
    cell, item = (np.concatenate(column) for column in zip(*found, strict=True))
    return csr_array((np.ones(len(cell)), (cell, item)), shape=(len(keys), len(own.items)))


def _products(one: Scoped) -> Counts:
    """Where very many pairs share very many items, the matrix of (verdict, rater) by (verdict, rater) of each resample."""
    own, used = one.own, one.used
    items, item = np.unique(own.item, return_inverse=True)
    raters = np.unique(own.rater)
    size = len(raters)
    answers = np.zeros((len(items), size * len(own.categories)), dtype=np.float32)  # counts below 2**24 stay exact
    answers[item, own.verdict * size + np.searchsorted(raters, own.rater)] = 1
    row = used.given * size + np.searchsorted(raters, used.first)[used.pair]
    column = used.other * size + np.searchsorted(raters, used.second)[used.pair]

    def counts(weights: Ints) -> Floats:
        own_weights = weights[:, items].astype(np.float32)
        return np.array([(answers.T * drawn @ answers)[row, column] for drawn in own_weights], dtype=np.float64).T

    return counts
