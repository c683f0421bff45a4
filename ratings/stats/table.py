"""Ratings as columns: what every statistic is computed from."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ALL = "all"  # the one source of a table that has no source column

PLANTED, DECLARED, MIXED, UNKNOWN, NO_TRUTH = "planted", "declared", "mixed", "unknown", "no truth"
# What errors are told from: the name goes into files, the sentence onto pages and beside every number that rests on it.
REFERENCES: Mapping[str, str] = {
    PLANTED: "planted against unperturbed; a simulator's own mistakes count as false alarms",
    DECLARED: "declared wrong against declared right; the import states the truth and not whether an error was planted",
    MIXED: (
        "planted or declared wrong against unperturbed or declared right; a simulator's own mistakes count as false alarms"
    ),
    UNKNOWN: "none: no item states its perturbation or its truth; import a column `perturbation` or `truth` to get one",
    NO_TRUTH: "none: no record states its truth; import a column `truth` to get one",
}

# What items with and without an error are called where they are counted.
WITH_ERROR: Mapping[str, str] = {
    PLANTED: "planted",
    DECLARED: "declared wrong",
    MIXED: "planted or declared wrong",
    UNKNOWN: "planted",
    NO_TRUTH: "declared wrong",
}
WITHOUT_ERROR: Mapping[str, str] = {
    PLANTED: "unperturbed",
    DECLARED: "declared right",
    MIXED: "unperturbed or declared right",
    UNKNOWN: "unperturbed",
    NO_TRUTH: "declared right",
}
# Why there is no number on errors where no item has a reference, and which column would give one.
NOT_STATED: Mapping[str, str] = {
    UNKNOWN: "no item states its perturbation: import a column `perturbation` or `truth`",
    NO_TRUTH: "no record states its truth: import a column `truth`",
}
_MISSING: Mapping[str, tuple[str, str]] = {
    PLANTED: ("an item with a planted error", "an unperturbed item"),
    DECLARED: ("a declared wrong item", "a declared right item"),
    MIXED: ("a planted or declared wrong item", "an unperturbed or declared right item"),
}


def explain_missing(reference_name: str, reference: int) -> str:
    """Return why no rating is of an item with this reference: 0 with an error, 1 without; -1: of one with either."""
    if reference_name in NOT_STATED:
        return NOT_STATED[reference_name]
    return (
        "no rating has a known reference" if reference < 0 else f"no rating is of {_MISSING[reference_name][reference]}"
    )


class Row(NamedTuple):
    """One judged rating, as it is read: `verdict` is one of the table's categories, 1 and 0 in binary tables.

    `confidence` 1 to 5 or None; `reference` 1 (unperturbed), 0 (with an error) or None (not known); `declared`: the
    reference is a declared truth, not what was done to the item; `pair` shared by versions of one thing. `factors` are further
    names to split by (experiment, action, arm, ...).
    """

    item: str
    rater: str
    verdict: Any
    confidence: int | None = None
    reference: int | None = None
    source: str = ALL
    pair: str = ""
    factors: Mapping[str, str] = {}
    declared: bool = False


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
    `categories`; confidence: 1 to 5, NaN where there is none; reference: 1 for an item nobody planted an error in,
    0 for one with a planted error, -1 where that is not known. `reference_name` is a key of REFERENCES. `binary` tables
    have the categories (0, 1), so their verdict is the 0 or 1 itself.
    """

    item: Ints
    rater: Ints
    verdict: Ints
    confidence: Floats
    reference: Ints
    source: Ints
    items: tuple[str, ...]
    raters: tuple[str, ...]
    sources: tuple[str, ...]
    categories: tuple[Any, ...] = (0, 1)
    pairs: tuple[str, ...] = ()  # of items, "" where unknown; empty: no pair column
    factors: Mapping[str, tuple[Ints, tuple[str, ...]]] = field(default_factory=dict)
    reference_name: str = PLANTED

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
        """Whether the verdict equals the reference, shape (n,); meaningless where `reference` is -1."""
        found: Bools = self.verdict == self.reference
        return found

    @property
    def item_source(self) -> Ints:
        """Source index of each of `items`, shape (len(items),); -1 for items without a rating in the table."""
        return self._of_items(self.source)

    @property
    def item_reference(self) -> Ints:
        """Reference of each of `items`; -1 where unknown or without a rating."""
        return self._of_items(self.reference)

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
        """Names of the sources that have items with an error (reference 0), in order."""
        return [self.sources[at] for at in np.unique(self.source[self.reference == 0])]

    def against_unperturbed(self, source: str) -> "Ratings":
        """Return the ratings of this source's items with an error and of all unperturbed items of any source."""
        at = self.sources.index(source)
        return self.where(((self.source == at) & (self.reference == 0)) | (self.reference == 1))

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
                reference=None if self.reference[at] < 0 else int(self.reference[at]),
                source=self.sources[self.source[at]],
                pair=self.pairs[self.item[at]] if self.pairs else "",
                factors={name: names[codes[at]] for name, (codes, names) in self.factors.items()},
                declared=self.reference_name == DECLARED,
            )
            for at in range(len(self))
        ]

    def _of_items(self, column: Ints) -> Ints:
        found = np.full(len(self.items), -1, dtype=np.int64)
        found[self.item] = column
        return found


_COLUMNS = ("item", "rater", "verdict", "confidence", "reference", "source")


def name_reference(declared: Collection[bool]) -> str:
    """Return the key of REFERENCES for items whose reference is a declared truth (True) or what was done (False)."""
    if not declared:
        return UNKNOWN
    return MIXED if len(set(declared)) > 1 else DECLARED if True in declared else PLANTED


def natural(text: str) -> list[tuple[int, int, str]]:
    """A key that sorts R2 before R10. Python refuses to read thousands of digits at once; 600 it always reads."""
    parts = re.findall(r"\d{1,600}|\D+", text)
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts]


def build(rows: Iterable[Row], categories: Sequence[Any] = (0, 1)) -> Ratings:
    """The table of these rows. TwiceError for a second rating of an item by one rater; ValueError for a verdict that is
    none of the categories, and for an item with two sources or two references."""
    given = list(rows)
    items = tuple(sorted({row.item for row in given}))
    raters = tuple(sorted({row.rater for row in given}, key=natural))
    sources = tuple(sorted({row.source for row in given})) or (ALL,)
    places = tuple({name: at for at, name in enumerate(names)} for names in (items, raters, sources, categories))
    seen: dict[tuple[int, int], int] = {}
    about: dict[int, tuple[int, int, str]] = {}
    bases: set[bool] = set()
    columns = []
    for number, row in enumerate(given):
        if row.verdict not in places[3]:
            raise ValueError(f"the verdict {row.verdict!r} is none of {', '.join(map(str, categories))}")
        item, rater, source = places[0][row.item], places[1][row.rater], places[2][row.source]
        if (item, rater) in seen:
            raise TwiceError(row.item, row.rater, (seen[item, rater], number))
        seen[item, rater] = number
        reference = -1 if row.reference is None else int(row.reference)
        if reference >= 0:
            bases.add(row.declared)
        if about.setdefault(item, (source, reference, row.pair)) != (source, reference, row.pair):
            raise ValueError(f"item {row.item} has two sources, references or pairs")
        confidence = math.nan if row.confidence is None else float(row.confidence)
        columns.append((item, rater, places[3][row.verdict], confidence, reference, source, number))
    columns.sort(key=lambda one: one[:2])
    found: list[list[Any]] = [list(column) for column in zip(*columns, strict=True)] or [[] for _ in range(7)]
    pairs = tuple(about[at][2] for at in range(len(items)))
    return Ratings(
        item=np.array(found[0], dtype=np.int64),
        rater=np.array(found[1], dtype=np.int64),
        verdict=np.array(found[2], dtype=np.int64),
        confidence=np.array(found[3], dtype=np.float64),
        reference=np.array(found[4], dtype=np.int64),
        source=np.array(found[5], dtype=np.int64),
        items=items,
        raters=raters,
        sources=sources,
        categories=tuple(categories),
        pairs=pairs if any(pairs) else (),
        factors=_factors([given[number].factors for number in found[6]]),
        reference_name=name_reference(bases),
    )


def _factors(found: Sequence[Mapping[str, str]]) -> dict[str, tuple[Ints, tuple[str, ...]]]:
    factors = {}
    for factor in sorted({name for one in found for name in one}):
        names = tuple(sorted({one.get(factor, "") for one in found}, key=natural))
        place = {name: at for at, name in enumerate(names)}
        factors[factor] = (np.array([place[one.get(factor, "")] for one in found], dtype=np.int64), names)
    return factors
