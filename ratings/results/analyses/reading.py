"""A study's ratings as columns, read once: what every table of an analysis is computed from."""

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
from ratings.protocol.reference import is_declared, name_kind, read_label
from ratings.results.analyses.filters import Filters
from ratings.results.rows import RatingRow, rating_rows
from ratings.stats import Ratings
from ratings.stats.table import ALL, NO_TRUTH, UNKNOWN, Bools, Floats, Ints, Repeat, name_reference, natural


class ItemFacts(NamedTuple):
    """What is known of an item. `source` is the name that shows, `error` the planted one's type, `verdicts` classifiers'."""

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


class Arm(NamedTuple):
    """How an item was shown; all empty where the rating was collected elsewhere."""

    layout: str
    context: str
    marks: str


@dataclass(frozen=True)
class Columns:
    """One entry a rating, shape (n,), in the order of the rows. `item`, `rater`, `arm`: indices into those of `Reading`.

    verdict: 1, 0, or -1 where it could not be judged; confidence: 1 to 5 or 0; seconds: NaN where nobody knows;
    localised: 1, 0, or -1 where it is not known or asked; first_verdict: before the balance was shown, -1 where not asked.
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
    def judged(self) -> Bools:
        """Those that rates and agreement have."""
        return self.counts & (self.verdict >= 0)


@dataclass(frozen=True)
class Reading:
    """`items` by code, `raters` by label; `table` and `repeats` are what the statistics take; `sha256` is of the rows."""

    items: tuple[ItemFacts, ...]
    raters: tuple[str, ...]
    arms: tuple[Arm, ...]
    columns: Columns
    table: Ratings
    repeats: tuple[Repeat, ...]
    sha256: str

    @cached_property
    def reference(self) -> Ints:
        """Reference of each rating's item, shape (n,): 1 without an error, 0 with one, -1 where it is not known."""
        return reference_labels(self.items)[self.columns.item]

    @cached_property
    def source(self) -> npt.NDArray[np.str_]:
        """Of each rating's item the source's name."""
        return np.array([fact.source for fact in self.items], dtype=np.str_)[self.columns.item]


def read(study: Study, filters: Filters) -> Reading:
    """The ratings that the filters let through, with their sources. SealedError before the study is unblinded."""
    found = gather(filters.kept(rating_rows(study)))
    if study.kind == EVIDENCE and found.table.reference_name == UNKNOWN:
        return replace(found, table=replace(found.table, reference_name=NO_TRUTH))
    return found


def gather(rows: Iterable[RatingRow]) -> Reading:
    """Columns of these rows. Their order changes nothing but the hash."""
    digest = hashlib.sha256()
    facts: dict[str, ItemFacts] = {}
    places: tuple[dict[str, int], dict[str, int], dict[Arm, int]] = ({}, {}, {})
    numbers: list[tuple[Any, ...]] = []
    for row in rows:
        code = str(row.item)
        if code not in facts:
            facts[code] = _facts(code, row)
        line = (
            places[0].setdefault(code, len(places[0])),
            places[1].setdefault(row.rater, len(places[1])),
            places[2].setdefault(_arm(row), len(places[2])),
            -1 if row.verdict is None else int(row.verdict),
            row.confidence or 0,
            row.position,
            math.nan if row.timed is None else row.timed,
            row.occasion,
            -1 if row.localised is None else int(row.localised),
            row.counts,
            row.imported,
            row.simulated,
            -1 if row.first_verdict is None else int(row.first_verdict),
        )
        numbers.append(line)
        digest.update(_line(row, facts[code], line))
    return _whole(facts, places, numbers, digest.hexdigest())


def _facts(code: str, row: RatingRow) -> ItemFacts:
    return ItemFacts(
        code, row.source_name, row.perturbation, row.truth, row.reference, str(row.pair), row.experiment, row.action,
        row.error_kind or "", row.verdicts,
    )  # fmt: skip


def _arm(row: RatingRow) -> Arm:
    return Arm("", "", "") if row.imported else Arm(row.layout, "yes" if row.context else "no", row.marks)


def _line(row: RatingRow, facts: ItemFacts, numbers: tuple[Any, ...]) -> bytes:
    """A rating in canonical form: everything that a number of the analysis can depend on."""
    told = [*facts, row.rater, *_arm(row), sorted(row.marked), *(None if n != n else n for n in numbers[3:])]
    return json.dumps(told, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _whole(facts: dict[str, ItemFacts], places: Any, numbers: list[tuple[Any, ...]], sha256: str) -> Reading:
    """Items, raters and arms in an order of their own, so that the order of the rows changes no number."""
    found: list[Any] = list(zip(*numbers, strict=True)) or [()] * 13
    items, raters, arms = sorted(places[0]), sorted(places[1], key=natural), sorted(places[2])
    indices = [
        ranks(place, names)[np.array(found[at], dtype=np.int64)]
        for at, (place, names) in enumerate(zip(places, (items, raters, arms), strict=True))
    ]
    order = np.lexsort((np.array(found[7], dtype=np.int64), indices[1], indices[0]))
    ints = [np.array(found[at], dtype=np.int64)[order] for at in (3, 4, 5, 7, 8, 12)]
    flags = [np.array(found[at], dtype=np.bool_)[order] for at in (9, 10, 11)]
    columns = Columns(
        item=indices[0][order],
        rater=indices[1][order],
        arm=indices[2][order],
        verdict=ints[0],
        confidence=ints[1],
        position=ints[2],
        seconds=np.array(found[6], dtype=np.float64)[order],
        occasion=ints[3],
        localised=ints[4],
        counts=flags[0],
        imported=flags[1],
        simulated=flags[2],
        first_verdict=ints[5],
    )
    known = tuple(facts[code] for code in items)
    table = _table(known, tuple(raters), tuple(arms), columns)
    return Reading(known, tuple(raters), tuple(arms), columns, table, _repeats(known, raters, columns), sha256)


def ranks(place: Mapping[Any, int], names: Sequence[Any]) -> Ints:
    """Where each number as it was first given out stands among the sorted names."""
    found = np.zeros(len(names), dtype=np.int64)
    for rank, name in enumerate(names):
        found[place[name]] = rank
    return found


def _table(items: tuple[ItemFacts, ...], raters: tuple[str, ...], arms: tuple[Arm, ...], columns: Columns) -> Ratings:
    """The same table that `stats.table.build` makes of the judged ratings, without a Python object for each of them."""
    judged = columns.judged
    item, of_item = _used(columns.item[judged], items)
    rater, of_rater = _used(columns.rater[judged], raters)
    sources = tuple(sorted({fact.source for fact in of_item})) or (ALL,)
    at = {name: number for number, name in enumerate(sources)}
    source = np.array([at[fact.source] for fact in of_item], dtype=np.int64)
    confidence = columns.confidence[judged].astype(np.float64)
    pairs = tuple(fact.pair for fact in of_item)
    factors = {name: _factor([getattr(fact, name) for fact in of_item], item) for name in _OF_ITEM}
    factors["kind"] = _factor([name_kind(fact.error, fact.reference) for fact in of_item], item)
    factors |= {name: _factor([getattr(arm, name) for arm in arms], columns.arm[judged]) for name in Arm._fields}
    return Ratings(
        item=item,
        rater=rater,
        verdict=columns.verdict[judged],
        confidence=np.where(confidence > 0, confidence, np.nan),
        reference=reference_labels(of_item)[item],
        source=source[item],
        items=tuple(fact.code for fact in of_item),
        raters=of_rater,
        sources=sources,
        pairs=pairs if any(pairs) else (),
        factors=factors,
        reference_name=name_reference({is_declared(fact.reference) for fact in of_item if fact.reference}),
    )


def reference_labels(items: Sequence[ItemFacts]) -> Ints:
    """Return the reference of each item as the statistics take it: 1, 0, or -1 where it is not known."""
    labels = [read_label(fact.reference) for fact in items]
    return np.array([-1 if label is None else label for label in labels], dtype=np.int64)


_OF_ITEM = ("experiment", "action", "error", "error_kind")


def _used(column: Ints, names: tuple[Any, ...]) -> tuple[Ints, tuple[Any, ...]]:
    """The column as indices into those names that it holds."""
    used, index = np.unique(column, return_inverse=True)
    return index.astype(np.int64), tuple(names[at] for at in used)


def _factor(values: list[str], column: Ints) -> tuple[Ints, tuple[str, ...]]:
    """Of the ratings whose `column` says which of the values is theirs."""
    names = tuple(sorted({values[at] for at in np.unique(column)}, key=natural))
    place = {name: at for at, name in enumerate(names)}
    codes = np.array([place.get(value, -1) for value in values], dtype=np.int64)
    return codes[column] if len(values) else column, names


def _repeats(items: tuple[ItemFacts, ...], raters: list[str], columns: Columns) -> tuple[Repeat, ...]:
    """Items that a rater judged twice, both times; the first answer must be one that counts."""
    first: dict[tuple[int, int], int] = {}
    at = np.flatnonzero(columns.judged & np.isin(columns.item, columns.item[columns.occasion == 2]))
    for n in at:
        first[columns.item[n], columns.rater[n]] = int(columns.verdict[n])
    found = []
    for n in np.flatnonzero((columns.occasion == 2) & (columns.verdict >= 0)):
        item, rater = columns.item[n], columns.rater[n]
        if (item, rater) in first:
            verdicts = first[item, rater], int(columns.verdict[n])
            found.append(Repeat(items[item].code, raters[rater], *verdicts))
    return tuple(found)
