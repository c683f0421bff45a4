"""Pairs of raters on the items both rated: their tables of verdicts, and kappa of all pairs and resamples at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from ratings.stats.table import Bools, Floats, Ints, Ratings


@dataclass(frozen=True)
class Pairs:
    """The pairs of raters who rated an item in common. first, second: rater indices, shape (pairs,).

    raters: those whose pairs these are; of a whole table also whoever has no item in common with anyone.

    The cells of all pairs' tables that are not 0, shape (cells,): pair, given (category of the first rater), other
    (of the second), count.
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
        """How many pairs of these raters have no item in common, and so are not among these."""
        return len(self.raters) * (len(self.raters) - 1) // 2 - len(self)

    def where(self, mask: Bools) -> "Pairs":
        """Only these pairs, and the raters in them."""
        place, kept = np.cumsum(mask) - 1, mask[self.pair]
        cells = (place[self.pair[kept]], self.given[kept], self.other[kept], self.count[kept])
        first, second = self.first[mask], self.second[mask]
        return Pairs(np.union1d(first, second), first, second, *cells)

    @cached_property
    def n(self) -> Floats:
        """Items both rated, shape (pairs,)."""
        return self.shared(self.count)

    @cached_property
    def agreement(self) -> Floats:
        """Share of those items with one and the same verdict; NaN without an item."""
        return self.agreements(self.count)

    @cached_property
    def kappa(self) -> Floats:
        """Cohen's kappa; NaN without an item, and where both gave one and the same verdict throughout (0/0)."""
        return self.kappas(self.count)

    @cached_property
    def kappa_max(self) -> Floats:
        """The largest kappa that raters with these shares of verdicts could have."""
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
            found: Floats = np.maximum(spread, 0) / (n * (1 - chance) ** 2)
        return found

    @property
    def _margins(self) -> Floats:
        """For each cell (c, d) the items the second rater gave c, and those the first gave d; shape (2, cells)."""
        ones, twos = self._to_first @ self.count, self._to_second @ self.count
        return np.array([_looked_up(twos, self._levels, self.pair, self.given, self._size),
                         _looked_up(ones, self._levels, self.pair, self.other, self._size)])  # fmt: skip

    def shared(self, counts: Floats) -> Floats:
        """Items each pair shares for these counts of the cells, shapes (cells, ...) to (pairs, ...)."""
        found: Floats = self._to_pair @ counts
        return found

    def agreements(self, counts: Floats) -> Floats:
        """Agreement of each pair for these counts of the cells, shapes (cells, ...) to (pairs, ...)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = (self._to_agreed @ counts) / (self._to_pair @ counts)
        return found

    def kappas(self, counts: Floats) -> Floats:
        """Kappa of each pair for these counts of the cells, shapes (cells, ...) to (pairs, ...)."""
        return _kappa(self._to_agreed @ counts, self._to_pair @ counts, self._by_chance(counts))

    @cached_property
    def minority(self) -> Floats:
        """Items on which both would give another than the pair's commonest verdict if they answered by chance; (pairs,)."""
        ones, twos = self._to_first @ self.count, self._to_second @ self.count
        order = np.lexsort((ones + twos, self._levels // self._size))
        pair = (self._levels // self._size)[order]
        last = order[np.flatnonzero(np.append(pair[1:] != pair[:-1], True)[: len(pair)])]
        found = np.zeros(len(self))
        of = self._levels[last] // self._size
        found[of] = (self.n[of] - ones[last]) * (self.n[of] - twos[last]) / self.n[of]
        return found

    def _by_chance(self, counts: Floats) -> Floats:
        """The product of the two raters' counts of a category, summed over categories: n squared times chance agreement."""
        found: Floats = self._level_to_pair @ ((self._to_first @ counts) * (self._to_second @ counts))
        return found

    @cached_property
    def _size(self) -> int:
        return 1 + int(max(self.given.max(initial=0), self.other.max(initial=0)))

    @cached_property
    def _levels(self) -> Ints:
        """Pair and category as one number, for all that occur on either side; sorted."""
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
    """(po - pe) / (1 - pe) from whole numbers: exact zeros stay exact, 0/0 is NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = (agreed * n - by_chance) / (n**2 - by_chance)
    return found


def adding(to: Ints, size: int, values: Floats | None = None) -> csr_array:
    """The matrix that adds up entries that go to the same place, shape (size, len(to))."""
    filled = np.ones(len(to)) if values is None else values
    return csr_array((filled, (to, np.arange(len(to)))), shape=(size, len(to)))


def _looked_up(values: Floats, levels: Ints, pair: Ints, category: Ints, size: int) -> Floats:
    """values at (pair, category). Every category of a cell is a level, on one side or the other."""
    found: Floats = values[np.searchsorted(levels, pair * size + category)]
    return found


def pairs_of(table: Ratings) -> Pairs:
    """The tables of all pairs of raters with an item in common in `table`, in the order of the raters."""
    present = np.unique(table.rater)
    columns, size = _columns(table, present)
    both = (columns.T @ columns).tocoo()
    row, column = both.coords[0], both.coords[1]
    one, two = row % size, column % size
    kept = one < two
    one, two = one[kept], two[kept]
    named, pair = np.unique(one.astype(np.int64) * size + two, return_inverse=True)
    cells = (pair, row[kept] // size, column[kept] // size, both.data[kept])
    order = np.lexsort((cells[2], cells[1], cells[0]))
    kinds = (cell[order].astype(kind) for cell, kind in zip(cells, _KINDS, strict=True))
    return Pairs(present, present[named // size], present[named % size], *kinds)


_KINDS: tuple[type[np.generic], ...] = (np.int64, np.int64, np.int64, np.float64)


def _columns(table: Ratings, present: Ints) -> tuple[csr_array, int]:
    """One row an item, one column a (verdict, rater): 1 where that rater gave that verdict. And the number of raters."""
    size = len(present)
    column = table.verdict * size + np.searchsorted(present, table.rater)
    shape = (len(table.items), size * len(table.categories))
    return csr_array((np.ones(len(table)), (table.item, column)), shape=shape), size


def left_out(used: Pairs, values: Floats) -> Floats:
    """The mean over the pairs without each of their raters, shape (raters,); NaN where no pair is left."""
    defined = np.isfinite(values)
    known, places = values[defined], [np.searchsorted(used.raters, side[defined]) for side in (used.first, used.second)]
    size = len(used.raters)
    with_rater = sum(np.bincount(place, weights=known, minlength=size) for place in places)
    left = len(known) - sum(np.bincount(place, minlength=size) for place in places)
    found: Floats = np.where(left > 0, (known.sum() - with_rater) / np.maximum(left, 1), np.nan)
    return found
