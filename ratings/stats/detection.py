"""Estimate the detection of errors: sensitivity, specificity, d' and criterion, over all raters and for each.

An item with a planted error (reference 0) rated not plausible (verdict 0) is a hit; an unperturbed item rated
not plausible is a false alarm. Rates of d' and c are always corrected as in Hautus (1995, Behavior Research Methods 27:46):
(h + 0.5) / (n + 1).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ratings.stats import proportions
from ratings.stats.areas import auc, mrmc
from ratings.stats.areas.mrmc import ANYWHERE, Column
from ratings.stats.estimates import Estimate, estimate
from ratings.stats.quantiles import find_normal_quantile
from ratings.stats.resampling import around
from ratings.stats.table import Ratings, explain_missing

SENSITIVITY, SPECIFICITY = "sensitivity", "specificity"
D_PRIME, CRITERION = "dprime", "criterion_c"
MOST_SHIFT = 0.15  # share of the half-width by which the correction of the rates may move the centre of an interval


class Outcomes(NamedTuple):
    """Counts of planted and of unperturbed items that were rated not plausible, or plausible."""

    hits: int
    misses: int
    false_alarms: int
    correct_rejections: int

    @property
    def hit_rate(self) -> float:
        """Share of planted items, log-linear correction: never 0 or 1."""
        return (self.hits + 0.5) / (self.hits + self.misses + 1)

    @property
    def false_alarm_rate(self) -> float:
        """Share of unperturbed items, log-linear correction: never 0 or 1."""
        return (self.false_alarms + 0.5) / (self.false_alarms + self.correct_rejections + 1)

    @property
    def counts(self) -> dict[str, int]:
        return self._asdict()

    def explain(self, reference_name: str) -> str:
        """Return why there is no d'; "" if there is one."""
        if not self.hits + self.misses:
            return explain_missing(reference_name, 0)
        return "" if self.false_alarms + self.correct_rejections else explain_missing(reference_name, 1)


def outcomes(table: Ratings) -> Outcomes:
    """Return the counts of a binary table; ratings with an unknown reference are left out."""
    is_called, is_planted, is_unperturbed = table.verdict == 0, table.reference == 0, table.reference == 1
    return Outcomes(
        int((is_called & is_planted).sum()),
        int((~is_called & is_planted).sum()),
        int((is_called & is_unperturbed).sum()),
        int((~is_called & is_unperturbed).sum()),
    )


def d_prime(hit_rate: float, false_alarm_rate: float) -> float:
    """Return z(H) - z(F); the rates must be strictly between 0 and 1."""
    return find_normal_quantile(hit_rate) - find_normal_quantile(false_alarm_rate)


def criterion(hit_rate: float, false_alarm_rate: float) -> float:
    """Return -(z(H) + z(F)) / 2; above 0: reluctant to call something an error."""
    return -(find_normal_quantile(hit_rate) + find_normal_quantile(false_alarm_rate)) / 2


def detection(table: Ratings) -> list[Estimate]:
    """Return sensitivity, d' and c of all error sources together and of each: of all raters, of their mean, and of each
    rater.

    Specificity does not depend on the error source and has no such args. Tables that are not binary have none.
    """
    if not table.binary:
        return []
    rows: list[Estimate] = []
    deff = find_design_effect(table)
    for source in (None, *table.error_sources):
        ratings = table.where(table.reference >= 0) if source is None else table.against_unperturbed(source)
        args = {} if source is None else {"source": source}
        rows += _of_all(ratings, args, deff)
        for name in [table.raters[index] for index in np.unique(table.rater)]:
            rows += _of_rater(ratings.of_rater(name), {"rater": name, **args})
    return rows


def panel(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Return all results on detection in a fixed order: the areas, signal detection, and the mean areas for new raters."""
    rows = auc.panel(table, seed, resamples) + detection(table)
    for source in (None, *table.error_sources):
        rows += mrmc.mean_auc(table, source)
    if not len(table):
        rows = [row._replace(reason=proportions.NO_RATINGS) for row in rows]
    return [row._replace(reference=table.reference_name) for row in rows]


def find_design_effect(table: Ratings) -> float:
    """Return the mean design effect of the shares of called items over sources, for shares that have none of their own.

    One rater has no clusters: 1.
    """
    if len(np.unique(table.rater)) == 1:
        return 1.0
    is_called = (table.verdict == 0).astype(np.float64)
    sizes, effects = [], []
    for index in np.unique(table.source[table.reference >= 0]):
        in_source = table.source == index
        deff = proportions.clustered(is_called[in_source], table.item[in_source], table.rater[in_source]).deff
        # NaN where all verdicts of a source are alike: it has no design effect of its own.
        if np.isfinite(deff):
            sizes.append(int(in_source.sum()))
            effects.append(max(1.0, deff))
    return float(np.average(effects, weights=sizes)) if effects else 1.0


def _of_all(own: Ratings, args: Mapping[str, str], deff: float) -> Iterator[Estimate]:
    yield from _shares(own, args, deff)
    counts = outcomes(own)
    n = {**own.n, **counts.counts}
    for stat, compute in ((D_PRIME, d_prime), (CRITERION, criterion)):
        if reason := _why(own, counts):
            yield estimate(stat, None, n, args=args, reason=reason)
        else:
            # Without an interval: pooled rates mix the criteria of different raters.
            pooled_value = compute(counts.hit_rate, counts.false_alarm_rate)
            yield estimate(stat, pooled_value, n, args=args, reason=auc.POOLED)
    for stat in (D_PRIME, CRITERION):
        yield _mean(own, counts, stat, args)


def _mean(own: Ratings, found: Outcomes, stat: str, args: Mapping[str, str]) -> Estimate:
    """Return the mean of the raters' own values; its interval comes from their differences and the items they share (mrmc)."""
    rater_columns, dropped = columns(own, stat)
    n = {**own.n, **found.counts, "raters_used": len(rater_columns), "raters_dropped": dropped}
    mean_args = {**args, **auc.OVER_RATERS}
    undefined_reason = _why(own, found) or mrmc.explain_no_rater(own.reference_name)
    if len(rater_columns) != 1:
        row = next(mrmc.mean_of(stat, rater_columns, n, mean_args, within=ANYWHERE, nothing=undefined_reason))
        return _withheld(row, found, rater_columns)
    interval = _interval(stat, outcomes(own.of_rater(rater_columns[0].rater)), rater_columns[0].value)
    return estimate(
        stat, rater_columns[0].value, n, args=mean_args, interval=interval, method="normal", reason=mrmc.ONE_RATER
    )


def _withheld(row: Estimate, found: Outcomes, each: Sequence[Column]) -> Estimate:
    """Return the row, without its interval where the correction of the rates moves the mean far."""
    if row.half_width is None:
        return row
    shift = find_shift(row.stat, found, each)
    # With few misses or false alarms the correction dominates, and no interval reached its coverage.
    if abs(shift) <= MOST_SHIFT * row.half_width:
        return row
    shift_reason = explain_shift(shift, "mean")
    return row._replace(low=None, high=None, method="", reason="; ".join(filter(None, (shift_reason, row.reason))))


def explain_shift(shift: float, of: str) -> str:
    """Return why a mean or a difference has no interval where the correction of the rates moves it this far."""
    return f"too few of some outcomes: the correction of the rates moves the {of} by about {shift:+.2f}, so no interval is reliable"


def find_shift(stat: str, found: Outcomes, each: Sequence[Column]) -> float:
    """Return how far the log-linear correction would move the mean over raters if each had the pooled rates."""
    compute = d_prime if stat == D_PRIME else criterion
    rates = (found.hit_rate, found.false_alarm_rate)
    sizes = [(len(column.positive_case), len(column.negative_case)) for column in each]
    corrected = [
        [(size * rate + 0.5) / (size + 1) for size, rate in zip(rater_sizes, rates, strict=True)]
        for rater_sizes in sizes
    ]
    return float(np.mean([compute(*rater_sizes) for rater_sizes in corrected])) - compute(*rates)


def _of_rater(own: Ratings, args: Mapping[str, str]) -> Iterator[Estimate]:
    yield from _shares(own, args)
    counts = outcomes(own)
    n = {**own.n, **counts.counts}
    for stat, compute in ((D_PRIME, d_prime), (CRITERION, criterion)):
        if reason := _why(own, counts):
            yield estimate(stat, None, n, args=args, reason=reason)
            continue
        own_value = compute(counts.hit_rate, counts.false_alarm_rate)
        interval = _interval(stat, counts, own_value)
        yield estimate(stat, own_value, n, args=args, interval=interval, method="normal")


def _interval(stat: str, found: Outcomes, value: float) -> tuple[float, float]:
    # c is half of a sum of the two z values of d', so its variance is a quarter.
    return around(value, _variance(found) * (1 if stat == D_PRIME else 0.25), within=ANYWHERE)


def _density(share: float) -> float:
    """Return the density of the standard normal distribution at the quantile of this share."""
    return math.exp(-(find_normal_quantile(share) ** 2) / 2) / math.sqrt(2 * math.pi)


def _variance(found: Outcomes) -> float:
    """Return the variance of one rater's d': H(1-H)/(m phi(z(H))^2) + F(1-F)/(n phi(z(F))^2) (Gourevitch and Galanter 1967,
    Psychometrika 32:25), with the corrected rates.
    """
    total = 0.0
    sizes = (found.hits + found.misses, found.false_alarms + found.correct_rejections)
    for rate, size in zip((found.hit_rate, found.false_alarm_rate), sizes, strict=True):
        total += rate * (1 - rate) / (size * _density(rate) ** 2)
    return float(total)


def _shares(own: Ratings, args: Mapping[str, str], deff: float = 1.0) -> Iterator[Estimate]:
    yield _share(SENSITIVITY, own.where(own.reference == 0), 0, args, deff)
    # Unperturbed items are the same for every error source.
    if "source" not in args:
        yield _share(SPECIFICITY, own.where(own.reference == 1), 1, args, deff)


def _share(stat: str, own: Ratings, verdict: int, args: Mapping[str, str], deff: float) -> Estimate:
    """Return the share of this verdict, the correct one for these items, with the clustered interval; `deff` is used where all verdicts are alike."""
    answers = (own.verdict == verdict).astype(np.float64)
    n = {**own.n, "k": int(answers.sum())}
    if not len(own):
        return estimate(stat, None, n, args=args, reason=explain_missing(own.reference_name, verdict))
    interval = proportions.clustered(answers, own.item, own.rater, deff=deff)
    reason = interval.reason or (_alike(deff) if np.isnan(interval.deff) else "")
    return estimate(
        stat, answers.mean(), n, args=args, interval=interval.interval, method=interval.method, reason=reason
    )


def _alike(deff: float) -> str:
    assumption = (
        f"uses the design effect of the sources, {deff:.1f}" if deff > 1 else "treats the ratings as independent"
    )
    return f"all verdicts are alike; the interval {assumption}"


def _why(own: Ratings, found: Outcomes) -> str:
    return found.explain(own.reference_name) if len(own) else explain_missing(own.reference_name, -1)


def columns(own: Ratings, stat: str) -> tuple[list[Column], int]:
    """Return each rater's d' or c with the influence of each item on it, for mrmc, and how many raters lack a class.

    The influence is the first derivative of z, multiplied by the deviation of the item's call from the rate.
    """
    rater_columns, dropped = [], 0
    for index in np.unique(own.rater):
        rater_ratings = own.where(own.rater == index)
        counts = outcomes(rater_ratings)
        if counts.explain(own.reference_name):
            dropped += 1
            continue
        rates = (counts.hit_rate, counts.false_alarm_rate)
        value, signs = (d_prime(*rates), (1, -1)) if stat == D_PRIME else (criterion(*rates), (-0.5, -0.5))
        influences = []
        for reference, rate, sign in zip((0, 1), rates, signs, strict=True):
            is_called = (rater_ratings.verdict[rater_ratings.reference == reference] == 0).astype(np.float64)
            influences.append(sign * (is_called - is_called.mean()) / _density(rate))
        planted_items, unperturbed_items = (
            rater_ratings.item[rater_ratings.reference == 0],
            rater_ratings.item[rater_ratings.reference == 1],
        )
        rater_columns.append(
            Column(own.raters[index], value, planted_items, influences[0], unperturbed_items, influences[1])
        )
    return rater_columns, dropped
