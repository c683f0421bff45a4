"""Compute contrasts: differences of shares, of areas and of d' between two sets of ratings.

Shares are compared by stats.differences, areas and d' by stats.areas.mrmc_comparison.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ratings.stats import detection
from ratings.stats.areas import mrmc, mrmc_comparison
from ratings.stats.areas.delong import is_extreme
from ratings.stats.areas.mrmc_comparison import TwoConditions
from ratings.stats.differences import ContrastCounts, Side, compare_shares, count_clusters
from ratings.stats.ratings_table import Bools, Floats, Ints, Ratings

RATERS, MACHINES = "raters", "raters and machines"
OTHERS, PEOPLE = "the others", "raters"
RATE, CORRECT, SENSITIVITY, SPECIFICITY = "rate", "correct", "sensitivity", "specificity"
# Each share that needs a reference, and the references of the items in its denominator: 0 with an error, 1 without.
REFERENCES_OF: Mapping[str, tuple[int, ...]] = {CORRECT: (0, 1), SENSITIVITY: (0,), SPECIFICITY: (1,)}
AREA, AREA_U, D_PRIME = "AUC", "AUC, U-statistic", "d'"

CLUSTERED = "difference_clustered"
# The raters or machines to which an interval of each method generalises. It always generalises to new items.
TARGETS: Mapping[str, str] = {
    CLUSTERED: "new raters",
    "difference_paired": "new raters",
    "difference_one_rater": "this rater",
    "difference_rater": "this rater",
    "difference_pair": "these two raters",
    "difference_machine": "this machine, new raters",
    "difference_machine_rater": "this machine, this rater",
    "difference_machines": "these two machines",
    "or_two_conditions": "new raters",
    "delong": "this rater",
    "u_statistic": "new raters",
}


class Contrast(NamedTuple):
    """One row of the table of contrasts: the difference first minus second.

    `method` is a key of estimates.METHODS or "". `reason` states why a number is missing, or what limits it.
    """

    family: str
    first: str
    second: str
    quantity: str
    counts: ContrastCounts
    first_value: float | None = None
    second_value: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    method: str = ""
    reason: str = ""

    @property
    def difference(self) -> float | None:
        if self.first_value is None or self.second_value is None:
            return None
        return self.first_value - self.second_value

    def to_table_row(self, p_holm: float | None, reference_name: str) -> list[Any]:
        """Return the cells of this contrast's row in the table."""
        return [
            self.family, self.first, self.second, self.quantity, self.first_value, self.second_value, self.difference,
            self.low, self.high, self.p, p_holm, *self.counts, TARGETS.get(self.method, ""), self.reason,
            "" if self.quantity == RATE else reference_name,
        ]  # fmt: skip


class RatingPool(NamedTuple):
    """The judged ratings of a table with properties of their items, one entry per rating, shape (n,).

    `cluster`: the same number for all versions of one thing. `case`: the same number for versions of one thing that also
    have the same error type and reference, so that a rater usually reads each case once in a condition. `label`: who
    simulated the item. `error`: none, obvious, subtle or another known kind. `deff`: the design effect for shares that have
    none of their own.
    """

    table: Ratings
    cluster: Ints
    case: Ints
    label: Any
    error: Any
    deff: float

    def select_side(self, mask: Bools, answers: Floats) -> Side:
        return Side(answers[mask], self.cluster[mask], self.table.rater[mask])

    @property
    def yes_answers(self) -> Floats:
        return self.table.verdict.astype(np.float64)

    @property
    def correct_answers(self) -> Floats:
        return self.table.is_correct.astype(np.float64)

    @property
    def has_reference(self) -> Bools:
        """Return the mask of the ratings whose items have a reference."""
        is_known: Bools = self.table.reference >= 0
        return is_known


def build_rating_pool(ratings: Ratings) -> RatingPool:
    """Return the ratings of a table with the cluster, case, label and error type of each rating's item.

    The table's factor `error` has the planted error of each rating's item, which is also part of the source name (see
    rating_rows.format_source_name). If the table has a factor `kind`, its names are used as error types: they are the same,
    except "declared right", "declared wrong" or "not known" for items without a stated perturbation. An item without a
    pair is a cluster of its own.
    """
    no_error = (np.zeros(len(ratings), dtype=np.int64), ("none",))
    codes, names = ratings.factors.get("error", no_error)
    kind_codes, kinds = ratings.factors.get("kind", ratings.factors.get("error", no_error))
    error = (
        np.array([name or "none" for name in kinds], dtype=np.str_)[kind_codes]
        if len(ratings)
        else np.zeros(0, dtype=np.str_)
    )
    label = np.array(
        [name.removesuffix(f", {kind} error") for name in ratings.sources for kind in names] or [""], dtype=np.str_
    ).reshape(-1, len(names) or 1)
    pair = [pair or code for pair, code in zip(ratings.pairs or ratings.items, ratings.items, strict=True)]
    cluster = np.unique(np.array(pair, dtype=np.str_), return_inverse=True)[1][ratings.item]
    case = np.unique(np.stack([cluster, codes, ratings.reference]), axis=1, return_inverse=True)[1].reshape(-1)
    # Used for a side whose answers are all alike and therefore have no design effect of their own.
    deff = detection.compute_design_effect(ratings) if ratings.is_binary and len(ratings) else 1.0
    return RatingPool(ratings, cluster, case, label[ratings.source, codes], error, deff)


def compute_share_contrast(
    family: str, names: tuple[str, str], quantity: str, sides: tuple[Side, Side], deff: float, fixed: str = ""
) -> Contrast:
    """Return the contrast of the shares of two sides.

    `fixed`: name of the method if a side is one rater or one machine.
    """
    difference = compare_shares(*sides, deff, is_rater=bool(fixed))
    default_method = (
        "difference_one_rater"
        if difference.counts.raters == 1
        else "difference_paired"
        if difference.is_paired
        else CLUSTERED
    )
    method = (fixed or default_method) if difference.low is not None else ""
    values = (difference.first, difference.second, difference.low, difference.high, difference.p)
    return Contrast(family, *names, quantity, difference.counts, *values, method, difference.reason)


def iter_detection_contrasts(
    family: str, names: tuple[str, str], first: RatingPool, second: RatingPool
) -> Iterator[Contrast]:
    """Yield the contrasts of the mean area, of the pooled area and of d' between two sets of ratings.

    Yield nothing if neither set has both unperturbed and planted items.
    """
    if not any(_has_both_classes(pool.table) for pool in (first, second)):
        return
    columns = _number_cases(
        (first, second),
        [mrmc.build_rater_columns(pool.table, pool.table.signed_ratings)[0] for pool in (first, second)],
    )
    comparison = mrmc_comparison.compare_conditions(columns[0], columns[1])
    if isinstance(comparison, str):
        comparison = next(
            filter(
                None,
                (
                    _explain_no_column(pool, pool_columns)
                    for pool, pool_columns in zip((first, second), columns, strict=True)
                ),
            ),
            comparison,
        )
    only_common = not isinstance(comparison, str) and comparison.dropped > 0
    empty_row = Contrast(family, *names, AREA, _count_scored_clusters((first, second), only_common))
    yield _fill_comparison(empty_row, comparison)
    yield _fill_u_statistic(empty_row._replace(quantity=AREA_U), (first, second), comparison)
    yield _fill_d_prime(empty_row._replace(quantity=D_PRIME), (first, second))


def _explain_no_column(pool: RatingPool, columns: Sequence[mrmc.RaterColumn]) -> str:
    """Return why no rater of this pool has an area; "" if a rater has one."""
    return "" if columns else mrmc.explain_no_area(pool.table, pool.table.signed_ratings)


def _count_scored_clusters(pools: tuple[RatingPool, RatingPool], only_common: bool) -> ContrastCounts:
    """Return the sample sizes of the ratings with a reference and a confidence, from which areas are computed.

    With `only_common`, only raters who are in both pools count.
    """
    first, second = ({pool.table.raters[index] for index in np.unique(pool.table.rater)} for pool in pools)
    common = first & second
    sides = []
    for pool in pools:
        mask = pool.has_reference & np.isfinite(pool.table.signed_ratings)
        if only_common:
            mask &= np.array([name in common for name in pool.table.raters], dtype=np.bool_)[pool.table.rater]
        sides.append(pool.select_side(mask, pool.yes_answers))
    return count_clusters(sides[0], sides[1])


def _has_both_classes(ratings: Ratings) -> bool:
    return bool((ratings.reference == 0).any() and (ratings.reference == 1).any())


def _number_cases(
    pools: tuple[RatingPool, RatingPool], columns: Sequence[Sequence[mrmc.RaterColumn]]
) -> list[list[mrmc.RaterColumn]]:
    """Return the columns of both conditions with the case numbers of the pools, which are the same in both conditions.

    If a rater has rated a case more than once in a condition, the columns are returned unchanged: every item is a case.
    """
    if any(has_repeated_cases(pool.table, pool.case) for pool in pools):
        return [list(pool_columns) for pool_columns in columns]
    numbered = []
    for pool, pool_columns in zip(pools, columns, strict=True):
        case = np.zeros(len(pool.table.items), dtype=np.int64)
        case[pool.table.item] = pool.case
        numbered.append([
            column._replace(positive_case=case[column.positive_case], negative_case=case[column.negative_case])
            for column in pool_columns
        ])  # fmt: skip
    return numbered


def _fill_comparison(row: Contrast, comparison: TwoConditions | str) -> Contrast:
    """Return the contrast with the numbers of this comparison, or with the reason why there are none."""
    if isinstance(comparison, str):
        return row._replace(reason=comparison)
    dropped = f"{comparison.dropped} raters who read only one left out" if comparison.dropped else ""
    return row._replace(
        first_value=comparison.first,
        second_value=comparison.second,
        low=comparison.test.low,
        high=comparison.test.high,
        p=comparison.test.p,
        method="" if comparison.test.low is None else "delong" if comparison.raters == 1 else "or_two_conditions",
        reason="; ".join(filter(None, (comparison.reason, dropped))),
    )


def _fill_u_statistic(
    empty_row: Contrast, pools: tuple[RatingPool, RatingPool], mean_areas: TwoConditions | str
) -> Contrast:
    """Return the contrast of the pooled areas.

    Its interval has the degrees of freedom of the comparison of the raters' mean areas, `mean_areas`.
    """
    if isinstance(mean_areas, str):
        return empty_row._replace(reason=mean_areas)
    if any(has_repeated_cases(pool.table, pool.case) for pool in pools):
        return empty_row._replace(reason="a rater has read several versions of one case in one condition")
    raters = sorted({pool.table.raters[index] for pool in pools for index in np.unique(pool.table.rater)})
    cases = max(int(pool.case.max(initial=0)) for pool in pools) + 1
    grids = [
        mrmc_comparison.build_score_grid(pool.table, pool.table.signed_ratings, pool.case, raters, cases)
        for pool in pools
    ]
    statistic = mrmc_comparison.compare_pooled_areas(grids[0], grids[1], paired=mean_areas.parts is not None)
    if isinstance(statistic, str):
        return empty_row._replace(reason=statistic)
    row = empty_row._replace(first_value=statistic.first, second_value=statistic.second)
    if mean_areas.test.low is None or not statistic.se > 0:
        return row._replace(reason=statistic.reason or mean_areas.reason)
    df, rater_df = mean_areas.test.df, max(1, mean_areas.raters - 1)
    # The variance for sampling with replacement is large enough even if an area is near 1, and for a single area it is far
    # too large, so the limits of the two areas are not combined.
    if mrmc_comparison.INCOMPLETE in statistic.reason:
        p, low, high = mrmc_comparison.infer_difference(statistic.first - statistic.second, statistic.se, df)
        assert low is not None and high is not None  # the standard error is above 0
        return row._replace(low=max(-1.0, low), high=min(1.0, high), p=p, method="u_statistic", reason=statistic.reason)
    means = [
        mrmc_comparison.ConditionMean(
            value, se, min(df, rater_df) if is_extreme(value) else df, mrmc_comparison.count_read_cases(grid)
        )
        for value, se, grid in zip((statistic.first, statistic.second), statistic.own_se, grids, strict=True)
    ]
    # The standard error of the U-statistic is unbiased, but with it alone, coverage was 91% with eight raters. The mean
    # areas equal the pooled areas here, so the standard error of their difference is used as a lower limit.
    se = max(statistic.se, mean_areas.test.se)
    p, low, high = mrmc_comparison.infer_area_difference((means[0], means[1]), se, df, mrmc.AREA_RANGE)
    return row._replace(low=low, high=high, p=p, method="u_statistic", reason=statistic.reason)


def _fill_d_prime(empty_row: Contrast, pools: tuple[RatingPool, RatingPool]) -> Contrast:
    """Return the contrast of d'; it has no interval if the log-linear correction of the rates changes the difference
    too much.
    """
    columns = _number_cases(pools, [detection.build_signal_columns(pool.table, detection.D_PRIME)[0] for pool in pools])
    row = _fill_comparison(empty_row, mrmc_comparison.compare_conditions(columns[0], columns[1], mrmc.UNBOUNDED))
    if row.low is None or row.high is None:
        return row
    shifts = [
        detection.compute_shift(detection.D_PRIME, detection.count_outcomes(pool.table), pool_columns)
        for pool, pool_columns in zip(pools, columns, strict=True)
    ]
    # A shift that both conditions share cancels in the difference.
    if abs(shifts[0] - shifts[1]) <= detection.MAX_SHIFT * (row.high - row.low) / 2:
        return row
    shift_reason = detection.explain_shift(shifts[0] - shifts[1], "difference")
    return row._replace(
        low=None, high=None, p=None, method="", reason="; ".join(filter(None, (shift_reason, row.reason)))
    )


def has_repeated_cases(table: Ratings, case: Ints) -> bool:
    """Return whether a rater has rated a case with a reference more than once.

    `case`: case number of each rating, shape (n,).
    """
    has_reference = table.reference >= 0
    keys = case[has_reference] * (int(table.rater.max(initial=0)) + 1) + table.rater[has_reference]
    return len(np.unique(keys)) < len(keys)


def select_pool(pool: RatingPool, mask: Bools) -> RatingPool:
    """Return the pool with only the ratings that the mask selects."""
    return RatingPool(
        pool.table.select_ratings(mask),
        pool.cluster[mask],
        pool.case[mask],
        pool.label[mask],
        pool.error[mask],
        pool.deff,
    )


def compute_rate_contrast(
    family: str, names: tuple[str, str], pool: RatingPool, first: Bools, second: Bools, fixed: str = ""
) -> Contrast:
    sides = (pool.select_side(first, pool.yes_answers), pool.select_side(second, pool.yes_answers))
    return compute_share_contrast(family, names, RATE, sides, pool.deff, fixed)


def iter_reference_contrasts(
    family: str,
    names: tuple[str, str],
    pool: RatingPool,
    masks: tuple[Bools, Bools],
    fixed: str = "",
    quantities: Collection[str] = tuple(REFERENCES_OF),
) -> Iterator[Contrast]:
    """Yield the contrasts that need a reference: of the share correct, sensitivity and specificity, if in `quantities`.

    A quantity is left out if neither side has a rating of an item with the reference that it needs.
    """
    sides = [(pool, mask, pool.yes_answers) for mask in masks]
    rows = _iter_answer_contrasts(family, names, sides[0], sides[1], pool.deff, fixed)
    yield from (row for row in rows if row.quantity in quantities)


def iter_verdict_contrasts(
    family: str, names: tuple[str, str], pool: RatingPool, mask: Bools, other: Floats
) -> Iterator[Contrast]:
    """Yield the contrasts between the verdicts of the ratings in `mask` and `other` verdicts of the same ratings.

    `other`: 0 or 1 for each rating of the pool, shape (n,); values outside the mask are ignored.
    """
    sides = (pool.select_side(mask, pool.yes_answers), pool.select_side(mask, other))
    yield compute_share_contrast(family, names, RATE, sides, pool.deff)
    yield from _iter_answer_contrasts(family, names, (pool, mask, pool.yes_answers), (pool, mask, other), pool.deff)


def _iter_answer_contrasts(
    family: str,
    names: tuple[str, str],
    first: tuple[RatingPool, Bools, Floats],
    second: tuple[RatingPool, Bools, Floats],
    deff: float,
    fixed: str = "",
) -> Iterator[Contrast]:
    """Yield the contrasts of the shares that compare verdicts with the reference.

    `first` and `second` are each a pool, the mask of its ratings, and a verdict for each rating of the pool.
    """
    for quantity, references in REFERENCES_OF.items():
        sides = []
        for pool, mask, verdicts in (first, second):
            in_class = mask & np.isin(pool.table.reference, references)
            sides.append(pool.select_side(in_class, (verdicts == pool.table.reference).astype(np.float64)))
        if any(len(side.answers) for side in sides):
            yield compute_share_contrast(family, names, quantity, (sides[0], sides[1]), deff, fixed)


def iter_machine_contrasts(pool: RatingPool, name: str, verdicts: Mapping[str, int]) -> Iterator[Contrast]:
    """Yield the contrasts of a machine with all raters on the items that both judged.

    The intervals are for this machine and for new raters, or for this rater if there is only one.
    """
    machine = _build_machine_pool(pool, verdicts)
    if not len(machine.table):
        return
    shared = np.isin(pool.table.item, machine.table.item)
    all_ratings = np.ones(len(machine.table), dtype=np.bool_)
    rater_count = len(np.unique(pool.table.rater[shared]))
    names, method = (name, PEOPLE), "difference_machine" if rater_count > 1 else "difference_machine_rater"
    sides = (machine.select_side(all_ratings, machine.yes_answers), pool.select_side(shared, pool.yes_answers))
    yield compute_share_contrast(MACHINES, names, RATE, sides, pool.deff, method)
    yield from _iter_answer_contrasts(
        MACHINES,
        names,
        (machine, all_ratings, machine.yes_answers),
        (pool, shared, pool.yes_answers),
        pool.deff,
        method,
    )


def iter_machine_pair_contrasts(
    pool: RatingPool, names: tuple[str, str], first: Mapping[str, int], second: Mapping[str, int]
) -> Iterator[Contrast]:
    """Yield the contrasts of two machines on the items that both machines and at least one rater judged.

    The intervals are for these two machines.
    """
    common = first.keys() & second.keys()
    machines = [
        _build_machine_pool(pool, {code: verdicts[code] for code in common}, place)
        for place, verdicts in ((1, first), (2, second))
    ]
    if not len(machines[0].table):
        return
    all_ratings, method = np.ones(len(machines[0].table), dtype=np.bool_), "difference_machines"
    a, b = machines
    sides = (a.select_side(all_ratings, a.yes_answers), b.select_side(all_ratings, b.yes_answers))
    yield compute_share_contrast(MACHINES, names, RATE, sides, 1.0, method)
    yield from _iter_answer_contrasts(
        MACHINES, names, (a, all_ratings, a.yes_answers), (b, all_ratings, b.yes_answers), 1.0, method
    )


def _build_machine_pool(pool: RatingPool, verdicts_by_item: Mapping[str, int], place: int = 1) -> RatingPool:
    """Return a machine's verdicts on the items of this pool, as ratings by an additional rater.

    The number of this rater is the last rater's number plus `place`.
    """
    codes = {code: index for index, code in enumerate(pool.table.items)}
    judged = {codes[code]: verdict for code, verdict in sorted(verdicts_by_item.items()) if code in codes}
    items, verdicts = (np.array(list(values), dtype=np.int64) for values in (judged, judged.values()))
    last_rater = int(pool.table.rater.max(initial=0))
    cluster = np.zeros(len(pool.table.items), dtype=np.int64)
    cluster[pool.table.item] = pool.cluster
    table = replace(
        pool.table,
        item=items,
        # The rater number is unique, because a machine must not share a cluster with a rater or with another machine.
        rater=np.full(len(items), last_rater + place, dtype=np.int64),
        source=np.zeros(len(items), dtype=np.int64),
        verdict=verdicts,
        confidence=np.full(len(items), np.nan),
        reference=pool.table.item_reference[items],
        factors={},
    )
    empty_labels = np.zeros(len(items), dtype=np.str_)
    return RatingPool(table, cluster[items], items, empty_labels, empty_labels, pool.deff)


def iter_rater_contrasts(pool: RatingPool, rater_index: int) -> Iterator[Contrast]:
    """Yield the contrasts of one rater with the others, on the items that this rater and at least one other rater
    judged.
    """
    of_rater: Bools = pool.table.rater == rater_index
    rated = np.zeros(len(pool.table.items), dtype=np.bool_)
    rated[pool.table.item[of_rater]] = True
    of_others = ~of_rater & rated[pool.table.item]
    shared = np.zeros(len(pool.table.items), dtype=np.bool_)
    shared[pool.table.item[of_others]] = True
    of_rater = of_rater & shared[pool.table.item]
    if not of_rater.any():
        return
    names = (pool.table.raters[rater_index], OTHERS)
    method = "difference_rater" if len(np.unique(pool.table.rater[of_others])) > 1 else "difference_pair"
    yield compute_rate_contrast(RATERS, names, pool, of_rater, of_others, method)
    yield from iter_reference_contrasts(RATERS, names, pool, (of_rater, of_others), method)
