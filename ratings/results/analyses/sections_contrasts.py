"""The contrasts of a study: between sources, simulators, error types, experiments, display arms, verdicts, raters and machines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from ratings.results.analyses.rating_columns import AnalysisData
from ratings.results.analyses.sections_machines import Machine
from ratings.results.analyses.tables import Json, build_table
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
from ratings.stats.ratings_table import MISSING_REFERENCE_REASONS, REFERENCES, Bools

SOURCES, SIMULATORS, ERRORS = "sources", "simulators", "error types"
EXPERIMENTS, ARMS, CONDITIONS = "experiments", "display arms", "conditions"
BY_DESIGN = (CONDITIONS, SOURCES, SIMULATORS, ERRORS, ARMS)  # the families of iter_design_contrasts
VERDICTS = "first and final verdict"
MOST_MACHINES = 12  # most machines compared pairwise; further machines are compared only with the raters
MOST_NAMED = 12  # most machines named in a note
MOST_RATERS = 100  # most raters compared with the others; with more, few contrasts would be significant after Holm

UNNAMED_CONDITIONS = ("condition 1", "condition 2")  # used if the protocol does not name the conditions

_ERROR_NAMES = {"none": "unperturbed", "obvious": "obvious error", "subtle": "subtle error"}


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
    yield from _contrast_conditions(pool, conditions, names)
    yield from _contrast_sources(pool)
    yield from _contrast_simulators(pool)
    yield from _contrast_error_types(pool)
    yield from _contrast_arms(pool)


def _contrast_conditions(pool: RatingPool, conditions: Mapping[str, int], names: tuple[str, str]) -> Iterator[Contrast]:
    """Yield the contrasts of a crossover study's two conditions."""
    if not conditions:
        return
    condition_of_item = np.array([conditions.get(code, 0) for code in pool.table.items], dtype=np.int64)
    masks = [condition_of_item[pool.table.item] == number for number in (1, 2)]
    yield compute_rate_contrast(CONDITIONS, names, pool, masks[0], masks[1])
    yield from iter_reference_contrasts(CONDITIONS, names, pool, (masks[0], masks[1]))
    yield from iter_detection_contrasts(CONDITIONS, names, select_pool(pool, masks[0]), select_pool(pool, masks[1]))


def _contrast_sources(pool: RatingPool) -> Iterator[Contrast]:
    """Yield the difference in rate between every two sources whose items have the same planted error, or none."""
    labels = list(np.unique(pool.label))
    for error in _list_error_types(pool):
        for names in combinations(labels, 2):
            masks = [(pool.label == name) & (pool.error == error) for name in names]
            if masks[0].any() and masks[1].any():
                error_label = _ERROR_NAMES.get(error, error)
                sides = [name if error == "none" else f"{name}, {error_label}" for name in names]
                yield compute_rate_contrast(SOURCES, (sides[0], sides[1]), pool, masks[0], masks[1])


def _contrast_simulators(pool: RatingPool) -> Iterator[Contrast]:
    """Yield the contrasts of error detection between the outcomes of every two simulators.

    Each error type that both simulators' outcomes have is compared separately.
    """
    planted = pool.table.reference == 0
    for first, second in combinations([str(name) for name in np.unique(pool.label)], 2):
        for error in _list_error_types(pool):
            # Error types are not pooled, because two simulators would then also differ if one had more obvious errors.
            # Sensitivity is not compared: its difference is that of the sources' rates with the sign reversed.
            masks = [pool.label == name for name in (first, second)]
            if not all((mask & planted & (pool.error == error)).any() for mask in masks):
                continue
            error_label = _ERROR_NAMES.get(error, error)
            pools = [
                select_pool(pool, mask & ((pool.table.reference == 1) | (planted & (pool.error == error))))
                for mask in masks
            ]
            yield from iter_detection_contrasts(
                SIMULATORS, (f"{first}, {error_label}", f"{second}, {error_label}"), pools[0], pools[1]
            )


def _list_error_types(pool: RatingPool) -> list[str]:
    order = list(_ERROR_NAMES)
    return sorted(
        (str(name) for name in np.unique(pool.error)), key=lambda name: order.index(name) if name in order else 9
    )


def _contrast_error_types(pool: RatingPool) -> Iterator[Contrast]:
    """Yield the contrasts of every two error types, over all simulators and for each.

    Twins of the same step are paired.
    """
    labels = [str(name) for name in np.unique(pool.label)]
    groups: list[tuple[str, Bools]] = [("", np.ones(len(pool.table), dtype=np.bool_))]
    groups += [(name, pool.label == name) for name in labels] if len(labels) > 1 else []
    for simulator, in_group in groups:
        kinds = [error for error in _list_error_types(pool) if (in_group & (pool.error == error)).any()]
        for first, second in combinations(kinds, 2):
            labels_of_errors = [_ERROR_NAMES.get(error, error) for error in (first, second)]
            names = (
                f"{simulator}, {labels_of_errors[0]}" if simulator else labels_of_errors[0],
                f"{simulator}, {labels_of_errors[1]}" if simulator else labels_of_errors[1],
            )
            masks = [in_group & (pool.error == error) for error in (first, second)]
            yield compute_rate_contrast(ERRORS, names, pool, masks[0], masks[1])
            if all((pool.table.reference[mask] == 0).all() for mask in masks):
                without_error = in_group & (pool.table.reference == 1)
                pools = [select_pool(pool, without_error | mask) for mask in masks]
                # Sensitivity is not compared: its difference is that of the rates with the sign reversed.
                yield from iter_detection_contrasts(ERRORS, names, pools[0], pools[1])


def _contrast_arms(pool: RatingPool) -> Iterator[Contrast]:
    """Yield the contrasts of every two ways of displaying items."""
    for factor, title in (("layout", "layout"), ("context", "goal and earlier steps"), ("marks", "marks")):
        codes, names = pool.table.factors[factor]
        arms = [code for code in np.unique(codes) if names[code]]
        for first, second in combinations(arms, 2):
            sides = (f"{title}: {names[first]}", f"{title}: {names[second]}")
            masks = codes == first, codes == second
            yield compute_rate_contrast(ARMS, sides, pool, *masks)
            yield from iter_reference_contrasts(ARMS, sides, pool, masks)
            yield from iter_detection_contrasts(ARMS, sides, select_pool(pool, masks[0]), select_pool(pool, masks[1]))


def _contrast_verdicts(data: AnalysisData, pool: RatingPool) -> Iterator[Contrast]:
    """Yield the contrasts between the final and the first verdicts of the ratings for which a first verdict was
    asked.
    """
    first = data.columns.first_verdict[data.columns.is_judged]
    has_first = first >= 0
    if not has_first.any():
        return
    yield from iter_verdict_contrasts(
        VERDICTS, ("final verdict", "first verdict"), pool, has_first, first.astype(np.float64)
    )


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
    return build_table(
        "contrasts", lines, summarise_contrasts(contrasts, adjusted), [*notes, *extra_notes] if lines else ()
    )


def summarise_contrasts(rows: Sequence[Contrast], adjusted: Mapping[int, float | None]) -> str:
    """Return a sentence with the numbers of contrasts and of Holm's p-values below .05.

    `adjusted`: Holm's p by row number.
    """
    significant = sum(1 for p in adjusted.values() if p is not None and p < 0.05)
    tested = sum(1 for row in rows if row.p is not None)
    if not rows:
        return ""
    return f"{len(rows):,} contrasts, {tested:,} with an interval; Holm's p is below .05 in {significant:,}."
