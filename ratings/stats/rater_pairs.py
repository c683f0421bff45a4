"""Tabulate the verdicts of pairs of raters on shared items; compute agreement of all pairs and resamples at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.ratings_table import Bools, Floats, Ints, Ratings
from ratings.stats.resampling import iter_weight_chunks, split_chunks


@dataclass(frozen=True)
class RaterPairs:
    """The contingency tables of all pairs of raters who share an item.

    `first`, `second`: rater indices of each pair, shape (pairs,). `raters`: all raters considered, including raters who share
    no item with another rater.

    The cells whose count is not 0 are stored as columns of shape (cells,): `pair`, `first_category` (the verdict of the
    first rater), `second_category`, and `count`, the number of items.

    `weights`: agreement of two categories, 1 if they are equal, a symmetric matrix of shape (categories, categories). With
    weights, agreement and kappa are Cohen's weighted ones (1968, Psychological Bulletin 70:213). None: equal categories
    agree, and others do not.
    """

    raters: Ints
    first: Ints
    second: Ints
    pair: Ints
    first_category: Ints
    second_category: Ints
    count: Floats
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def disjoint_pairs(self) -> int:
        """Return the number of pairs of these raters that share no item, and therefore are not in this table."""
        return len(self.raters) * (len(self.raters) - 1) // 2 - len(self)

    def select_pairs(self, mask: Bools) -> "RaterPairs":
        """Return the table of the pairs that the mask selects, with only the raters in these pairs."""
        new_index, has_cell = np.cumsum(mask) - 1, mask[self.pair]
        first, second = self.first[mask], self.second[mask]
        pair, count = new_index[self.pair[has_cell]], self.count[has_cell]
        categories = self.first_category[has_cell], self.second_category[has_cell]
        return RaterPairs(np.union1d(first, second), first, second, pair, *categories, count, self.weights)

    @cached_property
    def shared_items(self) -> Floats:
        """Return the number of items that both raters of each pair rated, shape (pairs,)."""
        return self.count_shared_items(self.count)

    @cached_property
    def percent_agreement(self) -> Floats:
        """Return the share of shared items with equal verdicts, shape (pairs,); NaN if a pair shares no item."""
        return self.compute_agreement(self.count)

    @cached_property
    def cohen_kappa(self) -> Floats:
        """Cohen's kappa, shape (pairs,); NaN without shared items, or if both gave one verdict throughout (0/0)."""
        return self.compute_kappa(self.count)

    @cached_property
    def kappa_max(self) -> Floats:
        """Return the largest kappa possible with the pair's shares of verdicts, without weights, shape (pairs,)."""
        possible = self._level_sums @ np.minimum(*self._count_margins(self.count))
        return _kappa_from_counts(possible, self.shared_items, self._count_chance_agreement(self.count))

    @cached_property
    def kappa_variance(self) -> Floats:
        """The large-sample variance of kappa (Fleiss, Cohen and Everitt 1969), shape (pairs,); NaN as kappa."""
        n, kappa = self.shared_items, self.cohen_kappa
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = self._count_chance_agreement(self.count) / n**2
            share = self.count / n[self.pair]
            # The mean agreement of each level with the other rater's verdicts: without weights, that rater's share of it.
            agreements = [self._average_agreement(counts) for counts in self._count_margins(self.count)]
            _, _, first_level, second_level = self._levels
            row, column = agreements[1][first_level] / n[self.pair], agreements[0][second_level] / n[self.pair]
            influence = self._cell_agreement - (row + column) * (1 - kappa[self.pair])
            spread = self._pair_sums @ (share * influence**2) - (kappa - chance * (1 - kappa)) ** 2
            # Rounding can leave a variance of 0 slightly negative.
            variance: Floats = np.maximum(spread, 0) / (n * (1 - chance) ** 2)
        return variance

    def count_shared_items(self, counts: Floats) -> Floats:
        """Return the items that each pair shares, shape (pairs, ...), for cell counts (cells, ...)."""
        totals: Floats = self._pair_sums @ counts
        return totals

    def compute_agreement(self, counts: Floats) -> Floats:
        """Return the observed agreement of each pair, shape (pairs, ...), for cell counts of shape (cells, ...)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: Floats = (self._agreement_sums @ counts) / (self._pair_sums @ counts)
        return shares

    def compute_kappa(self, counts: Floats) -> Floats:
        """Return Cohen's kappa of each pair, shape (pairs, ...), for cell counts of shape (cells, ...)."""
        chance = self._count_chance_agreement(counts)
        return _kappa_from_counts(self._agreement_sums @ counts, self._pair_sums @ counts, chance)

    @cached_property
    def co_minority(self) -> Floats:
        """The expected shared items on which both would deviate from the commonest verdict by chance, (pairs,)."""
        (first_counts, second_counts), level_pair = self._count_margins(self.count), self._levels[0]
        order = np.lexsort((first_counts + second_counts, level_pair))
        pair = level_pair[order]
        # Levels are sorted by count within a pair, so the last is the commonest verdict.
        commonest = order[np.flatnonzero(np.append(pair[1:] != pair[:-1], True)[: len(pair)])]
        counts, pair_index = np.zeros(len(self)), level_pair[commonest]
        items = self.shared_items[pair_index]
        counts[pair_index] = (items - first_counts[commonest]) * (items - second_counts[commonest]) / items
        return counts

    def _count_chance_agreement(self, counts: Floats) -> Floats:
        """Return n squared times chance agreement: the sum over categories of products of counts, with their weights."""
        first_counts, second_counts = self._count_margins(counts)
        products: Floats = self._level_sums @ (first_counts * self._average_agreement(second_counts))
        return products

    def _average_agreement(self, level_counts: Floats) -> Floats:
        """Return for each level the sum over the pair's levels of count times agreement, for counts of shape (levels, ...)."""
        if self.weights is None:
            return level_counts
        sums: Floats = self._level_agreement @ level_counts
        return sums

    @cached_property
    def _cell_agreement(self) -> Floats:
        """The agreement of the two verdicts of each cell, shape (cells,)."""
        if self.weights is None:
            return np.asarray(self.first_category == self.second_category, dtype=np.float64)
        agreement: Floats = self.weights[self.first_category, self.second_category]
        return agreement

    @cached_property
    def _level_agreement(self) -> csr_array:
        """The agreement of every two levels of the same pair, shape (levels, levels)."""
        assert self.weights is not None
        level_pair, categories, *_ = self._levels
        # Levels are sorted by pair, so the levels of a pair are a run: each is combined with every level of its run.
        starts = np.flatnonzero(np.append(True, level_pair[1:] != level_pair[:-1])[: len(level_pair)])
        sizes = np.diff(np.append(starts, len(level_pair)))
        run = np.repeat(np.arange(len(starts)), sizes)
        row = np.repeat(np.arange(len(level_pair)), sizes[run])
        column = starts[run[row]] + np.arange(len(row)) - np.repeat(np.cumsum(sizes[run]) - sizes[run], sizes[run])
        values = self.weights[categories[row], categories[column]]
        return csr_array((values, (row, column)), shape=(len(level_pair), len(level_pair)))

    @cached_property
    def _pair_sums(self) -> csr_array:
        return build_sum_matrix(self.pair, len(self))

    @cached_property
    def _agreement_sums(self) -> csr_array:
        return build_sum_matrix(self.pair, len(self), self._cell_agreement)

    @cached_property
    def _levels(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The pair and the category of each level (a category that either rater of a pair uses), and each cell's two levels."""
        # Only categories that occur are stored, because 200 raters would otherwise need margins over all categories for
        # 20,000 pairs.
        categories = 1 + int(max(self.first_category.max(initial=0), self.second_category.max(initial=0)))
        codes = [self.pair * categories + category for category in (self.first_category, self.second_category)]
        levels, of_cell = np.unique(np.concatenate(codes), return_inverse=True)
        cells = len(self.pair)
        return levels // categories, levels % categories, of_cell[:cells], of_cell[cells:]

    @cached_property
    def _margin_sums(self) -> tuple[csr_array, csr_array]:
        level_pair, _, *of_cell = self._levels
        return build_sum_matrix(of_cell[0], len(level_pair)), build_sum_matrix(of_cell[1], len(level_pair))

    def _count_margins(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return the first and the second rater's counts of each level, for cell counts of shape (cells, ...)."""
        return self._margin_sums[0] @ counts, self._margin_sums[1] @ counts

    @cached_property
    def _level_sums(self) -> csr_array:
        return build_sum_matrix(self._levels[0], len(self))


def _kappa_from_counts(agreeing: Floats, items: Floats, by_chance: Floats) -> Floats:
    """Return kappa, (po - pe) / (1 - pe), computed from whole numbers; NaN for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Numerator and denominator are multiplied by n squared, so that zeros are exact and 0/0 is recognised.
        kappa: Floats = (agreeing * items - by_chance) / (items**2 - by_chance)
    return kappa


def build_sum_matrix(targets: Ints, size: int, values: Floats | None = None) -> csr_array:
    """Return a matrix that sums entries (times `values`) with the same target, shape (size, len(targets))."""
    entries = np.ones(len(targets)) if values is None else values
    return csr_array((entries, (targets, np.arange(len(targets)))), shape=(size, len(targets)))


def tabulate_pairs(table: Ratings) -> RaterPairs:
    """Return the contingency tables of all pairs of raters who share an item, in the order of the raters."""
    raters = np.unique(table.rater)
    size = len(raters)
    column = table.verdict * size + np.searchsorted(raters, table.rater)
    shape = (len(table.items), size * len(table.categories))
    indicators = csr_array((np.ones(len(table)), (table.item, column)), shape=shape)
    # One sparse product gives the tables of all pairs: it counts for each two combinations of verdict and rater the items
    # that have both.
    products = (indicators.T @ indicators).tocoo()
    row, column = products.coords[0], products.coords[1]
    first, second = row % size, column % size
    # The product is symmetric, and its diagonal compares raters with themselves.
    is_upper = first < second
    first, second = first[is_upper], second[is_upper]
    pair_codes, pair = np.unique(first.astype(np.int64) * size + second, return_inverse=True)
    cells = (pair, row[is_upper] // size, column[is_upper] // size, products.data[is_upper])
    # The cells are sorted, so that sums of floats, and hence results, do not depend on the order of SciPy's entries.
    order = np.lexsort((cells[2], cells[1], cells[0]))
    pair, first_category, second_category = (cell[order].astype(np.int64) for cell in cells[:3])
    sides = raters[pair_codes // size], raters[pair_codes % size]
    return RaterPairs(raters, *sides, pair, first_category, second_category, cells[3][order])


def compute_leave_one_out_means(pairs: RaterPairs, values: Floats) -> Floats:
    """Return the mean of the pairs' values without each rater, shape (raters,); NaN if no pair remains."""
    defined = np.isfinite(values)
    defined_values, size = values[defined], len(pairs.raters)
    rater_index = [np.searchsorted(pairs.raters, side[defined]) for side in (pairs.first, pairs.second)]
    with_rater = sum(np.bincount(positions, weights=defined_values, minlength=size) for positions in rater_index)
    remaining = len(defined_values) - sum(np.bincount(positions, minlength=size) for positions in rater_index)
    means: Floats = np.where(remaining > 0, (defined_values.sum() - with_rater) / np.maximum(remaining, 1), np.nan)
    return means


MAX_LISTED_PAIRS = 3_000_000  # most pairs of ratings listed one by one; with more, each resample is a dense product
MAX_CELLS = 4_000_000  # numbers in memory at once: 32 MB of float64

# Maps item weights, shape (resamples, items), to the counts in the pairs' cells, shape (cells, resamples).
CellCounter = Callable[[Ints], Floats]


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
    """Return the means of the defined values over pairs, the first axis."""
    means = compute_defined_mean(agreement), compute_defined_mean(kappa)
    return PairMeans(*means, compute_defined_mean(kappa, shared_items))


def compute_defined_mean(values: Floats, weights: Floats | float = 1.0) -> Floats:
    """Return the weighted mean over the first axis of the values that are not NaN; NaN where all values are."""
    defined = np.isfinite(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        means: Floats = np.where(defined, values * weights, 0).sum(axis=0) / (defined * weights).sum(axis=0)
    return means


def resample_pair_means(
    scoped: Sequence[ScopedPairs], strata: Ints, resamples: int, rng: np.random.Generator
) -> list[PairMeans]:
    """Return the means over pairs in each resample, (resamples,), for each scope; all use the same resamples."""
    # Without pairs there is nothing to resample, so the costly drawing of items is skipped.
    if not resamples or not any(len(scope.pairs) for scope in scoped):
        return [PairMeans(*(np.full(resamples, np.nan) for _ in PairMeans._fields))] * len(scoped)
    counters = [_choose_cell_counter(scope) for scope in scoped]
    means_by_scope: list[list[PairMeans]] = [[] for _ in scoped]
    # All scopes use one set of resamples: this is cheaper, and makes the intervals within sources comparable with those over
    # all sources.
    for weights in iter_weight_chunks(strata, resamples, rng):
        for (_, pairs), count_cells, blocks in zip(scoped, counters, means_by_scope, strict=True):
            for block in split_chunks([weights], MAX_CELLS // max(1, len(pairs.count))):
                cells = count_cells(block)
                columns = (pairs.count_shared_items(cells), pairs.compute_agreement(cells), pairs.compute_kappa(cells))
                blocks.append(compute_pair_means(*columns))
    return [PairMeans(*(np.concatenate(column) for column in zip(*blocks, strict=True))) for blocks in means_by_scope]


def iter_resampled_cells(
    scope: ScopedPairs, strata: Ints, resamples: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Yield the counts in the pairs' cells in resamples of items within strata, in blocks (cells, resamples)."""
    count_cells = _choose_cell_counter(scope)
    block_size = MAX_CELLS // max(1, len(scope.pairs.count))
    yield from map(count_cells, split_chunks(iter_weight_chunks(strata, resamples, rng), block_size))


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
    """Return a function that counts cells by one dense product per resample, [verdict, rater] squared."""
    ratings, pairs = scope.ratings, scope.pairs
    items, item = np.unique(ratings.item, return_inverse=True)
    raters = np.unique(ratings.rater)
    size = len(raters)
    # float32 halves the memory; counts below 2**24 stay exact.
    indicators = np.zeros((len(items), size * len(ratings.categories)), dtype=np.float32)
    indicators[item, ratings.verdict * size + np.searchsorted(raters, ratings.rater)] = 1
    row = pairs.first_category * size + np.searchsorted(raters, pairs.first)[pairs.pair]
    column = pairs.second_category * size + np.searchsorted(raters, pairs.second)[pairs.pair]

    def count_cells(weights: Ints) -> Floats:
        products = (indicators.T * resample @ indicators for resample in weights[:, items].astype(np.float32))
        return np.array([product[row, column] for product in products], dtype=np.float64).T

    return count_cells
