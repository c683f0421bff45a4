"""Tabulate the verdicts of pairs of raters on their shared items; compute agreement and kappa of all pairs and
resamples at once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.ratings_table import Bools, Floats, Ints, Ratings


@dataclass(frozen=True)
class RaterPairs:
    """The contingency tables of all pairs of raters who share an item.

    `first`, `second`: rater indices of each pair, shape (pairs,). `raters`: all raters considered, including raters who share
    no item with another rater.

    The cells whose count is not 0 are stored as columns of shape (cells,): `pair`, `first_category` (the verdict of the
    first rater), `second_category`, and `count`, the number of items.
    """

    raters: Ints
    first: Ints
    second: Ints
    pair: Ints
    first_category: Ints
    second_category: Ints
    count: Floats

    def __len__(self) -> int:
        return len(self.first)

    @property
    def disjoint_pairs(self) -> int:
        """Return the number of pairs of these raters that share no item, and therefore are not in this table."""
        return len(self.raters) * (len(self.raters) - 1) // 2 - len(self)

    def select_pairs(self, mask: Bools) -> "RaterPairs":
        """Return the table of the pairs that the mask selects, with only the raters in these pairs."""
        new_index, has_cell = np.cumsum(mask) - 1, mask[self.pair]
        cells = (
            new_index[self.pair[has_cell]],
            self.first_category[has_cell],
            self.second_category[has_cell],
            self.count[has_cell],
        )
        first, second = self.first[mask], self.second[mask]
        return RaterPairs(np.union1d(first, second), first, second, *cells)

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
        """Return Cohen's kappa, shape (pairs,).

        It is NaN if a pair shares no item, or if both raters gave one and the same verdict throughout (0/0).
        """
        return self.compute_kappa(self.count)

    @cached_property
    def kappa_max(self) -> Floats:
        """Return the largest kappa possible with the pair's shares of verdicts, shape (pairs,)."""
        possible = self._level_sums @ np.minimum(
            self._first_margin_sums @ self.count, self._second_margin_sums @ self.count
        )
        return _kappa_from_counts(possible, self.shared_items, self._count_chance_agreement(self.count))

    @cached_property
    def kappa_variance(self) -> Floats:
        """Return the large-sample variance of kappa (Fleiss, Cohen and Everitt 1969), shape (pairs,); NaN where
        kappa is NaN.
        """
        n, kappa = self.shared_items, self.cohen_kappa
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = self._count_chance_agreement(self.count) / n**2
            share = self.count / n[self.pair]
            row, column = self._cell_margins / n[self.pair]
            of_pair, same = kappa[self.pair], self.first_category == self.second_category
            # The weight of a cell on the diagonal is 1 - (p_c. + p_.c)(1 - kappa), that of another -(p_.c + p_d.)(1 - kappa).
            weight = np.where(same, 1.0, 0.0) - (row + column) * (1 - of_pair)
            spread = self._pair_sums @ (share * weight**2) - (kappa - chance * (1 - kappa)) ** 2
            # Rounding can leave a variance of 0 slightly negative.
            variance: Floats = np.maximum(spread, 0) / (n * (1 - chance) ** 2)
        return variance

    @property
    def _cell_margins(self) -> Floats:
        """Return two numbers of items for each cell (c, d), shape (2, cells): second rater's verdict c, first
        rater's verdict d.
        """
        first_counts, second_counts = self._first_margin_sums @ self.count, self._second_margin_sums @ self.count
        return np.array([_look_up_level(second_counts, self._level_codes, self.pair, self.first_category, self._category_count),
                         _look_up_level(first_counts, self._level_codes, self.pair, self.second_category, self._category_count)])  # fmt: skip

    def count_shared_items(self, counts: Floats) -> Floats:
        """Return the number of items that each pair shares, shape (pairs, ...), for cell counts of shape (cells,
        ...).
        """
        totals: Floats = self._pair_sums @ counts
        return totals

    def compute_agreement(self, counts: Floats) -> Floats:
        """Return the observed agreement of each pair, shape (pairs, ...), for cell counts of shape (cells, ...)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: Floats = (self._agreement_sums @ counts) / (self._pair_sums @ counts)
        return shares

    def compute_kappa(self, counts: Floats) -> Floats:
        """Return Cohen's kappa of each pair, shape (pairs, ...), for cell counts of shape (cells, ...)."""
        return _kappa_from_counts(
            self._agreement_sums @ counts, self._pair_sums @ counts, self._count_chance_agreement(counts)
        )

    @cached_property
    def co_minority(self) -> Floats:
        """Return the co-minority count, shape (pairs,).

        It is the expected number of shared items on which both raters would deviate from the pair's commonest verdict by chance.
        """
        first_counts, second_counts = self._first_margin_sums @ self.count, self._second_margin_sums @ self.count
        order = np.lexsort((first_counts + second_counts, self._level_codes // self._category_count))
        pair = (self._level_codes // self._category_count)[order]
        # Levels (combinations of pair and category) are sorted by count within a pair, so the last is the commonest verdict.
        commonest = order[np.flatnonzero(np.append(pair[1:] != pair[:-1], True)[: len(pair)])]
        counts = np.zeros(len(self))
        pair_index = self._level_codes[commonest] // self._category_count
        counts[pair_index] = (
            (self.shared_items[pair_index] - first_counts[commonest])
            * (self.shared_items[pair_index] - second_counts[commonest])
            / self.shared_items[pair_index]
        )
        return counts

    def _count_chance_agreement(self, counts: Floats) -> Floats:
        """Return n squared times the chance agreement: the sum over categories of the product of the two raters'
        counts.
        """
        products: Floats = self._level_sums @ ((self._first_margin_sums @ counts) * (self._second_margin_sums @ counts))
        return products

    @cached_property
    def _category_count(self) -> int:
        return 1 + int(max(self.first_category.max(initial=0), self.second_category.max(initial=0)))

    @cached_property
    def _level_codes(self) -> Ints:
        """Return the sorted codes of all levels: each combination of pair and category that either rater uses, as
        one number.
        """
        # Only categories that occur are stored, because 200 raters would otherwise need margins over all categories for
        # 20,000 pairs.
        return np.unique(
            np.concatenate(
                [
                    self.pair * self._category_count + self.first_category,
                    self.pair * self._category_count + self.second_category,
                ]
            )
        )

    @cached_property
    def _pair_sums(self) -> csr_array:
        return build_sum_matrix(self.pair, len(self))

    @cached_property
    def _agreement_sums(self) -> csr_array:
        return build_sum_matrix(self.pair, len(self), (self.first_category == self.second_category).astype(np.float64))

    @cached_property
    def _first_margin_sums(self) -> csr_array:
        return build_sum_matrix(
            np.searchsorted(self._level_codes, self.pair * self._category_count + self.first_category),
            len(self._level_codes),
        )

    @cached_property
    def _second_margin_sums(self) -> csr_array:
        return build_sum_matrix(
            np.searchsorted(self._level_codes, self.pair * self._category_count + self.second_category),
            len(self._level_codes),
        )

    @cached_property
    def _level_sums(self) -> csr_array:
        return build_sum_matrix(self._level_codes // self._category_count, len(self))


def _kappa_from_counts(agreeing: Floats, items: Floats, by_chance: Floats) -> Floats:
    """Return kappa, (po - pe) / (1 - pe), computed from whole numbers; NaN for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Numerator and denominator are multiplied by n squared, so that zeros are exact and 0/0 is recognised.
        kappa: Floats = (agreeing * items - by_chance) / (items**2 - by_chance)
    return kappa


def build_sum_matrix(targets: Ints, size: int, values: Floats | None = None) -> csr_array:
    """Return a matrix of shape (size, len(targets)) whose product with a vector sums the entries that have the same target.

    `values`: weights of the entries, 1 by default.
    """
    entries = np.ones(len(targets)) if values is None else values
    return csr_array((entries, (targets, np.arange(len(targets)))), shape=(size, len(targets)))


def _look_up_level(values: Floats, levels: Ints, pair: Ints, category: Ints, size: int) -> Floats:
    """Return for each given pair and category the value of its level."""
    # Every category of a cell is a level of the first or the second rater, so searchsorted always finds it.
    matches: Floats = values[np.searchsorted(levels, pair * size + category)]
    return matches


def tabulate_pairs(table: Ratings) -> RaterPairs:
    """Return the contingency tables of all pairs of raters who share an item, in the order of the raters."""
    raters = np.unique(table.rater)
    indicators, size = _build_indicators(table, raters)
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
    typed_cells = (cell[order].astype(dtype) for cell, dtype in zip(cells, _CELL_DTYPES, strict=True))
    return RaterPairs(raters, raters[pair_codes // size], raters[pair_codes % size], *typed_cells)


_CELL_DTYPES: tuple[type[np.generic], ...] = (np.int64, np.int64, np.int64, np.float64)


def _build_indicators(table: Ratings, present: Ints) -> tuple[csr_array, int]:
    """Return a matrix with a 1 for each rating, and the number of raters.

    The matrix has a row for each item and a column for each combination of verdict and rater.
    """
    size = len(present)
    column = table.verdict * size + np.searchsorted(present, table.rater)
    shape = (len(table.items), size * len(table.categories))
    return csr_array((np.ones(len(table)), (table.item, column)), shape=shape), size


def compute_leave_one_out_means(pairs: RaterPairs, values: Floats) -> Floats:
    """Return for each rater the mean of the values of all pairs without this rater, shape (raters,); NaN if no pair
    remains.
    """
    defined = np.isfinite(values)
    defined_values, rater_index = (
        values[defined],
        [np.searchsorted(pairs.raters, side[defined]) for side in (pairs.first, pairs.second)],
    )
    size = len(pairs.raters)
    with_rater = sum(np.bincount(positions, weights=defined_values, minlength=size) for positions in rater_index)
    remaining = len(defined_values) - sum(np.bincount(positions, minlength=size) for positions in rater_index)
    means: Floats = np.where(remaining > 0, (defined_values.sum() - with_rater) / np.maximum(remaining, 1), np.nan)
    return means
