"""The difference of two conditions' mean figures of merit, for readers who read both: two-condition MRMC.

Obuchowski and Rockette (1995), Communications in Statistics B 24:285, with the degrees of freedom of Hillis (2007),
Statistics in Medicine 26:596; and, for areas, the U-statistic of Gallas (2006), Academic Radiology 13:353, whose variance
is unbiased however few of the readings were made (Gallas and Brown 2008, Neural Networks 21:387).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm, t

from ratings.stats.areas.delong import is_extreme, score_interval
from ratings.stats.areas.mrmc import AREAS, Column, covariances, one_condition
from ratings.stats.estimates import LEVEL
from ratings.stats.table import Floats, Ints, Ratings

LEAST_CASES = 3  # of a class in a condition; two held 89 to 92 %, one 85 %
LEAST_READERS = 3
FEW_ERRORS = (
    2.5  # expected wrong orders of an area near 1 (items of the smaller class times 1 - area), below which t fails
)
FEWEST_CASES = 20  # of a class in a condition, where readings are missing
MOST_QUANTILE = 8.0  # of the normal law: p is 1e-15 there, and Student's t of few degrees of freedom is still a number
MOST_CELLS = 4_000_000  # unperturbed times planted items of the U-statistic
NO_READERS = "no rater has both unperturbed and planted items in {which}"
UNPAIRED = "no rater has read both, so the raters of the two are compared as independent groups"
FEW_COMMON = "fewer than three raters have read both, so the raters of the two are compared as independent groups"
ONE_READER = "one rater has read both: the interval is for this rater and new items"
ONE_ALONE = "one rater only has read both, and no interval was found to hold for that rater"
TWO_READERS = "two raters only have read both: no interval for new raters was found to hold"
FEW_OF_A_CLASS = "fewer than three unperturbed or planted items in one of the two: no interval was found to hold"
TOO_LARGE = "too many pairs of items for the U-statistic"
INCOMPLETE = "some readings are missing, so the variance is the one that is too large on average"
FEW_CASES = "some readings are missing and a class has {n} items only; below 20 no interval of the U-statistic holds"
NEGATIVE = "the estimate of the variance is not above 0"
UNDEFINED = "with one rater or one item of a class the U-statistic has no variance"
NO_VARIANCE = "there is no variance, so there is no interval"


class Parts(NamedTuple):
    """Mean square of conditions by readers, mean variance, and the mean covariances of one reader in both conditions (cov1),
    of two readers in one condition (cov2) and of two readers in different conditions (cov3). NaN where undefined."""

    ms_interaction: float
    var_error: float
    cov1: float
    cov2: float
    cov3: float


class FTest(NamedTuple):
    """F on 1 and `df` degrees of freedom, and the standard error of the difference with its p-value and 95 % interval.

    `p`, `low` and `high` are None where there is no interval.
    """

    se: float
    f: float
    df: float
    p: float | None
    low: float | None
    high: float | None

    def withhold(self) -> "FTest":
        """Return the same without the p-value and the interval."""
        return self._replace(p=None, low=None, high=None)


class TwoConditions(NamedTuple):
    """Means of the two conditions, the first less the second tested; `readers` are compared, `dropped` are left out as they
    read only one.

    `parts` is None where the readers of the two are compared as independent groups. `reason`: why there is no interval, or
    what to mind with it.
    """

    first: float
    second: float
    readers: int
    dropped: int
    test: FTest
    parts: Parts | None
    reason: str = ""


class Mean(NamedTuple):
    """A condition's mean figure of merit with its standard error, degrees of freedom and its smaller class of cases.

    `sizes`: how many unperturbed and planted cases there are.
    """

    value: float
    se: float
    df: float
    sizes: tuple[int, int]

    @property
    def is_near_one(self) -> bool:
        """Return whether an area is so near 0 or 1, with so few cases, that Student's t does not hold."""
        return is_extreme(self.value) and min(self.sizes) * min(self.value, 1 - self.value) < FEW_ERRORS

    def limits(self, quantile: float) -> tuple[float, float]:
        """Return the limits at a normal quantile; near 0 or 1 those of the logit, at 0 or 1 Newcombe's."""
        if not is_extreme(self.value):
            half = _student(quantile, self.df) * self.se
            return max(0.0, self.value - half), min(1.0, self.value + half)
        if self.value in AREAS or not self.se > 0:
            return score_interval(self.value, *self.sizes, quantile)
        half = _student(quantile, self.df) * self.se / (self.value * (1 - self.value))
        return float(expit(logit(self.value) - half)), float(expit(logit(self.value) + half))


def compare_conditions(
    first: Sequence[Column], second: Sequence[Column], within: tuple[float, float] = AREAS
) -> TwoConditions | str:
    """Return the difference for new readers and new items, or why there is none.

    The columns are the readers of each condition (mrmc.columns), with cases that are numbered alike in both. Readers of both
    conditions are used if there are three or more, and the others counted as dropped. Where fewer read both, and each
    condition has three readers, all are used and the two are independent. `within`: where the figure of merit can lie.
    """
    for columns, which in ((first, "the first"), (second, "the second")):
        if not columns:
            return NO_READERS.format(which=which)
    places = [{column.rater: column for column in columns} for columns in (first, second)]
    both = [name for name in places[0] if name in places[1]]
    dropped = len(places[0].keys() | places[1].keys()) - len(both)
    if not both or (len(both) < LEAST_READERS <= min(len(first), len(second))):
        found = _compare_independent(first, second, within, FEW_COMMON if both else UNPAIRED)
    else:
        pairs = [[place[name] for name in both] for place in places]
        found = _compare_paired(pairs[0], pairs[1], within, dropped)
    if min(min(_count_cases(columns)) for columns in (first, second)) < LEAST_CASES:
        return found._replace(test=found.test.withhold(), reason=FEW_OF_A_CLASS)
    return found


def _count_cases(columns: Sequence[Column]) -> tuple[int, int]:
    """Return how many unperturbed and planted cases these readers have read."""
    positive, negative = (
        len(np.unique(np.concatenate(cases)))
        for cases in ([one.positive_case for one in columns], [one.negative_case for one in columns])
    )
    return positive, negative


def _describe(columns: Sequence[Column]) -> Mean:
    """Return the mean of one condition; one reader's has no degrees of freedom to lose."""
    one = one_condition(columns)
    sizes = _count_cases(columns)
    if one.raters == 1:
        return Mean(one.mean, one.fixed_se, math.inf, sizes)
    return Mean(one.mean, one.se, min(one.df, one.raters - 1) if is_extreme(one.mean) else one.df, sizes)


def _compare_paired(
    first: Sequence[Column], second: Sequence[Column], within: tuple[float, float], dropped: int
) -> TwoConditions:
    """Return the difference of readers who read both conditions."""
    readers = len(first)
    values = np.array([[column.value for column in columns] for columns in (first, second)])
    matrix = covariances([*first, *second])
    own, across = (matrix[:readers, :readers], matrix[readers:, readers:]), matrix[:readers, readers:]
    var_error, cov1 = float(np.diag(matrix).mean()), float(np.diag(across).mean())
    means = float(values[0].mean()), float(values[1].mean())
    difference = means[0] - means[1]
    described = _describe(first), _describe(second)
    if readers == 1:
        variance = 2 * (var_error - cov1)
        se = math.sqrt(variance) if variance > 0 else math.nan
        test = FTest(se, math.nan, math.inf, *infer_areas(described, se, math.inf, within))
        parts = Parts(math.nan, var_error, cov1, math.nan, math.nan)
        return TwoConditions(*means, 1, dropped, test, parts, ONE_ALONE if test.low is None else ONE_READER)
    off = ~np.eye(readers, dtype=bool)
    cov2, cov3 = float(np.mean([part[off].mean() for part in own])), float(across[off].mean())
    parts = Parts(float(np.var(values[0] - values[1], ddof=1)) / 2, var_error, cov1, cov2, cov3)
    test = compute_f_test(difference, readers, parts)
    if readers == 2:
        return TwoConditions(*means, readers, dropped, test.withhold(), parts, TWO_READERS)
    p, low, high = infer_areas(described, test.se, test.df, within)
    test = test._replace(p=p, low=low, high=high)
    return TwoConditions(*means, readers, dropped, test, parts, "" if test.se > 0 else NO_VARIANCE)


def compute_f_test(difference: float, readers: int, parts: Parts) -> FTest:
    """Return Hillis' test: F = MS(T)/D with D = MS(TR) + J max(Cov2 - Cov3, 0), df = D^2 / [MS(TR)^2/(J-1)], SE^2 = 2D/J."""
    denominator = parts.ms_interaction + readers * max(parts.cov2 - parts.cov3, 0.0)
    se = math.sqrt(2 * denominator / readers)
    df = math.inf if parts.ms_interaction == 0 else denominator**2 / (parts.ms_interaction**2 / (readers - 1))
    f = readers * difference**2 / 2 / denominator if denominator > 0 else math.nan
    return FTest(se, f, df, *infer(difference, se, df))


def _compare_independent(
    first: Sequence[Column], second: Sequence[Column], within: tuple[float, float], why: str
) -> TwoConditions:
    """Return the difference of two independent means: the variances add up, with Satterthwaite's degrees of freedom."""
    found = [one_condition(columns) for columns in (first, second)]
    means = (found[0].mean, found[1].mean)
    readers = len({column.rater for columns in (first, second) for column in columns})
    if min(one.raters for one in found) < LEAST_READERS:
        few = "fewer than three raters in one of the two: no interval for new raters was found to hold"
        return TwoConditions(
            *means, readers, 0, FTest(math.nan, math.nan, math.nan, None, None, None), None, f"{why}; {few}"
        )
    variance = sum(one.se**2 for one in found)
    below = sum(one.se**4 / one.df for one in found)
    df, se = variance**2 / below if below > 0 else math.inf, math.sqrt(variance)
    test = FTest(se, math.nan, df, *infer_areas((_describe(first), _describe(second)), se, df, within))
    reason = why if se > 0 else f"{why}; {NO_VARIANCE}"
    return TwoConditions(*means, readers, 0, test, None, reason)


def infer(difference: float, se: float, df: float) -> tuple[float | None, float | None, float | None]:
    """Return p and the ends of the 95 % interval; Student's t with `df`, normal where it is infinite."""
    if not se > 0:
        return None, None, None
    law = norm if math.isinf(df) else t(df)
    half = float(law.ppf((1 + LEVEL) / 2)) * se
    return float(2 * law.sf(abs(difference) / se)), difference - half, difference + half


def infer_areas(
    means: tuple[Mean, Mean], se: float, df: float, within: tuple[float, float]
) -> tuple[float | None, float | None, float | None]:
    """Return p and the ends of the 95 % interval of a difference of two means within these bounds.

    Student's t; where an area is near 0 or 1 with few cases, both areas' own limits put together (Zou and Donner 2008,
    Statistics in Medicine 27:1693). Their correlation is used only where it widens the interval, so that p, the level of the
    interval that just reaches 0, follows from it.
    """
    first, second = means
    difference = first.value - second.value
    if within != AREAS or not (first.is_near_one or second.is_near_one):
        p, low, high = infer(difference, se, df)
        if low is None or high is None or within != AREAS:
            return p, low, high
        return p, max(-1.0, low), min(1.0, high)
    if not se > 0:
        return None, None, None
    product = first.se * second.se
    correlation = min(0.0, (first.se**2 + second.se**2 - se**2) / (2 * product)) if product > 0 else 0.0
    correlation = max(-1.0, correlation)

    def reach(quantile: float, upwards: bool) -> float:
        ends = first.limits(quantile), second.limits(quantile)
        a, b = (
            (ends[0][1] - first.value, second.value - ends[1][0])
            if upwards
            else (first.value - ends[0][0], ends[1][1] - second.value)
        )
        return math.sqrt(a**2 + b**2 - 2 * correlation * a * b)

    quantile = float(norm.ppf((1 + LEVEL) / 2))
    low, high = max(-1.0, difference - reach(quantile, False)), min(1.0, difference + reach(quantile, True))
    if difference == 0:
        return 1.0, low, high

    def excess(quantile: float) -> float:
        return reach(quantile, difference < 0) - abs(difference)

    if excess(MOST_QUANTILE) <= 0:
        return float(2 * norm.sf(MOST_QUANTILE)), low, high
    return float(2 * norm.sf(brentq(excess, 0.0, MOST_QUANTILE, xtol=1e-12))), low, high


def _student(quantile: float, df: float) -> float:
    """Return the quantile of Student's t at the level of this normal quantile."""
    return quantile if math.isinf(df) else float(t.isf(norm.sf(quantile), df))


class Readings(NamedTuple):
    """Scores of one condition by reader and case: shapes (readers, positives) and (readers, negatives), NaN: not read."""

    positive: Floats
    negative: Floats


def count_readings(grid: Readings) -> tuple[int, int]:
    """Return how many unperturbed and planted cases somebody has read."""
    positive, negative = (int(np.isfinite(one).any(axis=0).sum()) for one in grid)
    return positive, negative


class UStatistic(NamedTuple):
    """The difference of two pooled areas, the readers weighted by the pairs they have read, and its standard error.

    `own_se`: the standard errors of the two areas.
    """

    first: float
    second: float
    se: float
    own_se: tuple[float, float] = (math.nan, math.nan)
    reason: str = ""


def arrange_readings(table: Ratings, scores: Floats, case: Ints, raters: Sequence[str], cases: int) -> Readings:
    """Return the scores of this condition on the grid of readers and cases that both conditions have.

    `case`: of each rating the number of its case, below `cases`.
    """
    place = {name: at for at, name in enumerate(raters)}
    row = np.array([place.get(name, -1) for name in table.raters], dtype=np.int64)[table.rater]
    found = []
    for reference in (1, 0):
        grid = np.full((len(raters), cases), np.nan)
        own = (table.reference == reference) & (row >= 0)
        grid[row[own], case[own]] = scores[own]
        found.append(grid)
    return Readings(*found)


def compare_areas(first: Readings, second: Readings, paired: bool = True) -> UStatistic | str:
    """Return the difference of the pooled areas with its standard error, or why there is none.

    The variance is the unbiased one where every reader has read every case. Else it is the one with replacement, which is too
    large on average: the unbiased one varies too much to be used. Both vary too much below `FEWEST_CASES` cases of a class
    (coverage of 88 to 93 % in simulated studies of 8 to 10), so no error is given there. `paired` is False where no reader
    has read both conditions: the variances add up, as the covariance from the few cases in common is mostly noise.
    """
    used = [~np.isnan(first[at]).all(axis=0) | ~np.isnan(second[at]).all(axis=0) for at in (0, 1)]
    if int(used[0].sum()) * int(used[1].sum()) > MOST_CELLS:
        return TOO_LARGE
    a, b = conditions = [_Moments(one.positive[:, used[0]], one.negative[:, used[1]]) for one in (first, second)]
    if any(one.pairs == 0 for one in conditions):
        return NO_READERS.format(which="one of the two")
    complete = [one.is_complete(some_readers=not paired) for one in conditions]
    fewest = min(int(np.isfinite(grid).any(axis=0).sum()) for one in (first, second) for grid in one)
    if not all(complete) and fewest < FEWEST_CASES:
        return UStatistic(a.area, b.area, math.nan, reason=FEW_CASES.format(n=fewest))
    whole = [all(complete)] * 2 if paired else complete
    own = [one.covariance(one, unbiased) for one, unbiased in zip(conditions, whole, strict=True)]
    variance = own[0] + own[1] - (2 * a.covariance(b, all(complete)) if paired else 0.0)
    if not variance > 0:
        return UStatistic(a.area, b.area, math.nan, reason=NEGATIVE if variance <= 0 else UNDEFINED)
    reasons = ["" if paired else UNPAIRED, "" if all(complete) else INCOMPLETE]
    own_se = (math.sqrt(max(own[0], 0.0)), math.sqrt(max(own[1], 0.0)))
    return UStatistic(a.area, b.area, math.sqrt(variance), own_se, "; ".join(filter(None, reasons)))


class _Moments:
    """Sums of the success kernel s = [positive > negative] + [equal]/2 of one condition over readers and pairs of cases.

    For readers r, positives i and negatives j: `cell` is summed over r, shape (I, J); `row` over j, shape (R, I);
    `column` over i, shape (R, J); `total` over i and j, shape (R,). Index 0 is of the kernel, 1 counts the pairs that were read.
    """

    def __init__(self, positive: Floats, negative: Floats) -> None:
        readers, shape = len(positive), (positive.shape[1], negative.shape[1])
        self.positive, self.negative = positive, negative
        self.cell = [np.zeros(shape), np.zeros(shape)]
        self.row = [np.zeros((readers, shape[0])) for _ in range(2)]
        self.column = [np.zeros((readers, shape[1])) for _ in range(2)]
        for reader in range(readers):
            for at, one in enumerate(self.kernels(reader)):
                self.cell[at] += one
                self.row[at][reader] = one.sum(axis=1)
                self.column[at][reader] = one.sum(axis=0)
        self.total = [one.sum(axis=1) for one in self.row]
        self.pairs = float(self.total[1].sum())
        self.area = float(self.total[0].sum()) / self.pairs if self.pairs else math.nan

    def kernels(self, reader: int) -> tuple[Floats, Floats]:
        good, bad = self.positive[reader][:, None], self.negative[reader][None, :]
        read = np.isfinite(good) & np.isfinite(bad)
        return np.where(read, (good > bad) + 0.5 * (good == bad), 0.0), read.astype(np.float64)

    def is_complete(self, some_readers: bool) -> bool:
        """Return whether each case that one reader has read was read by all; with `some_readers`, by all who have read any."""
        for grid in (self.positive, self.negative):
            read = np.isfinite(grid)
            readers = read[self.total[1] > 0] if some_readers else read
            if (readers.all(axis=0) != read.any(axis=0)).any():
                return False
        return True

    def covariance(self, other: "_Moments", unbiased: bool = True) -> float:
        """Return the covariance of the two areas: unbiased, or with replacement.

        The expected product of two kernels depends only on whether they share the reader, the positive and the negative:
        eight moments, each weighted by its share of all pairs of kernels; the moment that shares nothing estimates the
        product of the two means and is taken off.
        """
        (any_reader, one_reader), (any_count, one_count) = (self._by_what_is_shared(other, at) for at in (0, 1))
        counts = np.concatenate([_exactly(any_count - one_count), _exactly(one_count)])
        weights = counts / (self.pairs * other.pairs)
        if unbiased:
            sums = np.concatenate([_exactly(any_reader - one_reader), _exactly(one_reader)])
            pairs = counts
        else:
            sums, pairs = np.concatenate([any_reader, one_reader]), np.concatenate([any_count, one_count])
        with np.errstate(divide="ignore", invalid="ignore"):
            moments = np.where(pairs > 0, sums / pairs, 0.0)
        if (
            unbiased and counts[0] == 0
        ):  # nothing is read by two readers on different cases: the product of the means cannot be had
            return math.nan
        return float(np.sum(weights * moments) - moments[0])

    def _by_what_is_shared(self, other: "_Moments", at: int) -> tuple[Floats, Floats]:
        """Return the sums of products over pairs that share at least: nothing, the negative, the positive, both cases.

        Of any two readers and of one and the same reader, shapes (4,).
        """
        same = sum(
            float((self.kernels(reader)[at] * other.kernels(reader)[at]).sum()) for reader in range(len(self.positive))
        )
        reader = np.array([
            float((self.total[at] * other.total[at]).sum()),
            float((self.column[at] * other.column[at]).sum()),
            float((self.row[at] * other.row[at]).sum()),
            same,
        ])  # fmt: skip
        every = np.array([
            float(self.total[at].sum() * other.total[at].sum()),
            float((self.column[at].sum(axis=0) * other.column[at].sum(axis=0)).sum()),
            float((self.row[at].sum(axis=0) * other.row[at].sum(axis=0)).sum()),
            float((self.cell[at] * other.cell[at]).sum()),
        ])  # fmt: skip
        return every, reader


def _exactly(at_least: Floats) -> Floats:
    """Return sums over pairs that share exactly nothing, the negative, the positive, both, from those that share at least it."""
    nothing, negative, positive, both = at_least
    return np.array([nothing - negative - positive + both, negative - both, positive - both, both])
