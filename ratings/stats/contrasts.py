"""Contrasts: differences of shares, of areas and of d' between two sets of ratings.

Shares are compared by stats.differences, areas and d' by stats.mrmc_two.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ratings.stats import detection
from ratings.stats.areas import mrmc, mrmc_two
from ratings.stats.areas.delong import is_extreme
from ratings.stats.areas.mrmc_two import TwoConditions
from ratings.stats.differences import Counts, Side, compare_shares, count_clusters
from ratings.stats.table import Bools, Floats, Ints, Ratings

RATERS, MACHINES = "raters", "raters and machines"
OTHERS, PEOPLE = "the others", "raters"
RATE, CORRECT, SENSITIVITY, SPECIFICITY = "rate", "correct", "sensitivity", "specificity"
# The shares that need a reference, each with the references of its items: 0 with an error, 1 without.
REFERENCES_OF: Mapping[str, tuple[int, ...]] = {CORRECT: (0, 1), SENSITIVITY: (0,), SPECIFICITY: (1,)}
AREA, AREA_U, D_PRIME = "AUC", "AUC, U-statistic", "d'"

CLUSTERED = "difference_clustered"
# Who an interval is for, by its method; items are always new ones.
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
    """One row: the first less the second. `method` is a key of METHODS, `reason` says why a number is missing."""

    family: str
    first: str
    second: str
    quantity: str
    counts: Counts
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

    def cells(self, p_holm: float | None, reference_name: str) -> list[Any]:
        """Return the row of the table."""
        return [
            self.family, self.first, self.second, self.quantity, self.first_value, self.second_value, self.difference,
            self.low, self.high, self.p, p_holm, *self.counts, TARGETS.get(self.method, ""), self.reason,
            "" if self.quantity == RATE else reference_name,
        ]  # fmt: skip


class Pool(NamedTuple):
    """Judged ratings as contrasts take them, with what each is of; shapes (n,) beside the table's own columns.

    `cluster`: the number of the thing that the item is a version of; `case`: the same for versions of one error type and
    reference, so that a rater has one reading of each in a condition; `label`: who simulated the item; `error`: none,
    obvious or subtle, or what else is known.
    """

    table: Ratings
    cluster: Ints
    case: Ints
    label: Any
    error: Any
    deff: float

    def side(self, mask: Bools, answers: Floats) -> Side:
        return Side(answers[mask], self.cluster[mask], self.table.rater[mask])

    @property
    def rate(self) -> Floats:
        return self.table.verdict.astype(np.float64)

    @property
    def correct(self) -> Floats:
        return self.table.correct.astype(np.float64)

    @property
    def known(self) -> Bools:
        """Which ratings are of items with a reference."""
        found: Bools = self.table.reference >= 0
        return found


def gather_pool(own: Ratings) -> Pool:
    """Return the ratings of a table with the numbers of their cases.

    The table's factor `error` names the planted error of each rating's item; sources are named by it (see rows.source_name).
    The factor `kind`, if there is one, has in its place "declared right", "declared wrong" or "not known" for items of which
    nobody stated what was done to them.
    Items without a pair are versions of nothing.
    """
    blank = (np.zeros(len(own), dtype=np.int64), ("none",))
    codes, names = own.factors.get("error", blank)
    kind_codes, kinds = own.factors.get("kind", own.factors.get("error", blank))
    error = (
        np.array([name or "none" for name in kinds], dtype=np.str_)[kind_codes]
        if len(own)
        else np.zeros(0, dtype=np.str_)
    )
    label = np.array(
        [name.removesuffix(f", {kind} error") for name in own.sources for kind in names] or [""], dtype=np.str_
    ).reshape(-1, len(names) or 1)
    pair = [pair or code for pair, code in zip(own.pairs or own.items, own.items, strict=True)]
    cluster = np.unique(np.array(pair, dtype=np.str_), return_inverse=True)[1][own.item]
    case = np.unique(np.stack([cluster, codes, own.reference]), axis=1, return_inverse=True)[1].reshape(-1)
    deff = detection.find_design_effect(own) if own.binary and len(own) else 1.0
    return Pool(own, cluster, case, label[own.source, codes], error, deff)


def contrast_shares(
    family: str, names: tuple[str, str], quantity: str, sides: tuple[Side, Side], deff: float, fixed: str = ""
) -> Contrast:
    """Return the row of a difference of two shares. `fixed` is the method's name where a side is one rater or one machine."""
    found = compare_shares(*sides, deff, is_rater=bool(fixed))
    usual = (
        "difference_one_rater" if found.counts.raters == 1 else "difference_paired" if found.is_paired else CLUSTERED
    )
    method = (fixed or usual) if found.low is not None else ""
    values = (found.first, found.second, found.low, found.high, found.p)
    return Contrast(family, *names, quantity, found.counts, *values, method, found.reason)


def contrast_detection(family: str, names: tuple[str, str], first: Pool, second: Pool) -> Iterator[Contrast]:
    """Yield the differences of the mean area, of the pooled area and of d' of two sets of ratings.

    Nothing where neither has both unperturbed and planted items.
    """
    if not any(_has_both(one.table) for one in (first, second)):
        return
    columns = _number_cases((first, second), [mrmc.columns(one.table, one.table.signed)[0] for one in (first, second)])
    found = mrmc_two.compare_conditions(columns[0], columns[1])
    if isinstance(found, str):
        found = next(
            filter(None, (_explain_none(one, own) for one, own in zip((first, second), columns, strict=True))), found
        )
    only_common = not isinstance(found, str) and found.dropped > 0
    blank = Contrast(family, *names, AREA, _count_scored((first, second), only_common))
    yield _of_conditions(blank, found)
    yield _of_u_statistic(blank._replace(quantity=AREA_U), (first, second), found)
    yield _of_d_prime(blank._replace(quantity=D_PRIME), (first, second))


def _explain_none(pool: Pool, columns: Sequence[mrmc.Column]) -> str:
    """Return why no rater of this condition has an area; "" where one has."""
    return "" if columns else mrmc.nothing(pool.table, pool.table.signed)


def _count_scored(pools: tuple[Pool, Pool], only_common: bool) -> Counts:
    """Return what areas rest on: ratings with a reference and a confidence; `only_common`: of raters of both conditions."""
    first, second = ({one.table.raters[at] for at in np.unique(one.table.rater)} for one in pools)
    common = first & second
    sides = []
    for one in pools:
        mask = one.known & np.isfinite(one.table.signed)
        if only_common:
            mask &= np.array([name in common for name in one.table.raters], dtype=np.bool_)[one.table.rater]
        sides.append(one.side(mask, one.rate))
    return count_clusters(sides[0], sides[1])


def _has_both(own: Ratings) -> bool:
    return bool((own.reference == 0).any() and (own.reference == 1).any())


def _number_cases(pools: tuple[Pool, Pool], columns: Sequence[Sequence[mrmc.Column]]) -> list[list[mrmc.Column]]:
    """Return the columns of both conditions with one numbering of cases: versions of one thing are one case.

    If a rater has several versions of one case in one condition, every item is a case of its own, in both conditions.
    """
    if any(is_repeated(pool.table, pool.case) for pool in pools):
        return [list(own) for own in columns]
    found = []
    for pool, own in zip(pools, columns, strict=True):
        case = np.zeros(len(pool.table.items), dtype=np.int64)
        case[pool.table.item] = pool.case
        found.append([
            column._replace(positive_case=case[column.positive_case], negative_case=case[column.negative_case])
            for column in own
        ])  # fmt: skip
    return found


def _of_conditions(blank: Contrast, found: TwoConditions | str) -> Contrast:
    """Return the row with the numbers of two conditions, or with the reason why there are none."""
    if isinstance(found, str):
        return blank._replace(reason=found)
    dropped = f"{found.dropped} raters who read only one left out" if found.dropped else ""
    return blank._replace(
        first_value=found.first,
        second_value=found.second,
        low=found.test.low,
        high=found.test.high,
        p=found.test.p,
        method="" if found.test.low is None else "delong" if found.readers == 1 else "or_two_conditions",
        reason="; ".join(filter(None, (found.reason, dropped))),
    )


def _of_u_statistic(blank: Contrast, pools: tuple[Pool, Pool], averages: TwoConditions | str) -> Contrast:
    """Return the pooled areas' difference; its interval has the degrees of freedom of the raters' mean areas."""
    if isinstance(averages, str):
        return blank._replace(reason=averages)
    if any(is_repeated(one.table, one.case) for one in pools):
        return blank._replace(reason="a rater has read several versions of one case in one condition")
    raters = sorted({one.table.raters[at] for one in pools for at in np.unique(one.table.rater)})
    cases = max(int(one.case.max(initial=0)) for one in pools) + 1
    grids = [mrmc_two.arrange_readings(one.table, one.table.signed, one.case, raters, cases) for one in pools]
    found = mrmc_two.compare_areas(grids[0], grids[1], paired=averages.parts is not None)
    if isinstance(found, str):
        return blank._replace(reason=found)
    row = blank._replace(first_value=found.first, second_value=found.second)
    if averages.test.low is None or not found.se > 0:
        return row._replace(reason=found.reason or averages.reason)
    df, fewer = averages.test.df, max(1, averages.readers - 1)
    if (
        mrmc_two.INCOMPLETE in found.reason
    ):  # that variance is wide enough near 1 as well, and each area's own is far too wide
        p, low, high = mrmc_two.infer(found.first - found.second, found.se, df)
        assert low is not None and high is not None  # the standard error is above 0
        return row._replace(low=max(-1.0, low), high=min(1.0, high), p=p, method="u_statistic", reason=found.reason)
    means = [
        mrmc_two.Mean(value, se, min(df, fewer) if is_extreme(value) else df, mrmc_two.count_readings(grid))
        for value, se, grid in zip((found.first, found.second), found.own_se, grids, strict=True)
    ]
    # Unbiased, but by itself it held 91 % with eight raters: no smaller than that of the mean areas, which are the same.
    se = max(found.se, averages.test.se)
    p, low, high = mrmc_two.infer_areas((means[0], means[1]), se, df, mrmc.AREAS)
    return row._replace(low=low, high=high, p=p, method="u_statistic", reason=found.reason)


def _of_d_prime(blank: Contrast, pools: tuple[Pool, Pool]) -> Contrast:
    """Return the difference of d'; without an interval where the correction of the rates moves it far."""
    columns = _number_cases(pools, [detection.columns(one.table, detection.D_PRIME)[0] for one in pools])
    row = _of_conditions(blank, mrmc_two.compare_conditions(columns[0], columns[1], mrmc.ANYWHERE))
    if row.low is None or row.high is None:
        return row
    shifts = [
        detection.find_shift(detection.D_PRIME, detection.outcomes(one.table), own)
        for one, own in zip(pools, columns, strict=True)
    ]
    if abs(shifts[0] - shifts[1]) <= detection.MOST_SHIFT * (row.high - row.low) / 2:
        return row
    why = detection.explain_shift(shifts[0] - shifts[1], "difference")
    return row._replace(low=None, high=None, p=None, method="", reason="; ".join(filter(None, (why, row.reason))))


def is_repeated(table: Ratings, case: Ints) -> bool:
    """Return whether a rater has rated a case with a reference more than once. `case`: shape (ratings,)."""
    known = table.reference >= 0
    keys = case[known] * (int(table.rater.max(initial=0)) + 1) + table.rater[known]
    return len(np.unique(keys)) < len(keys)


def restrict(pool: Pool, mask: Bools) -> Pool:
    """Return only these ratings."""
    return Pool(
        pool.table.where(mask), pool.cluster[mask], pool.case[mask], pool.label[mask], pool.error[mask], pool.deff
    )


def contrast_rates(
    family: str, names: tuple[str, str], pool: Pool, first: Bools, second: Bools, fixed: str = ""
) -> Contrast:
    sides = (pool.side(first, pool.rate), pool.side(second, pool.rate))
    return contrast_shares(family, names, RATE, sides, pool.deff, fixed)


def contrast_known(
    family: str,
    names: tuple[str, str],
    pool: Pool,
    masks: tuple[Bools, Bools],
    fixed: str = "",
    quantities: Collection[str] = tuple(REFERENCES_OF),
) -> Iterator[Contrast]:
    """Yield the differences that need a reference: of correct verdicts, sensitivity and specificity, or of these `quantities`.

    A quantity is left out where neither side has an item for it.
    """
    sides = [(pool, mask, pool.rate) for mask in masks]
    rows = _contrast_answers(family, names, sides[0], sides[1], pool.deff, fixed)
    yield from (row for row in rows if row.quantity in quantities)


def contrast_verdicts(
    family: str, names: tuple[str, str], pool: Pool, mask: Bools, other: Floats
) -> Iterator[Contrast]:
    """Yield the differences between the verdicts of these ratings and `other` verdicts of the same ratings (0 or 1, shape (n,))."""
    sides = (pool.side(mask, pool.rate), pool.side(mask, other))
    yield contrast_shares(family, names, RATE, sides, pool.deff)
    yield from _contrast_answers(family, names, (pool, mask, pool.rate), (pool, mask, other), pool.deff)


def _contrast_answers(
    family: str,
    names: tuple[str, str],
    first: tuple[Pool, Bools, Floats],
    second: tuple[Pool, Bools, Floats],
    deff: float,
    fixed: str = "",
) -> Iterator[Contrast]:
    """Yield the differences against the reference. A side is a pool, the mask of its ratings, and their verdicts."""
    for quantity, references in REFERENCES_OF.items():
        sides = []
        for pool, mask, verdicts in (first, second):
            own = mask & np.isin(pool.table.reference, references)
            sides.append(pool.side(own, (verdicts == pool.table.reference).astype(np.float64)))
        if any(len(side.answers) for side in sides):
            yield contrast_shares(family, names, quantity, (sides[0], sides[1]), deff, fixed)


def contrast_machine(pool: Pool, name: str, given: Mapping[str, int]) -> Iterator[Contrast]:
    """Yield a machine against all raters on the items that both judged; the machine is itself, raters are a sample."""
    machine = _gather_machine(pool, given)
    if not len(machine.table):
        return
    own = np.isin(pool.table.item, machine.table.item)
    every = np.ones(len(machine.table), dtype=np.bool_)
    people = len(np.unique(pool.table.rater[own]))
    names, method = (name, PEOPLE), "difference_machine" if people > 1 else "difference_machine_rater"
    sides = (machine.side(every, machine.rate), pool.side(own, pool.rate))
    yield contrast_shares(MACHINES, names, RATE, sides, pool.deff, method)
    yield from _contrast_answers(
        MACHINES, names, (machine, every, machine.rate), (pool, own, pool.rate), pool.deff, method
    )


def contrast_machines(
    pool: Pool, names: tuple[str, str], first: Mapping[str, int], second: Mapping[str, int]
) -> Iterator[Contrast]:
    """Yield a machine against another on the items that both judged and a rater did; both are themselves."""
    both = first.keys() & second.keys()
    machines = [_gather_machine(pool, {code: own[code] for code in both}, at) for at, own in ((1, first), (2, second))]
    if not len(machines[0].table):
        return
    every, method = np.ones(len(machines[0].table), dtype=np.bool_), "difference_machines"
    a, b = machines
    sides = (a.side(every, a.rate), b.side(every, b.rate))
    yield contrast_shares(MACHINES, names, RATE, sides, 1.0, method)
    yield from _contrast_answers(MACHINES, names, (a, every, a.rate), (b, every, b.rate), 1.0, method)


def _gather_machine(pool: Pool, given: Mapping[str, int], place: int = 1) -> Pool:
    """Return a machine's verdicts on the items of this pool as ratings by one more rater, `place` numbers after the last."""
    codes = {code: at for at, code in enumerate(pool.table.items)}
    judged = {codes[code]: verdict for code, verdict in sorted(given.items()) if code in codes}
    items, verdicts = (np.array(list(found), dtype=np.int64) for found in (judged, judged.values()))
    last = int(pool.table.rater.max(initial=0))
    cluster = np.zeros(len(pool.table.items), dtype=np.int64)
    cluster[pool.table.item] = pool.cluster
    table = replace(
        pool.table,
        item=items,
        rater=np.full(len(items), last + place, dtype=np.int64),
        source=np.zeros(len(items), dtype=np.int64),
        verdict=verdicts,
        confidence=np.full(len(items), np.nan),
        reference=pool.table.item_reference[items],
        factors={},
    )
    blank = np.zeros(len(items), dtype=np.str_)
    return Pool(table, cluster[items], items, blank, blank, pool.deff)


def contrast_rater(pool: Pool, at: int) -> Iterator[Contrast]:
    """Yield the rater of this number against the others, on the items that this rater and somebody else judged."""
    mine: Bools = pool.table.rater == at
    seen = np.zeros(len(pool.table.items), dtype=np.bool_)
    seen[pool.table.item[mine]] = True
    theirs = ~mine & seen[pool.table.item]
    shared = np.zeros(len(pool.table.items), dtype=np.bool_)
    shared[pool.table.item[theirs]] = True
    mine = mine & shared[pool.table.item]
    if not mine.any():
        return
    names = (pool.table.raters[at], OTHERS)
    method = "difference_rater" if len(np.unique(pool.table.rater[theirs])) > 1 else "difference_pair"
    yield contrast_rates(RATERS, names, pool, mine, theirs, method)
    yield from contrast_known(RATERS, names, pool, (mine, theirs), method)
