"""Errors as signals: sensitivity, specificity, d' and criterion, over all raters and for each.

An item with a planted error (reference 0) called implausible (verdict 0) is a hit, an unperturbed item called
implausible a false alarm. Rates of
d' and c are corrected as Hautus (1995, Behavior Research Methods 27:46) says, always: (h + 0.5) / (n + 1).
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
MOST_SHIFT = 0.15  # of its half-width: how far the correction of the rates may move what an interval is around


class Outcomes(NamedTuple):
    """How many planted items were called implausible or not, and how many unperturbed ones."""

    hits: int
    misses: int
    false_alarms: int
    correct_rejections: int

    @property
    def hit_rate(self) -> float:
        """Of planted items, log-linear: never 0 or 1."""
        return (self.hits + 0.5) / (self.hits + self.misses + 1)

    @property
    def false_alarm_rate(self) -> float:
        """Of unperturbed items, log-linear: never 0 or 1."""
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
    """Counts of a binary table; ratings whose reference is not known are left out."""
    called, wrong, right = table.verdict == 0, table.reference == 0, table.reference == 1
    return Outcomes(
        int((called & wrong).sum()),
        int((~called & wrong).sum()),
        int((called & right).sum()),
        int((~called & right).sum()),
    )


def d_prime(hit_rate: float, false_alarm_rate: float) -> float:
    """z(H) - z(F); the rates strictly between 0 and 1."""
    return find_normal_quantile(hit_rate) - find_normal_quantile(false_alarm_rate)


def criterion(hit_rate: float, false_alarm_rate: float) -> float:
    """-(z(H) + z(F)) / 2; above 0: reluctant to call something an error."""
    return -(find_normal_quantile(hit_rate) + find_normal_quantile(false_alarm_rate)) / 2


def detection(table: Ratings) -> list[Estimate]:
    """Sensitivity, d' and c of all error sources together and of each, of all raters, of their mean, and of each
    rater.

    Specificity does not depend on the error source and has no such args. Tables that are not binary have none.
    """
    if not table.binary:
        return []
    rows: list[Estimate] = []
    deff = find_design_effect(table)
    for source in (None, *table.error_sources):
        own = table.where(table.reference >= 0) if source is None else table.against_unperturbed(source)
        args = {} if source is None else {"source": source}
        rows += _of_all(own, args, deff)
        for name in [table.raters[at] for at in np.unique(table.rater)]:
            rows += _of_rater(own.of_rater(name), {"rater": name, **args})
    return rows


def panel(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Everything about detection in a fixed order: the areas, signal detection, and the mean areas for new raters."""
    rows = auc.panel(table, seed, resamples) + detection(table)
    for source in (None, *table.error_sources):
        rows += mrmc.mean_auc(table, source)
    if not len(table):
        rows = [row._replace(reason=proportions.NO_RATINGS) for row in rows]
    return [row._replace(reference=table.reference_name) for row in rows]


def find_design_effect(table: Ratings) -> float:
    """What the clusters cost the shares of called items, a mean over sources; for shares whose own is not to be had.
    One rater has no clusters: 1."""
    if len(np.unique(table.rater)) == 1:
        return 1.0
    called = (table.verdict == 0).astype(np.float64)
    sizes, found = [], []
    for at in np.unique(table.source[table.reference >= 0]):
        own = table.source == at
        deff = proportions.clustered(called[own], table.item[own], table.rater[own]).deff
        if np.isfinite(deff):
            sizes.append(int(own.sum()))
            found.append(max(1.0, deff))
    return float(np.average(found, weights=sizes)) if found else 1.0


def _of_all(own: Ratings, args: Mapping[str, str], deff: float) -> Iterator[Estimate]:
    yield from _shares(own, args, deff)
    found = outcomes(own)
    n = {**own.n, **found.counts}
    for stat, value in ((D_PRIME, d_prime), (CRITERION, criterion)):
        if reason := _why(own, found):
            yield estimate(stat, None, n, args=args, reason=reason)
        else:
            pooled = value(found.hit_rate, found.false_alarm_rate)
            yield estimate(stat, pooled, n, args=args, reason=auc.POOLED)
    for stat in (D_PRIME, CRITERION):
        yield _mean(own, found, stat, args)


def _mean(own: Ratings, found: Outcomes, stat: str, args: Mapping[str, str]) -> Estimate:
    """The mean of the raters' own values, by mrmc: their differences and the items they share make the interval."""
    each, dropped = columns(own, stat)
    n = {**own.n, **found.counts, "raters_used": len(each), "raters_dropped": dropped}
    mean_args = {**args, **auc.OVER_RATERS}
    nothing = _why(own, found) or mrmc.explain_no_rater(own.reference_name)
    if len(each) != 1:
        row = next(mrmc.mean_of(stat, each, n, mean_args, within=ANYWHERE, nothing=nothing))
        return _withheld(row, found, each)
    interval = _interval(stat, outcomes(own.of_rater(each[0].rater)), each[0].value)
    return estimate(stat, each[0].value, n, args=mean_args, interval=interval, method="normal", reason=mrmc.ONE_RATER)


def _withheld(row: Estimate, found: Outcomes, each: Sequence[Column]) -> Estimate:
    """Without its interval where the correction of the rates moves the mean far: none was found to hold there."""
    if row.half_width is None:
        return row
    shift = find_shift(row.stat, found, each)
    if abs(shift) <= MOST_SHIFT * row.half_width:
        return row
    why = explain_shift(shift, "mean")
    return row._replace(low=None, high=None, method="", reason="; ".join(filter(None, (why, row.reason))))


def explain_shift(shift: float, of: str) -> str:
    """Return why there is no interval around a mean or a difference that the correction of the rates moves so far."""
    return f"too few of some outcomes: the correction of the rates moves the {of} by about {shift:+.2f}, so no interval holds"


def find_shift(stat: str, found: Outcomes, each: Sequence[Column]) -> float:
    """How far the log-linear correction would move the mean over raters if each called as all do together."""
    value = d_prime if stat == D_PRIME else criterion
    rates = (found.hit_rate, found.false_alarm_rate)
    sizes = [(len(one.positive_case), len(one.negative_case)) for one in each]
    moved = [[(size * rate + 0.5) / (size + 1) for size, rate in zip(own, rates, strict=True)] for own in sizes]
    return float(np.mean([value(*own) for own in moved])) - value(*rates)


def _of_rater(own: Ratings, args: Mapping[str, str]) -> Iterator[Estimate]:
    yield from _shares(own, args)
    found = outcomes(own)
    n = {**own.n, **found.counts}
    for stat, value in ((D_PRIME, d_prime), (CRITERION, criterion)):
        if reason := _why(own, found):
            yield estimate(stat, None, n, args=args, reason=reason)
            continue
        own_value = value(found.hit_rate, found.false_alarm_rate)
        interval = _interval(stat, found, own_value)
        yield estimate(stat, own_value, n, args=args, interval=interval, method="normal")


def _interval(stat: str, found: Outcomes, value: float) -> tuple[float, float]:
    return around(value, _variance(found) * (1 if stat == D_PRIME else 0.25), within=ANYWHERE)


def _density(share: float) -> float:
    """Return the density of the normal law at the quantile of this share."""
    return math.exp(-(find_normal_quantile(share) ** 2) / 2) / math.sqrt(2 * math.pi)


def _variance(found: Outcomes) -> float:
    """Variance of one rater's d': H(1-H)/(m phi(z(H))^2) + F(1-F)/(n phi(z(F))^2) (Gourevitch and Galanter 1967,
    Psychometrika 32:25), with the corrected rates."""
    total = 0.0
    sizes = (found.hits + found.misses, found.false_alarms + found.correct_rejections)
    for rate, size in zip((found.hit_rate, found.false_alarm_rate), sizes, strict=True):
        total += rate * (1 - rate) / (size * _density(rate) ** 2)
    return float(total)


def _shares(own: Ratings, args: Mapping[str, str], deff: float = 1.0) -> Iterator[Estimate]:
    yield _share(SENSITIVITY, own.where(own.reference == 0), 0, args, deff)
    if "source" not in args:
        yield _share(SPECIFICITY, own.where(own.reference == 1), 1, args, deff)


def _share(stat: str, own: Ratings, verdict: int, args: Mapping[str, str], deff: float) -> Estimate:
    """Share of this verdict, which is right of these items, with the cluster interval of proportions.clustered; all alike: with this design effect."""
    answers = (own.verdict == verdict).astype(np.float64)
    n = {**own.n, "k": int(answers.sum())}
    if not len(own):
        return estimate(stat, None, n, args=args, reason=explain_missing(own.reference_name, verdict))
    found = proportions.clustered(answers, own.item, own.rater, deff=deff)
    reason = found.reason or (_alike(deff) if np.isnan(found.deff) else "")
    return estimate(stat, answers.mean(), n, args=args, interval=found.interval, method=found.method, reason=reason)


def _alike(deff: float) -> str:
    taken = f"the design effect of the sources, {deff:.1f}" if deff > 1 else "the ratings as independent"
    return f"all verdicts are alike; the interval takes {taken}"


def _why(own: Ratings, found: Outcomes) -> str:
    return found.explain(own.reference_name) if len(own) else explain_missing(own.reference_name, -1)


def columns(own: Ratings, stat: str) -> tuple[list[Column], int]:
    """Each rater's d' or c and how each item moved it (the first derivative of z), for mrmc; raters without both
    classes are dropped and counted."""
    found, dropped = [], 0
    for at in np.unique(own.rater):
        theirs = own.where(own.rater == at)
        counts = outcomes(theirs)
        if counts.explain(own.reference_name):
            dropped += 1
            continue
        rates = (counts.hit_rate, counts.false_alarm_rate)
        value, signs = (d_prime(*rates), (1, -1)) if stat == D_PRIME else (criterion(*rates), (-0.5, -0.5))
        moved = []
        for reference, rate, sign in zip((0, 1), rates, signs, strict=True):
            called = (theirs.verdict[theirs.reference == reference] == 0).astype(np.float64)
            moved.append(sign * (called - called.mean()) / _density(rate))
        wrong, right = theirs.item[theirs.reference == 0], theirs.item[theirs.reference == 1]
        found.append(Column(own.raters[at], value, wrong, moved[0], right, moved[1]))
    return found, dropped
