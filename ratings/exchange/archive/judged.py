"""The ratings that count and were judged as one table of numbers, read row by row: what reader studies are written from."""

from collections.abc import Iterator

import numpy as np

from ratings.models import Study
from ratings.protocol.reference import is_declared, read_label
from ratings.results import RatingRow, rating_rows
from ratings.results.analyses.reading import ranks
from ratings.stats import Ratings
from ratings.stats.table import name_reference, natural

_LINE = np.dtype([("item", "i4"), ("rater", "i4"), ("verdict", "i1"), ("confidence", "i1")])


def table(study: Study) -> Ratings:
    """The ratings of the table that the analysis is made of, at ten bytes a rating while they are read.

    It has no factors: nobody asks here for experiments, actions or arms. SealedError while sealed.
    """
    items: dict[str, int] = {}
    raters: dict[str, int] = {}
    about: list[tuple[str, str, str]] = []  # source, reference, pair of each item
    lines = np.fromiter(_lines(study, items, raters, about), dtype=_LINE)
    names, labels = sorted(items), sorted(raters, key=natural)
    facts = [about[items[name]] for name in names]
    sources = sorted({source for source, _, _ in facts})
    item, rater = ranks(items, names)[lines["item"]], ranks(raters, labels)[lines["rater"]]
    order = np.lexsort((rater, item))
    item, rater = item[order], rater[order]
    confidence = lines["confidence"][order].astype(np.float64)
    place = {name: at for at, name in enumerate(sources)}
    of_item = np.array([(place[source], _label(reference)) for source, reference, _ in facts], dtype=np.int64).reshape(
        -1, 2
    )
    return Ratings(
        item=item,
        rater=rater,
        verdict=lines["verdict"][order].astype(np.int64),
        confidence=np.where(confidence > 0, confidence, np.nan),
        reference=of_item[item, 1],
        source=of_item[item, 0],
        items=tuple(names),
        raters=tuple(labels),
        sources=tuple(sources),
        pairs=tuple(pair for _, _, pair in facts),
        reference_name=name_reference({is_declared(reference) for _, reference, _ in facts if reference}),
    )


def common_items(found: Ratings) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Items in common of every pair of raters, in the order of the upper triangle."""
    there = np.isfinite(found.grid()).astype(np.float32)
    common: np.ndarray[tuple[int, int], np.dtype[np.float32]] = there.T @ there
    return np.rint(common[np.triu_indices(len(found.raters), 1)]).astype(np.int64)


def _lines(
    study: Study, items: dict[str, int], raters: dict[str, int], about: list[tuple[str, str, str]]
) -> Iterator[tuple[int, int, int, int]]:
    for row in rating_rows(study):
        if row.judged:
            code = str(row.item)
            if code not in items:
                items[code] = len(items)
                about.append(_facts(row))
            yield items[code], raters.setdefault(row.rater, len(raters)), int(bool(row.verdict)), row.confidence or 0


def _facts(row: RatingRow) -> tuple[str, str, str]:
    return row.source_name, row.reference, str(row.pair)


def _label(reference: str) -> int:
    """Return 1, 0, or -1 where the reference is not known."""
    label = read_label(reference)
    return -1 if label is None else label
