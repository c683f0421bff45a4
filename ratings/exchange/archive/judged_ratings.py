"""The ratings that count and have a verdict, as one table of numbers. Multi-reader studies (iMRMC files) are written from it."""

from collections.abc import Iterator

import numpy as np

from ratings.models import Study
from ratings.protocol.reference import is_declared, reference_to_label
from ratings.results import RatingRow, iter_rating_rows
from ratings.results.analyses.rating_columns import compute_ranks
from ratings.stats import Ratings
from ratings.stats.ratings_table import choose_reference_name, natural_sort_key

_ROW_TYPE = np.dtype([("item", "i4"), ("rater", "i4"), ("verdict", "i1"), ("confidence", "i1")])


def build_judged_table(study: Study) -> Ratings:
    """Return the ratings from which the analysis is computed, without factors (experiments, actions, arms).

    Raises SealedError while the study is sealed.
    """
    items: dict[str, int] = {}
    raters: dict[str, int] = {}
    item_facts: list[tuple[str, str, str]] = []  # source, reference, pair of each item
    # Rows are streamed into ten bytes a rating, so that a large study does not need a Python object per rating.
    rows = np.fromiter(_iter_numeric_rows(study, items, raters, item_facts), dtype=_ROW_TYPE)
    names, rater_labels = sorted(items), sorted(raters, key=natural_sort_key)
    sorted_facts = [item_facts[items[name]] for name in names]
    sources = sorted({source for source, _, _ in sorted_facts})
    item, rater = compute_ranks(items, names)[rows["item"]], compute_ranks(raters, rater_labels)[rows["rater"]]
    # by item, then rater: the order in which the analysis has the ratings, so that both give the same numbers
    order = np.lexsort((rater, item))
    item, rater = item[order], rater[order]
    confidence = rows["confidence"][order].astype(np.float64)
    source_index = {name: index for index, name in enumerate(sources)}
    source_and_label = np.array(
        [(source_index[source], _get_reference_label(reference)) for source, reference, _ in sorted_facts],
        dtype=np.int64,
    ).reshape(-1, 2)
    return Ratings(
        item=item,
        rater=rater,
        verdict=rows["verdict"][order].astype(np.int64),
        # 0 in the streamed rows means that no confidence was given
        confidence=np.where(confidence > 0, confidence, np.nan),
        reference=source_and_label[item, 1],
        source=source_and_label[item, 0],
        items=tuple(names),
        raters=tuple(rater_labels),
        sources=tuple(sources),
        pairs=tuple(pair for _, _, pair in sorted_facts),
        reference_name=choose_reference_name({is_declared(reference) for _, reference, _ in sorted_facts if reference}),
    )


def count_shared_items(ratings_table: Ratings) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return, for each pair of raters, the number of items rated by both, in the order of the upper triangle."""
    # float32 makes the product a fast matrix multiplication; counts stay exact up to 2^24 items
    has_rating = np.isfinite(ratings_table.build_grid()).astype(np.float32)
    shared: np.ndarray[tuple[int, int], np.dtype[np.float32]] = has_rating.T @ has_rating
    return np.rint(shared[np.triu_indices(len(ratings_table.raters), 1)]).astype(np.int64)


def _iter_numeric_rows(
    study: Study, items: dict[str, int], raters: dict[str, int], item_facts: list[tuple[str, str, str]]
) -> Iterator[tuple[int, int, int, int]]:
    for row in iter_rating_rows(study):
        if row.is_judged:
            code = str(row.item)
            if code not in items:
                items[code] = len(items)
                item_facts.append(_get_item_facts(row))
            yield items[code], raters.setdefault(row.rater, len(raters)), int(bool(row.verdict)), row.confidence or 0


def _get_item_facts(row: RatingRow) -> tuple[str, str, str]:
    return row.source_name, row.reference, str(row.pair)


def _get_reference_label(reference: str) -> int:
    """Return 1 for an item without an error, 0 for one with an error, -1 if the reference is not known."""
    label = reference_to_label(reference)
    return -1 if label is None else label
