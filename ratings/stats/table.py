"""Ratings as columns: what every statistic is computed from."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ALL = "all"  # the one source of a table that has no source column


class Row(NamedTuple):
    """One judged rating, as it is read: `verdict` is one of the table's categories, 1 and 0 in binary tables.

    `confidence` 1 to 5 or None; `truth` 1, 0 or None; `pair` shared by versions of one thing. `factors` are further
    names to split by (experiment, action, arm, ...).
    """

    item: str
    rater: str
    verdict: Any
    confidence: int | None = None
    truth: int | None = None
    source: str = ALL
    pair: str = ""
    factors: Mapping[str, str] = {}


class Repeat(NamedTuple):
    """One item judged twice by one rater. Categories as in the table's rows."""

    item: str
    rater: str
    first: Any
    second: Any


class TwiceError(ValueError):
    """A rater has two ratings of one item; `item`, `rater` and the `rows` (counted from 0) say which."""

    def __init__(self, item: str, rater: str, rows: tuple[int, int]) -> None:
        super().__init__(f"rater {rater} rated item {item} more than once")
        self.item, self.rater, self.rows = item, rater, rows


@dataclass(frozen=True)
class Ratings:
    """Columns of equal length, one entry a rating, sorted by item and rater: the order of the input changes no number.

    item, rater, source: indices into `items`, `raters`, `sources` (int64, shape (n,)); verdict: index into
    `categories`; confidence: 1 to 5, NaN where there is none; truth: 1, 0, or -1 where it is not known. `binary` tables
    have the categories (0, 1), so their verdict is the 0 or 1 itself.
    """

    item: Ints
    rater: Ints
    verdict: Ints
    confidence: Floats
    truth: Ints
    source: Ints
    items: tuple[str, ...]
    raters: tuple[str, ...]
    sources: tuple[str, ...]
    categories: tuple[Any, ...] = (0, 1)
    pairs: tuple[str, ...] = ()  # of items, "" where unknown; empty: no pair column
    factors: Mapping[str, tuple[Ints, tuple[str, ...]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.item)

    @property
    def binary(self) -> bool:
        return self.categories == (0, 1)

    @property
    def n(self) -> dict[str, int]:
        """Items, raters and ratings that are in the table; items and raters without any are not counted."""
        return {
            "items": len(np.unique(self.item)),
            "raters": len(np.unique(self.rater)),
            "ratings": len(self.item),
        }

    @property
    def signed(self) -> Floats:
        """+confidence where the verdict is 1, -confidence where it is 0 (10 levels, no 0); NaN without confidence."""
        return np.where(self.verdict == 1, self.confidence, -self.confidence)

    @property
    def correct(self) -> Bools:
        """Whether the verdict is the truth; ask only where `truth` is not -1."""
        found: Bools = self.verdict == self.truth
        return found

    @property
    def item_source(self) -> Ints:
        """Source index of each of `items`, shape (len(items),); -1 for items without a rating in the table."""
        return self._of_items(self.source)

    @property
    def item_truth(self) -> Ints:
        """Truth of each of `items`; -1 where unknown or without a rating."""
        return self._of_items(self.truth)

    def where(self, mask: Bools) -> "Ratings":
        """Only these ratings. Items, raters, sources and categories keep their places, so indices still fit."""
        columns = {name: getattr(self, name)[mask] for name in _COLUMNS}
        factors = {name: (codes[mask], names) for name, (codes, names) in self.factors.items()}
        return replace(self, **columns, factors=factors)

    def of_source(self, name: str) -> "Ratings":
        return self.where(self.source == self.sources.index(name))

    def of_rater(self, name: str) -> "Ratings":
        return self.where(self.rater == self.raters.index(name))

    @property
    def error_sources(self) -> list[str]:
        """Sources with items whose truth is 0, in order."""
        return [self.sources[at] for at in np.unique(self.source[self.truth == 0])]

    def against_genuine(self, source: str) -> "Ratings":
        """The wrong items (truth 0) of this source and all right ones (truth 1) of any: what a detection table is of."""
        at = self.sources.index(source)
        return self.where(((self.source == at) & (self.truth == 0)) | (self.truth == 1))

    def grid(self, values: npt.NDArray[Any] | None = None) -> Floats:
        """Shape (len(items), len(raters)): the verdict, or these values, of each rating; NaN where there is none."""
        filled = np.full((len(self.items), len(self.raters)), np.nan)
        filled[self.item, self.rater] = self.verdict if values is None else values
        return filled

    def rows(self) -> list[Row]:
        """The ratings again, in the table's order."""
        return [
            Row(
                item=self.items[self.item[at]],
                rater=self.raters[self.rater[at]],
                verdict=self.categories[self.verdict[at]],
                confidence=None if math.isnan(self.confidence[at]) else int(self.confidence[at]),
                truth=None if self.truth[at] < 0 else int(self.truth[at]),
                source=self.sources[self.source[at]],
                pair=self.pairs[self.item[at]] if self.pairs else "",
                factors={name: names[codes[at]] for name, (codes, names) in self.factors.items()},
            )
            for at in range(len(self))
        ]

    def _of_items(self, column: Ints) -> Ints:
        found = np.full(len(self.items), -1, dtype=np.int64)
        found[self.item] = column
        return found


_COLUMNS = ("item", "rater", "verdict", "confidence", "truth", "source")


def natural(text: str) -> list[tuple[int, int, str]]:
    """A key that sorts R2 before R10. Python refuses to read thousands of digits at once; 600 it always reads."""
    parts = re.findall(r"\d{1,600}|\D+", text)
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts]


def build(rows: Iterable[Row], categories: Sequence[Any] = (0, 1)) -> Ratings:
    """The table of these rows. TwiceError for a second rating of an item by one rater; ValueError for a verdict that is
    none of the categories, and for an item with two sources or two truths."""
    given = list(rows)
    items = tuple(sorted({row.item for row in given}))
    raters = tuple(sorted({row.rater for row in given}, key=natural))
    sources = tuple(sorted({row.source for row in given})) or (ALL,)
    places = tuple({name: at for at, name in enumerate(names)} for names in (items, raters, sources, categories))
    seen: dict[tuple[int, int], int] = {}
    about: dict[int, tuple[int, int, str]] = {}
    columns = []
    for number, row in enumerate(given):
        if row.verdict not in places[3]:
            raise ValueError(f"the verdict {row.verdict!r} is none of {', '.join(map(str, categories))}")
        item, rater, source = places[0][row.item], places[1][row.rater], places[2][row.source]
        if (item, rater) in seen:
            raise TwiceError(row.item, row.rater, (seen[item, rater], number))
        seen[item, rater] = number
        truth = -1 if row.truth is None else int(row.truth)
        if about.setdefault(item, (source, truth, row.pair)) != (source, truth, row.pair):
            raise ValueError(f"item {row.item} has two sources, truths or pairs")
        confidence = math.nan if row.confidence is None else float(row.confidence)
        columns.append((item, rater, places[3][row.verdict], confidence, truth, source, number))
    columns.sort(key=lambda one: one[:2])
    found: list[list[Any]] = [list(column) for column in zip(*columns, strict=True)] or [[] for _ in range(7)]
    pairs = tuple(about[at][2] for at in range(len(items)))
    return Ratings(
        item=np.array(found[0], dtype=np.int64),
        rater=np.array(found[1], dtype=np.int64),
        verdict=np.array(found[2], dtype=np.int64),
        confidence=np.array(found[3], dtype=np.float64),
        truth=np.array(found[4], dtype=np.int64),
        source=np.array(found[5], dtype=np.int64),
        items=items,
        raters=raters,
        sources=sources,
        categories=tuple(categories),
        pairs=pairs if any(pairs) else (),
        factors=_factors([given[number].factors for number in found[6]]),
    )


def _factors(found: Sequence[Mapping[str, str]]) -> dict[str, tuple[Ints, tuple[str, ...]]]:
    factors = {}
    for factor in sorted({name for one in found for name in one}):
        names = tuple(sorted({one.get(factor, "") for one in found}, key=natural))
        place = {name: at for at, name in enumerate(names)}
        factors[factor] = (np.array([place[one.get(factor, "")] for one in found], dtype=np.int64), names)
    return factors
