"""Tabulate pairs of raters on the items that both rated, and compute agreement and kappa of all pairs and resamples at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.table import Bools, Floats, Ints, Ratings


@dataclass(frozen=True)
class Pairs:
    """The pairs of raters who have an item in common. first, second: rater indices, shape (pairs,).

    raters: the raters considered, including those of the table without an item in common with another rater.

    The cells of all pairs' contingency tables that are not 0, shape (cells,): pair, first_category (of the first rater),
    second_category, count.
    """

    raters: Ints
    first: Ints
    second: Ints
    pair: Ints
    given: Ints
    other: Ints
    count: Floats

    def __len__(self) -> int:
        return len(self.first)

    @property
    def apart(self) -> int:
        """Number of pairs of these raters without an item in common, which are not in this table."""
        return len(self.raters) * (len(self.raters) - 1) // 2 - len(self)

    def where(self, mask: Bools) -> "Pairs":
        """Return these pairs only, with the raters in them."""
        new_index, has_cell = np.cumsum(mask) - 1, mask[self.pair]
        cells = (new_index[self.pair[has_cell]], self.given[has_cell], self.other[has_cell], self.count[has_cell])
        first, second = self.first[mask], self.second[mask]
        return Pairs(np.union1d(first, second), first, second, *cells)

    @cached_property
    def n(self) -> Floats:
        """Number of items that both rated, shape (pairs,)."""
        return self.shared(self.count)

    @cached_property
    def agreement(self) -> Floats:
        """Share of those items with equal verdicts; NaN without an item."""
        return self.agreements(self.count)

    @cached_property
    def kappa(self) -> Floats:
        """Cohen's kappa; NaN without an item, and 0/0 where both gave one and the same verdict throughout."""
        return self.kappas(self.count)

    @cached_property
    def kappa_max(self) -> Floats:
        """The largest kappa possible with these shares of verdicts."""
        possible = self._level_to_pair @ np.minimum(self._to_first @ self.count, self._to_second @ self.count)
        return _kappa(possible, self.n, self._by_chance(self.count))

    @cached_property
    def variance(self) -> Floats:
        """Large-sample variance of kappa (Fleiss, Cohen and Everitt 1969), shape (pairs,); NaN where kappa is."""
        n, kappa = self.n, self.kappa
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = self._by_chance(self.count) / n**2
            share = self.count / n[self.pair]
            row, column = self._margins / n[self.pair]
            of_pair, same = kappa[self.pair], self.given == self.other
            # A cell on the diagonal brings 1 - (p_c. + p_.c)(1 - kappa), one off it (p_.c + p_d.)(1 - kappa).
            weight = np.where(same, 1.0, 0.0) - (row + column) * (1 - of_pair)
            spread = self._to_pair @ (share * weight**2) - (kappa - chance * (1 - kappa)) ** 2
            # Rounding can leave a variance of 0 slightly negative.
            variance: Floats = np.maximum(spread, 0) / (n * (1 - chance) ** 2)
        return variance

    @property
    def _margins(self) -> Floats:
        """For each cell (c, d): items for which the second rater gave c, and for which the first gave d; shape (2, cells)."""
        first_counts, second_counts = self._to_first @ self.count, self._to_second @ self.count
        return np.array([_looked_up(second_counts, self._levels, self.pair, self.given, self._size),
                         _looked_up(first_counts, self._levels, self.pair, self.other, self._size)])  # fmt: skip

    def shared(self, counts: Floats) -> Floats:
        """Return the items that each pair shares for these cell counts, shapes (cells, ...) to (pairs, ...)."""
        totals: Floats = self._to_pair @ counts
        return totals

    def agreements(self, counts: Floats) -> Floats:
        """Return the agreement of each pair for these cell counts, shapes (cells, ...) to (pairs, ...)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: Floats = (self._to_agreed @ counts) / (self._to_pair @ counts)
        return shares

    def kappas(self, counts: Floats) -> Floats:
        """Return the kappa of each pair for these cell counts, shapes (cells, ...) to (pairs, ...)."""
        return _kappa(self._to_agreed @ counts, self._to_pair @ counts, self._by_chance(counts))

    @cached_property
    def minority(self) -> Floats:
        """Items on which both would deviate from the pair's commonest verdict if they answered by chance; (pairs,)."""
        first_counts, second_counts = self._to_first @ self.count, self._to_second @ self.count
        order = np.lexsort((first_counts + second_counts, self._levels // self._size))
        pair = (self._levels // self._size)[order]
        # Sorted by count within a pair, the last level of each pair is its commonest verdict.
        commonest = order[np.flatnonzero(np.append(pair[1:] != pair[:-1], True)[: len(pair)])]
        counts = np.zeros(len(self))
        pair_index = self._levels[commonest] // self._size
        counts[pair_index] = (
            (self.n[pair_index] - first_counts[commonest])
            * (self.n[pair_index] - second_counts[commonest])
            / self.n[pair_index]
        )
        return counts

    def _by_chance(self, counts: Floats) -> Floats:
        """Return the products of the two raters' counts of a category, summed over categories: n squared times chance agreement."""
        products: Floats = self._level_to_pair @ ((self._to_first @ counts) * (self._to_second @ counts))
        return products

    @cached_property
    def _size(self) -> int:
        return 1 + int(max(self.given.max(initial=0), self.other.max(initial=0)))

    @cached_property
    def _levels(self) -> Ints:
        """Pair and category as one number, for all that occur on either side; sorted."""
        # Only categories that occur: 200 raters with many categories would need 20,000 full margins.
        return np.unique(np.concatenate([self.pair * self._size + self.given, self.pair * self._size + self.other]))

    @cached_property
    def _to_pair(self) -> csr_array:
        return adding(self.pair, len(self))

    @cached_property
    def _to_agreed(self) -> csr_array:
        return adding(self.pair, len(self), (self.given == self.other).astype(np.float64))

    @cached_property
    def _to_first(self) -> csr_array:
        return adding(np.searchsorted(self._levels, self.pair * self._size + self.given), len(self._levels))

    @cached_property
    def _to_second(self) -> csr_array:
        return adding(np.searchsorted(self._levels, self.pair * self._size + self.other), len(self._levels))

    @cached_property
    def _level_to_pair(self) -> csr_array:
        return adding(self._levels // self._size, len(self))


def _kappa(agreed: Floats, n: Floats, by_chance: Floats) -> Floats:
    """Return (po - pe) / (1 - pe) from whole numbers; NaN for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Multiplied out by n squared: whole numbers keep exact zeros exact, so that 0/0 is recognised.
        kappa: Floats = (agreed * n - by_chance) / (n**2 - by_chance)
    return kappa


def adding(to: Ints, size: int, values: Floats | None = None) -> csr_array:
    """Return the matrix that sums entries with the same target, shape (size, len(to))."""
    entries = np.ones(len(to)) if values is None else values
    return csr_array((entries, (to, np.arange(len(to)))), shape=(size, len(to)))


def _looked_up(values: Floats, levels: Ints, pair: Ints, category: Ints, size: int) -> Floats:
    """Return values at (pair, category)."""
    # Every category of a cell is a level on one side or the other, so searchsorted always finds it.
    matches: Floats = values[np.searchsorted(levels, pair * size + category)]
    return matches


def pairs_of(table: Ratings) -> Pairs:
    """Return the contingency tables of all pairs of raters with an item in common, in the order of the raters."""
    raters = np.unique(table.rater)
    indicators, size = _columns(table, raters)
    # One sparse product gives the tables of all pairs: entry ((verdict, rater), (verdict, rater)) counts their
    # common items.
    products = (indicators.T @ indicators).tocoo()
    row, column = products.coords[0], products.coords[1]
    first, second = row % size, column % size
    # The product is symmetric, and its diagonal compares raters with themselves.
    is_upper = first < second
    first, second = first[is_upper], second[is_upper]
    pair_codes, pair = np.unique(first.astype(np.int64) * size + second, return_inverse=True)
    cells = (pair, row[is_upper] // size, column[is_upper] // size, products.data[is_upper])
    # A fixed order of cells: sums of floats, and so results, must not depend on how SciPy orders entries.
    order = np.lexsort((cells[2], cells[1], cells[0]))
    typed_cells = (cell[order].astype(dtype) for cell, dtype in zip(cells, _KINDS, strict=True))
    return Pairs(raters, raters[pair_codes // size], raters[pair_codes % size], *typed_cells)


_KINDS: tuple[type[np.generic], ...] = (np.int64, np.int64, np.int64, np.float64)


def _columns(table: Ratings, present: Ints) -> tuple[csr_array, int]:
    """Return a matrix with a row per item and a column per (verdict, rater), 1 where that rater gave that verdict; and the number of raters."""
    size = len(present)
    column = table.verdict * size + np.searchsorted(present, table.rater)
    shape = (len(table.items), size * len(table.categories))
    return csr_array((np.ones(len(table)), (table.item, column)), shape=shape), size


def left_out(used: Pairs, values: Floats) -> Floats:
    """Return the mean over the pairs without each of their raters, shape (raters,); NaN where no pair remains."""
    defined = np.isfinite(values)
    defined_values, rater_index = (
        values[defined],
        [np.searchsorted(used.raters, side[defined]) for side in (used.first, used.second)],
    )
    size = len(used.raters)
    with_rater = sum(np.bincount(positions, weights=defined_values, minlength=size) for positions in rater_index)
    remaining = len(defined_values) - sum(np.bincount(positions, minlength=size) for positions in rater_index)
    means: Floats = np.where(remaining > 0, (defined_values.sum() - with_rater) / np.maximum(remaining, 1), np.nan)
    return means
