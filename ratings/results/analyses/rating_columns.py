"""A study's ratings as columns, loaded once. Every table of an analysis is computed from them."""

import dataclasses
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
from ratings.results.analyses.error_sizes import name_error_size
from ratings.results.analyses.filters import Filters
from ratings.results.rating_rows import RatingRow, iter_rating_rows
from ratings.stats import ratings_table
from ratings.stats.ratings_table import Ratings
from wetbench_site.text import natural_sort_key


class ItemFacts(NamedTuple):
    """The facts about an item.

    `source`: display name of the source. `error`: type of the planted error. `error_size`: name of the
    range of sizes (`error_sizes`). `verdicts`: verdict of each classifier, by name.
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
    error_size: str
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

    item: ratings_table.Ints
    rater: ratings_table.Ints
    arm: ratings_table.Ints
    verdict: ratings_table.Ints
    confidence: ratings_table.Ints
    position: ratings_table.Ints
    seconds: ratings_table.Floats
    occasion: ratings_table.Ints
    localised: ratings_table.Ints
    counts: ratings_table.Bools
    imported: ratings_table.Bools
    simulated: ratings_table.Bools
    first_verdict: ratings_table.Ints

    @property
    def is_judged(self) -> ratings_table.Bools:
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
    repeats: tuple[ratings_table.RepeatedRating, ...]
    sha256: str

    @cached_property
    def reference_by_rating(self) -> ratings_table.Ints:
        """Return the reference of each rating's item, shape (n,): 1 without an error, 0 with one, -1 if unknown."""
        return list_reference_labels(self.items)[self.columns.item]

    @cached_property
    def source_by_rating(self) -> npt.NDArray[np.str_]:
        """Return the source name of each rating's item, shape (n,)."""
        return np.array([fact.source for fact in self.items], dtype=np.str_)[self.columns.item]


def load_analysis_data(study: Study, filters: Filters) -> AnalysisData:
    """Load the ratings that pass the filters, with their sources. Raises SealedError before the study is unblinded."""
    data = build_analysis_data(iter_rating_rows(study, within=filters.build_condition()))
    # Evidence records have no planted errors, so without a declared truth there are no results on errors.
    if study.kind == EVIDENCE and data.table.reference_name == ratings_table.UNKNOWN:
        return replace(data, table=replace(data.table, reference_name=ratings_table.NO_TRUTH))
    return data


def build_analysis_data(rows: Iterable[RatingRow]) -> AnalysisData:
    """Return the analysis data of these rows. Only the digest depends on the order of the rows."""
    digest = hashlib.sha256()
    facts: dict[str, ItemFacts] = {}
    # Raters and arms are numbered in the order in which they occur; the numbers are later replaced by sorted ranks.
    rater_numbers: dict[str, int] = {}
    arm_numbers: dict[DisplayArm, int] = {}
    item_numbers: dict[str, int] = {}
    cell_rows: list[tuple[Any, ...]] = []
    for row in rows:
        code = str(row.item)
        if code not in facts:
            facts[code] = ItemFacts(
                code, row.source_name, row.perturbation, row.truth, row.reference, str(row.pair), row.experiment, row.action,
                row.error_kind or "", name_error_size(row), row.verdicts,
            )  # fmt: skip
        arm = DisplayArm(row.layout, "yes" if row.context else "no", row.marks) if not row.imported else _UNKNOWN_ARM
        seconds = row.response_seconds
        # In the order of the fields of RatingColumns.
        cells = (
            item_numbers.setdefault(code, len(item_numbers)), rater_numbers.setdefault(row.rater, len(rater_numbers)),
            arm_numbers.setdefault(arm, len(arm_numbers)), _code_flag(row.verdict), row.confidence or 0, row.position,
            math.nan if seconds is None else seconds, row.occasion, _code_flag(row.localised), row.counts, row.imported,
            row.simulated, _code_flag(row.first_verdict),
        )  # fmt: skip
        cell_rows.append(cells)
        # The canonical content of a rating, with every field on which a number of the analysis can depend.
        # JSON has no NaN, so NaN becomes null. `cell != cell` is true only for NaN.
        content = [
            *facts[code], row.rater, *arm, sorted(row.marked), *(None if cell != cell else cell for cell in cells[3:]),
        ]  # fmt: skip
        digest.update(json.dumps(content, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return _assemble_data(facts, (item_numbers, rater_numbers, arm_numbers), cell_rows, digest.hexdigest())


_UNKNOWN_ARM = DisplayArm("", "", "")


def _code_flag(value: bool | None) -> int:
    """Return 1, 0, or -1 if the value is None."""
    return -1 if value is None else int(value)


def _assemble_data(
    facts: dict[str, ItemFacts], numbers: tuple[dict[Any, int], ...], cell_rows: list[tuple[Any, ...]], sha256: str
) -> AnalysisData:
    """Return the analysis data with items, raters and arms sorted, so that no number depends on the order of the rows."""
    fields = [field.name for field in dataclasses.fields(RatingColumns)]
    by_column = list(zip(*cell_rows, strict=True)) or [()] * len(fields)
    arrays = {
        name: np.array(cells, dtype=_DTYPES.get(name, np.int64)) for name, cells in zip(fields, by_column, strict=True)
    }
    sorted_names = [sorted(numbers[0]), sorted(numbers[1], key=natural_sort_key), sorted(numbers[2])]
    for name, number_of, names in zip(("item", "rater", "arm"), numbers, sorted_names, strict=True):
        rank_by_number = np.zeros(len(names), dtype=np.int64)
        for rank, value in enumerate(names):
            rank_by_number[number_of[value]] = rank
        arrays[name] = rank_by_number[arrays[name]]
    # Sort by item, then rater, then occasion. The last key of lexsort is the primary one.
    order = np.lexsort((arrays["occasion"], arrays["rater"], arrays["item"]))
    columns = RatingColumns(**{name: array[order] for name, array in arrays.items()})
    items = tuple(facts[code] for code in sorted_names[0])
    raters, arms = tuple(sorted_names[1]), tuple(sorted_names[2])
    table, repeats = _build_ratings_table(items, raters, arms, columns), _find_repeats(items, raters, columns)
    return AnalysisData(items, raters, arms, columns, table, repeats, sha256)


# Types of columns that are not of integers.
_DTYPES: Mapping[str, Any] = {
    "seconds": np.float64, "counts": np.bool_, "imported": np.bool_, "simulated": np.bool_,
}  # fmt: skip


def _build_ratings_table(
    items: tuple[ItemFacts, ...], raters: tuple[str, ...], arms: tuple[DisplayArm, ...], columns: RatingColumns
) -> Ratings:
    """Return the table that stats.build_ratings_table would return for the judged ratings, without an object per rating."""
    is_judged = columns.is_judged
    item, of_item = _compress_indices(columns.item[is_judged], items)
    rater, of_rater = _compress_indices(columns.rater[is_judged], raters)
    sources = tuple(sorted({fact.source for fact in of_item})) or (ratings_table.ALL,)
    source_index = {name: number for number, name in enumerate(sources)}
    source = np.array([source_index[fact.source] for fact in of_item], dtype=np.int64)
    confidence = columns.confidence[is_judged].astype(np.float64)
    pairs = tuple(fact.pair for fact in of_item)
    factors = {name: _build_factor([getattr(fact, name) for fact in of_item], item) for name in _ITEM_FACTORS}
    factors["kind"] = _build_factor([name_contrast_group(fact.error, fact.reference) for fact in of_item], item)
    arm = columns.arm[is_judged]
    factors |= {name: _build_factor([getattr(one, name) for one in arms], arm) for name in DisplayArm._fields}
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
        reference_name=ratings_table.choose_reference_name(
            {is_declared(fact.reference) for fact in of_item if fact.reference}
        ),
    )


def list_reference_labels(items: Sequence[ItemFacts]) -> ratings_table.Ints:
    """Return the reference of each item as statistics use it: 1 without an error, 0 with an error, -1 if unknown."""
    labels = [reference_to_label(fact.reference) for fact in items]
    return np.array([-1 if label is None else label for label in labels], dtype=np.int64)


_ITEM_FACTORS = ("experiment", "action", "error", "error_kind")


def _compress_indices(column: ratings_table.Ints, names: tuple[Any, ...]) -> tuple[ratings_table.Ints, tuple[Any, ...]]:
    """Return the column as indices into the names that occur in it, and these names."""
    used_indices, index = np.unique(column, return_inverse=True)
    return index.astype(np.int64), tuple(names[i] for i in used_indices)


def _build_factor(values: list[str], column: ratings_table.Ints) -> tuple[ratings_table.Ints, tuple[str, ...]]:
    """Return the codes and names of a factor. `column`: for each rating, the index of its value in `values`."""
    names = tuple(sorted({values[i] for i in np.unique(column)}, key=natural_sort_key))
    code_of = {name: code for code, name in enumerate(names)}
    # The code is -1 only for values that no rating has, so -1 does not occur in the result.
    codes = np.array([code_of.get(value, -1) for value in values], dtype=np.int64)
    return codes[column] if len(values) else column, names


def _find_repeats(
    items: tuple[ItemFacts, ...], raters: tuple[str, ...], columns: RatingColumns
) -> tuple[ratings_table.RepeatedRating, ...]:
    """Return both verdicts of each item that a rater judged twice, provided that the first rating counts."""
    # Only items with a second rating are searched, because most items have none.
    candidates = np.flatnonzero(columns.is_judged & np.isin(columns.item, columns.item[columns.occasion == 2]))
    first = {(columns.item[n], columns.rater[n]): int(columns.verdict[n]) for n in candidates}
    return tuple(
        ratings_table.RepeatedRating(items[item].code, raters[rater], first[item, rater], int(columns.verdict[n]))
        for n in np.flatnonzero((columns.occasion == 2) & (columns.verdict >= 0))
        if ((item := columns.item[n]), (rater := columns.rater[n])) in first
    )
