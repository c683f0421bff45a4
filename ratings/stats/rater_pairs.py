"""Tabulate pairs of raters on the items that both rated, and compute agreement and kappa of all pairs and resamples at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.ratings_table import Bools, Floats, Ints, Ratings


@dataclass(frozen=True)
class RaterPairs:
    """The pairs of raters who have an item in common. first, second: rater indices, shape (pairs,).

    raters: the raters considered, including those of the table without an item in common with another rater.

    The cells of all pairs' contingency tables that are not 0, shape (cells,): pair, first_category (of the first rater),
    second_category, count.
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
        """Number of pairs of these raters without an item in common, which are not in this table."""
        return len(self.raters) * (len(self.raters) - 1) // 2 - len(self)

    def select_pairs(self, mask: Bools) -> "RaterPairs":
        """Return these pairs only, with the raters in them."""
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
        """Number of items that both rated, shape (pairs,)."""
        return self.count_shared_items(self.count)

    @cached_property
    def percent_agreement(self) -> Floats:
        """Share of those items with equal verdicts; NaN without an item."""
        return self.compute_agreement(self.count)

    @cached_property
    def cohen_kappa(self) -> Floats:
        """Cohen's kappa; NaN without an item, and 0/0 where both gave one and the same verdict throughout."""
        return self.compute_kappa(self.count)

    @cached_property
    def kappa_max(self) -> Floats:
        """The largest kappa possible with these shares of verdicts."""
        possible = self._level_sums @ np.minimum(
            self._first_margin_sums @ self.count, self._second_margin_sums @ self.count
        )
        return _kappa_from_counts(possible, self.shared_items, self._count_chance_agreement(self.count))

    @cached_property
    def kappa_variance(self) -> Floats:
        """Large-sample variance of kappa (Fleiss, Cohen and Everitt 1969), shape (pairs,); NaN where kappa is."""
        n, kappa = self.shared_items, self.cohen_kappa
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = self._count_chance_agreement(self.count) / n**2
            share = self.count / n[self.pair]
            row, column = self._cell_margins / n[self.pair]
            of_pair, same = kappa[self.pair], self.first_category == self.second_category
            # A cell on the diagonal brings 1 - (p_c. + p_.c)(1 - kappa), one off it (p_.c + p_d.)(1 - kappa).
            weight = np.where(same, 1.0, 0.0) - (row + column) * (1 - of_pair)
            spread = self._pair_sums @ (share * weight**2) - (kappa - chance * (1 - kappa)) ** 2
            # Rounding can leave a variance of 0 slightly negative.
            variance: Floats = np.maximum(spread, 0) / (n * (1 - chance) ** 2)
        return variance

    @property
    def _cell_margins(self) -> Floats:
        """For each cell (c, d): items for which the second rater gave c, and for which the first gave d; shape (2, cells)."""
        first_counts, second_counts = self._first_margin_sums @ self.count, self._second_margin_sums @ self.count
        return np.array([_look_up_level(second_counts, self._level_codes, self.pair, self.first_category, self._category_count),
                         _look_up_level(first_counts, self._level_codes, self.pair, self.second_category, self._category_count)])  # fmt: skip

    def count_shared_items(self, counts: Floats) -> Floats:
        """Return the items that each pair shares for these cell counts, shapes (cells, ...) to (pairs, ...)."""
        totals: Floats = self._pair_sums @ counts
        return totals

    def compute_agreement(self, counts: Floats) -> Floats:
        """Return the agreement of each pair for these cell counts, shapes (cells, ...) to (pairs, ...)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: Floats = (self._agreement_sums @ counts) / (self._pair_sums @ counts)
        return shares

    def compute_kappa(self, counts: Floats) -> Floats:
        """Return the kappa of each pair for these cell counts, shapes (cells, ...) to (pairs, ...)."""
        return _kappa_from_counts(
            self._agreement_sums @ counts, self._pair_sums @ counts, self._count_chance_agreement(counts)
        )

    @cached_property
    def co_minority(self) -> Floats:
        """Items on which both would deviate from the pair's commonest verdict if they answered by chance; (pairs,)."""
        first_counts, second_counts = self._first_margin_sums @ self.count, self._second_margin_sums @ self.count
        order = np.lexsort((first_counts + second_counts, self._level_codes // self._category_count))
        pair = (self._level_codes // self._category_count)[order]
        # Sorted by count within a pair, the last level of each pair is its commonest verdict.
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
        """Return the products of the two raters' counts of a category, summed over categories: n squared times chance agreement."""
        products: Floats = self._level_sums @ ((self._first_margin_sums @ counts) * (self._second_margin_sums @ counts))
        return products

    @cached_property
    def _category_count(self) -> int:
        return 1 + int(max(self.first_category.max(initial=0), self.second_category.max(initial=0)))

    @cached_property
    def _level_codes(self) -> Ints:
        """Pair and category as one number, for all that occur on either side; sorted."""
        # Only categories that occur: 200 raters with many categories would need 20,000 full margins.
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
    """Return (po - pe) / (1 - pe) from whole numbers; NaN for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # Multiplied out by n squared: whole numbers keep exact zeros exact, so that 0/0 is recognised.
        kappa: Floats = (agreeing * items - by_chance) / (items**2 - by_chance)
    return kappa


def build_sum_matrix(targets: Ints, size: int, values: Floats | None = None) -> csr_array:
    """Return the matrix that sums entries with the same target, shape (size, len(to))."""
    entries = np.ones(len(targets)) if values is None else values
    return csr_array((entries, (targets, np.arange(len(targets)))), shape=(size, len(targets)))


def _look_up_level(values: Floats, levels: Ints, pair: Ints, category: Ints, size: int) -> Floats:
    """Return values at (pair, category)."""
    # Every category of a cell is a level on one side or the other, so searchsorted always finds it.
    matches: Floats = values[np.searchsorted(levels, pair * size + category)]
    return matches


def tabulate_pairs(table: Ratings) -> RaterPairs:
    """Return the contingency tables of all pairs of raters with an item in common, in the order of the raters."""
    raters = np.unique(table.rater)
    indicators, size = _build_indicators(table, raters)
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
    typed_cells = (cell[order].astype(dtype) for cell, dtype in zip(cells, _CELL_DTYPES, strict=True))
    return RaterPairs(raters, raters[pair_codes // size], raters[pair_codes % size], *typed_cells)


_CELL_DTYPES: tuple[type[np.generic], ...] = (np.int64, np.int64, np.int64, np.float64)


def _build_indicators(table: Ratings, present: Ints) -> tuple[csr_array, int]:
    """Return a matrix with a row per item and a column per (verdict, rater), 1 where that rater gave that verdict; and the number of raters."""
    size = len(present)
    column = table.verdict * size + np.searchsorted(present, table.rater)
    shape = (len(table.items), size * len(table.categories))
    return csr_array((np.ones(len(table)), (table.item, column)), shape=shape), size


def compute_leave_one_out_means(pairs: RaterPairs, values: Floats) -> Floats:
    """Return the mean over the pairs without each of their raters, shape (raters,); NaN where no pair remains."""
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
