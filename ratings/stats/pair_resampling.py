"""Compute mean agreement and kappa over pairs of raters in every resample of the items."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.rater_pairs import RaterPairs
from ratings.stats.ratings_table import Floats, Ints, Ratings
from ratings.stats.resampling import iter_weight_chunks

MAX_LISTED_PAIRS = 3_000_000  # most pairs of ratings listed one by one; with more, each resample is a dense product
MAX_CELLS = 4_000_000  # numbers in memory at once: 32 MB of float64

CellCounter = Callable[
    [Ints], Floats
]  # maps item weights, shape (resamples, items), to the counts in the pairs' cells, shape (cells, resamples)


class PairMeans(NamedTuple):
    """Means over pairs of raters: a single value, or one value per resample. NaN if no pair has a defined value."""

    agreement: Floats
    kappa: Floats
    weighted: Floats  # mean kappa in which each pair is weighted by its number of shared items


class ScopedPairs(NamedTuple):
    """The ratings of one scope, and the pairs of raters over which means are taken."""

    ratings: Ratings
    pairs: RaterPairs


def compute_pair_means(shared_items: Floats, agreement: Floats, kappa: Floats) -> PairMeans:
    """Return the means over pairs, the first axis; each mean leaves out undefined values.

    Shapes (pairs, ...) become (...).
    """
    return PairMeans(
        compute_defined_mean(agreement), compute_defined_mean(kappa), compute_defined_mean(kappa, shared_items)
    )


def compute_defined_mean(values: Floats, weights: Floats | float = 1.0) -> Floats:
    """Return the weighted mean over the first axis of the values that are not NaN; NaN where all values are."""
    defined = np.isfinite(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        means: Floats = np.where(defined, values * weights, 0).sum(axis=0) / (defined * weights).sum(axis=0)
    return means


def resample_pair_means(
    scoped: Sequence[ScopedPairs], strata: Ints, resamples: int, rng: np.random.Generator
) -> list[PairMeans]:
    """Return the means over pairs in each resample, shape (resamples,), for each scope.

    All scopes use the same resamples of items within strata. A pair whose kappa is undefined in a resample is left out of
    the mean kappa of that resample.
    """
    # Without pairs there is nothing to resample, so the costly drawing of items is skipped.
    if not resamples or not any(len(scope.pairs) for scope in scoped):
        return [PairMeans(*(np.full(resamples, np.nan) for _ in PairMeans._fields))] * len(scoped)
    counters = [_choose_cell_counter(scope) for scope in scoped]
    means_by_scope: list[list[PairMeans]] = [[] for _ in scoped]
    # All scopes use one set of resamples: this is cheaper, and makes the intervals within sources comparable with those over
    # all sources.
    for weights in iter_weight_chunks(strata, resamples, rng):
        for scope, count_cells, blocks in zip(scoped, counters, means_by_scope, strict=True):
            for block in _iter_blocks(weights, len(scope.pairs.count)):
                cells = count_cells(block)
                blocks.append(
                    compute_pair_means(
                        scope.pairs.count_shared_items(cells),
                        scope.pairs.compute_agreement(cells),
                        scope.pairs.compute_kappa(cells),
                    )
                )
    return [PairMeans(*(np.concatenate(column) for column in zip(*blocks, strict=True))) for blocks in means_by_scope]


def iter_resampled_cells(
    scope: ScopedPairs, strata: Ints, resamples: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Yield the counts in the cells of the pairs' contingency tables in resamples of items within strata.

    Each block has shape (cells, resamples of the block).
    """
    count_cells = _choose_cell_counter(scope)
    for weights in iter_weight_chunks(strata, resamples, rng):
        for block in _iter_blocks(weights, len(scope.pairs.count)):
            yield count_cells(block)


def _iter_blocks(weights: Ints, cells: int) -> Iterator[Ints]:
    block_size = max(1, MAX_CELLS // max(1, cells))
    for start in range(0, len(weights), block_size):
        yield weights[start : start + block_size]


def _choose_cell_counter(scope: ScopedPairs) -> CellCounter:
    ratings_per_item = np.bincount(scope.ratings.item)
    # The size of the sparse matrix grows with the square of the number of ratings per item. While it fits in memory, one
    # product serves all resamples; otherwise each resample needs a dense product.
    if np.sum(ratings_per_item * (ratings_per_item - 1)) // 2 <= MAX_LISTED_PAIRS:
        matrix = _build_cell_matrix(scope)
        return lambda weights: matrix @ weights.T.astype(np.float64)
    return _build_product_counter(scope)


def _build_cell_matrix(scope: ScopedPairs) -> csr_array:
    """Return a matrix that counts for each item the pairs of its ratings in each cell, shape (cells, items)."""
    ratings, pairs, size = scope.ratings, scope.pairs, len(scope.ratings.categories)
    pair_index = np.full((len(ratings.raters), len(ratings.raters)), -1, dtype=np.int64)
    pair_index[pairs.first, pairs.second] = np.arange(len(pairs))
    cell_codes = (pairs.pair * size + pairs.first_category) * size + pairs.second_category
    entries: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    # Ratings are sorted by item, so two ratings of an item are fewer positions apart than the item has ratings.
    for lag in range(1, int(np.bincount(ratings.item).max(initial=1))):
        position = np.flatnonzero(ratings.item[lag:] == ratings.item[:-lag])
        pair = pair_index[ratings.rater[position], ratings.rater[position + lag]]
        position, pair = position[pair >= 0], pair[pair >= 0]
        code = (pair * size + ratings.verdict[position]) * size + ratings.verdict[position + lag]
        entries.append((np.searchsorted(cell_codes, code), ratings.item[position]))
    cell, item = (np.concatenate(column) for column in zip(*entries, strict=True))
    return csr_array((np.ones(len(cell)), (cell, item)), shape=(len(cell_codes), len(ratings.items)))


def _build_product_counter(scope: ScopedPairs) -> CellCounter:
    """Return a function that computes the counts in the cells by one dense matrix product per resample.

    The product has a row and a column for each combination of verdict and rater.
    """
    ratings, pairs = scope.ratings, scope.pairs
    items, item = np.unique(ratings.item, return_inverse=True)
    raters = np.unique(ratings.rater)
    size = len(raters)
    indicators = np.zeros(
        (len(items), size * len(ratings.categories)), dtype=np.float32
    )  # float32 halves the memory; counts below 2**24 stay exact
    indicators[item, ratings.verdict * size + np.searchsorted(raters, ratings.rater)] = 1
    row = pairs.first_category * size + np.searchsorted(raters, pairs.first)[pairs.pair]
    column = pairs.second_category * size + np.searchsorted(raters, pairs.second)[pairs.pair]

    def count_cells(weights: Ints) -> Floats:
        item_weights = weights[:, items].astype(np.float32)
        return np.array(
            [(indicators.T * resample @ indicators)[row, column] for resample in item_weights], dtype=np.float64
        ).T

    return count_cells
