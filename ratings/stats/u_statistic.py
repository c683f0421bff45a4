"""Estimate pooled areas of many raters by a U-statistic, with an unbiased variance and its components (MRMC).

The area is the mean over all pairs of an unperturbed and a planted case that one rater has read, of all raters together. Its
variance is that of Gallas (2006, Academic Radiology 13:353), also for missing readings (Gallas and Brown 2008, Neural
Networks 21:387); its components are those of Barrett, Kupinski and Clarkson (2005, Proceedings of SPIE 5749:21). A reading
is the score of one rater for one case.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratings.stats import mrmc
from ratings.stats.estimates import Estimate, build_estimate
from ratings.stats.mrmc_comparison import NO_RATERS, UNPAIRED
from ratings.stats.ratings_table import Floats, Ints, Ratings

MIN_CASES_INCOMPLETE = 20  # least cases of each class if readings are missing; with 8 to 10, coverage was 88 to 93%
MAX_CELLS = 4_000_000  # most pairs of an unperturbed and a planted item for the U-statistic: 32 MB per matrix
TOO_LARGE = "too many pairs of items for the U-statistic"
INCOMPLETE = "some readings are missing, so the variance is the one that is too large on average"
NEGATIVE = "the estimate of the variance is not above 0"
UNDEFINED = "with one rater or one item of a class the U-statistic has no variance"
FEW_CASES = (
    "some readings are missing and a class has only {n} items; below 20 no interval of the U-statistic is reliable"
)


class ScoreGrid(NamedTuple):
    """The scores of one condition, shapes (raters, positives) and (raters, negatives); NaN where not read."""

    positive: Floats
    negative: Floats

    def count_read_cases(self) -> tuple[int, int]:
        """Return how many unperturbed and planted cases at least one rater has read."""
        positive, negative = (int(np.isfinite(scores).any(axis=0).sum()) for scores in self)
        return positive, negative


class VarianceComponent(NamedTuple):
    """One component of the variance of a pooled area: it contributes `variance` times `coefficient`.

    If every rater has read every case, the coefficient is one over the number of raters, of cases, or of combinations.
    """

    name: str
    variance: float
    coefficient: float


# What varies: the raters, the unperturbed cases (positive) and the planted cases (negative), and their interactions. The
# last one includes what varies when the same rater reads the same case again.
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "raters": ("rater",),
    "unperturbed cases": ("positive",),
    "planted cases": ("negative",),
    "unperturbed by planted cases": ("positive", "negative"),
    "raters by unperturbed cases": ("rater", "positive"),
    "raters by planted cases": ("rater", "negative"),
    "raters by unperturbed by planted cases": ("rater", "positive", "negative"),
}


class UStatistic(NamedTuple):
    """Two areas pooled over pairs of cases, the standard error of their difference, and their own ones."""

    first: float
    second: float
    se: float
    own_se: tuple[float, float] = (math.nan, math.nan)
    reason: str = ""


def build_score_grid(table: Ratings, scores: Floats, case: Ints, raters: Sequence[str], cases: int) -> ScoreGrid:
    """Return the scores by rater and case. `case`: the case number of each rating, from 0 to `cases` - 1."""
    rater_row = {name: index for index, name in enumerate(raters)}
    row = np.array([rater_row.get(name, -1) for name in table.raters], dtype=np.int64)[table.rater]
    grids = []
    for reference in (1, 0):
        grid = np.full((len(raters), cases), np.nan)
        in_class = (table.reference == reference) & (row >= 0)
        grid[row[in_class], case[in_class]] = scores[in_class]
        grids.append(grid)
    return ScoreGrid(*grids)


def compare_pooled_areas(first: ScoreGrid, second: ScoreGrid, paired: bool = True) -> UStatistic | str:
    """Return the pooled areas of two conditions with the standard error of their difference, or the reason why there is none.

    If every rater has read every case, the variance is the unbiased one. Otherwise it is the one for sampling with
    replacement, which is too large on average. `paired` is False if the conditions are compared as independent groups of
    raters.
    """
    is_read = [~np.isnan(np.concatenate(grids)).all(axis=0) for grids in zip(first, second, strict=True)]
    if int(is_read[0].sum()) * int(is_read[1].sum()) > MAX_CELLS:
        return TOO_LARGE
    a, b = conditions = [
        _Moments(grid.positive[:, is_read[0]], grid.negative[:, is_read[1]]) for grid in (first, second)
    ]
    if any(condition.pairs == 0 for condition in conditions):
        return NO_RATERS.format(which="one of the two")
    complete = [condition.is_complete(only_active=not paired) for condition in conditions]
    fewest = min(*first.count_read_cases(), *second.count_read_cases())
    # If readings are missing, the unbiased variance is too variable to be used; with few cases, the variance for sampling
    # with replacement is also too variable.
    if not all(complete) and fewest < MIN_CASES_INCOMPLETE:
        return UStatistic(a.area, b.area, math.nan, reason=FEW_CASES.format(n=fewest))
    unbiased_flags = [all(complete)] * 2 if paired else complete
    flagged = zip(conditions, unbiased_flags, strict=True)
    variances = [condition.estimate_covariance(condition, unbiased) for condition, unbiased in flagged]
    # Unpaired conditions may share a few cases, but the estimate of their covariance would be mostly noise. It is set to 0.
    variance = variances[0] + variances[1] - (2 * a.estimate_covariance(b, all(complete)) if paired else 0.0)
    if not variance > 0:
        return UStatistic(a.area, b.area, math.nan, reason=NEGATIVE if variance <= 0 else UNDEFINED)
    reasons = ["" if paired else UNPAIRED, "" if all(complete) else INCOMPLETE]
    own_se = (math.sqrt(max(variances[0], 0.0)), math.sqrt(max(variances[1], 0.0)))
    return UStatistic(a.area, b.area, math.sqrt(variance), own_se, "; ".join(filter(None, reasons)))


class KernelMoments(NamedTuple):
    """Mean products of two success kernels by what the two share, and the share of all pairs of kernels that share it.

    The expected product depends only on whether the kernels share the rater, the positive and the negative. Shape (8,): for
    two raters, then for one rater, the kernels share nothing, the negative, the positive, or both. These are the moments M8,
    M7, M6, M5 and then M4, M3, M2, M1 of Gallas (2006).
    """

    values: Floats
    weights: Floats

    def compute_components(self) -> list[VarianceComponent]:
        """Return the seven variance components: the variance is the sum of each times its coefficient."""
        # A kernel is a mean plus independent effects of the rater, the two cases and their interactions. Two kernels that
        # share some of the three have in common the effects of these and of their interactions, so that each effect's
        # variance follows by differences (inclusion and exclusion), and its coefficient by sums.
        rater, negative, positive = 4, 1, 2
        components = []
        for name, parts in COMPONENTS.items():
            effect = sum({"rater": rater, "negative": negative, "positive": positive}[part] for part in parts)
            inside = [sharing for sharing in range(8) if sharing & effect == sharing]
            signs = [(-1) ** (effect.bit_count() - sharing.bit_count()) for sharing in inside]
            variance = float(np.sum(np.array(signs) * self.values[inside]))
            containing = [sharing for sharing in range(8) if sharing & effect == effect]
            components.append(VarianceComponent(name, variance, float(self.weights[containing].sum())))
        return components


class _Moments:
    """Sums of the success kernel s = [positive > negative] + [equal]/2 of one condition over raters and pairs of cases.

    For rater r, positive i and negative j, `cell` is the sum over r, shape (I, J); `row` the sum over j, shape (R, I);
    `column` the sum over i, shape (R, J); `total` the sum over i and j, shape (R,). Each is a list: index 0 has the sums
    of the kernel, index 1 the numbers of pairs that were read.
    """

    def __init__(self, positive: Floats, negative: Floats) -> None:
        readers, shape = len(positive), (positive.shape[1], negative.shape[1])
        self.positive, self.negative = positive, negative
        # Only sums are stored: storing the kernels, R matrices of I by J, would take R times the memory.
        self.cell = [np.zeros(shape), np.zeros(shape)]
        self.row = [np.zeros((readers, shape[0])) for _ in range(2)]
        self.column = [np.zeros((readers, shape[1])) for _ in range(2)]
        for reader in range(readers):
            for index, values in enumerate(self.compute_kernels(reader)):
                self.cell[index] += values
                self.row[index][reader] = values.sum(axis=1)
                self.column[index][reader] = values.sum(axis=0)
        self.total = [values.sum(axis=1) for values in self.row]
        self.sums = (self.total, self.column, self.row)
        self.pairs = float(self.total[1].sum())
        self.area = float(self.total[0].sum()) / self.pairs if self.pairs else math.nan

    def compute_kernels(self, reader: int) -> tuple[Floats, Floats]:
        positive, negative = self.positive[reader][:, None], self.negative[reader][None, :]
        is_read = np.isfinite(positive) & np.isfinite(negative)
        return np.where(is_read, (positive > negative) + 0.5 * (positive == negative), 0.0), is_read.astype(np.float64)

    def is_complete(self, only_active: bool) -> bool:
        """Return whether every case read was read by all raters; `only_active` ignores raters without a pair."""
        for grid in (self.positive, self.negative):
            is_read = np.isfinite(grid)
            rows = is_read[self.total[1] > 0] if only_active else is_read
            if (rows.all(axis=0) != is_read.any(axis=0)).any():
                return False
        return True

    def estimate_covariance(self, other: "_Moments", unbiased: bool = True) -> float:
        """Return the covariance of the pooled areas of two conditions: unbiased, or as for sampling with replacement.

        This is the sum of the eight moments, each times its weight, minus the moment of kernels that share nothing, which
        estimates the product of the two means.
        """
        moments = self.compute_moments(other, unbiased)
        # There are no two kernels that share nothing, so the product of the two means cannot be estimated.
        if unbiased and moments.weights[0] == 0:
            return math.nan
        return float(np.sum(moments.weights * moments.values) - moments.values[0])

    def compute_moments(self, other: "_Moments", unbiased: bool = True) -> KernelMoments:
        """Return the mean products of two kernels by what they share, unbiased or as for sampling with replacement."""
        (any_rater, same_rater), (any_count, same_count) = (self._sum_by_sharing(other, index) for index in (0, 1))
        counts = np.concatenate([_subtract_shared(any_count - same_count), _subtract_shared(same_count)])
        weights = counts / (self.pairs * other.pairs)
        if unbiased:
            sums = np.concatenate([_subtract_shared(any_rater - same_rater), _subtract_shared(same_rater)])
            pairs = counts
        else:
            sums, pairs = np.concatenate([any_rater, same_rater]), np.concatenate([any_count, same_count])
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(pairs > 0, sums / pairs, 0.0)
        return KernelMoments(values, weights)

    def _sum_by_sharing(self, other: "_Moments", index: int) -> tuple[Floats, Floats]:
        """Return sums of products of kernels (index 0) or counts (1) over pairs: of any two raters, of one rater."""
        sums = [(own[index], others[index]) for own, others in zip(self.sums, other.sums, strict=True)]
        same_pair = sum(
            float((self.compute_kernels(reader)[index] * other.compute_kernels(reader)[index]).sum())
            for reader in range(len(self.positive))
        )
        same_rater = [*((a * b).sum() for a, b in sums), same_pair]
        any_rater = [
            *((a.sum(axis=0) * b.sum(axis=0)).sum() for a, b in sums),
            (self.cell[index] * other.cell[index]).sum(),
        ]
        return np.array(any_rater), np.array(same_rater)


def _subtract_shared(at_least: Floats) -> Floats:
    """Return sums over pairs sharing exactly nothing, negative, positive or both, from those sharing at least these."""
    nothing, negative, positive, both = at_least
    return np.array([nothing - negative - positive + both, negative - both, positive - both, both])


COMPONENT_REASON = "an unbiased estimate, which can be below 0"  # why a component has no interval; callers test for it
U_AUC, U_COMPONENT = "mrmc_u_auc", "mrmc_u_component"
MIN_RATERS = 3


def estimate_u_statistic(table: Ratings, source: str | None = None, *, show_unstable: bool = False) -> list[Estimate]:
    """Return the pooled area of the signed rating, errors of `source` (None: all), and its seven variance components.

    The area is of the raters with both classes, as in mrmc.estimate_mean_auc, and weights them by their pairs of cases. The
    interval is for new raters and new items. The list is empty if the table is not binary.
    """
    if not table.is_binary:
        return []
    ratings, args = table.select_comparison(source)
    columns, dropped = mrmc.build_rater_columns(ratings, ratings.signed_ratings)
    names = [column.rater for column in columns]
    scored = ratings.select_ratings(np.isfinite(ratings.signed_ratings))
    positives, negatives = (int((scored.reference == reference).sum()) for reference in (1, 0))
    n = {**scored.sample_sizes, "raters_used": len(names), "raters_dropped": dropped}
    n |= {"positives": positives, "negatives": negatives}
    if not names:
        reason = mrmc.explain_no_area(ratings, ratings.signed_ratings)
        return [build_estimate(U_AUC, None, n, args, reason=reason)]
    grid = build_score_grid(ratings, ratings.signed_ratings, ratings.item, names, len(ratings.items))
    is_read = [np.isfinite(scores).any(axis=0) for scores in grid]
    sizes = grid.count_read_cases()
    if math.prod(sizes) > MAX_CELLS:
        return [build_estimate(U_AUC, None, n, args, reason=TOO_LARGE)]
    moments = _Moments(grid.positive[:, is_read[0]], grid.negative[:, is_read[1]])
    is_complete = moments.is_complete(only_active=False)
    rows = [_build_area_row(moments, columns, sizes, is_complete, n, args, show_unstable)]
    if not math.isnan(moments.estimate_covariance(moments)):
        for part in moments.compute_moments(moments).compute_components():
            contribution = f"{part.variance * part.coefficient:.3g} to the variance of the area"
            reason = f"{COMPONENT_REASON}; it contributes {contribution} ({part.coefficient:.3g} times its value)"
            part_args = {**args, "component": part.name}
            rows.append(build_estimate(U_COMPONENT, part.variance, n, part_args, reason=reason))
    return rows


def _build_area_row(
    moments: _Moments,
    columns: Sequence[mrmc.RaterColumn],
    sizes: tuple[int, int],
    is_complete: bool,
    n: Mapping[str, int],
    args: Mapping[str, Any],
    show_unstable: bool,
) -> Estimate:
    # With missing readings the unbiased variance is too variable: it can be far below its mean, and even below 0.
    variance = moments.estimate_covariance(moments, unbiased=is_complete)
    condition = mrmc.analyse_condition(columns)
    if len(columns) == 1 or min(sizes) < 2 or math.isnan(variance):
        return build_estimate(U_AUC, moments.area, n, args, reason=UNDEFINED)
    if not variance > 0:
        return build_estimate(U_AUC, moments.area, n, args, reason=NEGATIVE)
    withheld = ""
    if len(columns) < MIN_RATERS:
        withheld = mrmc.TWO_RATERS
    elif not is_complete and min(sizes) < MIN_CASES_INCOMPLETE:
        withheld = FEW_CASES.format(n=min(sizes))
    interval = None
    if show_unstable or not withheld:
        own = condition._replace(mean=moments.area, se=math.sqrt(variance))
        interval = mrmc.compute_new_raters_interval(own)
    reason = withheld or ("" if is_complete else INCOMPLETE)
    row = build_estimate(U_AUC, moments.area, n, args, interval, "u_statistic", reason)
    return row._replace(withheld=bool(withheld))
