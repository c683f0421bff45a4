"""Store ratings as a table of columns, the form from which every statistic is computed."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wetbench_site.text import natural_sort_key

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

ALL = "all"  # name of the only source in a table without a source column

PLANTED, DECLARED, MIXED, UNKNOWN, NO_TRUTH = "planted", "declared", "mixed", "unknown", "no truth"
# The references: what counts as an item with an error, and as one without. The key is stored in files; the text is shown on
# pages beside every number that needs a reference.
REFERENCES: Mapping[str, str] = {
    PLANTED: "planted against unperturbed; a simulator's own mistakes count as false alarms",
    DECLARED: "declared wrong against declared right; the import states the truth and not whether an error was planted",
    MIXED: (
        "planted or declared wrong against unperturbed or declared right; a simulator's own mistakes count as false alarms"
    ),
    UNKNOWN: "none: no item states its perturbation or its truth; import a column `perturbation` or `truth` to get one",
    NO_TRUTH: "none: no record states its truth; import a column `truth` to get one",
}

# The adjectives for items with an error and, below, for items without an error, by the key of the reference.
WITH_ERROR: Mapping[str, str] = {
    PLANTED: "planted", DECLARED: "declared wrong", MIXED: "planted or declared wrong", UNKNOWN: "planted",
    NO_TRUTH: "declared wrong",
}  # fmt: skip
WITHOUT_ERROR: Mapping[str, str] = {
    PLANTED: "unperturbed", DECLARED: "declared right", MIXED: "unperturbed or declared right", UNKNOWN: "unperturbed",
    NO_TRUTH: "declared right",
}  # fmt: skip
# Why there are no results on errors if no item has a reference, and the import column that would provide a reference.
MISSING_REFERENCE_REASONS: Mapping[str, str] = {
    UNKNOWN: "no item states its perturbation: import a column `perturbation` or `truth`",
    NO_TRUTH: "no record states its truth: import a column `truth`",
}
_ITEM_WITH_REFERENCE: Mapping[str, tuple[str, str]] = {
    PLANTED: ("an item with a planted error", "an unperturbed item"),
    DECLARED: ("a declared wrong item", "a declared right item"),
    MIXED: ("a planted or declared wrong item", "an unperturbed or declared right item"),
}


def explain_missing(reference_name: str, reference: int) -> str:
    """Return why no rating is of an item with this reference: 0 (error), 1 (no error), -1 (any known)."""
    if reference_name in MISSING_REFERENCE_REASONS:
        return MISSING_REFERENCE_REASONS[reference_name]
    if reference < 0:
        return "no rating has a known reference"
    return f"no rating is of {_ITEM_WITH_REFERENCE[reference_name][reference]}"


class RatingRecord(NamedTuple):
    """One rating as a record, from which the table is built.

    `verdict`: one of the table's categories, 1 or 0 in binary tables. `confidence`: 1 to 5 or None. `reference`: 1 (without
    an error), 0 (with an error) or None (unknown). `declared`: whether the reference is a declared truth rather than what was
    done to the item. `pair`: the same text for all versions of one thing. `factors`: further groupings (experiment, action,
    arm, ...).
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


class RepeatedRating(NamedTuple):
    """The two verdicts of one rater on one item; they are categories like the verdicts of RatingRecord."""

    item: str
    rater: str
    first: Any
    second: Any


class DuplicateRatingError(ValueError):
    """A rater has two ratings of one item. `rows`: their row numbers, counted from 0."""

    def __init__(self, item: str, rater: str, rows: tuple[int, int]) -> None:
        super().__init__(f"rater {rater} rated item {item} more than once")
        self.item, self.rater, self.rows = item, rater, rows


@dataclass(frozen=True)
class Ratings:
    """A table of ratings: columns with one entry per rating, shape (n,), sorted by item and rater.

    Because the ratings are sorted, no result depends on the order of the input. `item`, `rater` and `source` are indices into
    `items`, `raters` and `sources`; `verdict` is an index into `categories`. `confidence`: 1 to 5, NaN if missing.
    `reference`: 1 for an item without an error, 0 for one with an error, -1 if unknown. `reference_name` is a key of
    REFERENCES. A binary table has the categories (0, 1), so that `verdict` is the verdict itself.
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
    pairs: tuple[str, ...] = ()  # one per item, "" where unknown; an empty tuple: no pair column
    factors: Mapping[str, tuple[Ints, tuple[str, ...]]] = field(default_factory=dict)
    reference_name: str = PLANTED

    def __len__(self) -> int:
        return len(self.item)

    @property
    def is_binary(self) -> bool:
        return self.categories == (0, 1)

    @property
    def sample_sizes(self) -> dict[str, int]:
        """Return the numbers of items, raters and ratings. Items and raters without a rating are not counted."""
        return {"items": len(np.unique(self.item)), "raters": len(np.unique(self.rater)), "ratings": len(self.item)}

    @property
    def signed_ratings(self) -> Floats:
        """+confidence for verdict 1, -confidence for verdict 0 (10 levels without 0); NaN without confidence."""
        # There is no level 0, because even the least confident rating has one of the two verdicts.
        return np.where(self.verdict == 1, self.confidence, -self.confidence)

    @property
    def is_correct(self) -> Bools:
        """Whether each verdict equals the reference, shape (n,); meaningless where `reference` is -1."""
        equal: Bools = self.verdict == self.reference
        return equal

    @property
    def item_source(self) -> Ints:
        """Return the source index of each item, shape (len(items),); -1 for an item without a rating in the table."""
        return self._spread_over_items(self.source)

    @property
    def item_reference(self) -> Ints:
        """Return the reference of each item, shape (len(items),); -1 if it is unknown or the item has no rating."""
        return self._spread_over_items(self.reference)

    def select_ratings(self, mask: Bools) -> "Ratings":
        """Return the table of the selected ratings; items, raters and sources stay, so indices remain valid."""
        columns = {name: getattr(self, name)[mask] for name in _COLUMN_FIELDS}
        factors = {name: (codes[mask], names) for name, (codes, names) in self.factors.items()}
        return replace(self, **columns, factors=factors)

    def select_source(self, name: str) -> "Ratings":
        return self.select_ratings(self.source == self.sources.index(name))

    def select_rater(self, name: str) -> "Ratings":
        return self.select_ratings(self.rater == self.raters.index(name))

    @property
    def error_sources(self) -> list[str]:
        """Return the names of the sources that have items with an error (reference 0), in the order of `sources`."""
        return [self.sources[index] for index in np.unique(self.source[self.reference == 0])]

    def select_against_unperturbed(self, source: str) -> "Ratings":
        """Return the ratings of this source's items with an error, and of all sources' items without an error."""
        index = self.sources.index(source)
        # Items without an error from other sources are included, because it is known of every simulator's items whether an
        # error was planted.
        return self.select_ratings(((self.source == index) & (self.reference == 0)) | (self.reference == 1))

    def select_comparison(self, source: str | None) -> tuple["Ratings", dict[str, str]]:
        """Return the ratings that measure detection of one source's errors, or of all if None, and the args of results."""
        if source is None:
            return self.select_ratings(self.reference >= 0), {}
        return self.select_against_unperturbed(source), {"source": source}

    def build_grid(self, values: npt.NDArray[Any] | None = None) -> Floats:
        """Return verdicts or `values` by item and rater, shape (len(items), len(raters)); NaN if not rated."""
        # A rater has at most one rating of an item (see build_ratings_table), so no cell is written twice.
        grid = np.full((len(self.items), len(self.raters)), np.nan)
        grid[self.item, self.rater] = self.verdict if values is None else values
        return grid

    def to_records(self) -> list[RatingRecord]:
        """Return the ratings as records, in the table's order."""
        return [
            RatingRecord(
                item=self.items[self.item[index]],
                rater=self.raters[self.rater[index]],
                verdict=self.categories[self.verdict[index]],
                confidence=None if math.isnan(self.confidence[index]) else int(self.confidence[index]),
                reference=None if self.reference[index] < 0 else int(self.reference[index]),
                source=self.sources[self.source[index]],
                pair=self.pairs[self.item[index]] if self.pairs else "",
                factors={name: names[codes[index]] for name, (codes, names) in self.factors.items()},
                declared=self.reference_name == DECLARED,
            )
            for index in range(len(self))
        ]

    def _spread_over_items(self, column: Ints) -> Ints:
        values = np.full(len(self.items), -1, dtype=np.int64)
        values[self.item] = column
        return values


_COLUMN_FIELDS = ("item", "rater", "verdict", "confidence", "reference", "source")


def choose_reference_name(declared: Collection[bool]) -> str:
    """Return the key of REFERENCES. `declared`: whether each reference is a declared truth."""
    if not declared:
        return UNKNOWN
    return MIXED if len(set(declared)) > 1 else DECLARED if True in declared else PLANTED


def build_ratings_table(rows: Iterable[RatingRecord], categories: Sequence[Any] = (0, 1)) -> Ratings:
    """Return the table of these records.

    Raises DuplicateRatingError for two ratings of an item by a rater, and ValueError for an unknown verdict or an item
    with two sources, references or pairs.
    """
    records = list(rows)
    items = tuple(sorted({record.item for record in records}))
    raters = tuple(sorted({record.rater for record in records}, key=natural_sort_key))
    sources = tuple(sorted({record.source for record in records})) or (ALL,)
    codes = tuple({name: index for index, name in enumerate(names)} for names in (items, raters, sources, categories))
    seen: dict[tuple[int, int], int] = {}
    item_facts: dict[int, tuple[int, int, str]] = {}
    declared: set[bool] = set()
    entries = []
    for position, record in enumerate(records):
        if record.verdict not in codes[3]:
            raise ValueError(f"the verdict {record.verdict!r} is not one of {', '.join(map(str, categories))}")
        item, rater, source = codes[0][record.item], codes[1][record.rater], codes[2][record.source]
        if (item, rater) in seen:
            raise DuplicateRatingError(record.item, record.rater, (seen[item, rater], position))
        seen[item, rater] = position
        reference = -1 if record.reference is None else int(record.reference)
        if reference >= 0:
            declared.add(record.declared)
        # Sources are the strata of the bootstrap, so an item with two sources would be drawn in both.
        if item_facts.setdefault(item, (source, reference, record.pair)) != (source, reference, record.pair):
            raise ValueError(f"item {record.item} has two sources, references or pairs")
        confidence = math.nan if record.confidence is None else float(record.confidence)
        entries.append((item, rater, codes[3][record.verdict], confidence, reference, source, position))
    # Sums of floats depend on the order of their terms, so ratings are sorted to make results independent of the input order.
    entries.sort(key=lambda entry: entry[:2])
    *columns, positions = zip(*entries, strict=True) if entries else [()] * 7
    arrays: dict[str, Any] = {
        name: np.array(column, dtype=np.float64 if name == "confidence" else np.int64)
        for name, column in zip(_COLUMN_FIELDS, columns, strict=True)
    }
    pairs = tuple(item_facts[index][2] for index in range(len(items)))
    return Ratings(
        **arrays,
        items=items,
        raters=raters,
        sources=sources,
        categories=tuple(categories),
        pairs=pairs if any(pairs) else (),
        factors=_encode_factors([records[position].factors for position in positions]),
        reference_name=choose_reference_name(declared),
    )


def _encode_factors(factors_by_rating: Sequence[Mapping[str, str]]) -> dict[str, tuple[Ints, tuple[str, ...]]]:
    factors = {}
    for factor in sorted({name for values in factors_by_rating for name in values}):
        values = [by_factor.get(factor, "") for by_factor in factors_by_rating]
        names = tuple(sorted(set(values), key=natural_sort_key))
        code = {name: index for index, name in enumerate(names)}
        factors[factor] = (np.array([code[value] for value in values], dtype=np.int64), names)
    return factors
