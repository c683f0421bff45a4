"""The contrasts of two unblinded studies.

Items of the two studies that are versions of the same item are paired, and so are raters with the same account.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ratings.models import ItemSource, Rater, Study
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.rating_columns import AnalysisData, load_analysis_data
from ratings.results.analyses.sections_contrasts import tabulate_contrasts
from ratings.results.analyses.tables import Json
from ratings.stats import Ratings
from ratings.stats.contrasts import (
    Contrast,
    RatingPool,
    build_rating_pool,
    compute_rate_contrast,
    iter_detection_contrasts,
    select_pool,
)
from ratings.stats.ratings_table import MIXED, Bools, Ints

STUDIES, SOURCES = "studies", "sources in both studies"
_FACTORS = ("error", "kind")
THIS, OTHER = "this study", "the other study"
ERROR_WORDS: Mapping[str, str] = {"none": "unperturbed", "obvious": "obvious error", "subtle": "subtle error"}


def compare_studies(first: Study, second: Study) -> Json:
    """Return the table of contrasts, the first study minus the second.

    Raises SealedError if a study is not unblinded.
    """
    data = [load_analysis_data(study, Filters()) for study in (first, second)]
    pair_keys = _pair_keys((first, second))
    rater_keys = [_rater_keys(study) for study in (first, second)]
    joined = _join_tables([_rename_pairs_and_raters(*parts) for parts in zip(data, pair_keys, rater_keys, strict=True)])
    pool = build_rating_pool(joined)
    border = len(data[0].table.items)
    # _join_tables puts the items of the first study first.
    masks = joined.item < border, joined.item >= border
    table = tabulate_contrasts(_iter_contrasts(pool, masks), joined.reference_name)
    table["notes"].append(f"{THIS.capitalize()}: {first.name}. {OTHER.capitalize()}: {second.name}.")
    return table


def _iter_contrasts(pool: RatingPool, studies: tuple[Bools, Bools]) -> Iterator[Contrast]:
    """Yield the contrasts of rates for each error type, of error detection, and of rates for each simulator in both
    studies.
    """
    yield from _iter_rate_contrasts(STUDIES, pool, studies)
    names = (f"all items: {THIS}", f"all items: {OTHER}")
    yield from iter_detection_contrasts(STUDIES, names, select_pool(pool, studies[0]), select_pool(pool, studies[1]))
    for label in sorted(set(pool.label[studies[0]]) & set(pool.label[studies[1]])):
        masks = tuple(mask & (pool.label == label) for mask in studies)
        yield from _iter_rate_contrasts(SOURCES, pool, (masks[0], masks[1]), f"{label}, ")


def _iter_rate_contrasts(
    family: str, pool: RatingPool, sides: tuple[Bools, Bools], prefix: str = ""
) -> Iterator[Contrast]:
    for error in np.unique(pool.error):
        error_label = ERROR_WORDS.get(error, error)
        masks = [mask & (pool.error == error) for mask in sides]
        if masks[0].any() and masks[1].any():
            yield compute_rate_contrast(
                family, (f"{prefix}{error_label}: {THIS}", f"{prefix}{error_label}: {OTHER}"), pool, masks[0], masks[1]
            )


def _pair_keys(studies: Sequence[Study]) -> list[dict[str, str]]:
    """Return for each study a pair key for each item code. All versions of the same item have the same key in both studies.

    Two items are versions of the same item if a study pairs them, or if their actions and the materials before are the same.
    Items that are linked through other items also have the same key. This takes two queries.
    """
    rows: list[tuple[int, str, str, str]] = []
    columns = "item__code", "pair", "item__pair_sha256", "item__payload_sha256"
    for study_index, study in enumerate(studies):
        sources = ItemSource.objects.filter(item__study=study).order_by("item__code").values_list(*columns)
        for code, pair, pair_digest, payload_digest in sources.iterator(chunk_size=2000):
            rows.append((study_index, str(code), f"{study_index} {pair}", pair_digest or payload_digest))
    if not rows:
        return [{} for _ in studies]
    link_codes = [np.unique([row[column] for row in rows], return_inverse=True)[1] for column in (2, 3)]
    offset = int(link_codes[0].max()) + 1
    size = offset + int(link_codes[1].max()) + 1
    # Each item links its pair in the study to the digest of its content. Connected components are the sets of linked items.
    graph = csr_array((np.ones(len(rows)), (link_codes[0], link_codes[1] + offset)), shape=(size, size))
    component = connected_components(graph, directed=False)[1][link_codes[0]]
    keys: list[dict[str, str]] = [{} for _ in studies]
    for row, number in zip(rows, component, strict=True):
        keys[row[0]][row[1]] = f"pair {number}"
    return keys


def _rater_keys(study: Study) -> dict[str, str]:
    """Return a key for each rater label: the account number, or the study and the label if the rater has no account."""
    raters = Rater.objects.filter(study=study).order_by().values_list("label", "user_id")
    return {label: f"account {user}" if user else f"{study.code} {label}" for label, user in raters}


def _rename_pairs_and_raters(reading: AnalysisData, items: Mapping[str, str], raters: Mapping[str, str]) -> Ratings:
    """Return the table with its pairs and raters renamed to keys that have the same meaning in both studies."""
    table = reading.table
    no_factor = (np.zeros(0, dtype=np.int64), ("none",))
    return replace(
        table,
        pairs=tuple(items[code] for code in table.items),
        raters=tuple(raters.get(label, label) for label in table.raters),
        factors={name: table.factors[name] if len(table) else no_factor for name in _FACTORS},
    )


def _join_tables(tables: list[Ratings]) -> Ratings:
    """Return the ratings of both studies, the items of the first study before those of the second."""
    raters, rater = _merge_names([table.raters for table in tables], [table.rater for table in tables])
    sources, source = _merge_names([table.sources for table in tables], [table.source for table in tables])
    merged = {
        name: _merge_names([table.factors[name][1] for table in tables], [table.factors[name][0] for table in tables])
        for name in _FACTORS
    }
    # If the two studies have different kinds of reference, the reference of the joined table is MIXED.
    references = {table.reference_name for table in tables if (table.reference >= 0).any()}
    border = len(tables[0].items)
    return replace(
        tables[0],
        item=np.concatenate([tables[0].item, tables[1].item + border]),
        rater=rater,
        source=source,
        verdict=np.concatenate([table.verdict for table in tables]),
        confidence=np.concatenate([table.confidence for table in tables]),
        reference=np.concatenate([table.reference for table in tables]),
        items=tuple(code for table in tables for code in table.items),
        pairs=tuple(pair for table in tables for pair in table.pairs),
        raters=raters,
        sources=sources,
        factors={name: (codes, names) for name, (names, codes) in merged.items()},
        reference_name=references.pop() if len(references) == 1 else MIXED if references else tables[0].reference_name,
    )


def _merge_names(names: list[tuple[str, ...]], codes: list[Ints]) -> tuple[tuple[str, ...], Ints]:
    """Return the names of both studies without duplicates, and the codes as indices into them."""
    merged_names = tuple(dict.fromkeys(name for study_names in names for name in study_names))
    index_of = {name: i for i, name in enumerate(merged_names)}
    merged_codes = [
        np.array([index_of[name] for name in study_names] or [0], dtype=np.int64)[
            code
        ]  # a study without ratings has no names
        for study_names, code in zip(names, codes, strict=True)
    ]
    return merged_names, np.concatenate(merged_codes)
