"""Compute contrasts: differences of shares, of areas and of d' between two sets of ratings.

Shares are compared by stats.differences, areas and d' by stats.mrmc_comparison.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ratings.stats import detection, mrmc, mrmc_comparison, u_statistic
from ratings.stats.differences import ContrastCounts, Side, compare_shares, count_clusters
from ratings.stats.mrmc import is_extreme
from ratings.stats.mrmc_comparison import ConditionMean, TwoConditions
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
    """A row of the table of contrasts: first minus second. `reason`: why a number is missing, or what limits it."""

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

    `cluster`: the same number for all versions of one thing. `case`: for versions that also have the same error type and
    reference, so that a rater usually reads each case once in a condition. `label`: who simulated the item. `error`: none,
    obvious, subtle or another known kind. `deff`: the design effect for shares that have none of their own.
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
    def has_reference(self) -> Bools:
        is_known: Bools = self.table.reference >= 0
        return is_known

    @property
    def rater_names(self) -> set[str]:
        return {self.table.raters[index] for index in np.unique(self.table.rater)}


def build_rating_pool(ratings: Ratings) -> RatingPool:
    """Return the ratings of a table with the cluster, case, label and error type of each rating's item.

    The factor `error` has the planted error, which is also part of the source name (see rating_rows.format_source_name). The
    names of a factor `kind` are preferred as error types: they also say "declared right", "declared wrong" or "not known" of
    items without a stated perturbation. An item without a pair is a cluster of its own.
    """
    no_error = (np.zeros(len(ratings), dtype=np.int64), ("none",))
    codes, names = ratings.factors.get("error", no_error)
    kind_codes, kinds = ratings.factors.get("kind", ratings.factors.get("error", no_error))
    error = np.array([name or "none" for name in kinds] or [""], dtype=np.str_)[kind_codes]
    labels = [name.removesuffix(f", {kind} error") for name in ratings.sources for kind in names] or [""]
    label = np.array(labels, dtype=np.str_).reshape(-1, len(names) or 1)
    pair = [pair or code for pair, code in zip(ratings.pairs or ratings.items, ratings.items, strict=True)]
    cluster = np.unique(np.array(pair, dtype=np.str_), return_inverse=True)[1][ratings.item]
    case = np.unique(np.stack([cluster, codes, ratings.reference]), axis=1, return_inverse=True)[1].reshape(-1)
    # Used for a side whose answers are all alike and therefore have no design effect of their own.
    deff = detection.compute_design_effect(ratings) if ratings.is_binary and len(ratings) else 1.0
    return RatingPool(ratings, cluster, case, label[ratings.source, codes], error, deff)


def compute_share_contrast(
    family: str, names: tuple[str, str], quantity: str, sides: tuple[Side, Side], deff: float, fixed: str = ""
) -> Contrast:
    """Return the contrast of two shares. `fixed`: name of the method if a side is one rater or one machine."""
    difference = compare_shares(*sides, deff, is_rater=bool(fixed))
    method = fixed or ("difference_paired" if difference.is_paired else CLUSTERED)
    if not fixed and difference.counts.raters == 1:
        method = "difference_one_rater"
    values = (difference.first, difference.second, difference.low, difference.high, difference.p)
    method = "" if difference.low is None else method
    return Contrast(family, *names, quantity, difference.counts, *values, method, difference.reason)


def iter_detection_contrasts(
    family: str, names: tuple[str, str], first: RatingPool, second: RatingPool
) -> Iterator[Contrast]:
    """Yield contrasts of mean area, pooled area and d'; none unless a set has both classes of items."""
    if not any((pool.table.reference == 0).any() and (pool.table.reference == 1).any() for pool in (first, second)):
        return
    pools = (first, second)
    columns = _number_cases(pools, [mrmc.build_rater_columns(p.table, p.table.signed_ratings)[0] for p in pools])
    comparison = mrmc_comparison.compare_conditions(columns[0], columns[1])
    if isinstance(comparison, str):
        empty = [pool.table for pool, pool_columns in zip(pools, columns, strict=True) if not pool_columns]
        reasons = (mrmc.explain_no_area(table, table.signed_ratings) for table in empty)
        comparison = next(filter(None, reasons), comparison)
    only_common = not isinstance(comparison, str) and comparison.dropped > 0
    empty_row = Contrast(family, *names, AREA, _count_scored_clusters((first, second), only_common))
    yield _fill_comparison(empty_row, comparison)
    yield _fill_u_statistic(empty_row._replace(quantity=AREA_U), (first, second), comparison)
    yield _fill_d_prime(empty_row._replace(quantity=D_PRIME), (first, second))


def _count_scored_clusters(pools: tuple[RatingPool, RatingPool], only_common: bool) -> ContrastCounts:
    """Return the sample sizes of ratings with reference and confidence; `only_common`: of raters in both pools."""
    common = pools[0].rater_names & pools[1].rater_names
    sides = []
    for pool in pools:
        mask = pool.has_reference & np.isfinite(pool.table.signed_ratings)
        if only_common:
            mask &= np.array([name in common for name in pool.table.raters], dtype=np.bool_)[pool.table.rater]
        sides.append(pool.select_side(mask, pool.yes_answers))
    return count_clusters(sides[0], sides[1])


def _number_cases(
    pools: tuple[RatingPool, RatingPool], columns: Sequence[Sequence[mrmc.RaterColumn]]
) -> list[list[mrmc.RaterColumn]]:
    """Return the columns with the pools' case numbers; unchanged if a rater has rated a case more than once."""
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
    low, high, p = comparison.test.low, comparison.test.high, comparison.test.p
    method = "" if low is None else "delong" if comparison.raters == 1 else "or_two_conditions"
    reason = "; ".join(filter(None, (comparison.reason, dropped)))
    row = row._replace(first_value=comparison.first, second_value=comparison.second, low=low, high=high, p=p)
    return row._replace(method=method, reason=reason)


def _fill_u_statistic(
    empty_row: Contrast, pools: tuple[RatingPool, RatingPool], mean_areas: TwoConditions | str
) -> Contrast:
    """Return the contrast of the pooled areas, with the degrees of freedom of the comparison of mean areas."""
    if isinstance(mean_areas, str):
        return empty_row._replace(reason=mean_areas)
    if any(has_repeated_cases(pool.table, pool.case) for pool in pools):
        return empty_row._replace(reason="a rater has read several versions of one case in one condition")
    raters = sorted(pools[0].rater_names | pools[1].rater_names)
    cases = max(int(pool.case.max(initial=0)) for pool in pools) + 1
    grids = [
        u_statistic.build_score_grid(pool.table, pool.table.signed_ratings, pool.case, raters, cases) for pool in pools
    ]
    statistic = u_statistic.compare_pooled_areas(grids[0], grids[1], paired=mean_areas.parts is not None)
    if isinstance(statistic, str):
        return empty_row._replace(reason=statistic)
    row = empty_row._replace(first_value=statistic.first, second_value=statistic.second)
    if mean_areas.test.low is None or not statistic.se > 0:
        return row._replace(reason=statistic.reason or mean_areas.reason)
    df, rater_df = mean_areas.test.df, max(1, mean_areas.raters - 1)
    # The variance for sampling with replacement is large enough even if an area is near 1, and for a single area it is far
    # too large, so the limits of the two areas are not combined.
    if u_statistic.INCOMPLETE in statistic.reason:
        p, low, high = mrmc_comparison.infer_difference(statistic.first - statistic.second, statistic.se, df)
        assert low is not None and high is not None  # the standard error is above 0
        return row._replace(low=max(-1.0, low), high=min(1.0, high), p=p, method="u_statistic", reason=statistic.reason)
    means = [
        ConditionMean(value, se, min(df, rater_df) if is_extreme(value) else df, grid.count_read_cases())
        for value, se, grid in zip((statistic.first, statistic.second), statistic.own_se, grids, strict=True)
    ]
    # The standard error of the U-statistic is unbiased, but with it alone, coverage was 91% with eight raters. The mean
    # areas equal the pooled areas here, so the standard error of their difference is used as a lower limit.
    se = max(statistic.se, mean_areas.test.se)
    p, low, high = mrmc_comparison.infer_area_difference((means[0], means[1]), se, df, mrmc.AREA_RANGE)
    return row._replace(low=low, high=high, p=p, method="u_statistic", reason=statistic.reason)


def _fill_d_prime(empty_row: Contrast, pools: tuple[RatingPool, RatingPool]) -> Contrast:
    """Return the contrast of d'; no interval if the correction of the rates changes the difference too much."""
    columns = _number_cases(pools, [detection.build_signal_columns(pool.table, detection.D_PRIME)[0] for pool in pools])
    row = _fill_comparison(empty_row, mrmc_comparison.compare_conditions(columns[0], columns[1], mrmc.UNBOUNDED))
    if row.low is None or row.high is None:
        return row
    outcomes = [detection.count_outcomes(pool.table) for pool in pools]
    first, second = (detection.compute_shift(detection.D_PRIME, *args) for args in zip(outcomes, columns, strict=True))
    # A shift that both conditions share cancels in the difference.
    if abs(first - second) <= detection.MAX_SHIFT * (row.high - row.low) / 2:
        return row
    reason = "; ".join(filter(None, (detection.explain_shift(first - second, "difference"), row.reason)))
    return row._replace(low=None, high=None, p=None, method="", reason=reason)


def has_repeated_cases(table: Ratings, case: Ints) -> bool:
    """Return whether a rater has rated a case with a reference twice. `case`: case of each rating, shape (n,)."""
    has_reference = table.reference >= 0
    keys = case[has_reference] * (int(table.rater.max(initial=0)) + 1) + table.rater[has_reference]
    return len(np.unique(keys)) < len(keys)


def select_pool(pool: RatingPool, mask: Bools) -> RatingPool:
    """Return the pool with only the ratings that the mask selects."""
    columns = {name: getattr(pool, name)[mask] for name in ("cluster", "case", "label", "error")}
    return pool._replace(table=pool.table.select_ratings(mask), **columns)


def compute_rate_contrast(
    family: str, names: tuple[str, str], pool: RatingPool, first: Bools, second: Bools, fixed: str = ""
) -> Contrast:
    """Return the contrast of the shares of verdict 1 of the ratings in two masks."""
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
    """Yield the contrasts in `quantities` (share correct, sensitivity, specificity) that a side has ratings for."""
    sides = [(pool, mask, pool.yes_answers) for mask in masks]
    rows = _iter_answer_contrasts(family, names, sides[0], sides[1], pool.deff, fixed)
    yield from (row for row in rows if row.quantity in quantities)


def iter_verdict_contrasts(
    family: str, names: tuple[str, str], pool: RatingPool, mask: Bools, other: Floats
) -> Iterator[Contrast]:
    """Yield the contrasts between the verdicts in `mask` and `other` verdicts (0, 1) of the same ratings, (n,)."""
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
    """Yield the contrasts with the reference; each side is a pool, a mask and a verdict for each of its ratings."""
    for quantity, references in REFERENCES_OF.items():
        sides = []
        for pool, mask, verdicts in (first, second):
            in_class = mask & np.isin(pool.table.reference, references)
            sides.append(pool.select_side(in_class, (verdicts == pool.table.reference).astype(np.float64)))
        if any(len(side.answers) for side in sides):
            yield compute_share_contrast(family, names, quantity, (sides[0], sides[1]), deff, fixed)


def iter_machine_contrasts(pool: RatingPool, name: str, verdicts: Mapping[str, int]) -> Iterator[Contrast]:
    """Yield the contrasts of a machine with all raters on the items that both judged, for this machine."""
    machine = _build_machine_pool(pool, verdicts)
    if not len(machine.table):
        return
    shared = np.isin(pool.table.item, machine.table.item)
    method = "difference_machine" if len(np.unique(pool.table.rater[shared])) > 1 else "difference_machine_rater"
    sides = (machine, np.ones(len(machine.table), dtype=np.bool_)), (pool, shared)
    yield from _iter_all_contrasts((name, PEOPLE), *sides, pool.deff, method)


def iter_machine_pair_contrasts(
    pool: RatingPool, names: tuple[str, str], first: Mapping[str, int], second: Mapping[str, int]
) -> Iterator[Contrast]:
    """Yield the contrasts of these two machines on items that both and at least one rater judged."""
    common = [{code: verdicts[code] for code in first.keys() & second.keys()} for verdicts in (first, second)]
    machines = [_build_machine_pool(pool, verdicts, place) for place, verdicts in enumerate(common, 1)]
    if not len(machines[0].table):
        return
    all_ratings = np.ones(len(machines[0].table), dtype=np.bool_)
    sides = (machines[0], all_ratings), (machines[1], all_ratings)
    yield from _iter_all_contrasts(names, *sides, 1.0, "difference_machines")


def _iter_all_contrasts(
    names: tuple[str, str], first: tuple[RatingPool, Bools], second: tuple[RatingPool, Bools], deff: float, method: str
) -> Iterator[Contrast]:
    """Yield the contrast of the rates of two masked pools, then the contrasts with the reference."""
    answers = [(pool, mask, pool.yes_answers) for pool, mask in (first, second)]
    sides = [pool.select_side(mask, verdicts) for pool, mask, verdicts in answers]
    yield compute_share_contrast(MACHINES, names, RATE, (sides[0], sides[1]), deff, method)
    yield from _iter_answer_contrasts(MACHINES, names, answers[0], answers[1], deff, method)


def _build_machine_pool(pool: RatingPool, verdicts_by_item: Mapping[str, int], place: int = 1) -> RatingPool:
    """Return a machine's verdicts on the pool's items as ratings by rater number (last rater + `place`)."""
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
    """Yield the contrasts of one rater with the others, on the items that both judged."""
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
