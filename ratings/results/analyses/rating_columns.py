"""A study's ratings as columns, loaded once. Every table of an analysis is computed from them."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ratings.models import EVIDENCE, Study
from ratings.protocol.reference import is_declared, name_contrast_group, reference_to_label
from ratings.results.analyses.filters import Filters
from ratings.results.rating_rows import RatingRow, iter_rating_rows
from ratings.stats import Ratings
from ratings.stats.ratings_table import (
    ALL,
    NO_TRUTH,
    UNKNOWN,
    Bools,
    Floats,
    Ints,
    RepeatedRating,
    choose_reference_name,
    natural_sort_key,
)


class ItemFacts(NamedTuple):
    """The facts about an item.

    `source`: display name of the source. `error`: type of the planted error. `verdicts`: verdict of each classifier, by name.
    """

    code: str
    source: str
    error: str
    truth: bool | None
    reference: str
    pair: str
    experiment: str
    action: str
    error_kind: str
    verdicts: Mapping[str, bool]


class DisplayArm(NamedTuple):
    """How an item was displayed. All fields are empty for ratings collected elsewhere."""

    layout: str
    context: str
    marks: str


@dataclass(frozen=True)
class RatingColumns:
    """Ratings as columns with one entry per rating, shape (n,).

    `item`, `rater` and `arm` are indices into `items`, `raters` and `arms` of AnalysisData. `verdict`: 1, 0, or -1 if the
    rater could not judge. `confidence`: 1 to 5, or 0 if missing. `seconds`: NaN if unknown. `localised`: 1 if the planted row
    was marked, 0 if not, -1 if unknown or marks were not offered. `first_verdict`: the verdict before the balance sheet was
    shown, -1 if not asked for.
    """

    item: Ints
    rater: Ints
    arm: Ints
    verdict: Ints
    confidence: Ints
    position: Ints
    seconds: Floats
    occasion: Ints
    localised: Ints
    counts: Bools
    imported: Bools
    simulated: Bools
    first_verdict: Ints

    @property
    def is_judged(self) -> Bools:
        """Return the mask of the ratings that enter rates and agreement: they count, and have a verdict."""
        return self.counts & (self.verdict >= 0)


@dataclass(frozen=True)
class AnalysisData:
    """The input of an analysis.

    `items` are sorted by code, `raters` by label. `table` and `repeats` are the input of the statistics. `sha256` is the digest
    of the rows.
    """

    items: tuple[ItemFacts, ...]
    raters: tuple[str, ...]
    arms: tuple[DisplayArm, ...]
    columns: RatingColumns
    table: Ratings
    repeats: tuple[RepeatedRating, ...]
    sha256: str

    @cached_property
    def reference_by_rating(self) -> Ints:
        """Return the reference of each rating's item, shape (n,): 1 without an error, 0 with one, -1 if unknown."""
        return list_reference_labels(self.items)[self.columns.item]

    @cached_property
    def source_by_rating(self) -> npt.NDArray[np.str_]:
        """Return the source name of each rating's item, shape (n,)."""
        return np.array([fact.source for fact in self.items], dtype=np.str_)[self.columns.item]


def load_analysis_data(study: Study, filters: Filters) -> AnalysisData:
    """Load the ratings that pass the filters, with their sources. Raises SealedError before the study is unblinded."""
    data = build_analysis_data(filters.select_rows(iter_rating_rows(study)))
    # Evidence records have no planted errors, so without a declared truth there are no results on errors.
    if study.kind == EVIDENCE and data.table.reference_name == UNKNOWN:
        return replace(data, table=replace(data.table, reference_name=NO_TRUTH))
    return data


def build_analysis_data(rows: Iterable[RatingRow]) -> AnalysisData:
    """Return the analysis data of these rows. Only the digest depends on the order of the rows."""
    digest = hashlib.sha256()
    facts: dict[str, ItemFacts] = {}
    # Items, raters and arms are numbered in the order in which they occur; _assemble_data replaces the numbers by sorted ranks.
    ranks_by_arrival: tuple[dict[str, int], dict[str, int], dict[DisplayArm, int]] = ({}, {}, {})
    cell_rows: list[tuple[Any, ...]] = []
    for row in rows:
        code = str(row.item)
        if code not in facts:
            facts[code] = _build_item_facts(code, row)
        cells = (
            ranks_by_arrival[0].setdefault(code, len(ranks_by_arrival[0])),
            ranks_by_arrival[1].setdefault(row.rater, len(ranks_by_arrival[1])),
            ranks_by_arrival[2].setdefault(_get_display_arm(row), len(ranks_by_arrival[2])),
            -1 if row.verdict is None else int(row.verdict),
            row.confidence or 0,
            row.position,
            math.nan if row.response_seconds is None else row.response_seconds,
            row.occasion,
            -1 if row.localised is None else int(row.localised),
            row.counts,
            row.imported,
            row.simulated,
            -1 if row.first_verdict is None else int(row.first_verdict),
        )
        cell_rows.append(cells)
        digest.update(_encode_rating(row, facts[code], cells))
    return _assemble_data(facts, ranks_by_arrival, cell_rows, digest.hexdigest())


def _build_item_facts(code: str, row: RatingRow) -> ItemFacts:
    return ItemFacts(
        code, row.source_name, row.perturbation, row.truth, row.reference, str(row.pair), row.experiment, row.action,
        row.error_kind or "", row.verdicts,
    )  # fmt: skip


def _get_display_arm(row: RatingRow) -> DisplayArm:
    return DisplayArm("", "", "") if row.imported else DisplayArm(row.layout, "yes" if row.context else "no", row.marks)


def _encode_rating(row: RatingRow, facts: ItemFacts, numbers: tuple[Any, ...]) -> bytes:
    """Return the canonical bytes of a rating, with every field on which a number of the analysis can depend."""
    # JSON has no NaN, so NaN becomes null. `cell != cell` is true only for NaN.
    content = [
        *facts,
        row.rater,
        *_get_display_arm(row),
        sorted(row.marked),
        *(None if cell != cell else cell for cell in numbers[3:]),
    ]
    return json.dumps(content, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _assemble_data(
    facts: dict[str, ItemFacts], ranks_by_arrival: Any, numbers: list[tuple[Any, ...]], sha256: str
) -> AnalysisData:
    """Return the analysis data with items, raters and arms sorted, so that no number depends on the order of the
    rows.
    """
    by_column: list[Any] = list(zip(*numbers, strict=True)) or [()] * 13  # without rows, all 13 columns are empty
    items, raters, arms = (
        sorted(ranks_by_arrival[0]),
        sorted(ranks_by_arrival[1], key=natural_sort_key),
        sorted(ranks_by_arrival[2]),
    )
    indices = [
        compute_ranks(place, names)[np.array(by_column[i], dtype=np.int64)]
        for i, (place, names) in enumerate(zip(ranks_by_arrival, (items, raters, arms), strict=True))
    ]
    # Sort by item, then rater, then occasion. The last key of lexsort is the primary one.
    order = np.lexsort((np.array(by_column[7], dtype=np.int64), indices[1], indices[0]))
    ints = [np.array(by_column[i], dtype=np.int64)[order] for i in (3, 4, 5, 7, 8, 12)]
    flags = [np.array(by_column[i], dtype=np.bool_)[order] for i in (9, 10, 11)]
    columns = RatingColumns(
        item=indices[0][order],
        rater=indices[1][order],
        arm=indices[2][order],
        verdict=ints[0],
        confidence=ints[1],
        position=ints[2],
        seconds=np.array(by_column[6], dtype=np.float64)[order],
        occasion=ints[3],
        localised=ints[4],
        counts=flags[0],
        imported=flags[1],
        simulated=flags[2],
        first_verdict=ints[5],
    )
    facts_in_order = tuple(facts[code] for code in items)
    table = _build_ratings_table(facts_in_order, tuple(raters), tuple(arms), columns)
    return AnalysisData(
        facts_in_order,
        tuple(raters),
        tuple(arms),
        columns,
        table,
        _find_repeats(facts_in_order, raters, columns),
        sha256,
    )


def compute_ranks(number_of: Mapping[Any, int], names: Sequence[Any]) -> Ints:
    """Return the position of each name in the sorted `names`, indexed by its number in `number_of`."""
    rank_by_number = np.zeros(len(names), dtype=np.int64)
    for rank, name in enumerate(names):
        rank_by_number[number_of[name]] = rank
    return rank_by_number


def _build_ratings_table(
    items: tuple[ItemFacts, ...], raters: tuple[str, ...], arms: tuple[DisplayArm, ...], columns: RatingColumns
) -> Ratings:
    """Return the table that stats.build_ratings_table would return for the judged ratings, without an object per
    rating.
    """
    is_judged = columns.is_judged
    item, of_item = _compress_indices(columns.item[is_judged], items)
    rater, of_rater = _compress_indices(columns.rater[is_judged], raters)
    sources = tuple(sorted({fact.source for fact in of_item})) or (ALL,)
    source_index = {name: number for number, name in enumerate(sources)}
    source = np.array([source_index[fact.source] for fact in of_item], dtype=np.int64)
    confidence = columns.confidence[is_judged].astype(np.float64)
    pairs = tuple(fact.pair for fact in of_item)
    factors = {name: _build_factor([getattr(fact, name) for fact in of_item], item) for name in _ITEM_FACTORS}
    factors["kind"] = _build_factor([name_contrast_group(fact.error, fact.reference) for fact in of_item], item)
    factors |= {
        name: _build_factor([getattr(arm, name) for arm in arms], columns.arm[is_judged]) for name in DisplayArm._fields
    }
    return Ratings(
        item=item,
        rater=rater,
        verdict=columns.verdict[is_judged],
        confidence=np.where(confidence > 0, confidence, np.nan),
        reference=list_reference_labels(of_item)[item],
        source=source[item],
        items=tuple(fact.code for fact in of_item),
        raters=of_rater,
        sources=sources,
        pairs=pairs if any(pairs) else (),
        factors=factors,
        reference_name=choose_reference_name({is_declared(fact.reference) for fact in of_item if fact.reference}),
    )


def list_reference_labels(items: Sequence[ItemFacts]) -> Ints:
    """Return the reference of each item as statistics use it: 1 without an error, 0 with an error, -1 if unknown."""
    labels = [reference_to_label(fact.reference) for fact in items]
    return np.array([-1 if label is None else label for label in labels], dtype=np.int64)


_ITEM_FACTORS = ("experiment", "action", "error", "error_kind")


def _compress_indices(column: Ints, names: tuple[Any, ...]) -> tuple[Ints, tuple[Any, ...]]:
    """Return the column as indices into the names that occur in it, and these names."""
    used_indices, index = np.unique(column, return_inverse=True)
    return index.astype(np.int64), tuple(names[i] for i in used_indices)


def _build_factor(values: list[str], column: Ints) -> tuple[Ints, tuple[str, ...]]:
    """Return the codes and names of a factor. `column`: for each rating, the index of its value in `values`."""
    names = tuple(sorted({values[i] for i in np.unique(column)}, key=natural_sort_key))
    code_of = {name: code for code, name in enumerate(names)}
    # The code is -1 only for values that no rating has, so -1 does not occur in the result.
    codes = np.array([code_of.get(value, -1) for value in values], dtype=np.int64)
    return codes[column] if len(values) else column, names


def _find_repeats(
    items: tuple[ItemFacts, ...], raters: list[str], columns: RatingColumns
) -> tuple[RepeatedRating, ...]:
    """Return both verdicts of each item that a rater judged twice, provided that the first rating counts."""
    first: dict[tuple[int, int], int] = {}
    # Only items with a second rating are searched, because most items have none.
    candidates = np.flatnonzero(columns.is_judged & np.isin(columns.item, columns.item[columns.occasion == 2]))
    for n in candidates:
        first[columns.item[n], columns.rater[n]] = int(columns.verdict[n])
    repeats = []
    for n in np.flatnonzero((columns.occasion == 2) & (columns.verdict >= 0)):
        item, rater = columns.item[n], columns.rater[n]
        if (item, rater) in first:
            verdicts = first[item, rater], int(columns.verdict[n])
            repeats.append(RepeatedRating(items[item].code, raters[rater], *verdicts))
    return tuple(repeats)
