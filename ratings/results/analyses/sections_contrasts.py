"""The contrasts of a study (between sources, simulators, error types, experiments, display arms, verdicts, raters and
machines) and of two studies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ratings.models import ItemSource, Rater, Study
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.rating_columns import AnalysisData, load_analysis_data
from ratings.results.analyses.sections_machines import Machine
from ratings.results.analyses.sections_rates import DISPLAY_FACTORS
from ratings.results.analyses.tables import Json, build_table, builds
from ratings.stats.contrasts import (
    AREA,
    CORRECT,
    D_PRIME,
    OTHERS,
    RATE,
    SENSITIVITY,
    SPECIFICITY,
    Contrast,
    RatingPool,
    build_rating_pool,
    compute_rate_contrast,
    iter_detection_contrasts,
    iter_machine_contrasts,
    iter_machine_pair_contrasts,
    iter_rater_contrasts,
    iter_reference_contrasts,
    iter_verdict_contrasts,
    select_pool,
)
from ratings.stats.differences import adjust_by_holm
from ratings.stats.ratings_table import MISSING_REFERENCE_REASONS, MIXED, REFERENCES, Bools, Ints, Ratings

SOURCES, SIMULATORS, ERRORS = "sources", "simulators", "error types"
EXPERIMENTS, ARMS, CONDITIONS = "experiments", "display arms", "conditions"
BY_DESIGN = (CONDITIONS, SOURCES, SIMULATORS, ERRORS, ARMS)  # the families of iter_design_contrasts
VERDICTS = "first and final verdict"
MOST_MACHINES = 12  # most machines compared pairwise; further machines are compared only with the raters
MOST_NAMED = 12  # most machines named in a note
MOST_RATERS = 100  # most raters compared with the others; with more, few contrasts would be significant after Holm

UNNAMED_CONDITIONS = ("condition 1", "condition 2")  # used if the protocol does not name the conditions
STUDIES, SHARED_SOURCES = "studies", "sources in both studies"
THIS, OTHER = "this study", "the other study"
_FACTORS = ("error", "kind")
_ERROR_NAMES = {"none": "unperturbed", "obvious": "obvious error", "subtle": "subtle error"}


@builds("contrasts")
def build_contrast_tables(
    data: AnalysisData,
    machines: Sequence[Machine],
    conditions: Mapping[str, int],
    names: tuple[str, str] = UNNAMED_CONDITIONS,
) -> dict[str, Json]:
    """Return the table `contrasts`.

    `conditions`: 1 or 2 by item code in a crossover study, empty otherwise. `names`: the names of the two conditions.
    """
    # Contrasts compare rates and the detection of errors, and both need binary verdicts.
    if not len(data.table) or not data.table.is_binary:
        return {"contrasts": build_table("contrasts", ())}
    pool = build_rating_pool(data.table)
    rows = [
        *iter_design_contrasts(pool, conditions, names),
        *_contrast_verdicts(data, pool),
        *_contrast_machines(pool, machines),
        *_contrast_raters(pool),
        *_contrast_experiments(pool),
    ]
    return {"contrasts": tabulate_contrasts(rows, data.table.reference_name, list_omissions(pool, machines))}


def iter_design_contrasts(
    pool: RatingPool, conditions: Mapping[str, int], names: tuple[str, str] = UNNAMED_CONDITIONS
) -> Iterator[Contrast]:
    """Yield the contrasts that follow from the plan: conditions, sources, simulators, error types and display arms."""
    if conditions:
        condition_of_item = np.array([conditions.get(code, 0) for code in pool.table.items], dtype=np.int64)
        condition = condition_of_item[pool.table.item]
        yield from _contrast_masks(CONDITIONS, names, pool, (condition == 1, condition == 2))
    yield from _contrast_sources(pool)
    yield from _contrast_simulators(pool)
    yield from _contrast_error_types(pool)
    for factor, title in DISPLAY_FACTORS:
        codes, arm_names = pool.table.factors[factor]
        arms = [code for code in np.unique(codes) if arm_names[code]]
        for first, second in combinations(arms, 2):
            sides = (f"{title}: {arm_names[first]}", f"{title}: {arm_names[second]}")
            yield from _contrast_masks(ARMS, sides, pool, (codes == first, codes == second))


def _contrast_masks(
    family: str, names: tuple[str, str], pool: RatingPool, masks: tuple[Bools, Bools]
) -> Iterator[Contrast]:
    """Yield the contrasts of rates, of results on errors, and of error detection of two sets of ratings."""
    yield compute_rate_contrast(family, names, pool, *masks)
    yield from iter_reference_contrasts(family, names, pool, masks)
    yield from iter_detection_contrasts(family, names, select_pool(pool, masks[0]), select_pool(pool, masks[1]))


def _list_error_types(pool: RatingPool) -> list[str]:
    order = list(_ERROR_NAMES)
    names = (str(name) for name in np.unique(pool.error))
    return sorted(names, key=lambda name: order.index(name) if name in order else 9)


def _name_error(error: str) -> str:
    return _ERROR_NAMES.get(error, error)


def _contrast_sources(pool: RatingPool) -> Iterator[Contrast]:
    """Yield the difference in rate between every two sources whose items have the same planted error, or none."""
    labels = list(np.unique(pool.label))
    for error in _list_error_types(pool):
        for first, second in combinations(labels, 2):
            masks = [(pool.label == name) & (pool.error == error) for name in (first, second)]
            if masks[0].any() and masks[1].any():
                suffix = "" if error == "none" else f", {_name_error(error)}"
                yield compute_rate_contrast(SOURCES, (f"{first}{suffix}", f"{second}{suffix}"), pool, *masks)


def _contrast_simulators(pool: RatingPool) -> Iterator[Contrast]:
    """Yield the contrasts of error detection of every two simulators, for each error type that both have."""
    planted = pool.table.reference == 0
    for names in combinations([str(name) for name in np.unique(pool.label)], 2):
        for error in _list_error_types(pool):
            # Error types are not pooled, because two simulators would then also differ if one had more obvious errors.
            # Sensitivity is not compared: its difference is that of the sources' rates with the sign reversed.
            with_error = planted & (pool.error == error)
            masks = [pool.label == name for name in names]
            if all((mask & with_error).any() for mask in masks):
                pools = [select_pool(pool, mask & ((pool.table.reference == 1) | with_error)) for mask in masks]
                sides = (f"{names[0]}, {_name_error(error)}", f"{names[1]}, {_name_error(error)}")
                yield from iter_detection_contrasts(SIMULATORS, sides, pools[0], pools[1])


def _contrast_error_types(pool: RatingPool) -> Iterator[Contrast]:
    """Yield the contrasts of every two error types, over all simulators and for each. Twins of a step are paired."""
    labels = [str(name) for name in np.unique(pool.label)]
    groups: list[tuple[str, Bools]] = [("", np.ones(len(pool.table), dtype=np.bool_))]
    groups += [(f"{name}, ", pool.label == name) for name in labels] if len(labels) > 1 else []
    for prefix, in_group in groups:
        errors = [error for error in _list_error_types(pool) if (in_group & (pool.error == error)).any()]
        for first, second in combinations(errors, 2):
            names = (f"{prefix}{_name_error(first)}", f"{prefix}{_name_error(second)}")
            masks = [in_group & (pool.error == error) for error in (first, second)]
            yield compute_rate_contrast(ERRORS, names, pool, masks[0], masks[1])
            if all((pool.table.reference[mask] == 0).all() for mask in masks):
                without_error = in_group & (pool.table.reference == 1)
                pools = [select_pool(pool, without_error | mask) for mask in masks]
                # Sensitivity is not compared: its difference is that of the rates with the sign reversed.
                yield from iter_detection_contrasts(ERRORS, names, pools[0], pools[1])


def _contrast_verdicts(data: AnalysisData, pool: RatingPool) -> Iterator[Contrast]:
    """Yield the contrasts between the final and the first verdicts of the ratings for which a first verdict was asked."""
    first = data.columns.first_verdict[data.columns.is_judged]
    if (first >= 0).any():
        names = ("final verdict", "first verdict")
        yield from iter_verdict_contrasts(VERDICTS, names, pool, first >= 0, first.astype(np.float64))


def _contrast_machines(pool: RatingPool, machines: Sequence[Machine]) -> Iterator[Contrast]:
    """Yield the contrasts of each machine with the raters, and of every two of the first MOST_MACHINES machines."""
    for machine in machines:
        yield from iter_machine_contrasts(pool, machine.name, machine.verdicts)
    for first, second in combinations(machines[:MOST_MACHINES], 2):
        yield from iter_machine_pair_contrasts(pool, (first.name, second.name), first.verdicts, second.verdicts)


def _contrast_experiments(pool: RatingPool) -> Iterator[Contrast]:
    """Yield the contrasts of each experiment with all other experiments together."""
    codes, names = pool.table.factors["experiment"]
    has_name = np.array([bool(name) for name in names], dtype=np.bool_)[codes]
    present = np.unique(codes[has_name])
    # A single experiment cannot be compared with others.
    if len(present) < 2:
        return
    for code in present:
        masks = has_name & (codes == code), has_name & (codes != code)
        yield compute_rate_contrast(EXPERIMENTS, (names[code], OTHERS), pool, *masks)
        # The share of correct verdicts is not compared: it also depends on the share of planted errors, which differs between
        # experiments.
        quantities = [SENSITIVITY, SPECIFICITY]
        yield from iter_reference_contrasts(EXPERIMENTS, (names[code], OTHERS), pool, masks, quantities=quantities)


def _contrast_raters(pool: RatingPool) -> Iterator[Contrast]:
    present = np.unique(pool.table.rater)
    if 2 <= len(present) <= MOST_RATERS:
        for rater in present:
            yield from iter_rater_contrasts(pool, int(rater))


def list_omissions(pool: RatingPool, machines: Sequence[Machine]) -> list[str]:
    """Return a note for the raters or machines that are not compared because there are too many."""
    raters, notes = len(np.unique(pool.table.rater)), []
    if raters > MOST_RATERS:
        notes.append(
            f"Raters are not compared with each other: {raters:,} raters exceed the limit of {MOST_RATERS}. The tables of raters show the "
            "numbers of each."
        )
    if len(machines) > MOST_MACHINES:
        listing = ", ".join(machine.name for machine in machines[MOST_MACHINES:][:MOST_NAMED])
        unlisted = len(machines) - MOST_MACHINES - MOST_NAMED
        notes.append(
            f"The first {MOST_MACHINES} of {len(machines):,} machines are compared pairwise; the others are compared with "
            f"the raters only: {listing}{f' and {unlisted:,} more' if unlisted > 0 else ''}."
        )
    return notes


def tabulate_contrasts(rows: Iterable[Contrast], reference_name: str, extra_notes: Sequence[str] = ()) -> Json:
    """Return the table of these contrasts, with p-values adjusted by Holm's method within each family and quantity."""
    contrasts = list(rows)
    adjusted: dict[int, float | None] = {}
    # The contrasts of one family and quantity answer one question. Adjusting over all contrasts would be needlessly strict.
    for key in dict.fromkeys((row.family, row.quantity) for row in contrasts):
        indices = [i for i, row in enumerate(contrasts) if (row.family, row.quantity) == key]
        adjusted |= dict(zip(indices, adjust_by_holm([contrasts[i].p for i in indices]), strict=True))
    lines = [row.to_table_row(adjusted[i], reference_name) for i, row in enumerate(contrasts)]
    notes = [
        "Each difference is the first value minus the second. Holm's p is adjusted for all contrasts of the same family and quantity."
    ]
    if any(row.quantity != RATE for row in contrasts) and reference_name not in MISSING_REFERENCE_REASONS:
        notes.append(
            f"Reference for {CORRECT}, {SENSITIVITY}, {SPECIFICITY}, {AREA} and {D_PRIME}: {REFERENCES[reference_name]}."
        )
    significant = sum(1 for p in adjusted.values() if p is not None and p < 0.05)
    tested = sum(1 for row in contrasts if row.p is not None)
    summary = f"{len(lines):,} contrasts, {tested:,} with an interval; Holm's p is below .05 in {significant:,}."
    return build_table("contrasts", lines, summary if lines else "", [*notes, *extra_notes] if lines else ())


def compare_studies(first: Study, second: Study) -> Json:
    """Return the table of contrasts, the first study minus the second.

    Items of the two studies that are versions of the same item are paired, and so are raters with the same account.
    Raises SealedError if a study is not unblinded.
    """
    studies = (first, second)
    data = [load_analysis_data(study, Filters()) for study in studies]
    joined = _join_tables([
        _rename_pairs_and_raters(one.table, pairs, _rater_keys(study))
        for one, pairs, study in zip(data, _pair_keys(studies), studies, strict=True)
    ])  # fmt: skip
    # _join_tables puts the items of the first study first.
    in_first = joined.item < len(data[0].table.items)
    table = tabulate_contrasts(
        _iter_study_contrasts(build_rating_pool(joined), (in_first, ~in_first)), joined.reference_name
    )
    table["notes"].append(f"{THIS.capitalize()}: {first.name}. {OTHER.capitalize()}: {second.name}.")
    return table


def _iter_study_contrasts(pool: RatingPool, studies: tuple[Bools, Bools]) -> Iterator[Contrast]:
    """Yield the contrasts of rates for each error type, of error detection, and of rates for each simulator in both studies."""
    yield from _iter_rate_contrasts(STUDIES, pool, studies)
    names = (f"all items: {THIS}", f"all items: {OTHER}")
    yield from iter_detection_contrasts(STUDIES, names, select_pool(pool, studies[0]), select_pool(pool, studies[1]))
    for label in sorted(set(pool.label[studies[0]]) & set(pool.label[studies[1]])):
        of_label = pool.label == label
        masks = (studies[0] & of_label, studies[1] & of_label)
        yield from _iter_rate_contrasts(SHARED_SOURCES, pool, masks, f"{label}, ")


def _iter_rate_contrasts(
    family: str, pool: RatingPool, sides: tuple[Bools, Bools], prefix: str = ""
) -> Iterator[Contrast]:
    for error in np.unique(pool.error):
        masks = [mask & (pool.error == error) for mask in sides]
        if masks[0].any() and masks[1].any():
            names = (f"{prefix}{_name_error(error)}: {THIS}", f"{prefix}{_name_error(error)}: {OTHER}")
            yield compute_rate_contrast(family, names, pool, masks[0], masks[1])


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


def _rename_pairs_and_raters(table: Ratings, items: Mapping[str, str], raters: Mapping[str, str]) -> Ratings:
    """Return the table with its pairs and raters renamed to keys that have the same meaning in both studies."""
    no_factor = (np.zeros(0, dtype=np.int64), ("none",))
    return replace(
        table,
        pairs=tuple(items[code] for code in table.items),
        raters=tuple(raters.get(label, label) for label in table.raters),
        factors={name: table.factors[name] if len(table) else no_factor for name in _FACTORS},
    )


def _join_tables(tables: list[Ratings]) -> Ratings:
    """Return the ratings of both studies, the items of the first study before those of the second."""
    raters, rater = _merge_names([(table.raters, table.rater) for table in tables])
    sources, source = _merge_names([(table.sources, table.source) for table in tables])
    factors = {}
    for name in _FACTORS:
        names, codes = _merge_names([(table.factors[name][1], table.factors[name][0]) for table in tables])
        factors[name] = codes, names
    # If the two studies have different kinds of reference, the reference of the joined table is MIXED.
    references = {table.reference_name for table in tables if (table.reference >= 0).any()}
    return replace(
        tables[0],
        item=np.concatenate([tables[0].item, tables[1].item + len(tables[0].items)]),
        rater=rater,
        source=source,
        verdict=np.concatenate([table.verdict for table in tables]),
        confidence=np.concatenate([table.confidence for table in tables]),
        reference=np.concatenate([table.reference for table in tables]),
        items=tuple(code for table in tables for code in table.items),
        pairs=tuple(pair for table in tables for pair in table.pairs),
        raters=raters,
        sources=sources,
        factors=factors,
        reference_name=references.pop() if len(references) == 1 else MIXED if references else tables[0].reference_name,
    )


def _merge_names(columns: list[tuple[tuple[str, ...], Ints]]) -> tuple[tuple[str, ...], Ints]:
    """Return the distinct names of both studies, and each rating's index in them, from (names, codes) of each study."""
    merged_names = tuple(dict.fromkeys(name for names, _ in columns for name in names))
    index_of = {name: i for i, name in enumerate(merged_names)}
    # A study without ratings has no names.
    new_codes = [np.array([index_of[name] for name in names] or [0], dtype=np.int64)[codes] for names, codes in columns]
    return merged_names, np.concatenate(new_codes)
