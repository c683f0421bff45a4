"""Compute mean agreement and kappa over pairs of raters in every resample of the items."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.pairing import Pairs
from ratings.stats.resampling import weight_chunks
from ratings.stats.table import Floats, Ints, Ratings

EXPANDED = 3_000_000  # pairs of ratings listed one by one; with more, each resample is a dense matrix product
CELLS = 4_000_000  # numbers in memory at once: 32 MB of float64

Counts = Callable[[Ints], Floats]  # item weights (resamples, items) -> counts of the pairs' cells (cells, resamples)


class Means(NamedTuple):
    """Means over pairs: one value per resample, or a single value. NaN where no pair has a value."""

    agreement: Floats
    kappa: Floats
    weighted: Floats  # kappa, pairs weighted by the items they share


class Scoped(NamedTuple):
    """Ratings, and the pairs of their raters that the means are over."""

    own: Ratings
    used: Pairs


def means(n: Floats, agreement: Floats, kappa: Floats) -> Means:
    """Return means over the first axis, each without its undefined pairs. Shapes (pairs, ...) to (...)."""
    return Means(mean_of_defined(agreement), mean_of_defined(kappa), mean_of_defined(kappa, n))


def mean_of_defined(values: Floats, weights: Floats | float = 1.0) -> Floats:
    """Return the weighted mean of the defined values over the first axis; NaN where none is defined."""
    defined = np.isfinite(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        means: Floats = np.where(defined, values * weights, 0).sum(axis=0) / (defined * weights).sum(axis=0)
    return means


def replicates(scoped: Sequence[Scoped], strata: Ints, resamples: int, rng: np.random.Generator) -> list[Means]:
    """Return the means of each scope in each resample, shape (resamples,).

    All scopes use the same draws of items within strata. A pair without a kappa in a resample is left out of that mean.
    """
    # Without pairs there is nothing to resample, and the draws are what costs time.
    if not resamples or not any(len(scope.used) for scope in scoped):
        return [Means(*(np.full(resamples, np.nan) for _ in Means._fields))] * len(scoped)
    counters = [_counting(scope) for scope in scoped]
    means_by_scope: list[list[Means]] = [[] for _ in scoped]
    # One set of draws for all scopes: it is cheaper, and the intervals of sources and of all together are
    # comparable.
    for weights in weight_chunks(strata, resamples, rng):
        for scope, count_cells, blocks in zip(scoped, counters, means_by_scope, strict=True):
            for block in _split(weights, len(scope.used.count)):
                cells = count_cells(block)
                blocks.append(means(scope.used.shared(cells), scope.used.agreements(cells), scope.used.kappas(cells)))
    return [Means(*(np.concatenate(column) for column in zip(*blocks, strict=True))) for blocks in means_by_scope]


def resampled_cells(one: Scoped, strata: Ints, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield the counts of the pairs' cells in each resample of the items within strata, shapes (cells, resamples of a block)."""
    count_cells = _counting(one)
    for weights in weight_chunks(strata, resamples, rng):
        for block in _split(weights, len(one.used.count)):
            yield count_cells(block)


def _split(weights: Ints, cells: int) -> Iterator[Ints]:
    block_size = max(1, CELLS // max(1, cells))
    for start in range(0, len(weights), block_size):
        yield weights[start : start + block_size]


def _counting(one: Scoped) -> Counts:
    ratings_per_item = np.bincount(one.own.item)
    # The sparse matrix grows with the square of the ratings per item: one product for all resamples while it
    # fits, a dense product per resample beyond.
    if np.sum(ratings_per_item * (ratings_per_item - 1)) // 2 <= EXPANDED:
        matrix = _expanded(one)
        return lambda weights: matrix @ weights.T.astype(np.float64)
    return _products(one)


def _expanded(one: Scoped) -> csr_array:
    """Return the matrix that maps items to the cells of their pairs of ratings, shape (cells, items)."""
    ratings, pairs, size = one.own, one.used, len(one.own.categories)
    pair_index = np.full((len(ratings.raters), len(ratings.raters)), -1, dtype=np.int64)
    pair_index[pairs.first, pairs.second] = np.arange(len(pairs))
    cell_codes = (pairs.pair * size + pairs.given) * size + pairs.other
    entries: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    # Ratings are sorted by item, so all pairs of an item are found at lags below its number of ratings.
    for lag in range(1, int(np.bincount(ratings.item).max(initial=1))):
        position = np.flatnonzero(ratings.item[lag:] == ratings.item[:-lag])
        pair = pair_index[ratings.rater[position], ratings.rater[position + lag]]
        position, pair = position[pair >= 0], pair[pair >= 0]
        code = (pair * size + ratings.verdict[position]) * size + ratings.verdict[position + lag]
        entries.append((np.searchsorted(cell_codes, code), ratings.item[position]))
    cell, item = (np.concatenate(column) for column in zip(*entries, strict=True))
    return csr_array((np.ones(len(cell)), (cell, item)), shape=(len(cell_codes), len(ratings.items)))


def _products(one: Scoped) -> Counts:
    """Return a function that counts the cells by a (verdict, rater) x (verdict, rater) matrix product for each resample."""
    ratings, pairs = one.own, one.used
    items, item = np.unique(ratings.item, return_inverse=True)
    raters = np.unique(ratings.rater)
    size = len(raters)
    indicators = np.zeros(
        (len(items), size * len(ratings.categories)), dtype=np.float32
    )  # float32 halves the memory; counts below 2**24 stay exact
    indicators[item, ratings.verdict * size + np.searchsorted(raters, ratings.rater)] = 1
    row = pairs.given * size + np.searchsorted(raters, pairs.first)[pairs.pair]
    column = pairs.other * size + np.searchsorted(raters, pairs.second)[pairs.pair]

    def counts(weights: Ints) -> Floats:
        item_weights = weights[:, items].astype(np.float32)
        return np.array(
            [(indicators.T * resample @ indicators)[row, column] for resample in item_weights], dtype=np.float64
        ).T

    return counts
