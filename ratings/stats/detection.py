"""Estimate the detection of errors: sensitivity, specificity, d' and criterion c, over all raters and for each rater.

An item with a planted error (reference 0) that is rated not plausible (verdict 0) is a hit; an unperturbed item that is
rated not plausible is a false alarm. The rates from which d' and c are computed always have the log-linear correction
(h + 0.5) / (n + 1) of Hautus (1995, Behavior Research Methods 27:46).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratings.stats import areas, mrmc, proportions
from ratings.stats.estimates import Estimate, build_estimate, normal_quantile
from ratings.stats.mrmc import UNBOUNDED, RaterColumn
from ratings.stats.ratings_table import Ratings, explain_missing
from ratings.stats.resampling import compute_symmetric_interval
from ratings.stats.u_statistic import estimate_u_statistic
from wetbench_site.text import natural_sort_key

SENSITIVITY, SPECIFICITY = "sensitivity", "specificity"
D_PRIME, CRITERION = "dprime", "criterion_c"
MAX_SHIFT = 0.15  # greatest shift of an estimate by the correction, as a share of the interval's half-width


class Outcomes(NamedTuple):
    """Numbers of ratings of planted items (hits, misses) and of unperturbed items (the other two)."""

    hits: int
    misses: int
    false_alarms: int
    correct_rejections: int

    @property
    def hit_rate(self) -> float:
        """The share of planted items judged to have an error, corrected, so never 0 or 1."""
        return (self.hits + 0.5) / (self.hits + self.misses + 1)

    @property
    def false_alarm_rate(self) -> float:
        """The share of unperturbed items judged to have an error, corrected, so never 0 or 1."""
        return (self.false_alarms + 0.5) / (self.false_alarms + self.correct_rejections + 1)

    @property
    def rates(self) -> tuple[float, float]:
        return self.hit_rate, self.false_alarm_rate

    def explain_undefined(self, reference_name: str) -> str:
        """Return why d' is undefined; "" if it is defined."""
        if not self.hits + self.misses:
            return explain_missing(reference_name, 0)
        return "" if self.false_alarms + self.correct_rejections else explain_missing(reference_name, 1)


def count_outcomes(table: Ratings) -> Outcomes:
    """Return the outcomes in a binary table; ratings with an unknown reference are left out."""
    is_called, is_planted, is_unperturbed = table.verdict == 0, table.reference == 0, table.reference == 1
    return Outcomes(
        int((is_called & is_planted).sum()),
        int((~is_called & is_planted).sum()),
        int((is_called & is_unperturbed).sum()),
        int((~is_called & is_unperturbed).sum()),
    )


def compute_d_prime(hit_rate: float, false_alarm_rate: float) -> float:
    """Return d' = z(H) - z(F) for the hit rate H and the false alarm rate F, both strictly between 0 and 1."""
    return normal_quantile(hit_rate) - normal_quantile(false_alarm_rate)


def compute_criterion(hit_rate: float, false_alarm_rate: float) -> float:
    """Return the criterion c = -(z(H) + z(F)) / 2. A rater with c above 0 is reluctant to report errors."""
    return -(normal_quantile(hit_rate) + normal_quantile(false_alarm_rate)) / 2


COMPUTE = {D_PRIME: compute_d_prime, CRITERION: compute_criterion}


def estimate_detection(table: Ratings, *, show_unstable: bool = False) -> list[Estimate]:
    """Return sensitivity, d' and c for all error sources and each, pooled, by rater and as means; specificity once."""
    if not table.is_binary:
        return []
    rows: list[Estimate] = []
    deff = compute_design_effect(table)
    for source in (None, *table.error_sources):
        ratings, args = table.select_comparison(source)
        rows += _estimate_all_raters(ratings, args, deff, show_unstable)
        for name in [table.raters[index] for index in np.unique(table.rater)]:
            rows += _estimate_rater(ratings.select_rater(name), {"rater": name, **args})
    return rows


def summarise_detection(table: Ratings, seed: int, resamples: int, *, show_unstable: bool = False) -> list[Estimate]:
    """Return all results on detection: areas, signal detection measures, mean areas over raters."""
    rows = areas.estimate_areas(table, seed, resamples, show_unstable=show_unstable)
    rows += estimate_detection(table, show_unstable=show_unstable)
    for source in (None, *table.error_sources):
        rows += mrmc.estimate_mean_auc(table, source, show_unstable=show_unstable)
        rows += estimate_u_statistic(table, source, show_unstable=show_unstable)
    if not len(table):
        rows = [row._replace(reason=proportions.NO_RATINGS) for row in rows]
    return [row._replace(reference=table.reference_name) for row in rows]


def compute_design_effect(table: Ratings) -> float:
    """Return the mean design effect over sources of the share rated not plausible; 1 for one rater."""
    if len(np.unique(table.rater)) == 1:
        return 1.0
    is_called = (table.verdict == 0).astype(np.float64)
    sizes, effects = [], []
    for index in np.unique(table.source[table.reference >= 0]):
        in_source = table.source == index
        deff = proportions.compute_clustered_interval(
            is_called[in_source], table.item[in_source], table.rater[in_source]
        ).deff
        # The design effect is NaN if all verdicts on a source are alike.
        if np.isfinite(deff):
            sizes.append(int(in_source.sum()))
            effects.append(max(1.0, deff))
    return float(np.average(effects, weights=sizes)) if effects else 1.0


def _estimate_all_raters(
    ratings: Ratings, args: Mapping[str, str], deff: float, show_unstable: bool
) -> Iterator[Estimate]:
    # There is no interval for all raters, because pooled rates mix the criteria of different raters.
    yield from _estimate_rater(ratings, args, deff, is_one_rater=False)
    for stat in COMPUTE:
        yield _estimate_mean(ratings, count_outcomes(ratings), stat, args, show_unstable)


def _estimate_mean(
    ratings: Ratings, counts: Outcomes, stat: str, args: Mapping[str, str], show_unstable: bool
) -> Estimate:
    """Return the mean of d' or c over raters; the interval allows for raters' differences and shared items."""
    columns, dropped = build_signal_columns(ratings, stat)
    n = {**ratings.sample_sizes, **counts._asdict(), "raters_used": len(columns), "raters_dropped": dropped}
    mean_args = {**args, **areas.OVER_RATERS}
    if len(columns) == 1:
        own_counts = count_outcomes(ratings.select_rater(columns[0].rater))
        interval = _compute_normal_interval(stat, own_counts, columns[0].value)
        return build_estimate(stat, columns[0].value, n, mean_args, interval, "normal", mrmc.ONE_RATER)
    undefined = _explain_no_d_prime(ratings, counts) or mrmc.explain_no_rater(ratings.reference_name)
    options: Any = {"within": UNBOUNDED, "undefined_reason": undefined, "show_unstable": show_unstable}
    row = next(mrmc.build_mean_rows(stat, columns, n, mean_args, **options))
    # With few misses or false alarms the correction dominates the estimate, and no interval reached 95% coverage.
    if row.half_width is None or abs(shift := compute_shift(stat, counts, columns)) <= MAX_SHIFT * row.half_width:
        return row
    reason = "; ".join(filter(None, (explain_shift(shift, "mean"), row.reason)))
    row = row._replace(reason=reason, withheld=True)
    return row if show_unstable else row._replace(low=None, high=None, method="")


def explain_shift(shift: float, quantity: str) -> str:
    """Return why a mean or a difference has no interval if the correction of the rates changes it by `shift`."""
    return f"too few of some outcomes: the correction of the rates moves the {quantity} by about {shift:+.2f}, so no interval is reliable"


def compute_shift(stat: str, counts: Outcomes, rater_columns: Sequence[RaterColumn]) -> float:
    """Return how much the log-linear correction would change the mean over raters if all had the pooled rates."""
    compute, (hit_rate, alarm_rate) = COMPUTE[stat], counts.rates
    sizes = [(len(column.positive_case), len(column.negative_case)) for column in rater_columns]
    corrected = [((m * hit_rate + 0.5) / (m + 1), (n * alarm_rate + 0.5) / (n + 1)) for m, n in sizes]
    return float(np.mean([compute(*rates) for rates in corrected])) - compute(*counts.rates)


def _estimate_rater(
    ratings: Ratings, args: Mapping[str, str], deff: float = 1.0, is_one_rater: bool = True
) -> Iterator[Estimate]:
    yield from _estimate_shares(ratings, args, deff)
    counts = count_outcomes(ratings)
    n = {**ratings.sample_sizes, **counts._asdict()}
    undefined = _explain_no_d_prime(ratings, counts)
    for stat, compute in COMPUTE.items():
        value = None if undefined else compute(*counts.rates)
        interval = _compute_normal_interval(stat, counts, value) if is_one_rater and value is not None else None
        reason = undefined or ("" if is_one_rater else areas.POOLED)
        yield build_estimate(stat, value, n, args, interval, "normal", reason)


def _compute_normal_interval(stat: str, counts: Outcomes, value: float) -> tuple[float, float]:
    """Return one rater's interval, V(d') = H(1-H)/(m phi(z(H))^2) + F(1-F)/(n phi(z(F))^2)."""
    # Gourevitch and Galanter 1967, Psychometrika 32:25, for m planted and n unperturbed items.
    sizes = (counts.hits + counts.misses, counts.false_alarms + counts.correct_rejections)
    terms = zip(counts.rates, sizes, strict=True)
    variance = sum(rate * (1 - rate) / (size * _compute_normal_density(rate) ** 2) for rate, size in terms)
    # c is half of the sum of the two z values whose difference is d', so its variance is a quarter of that of d'.
    return compute_symmetric_interval(value, variance * (1 if stat == D_PRIME else 0.25), within=UNBOUNDED)


def _compute_normal_density(share: float) -> float:
    """Return the density of the standard normal distribution at the quantile of this share."""
    return math.exp(-(normal_quantile(share) ** 2) / 2) / math.sqrt(2 * math.pi)


def _estimate_shares(ratings: Ratings, args: Mapping[str, str], deff: float = 1.0) -> Iterator[Estimate]:
    yield _estimate_share(SENSITIVITY, ratings.select_ratings(ratings.reference == 0), 0, args, deff)
    # All error sources are compared with the same unperturbed items, so specificity is given only once.
    if "source" not in args:
        yield _estimate_share(SPECIFICITY, ratings.select_ratings(ratings.reference == 1), 1, args, deff)


def _estimate_share(stat: str, ratings: Ratings, verdict: int, args: Mapping[str, str], deff: float) -> Estimate:
    """Return the share of ratings with this verdict, the correct one for these items. `deff`: if all are alike."""
    answers = (ratings.verdict == verdict).astype(np.float64)
    n = {**ratings.sample_sizes, "k": int(answers.sum())}
    if not len(ratings):
        return build_estimate(stat, None, n, args=args, reason=explain_missing(ratings.reference_name, verdict))
    interval = proportions.compute_clustered_interval(answers, ratings.item, ratings.rater, deff=deff)
    reason = interval.reason or (proportions.explain_constant(deff, "sources") if np.isnan(interval.deff) else "")
    return build_estimate(stat, answers.mean(), n, args, interval.interval, interval.method, reason)


def _explain_no_d_prime(ratings: Ratings, counts: Outcomes) -> str:
    name = ratings.reference_name
    return counts.explain_undefined(name) if len(ratings) else explain_missing(name, -1)


def build_signal_columns(ratings: Ratings, stat: str) -> tuple[list[RaterColumn], int]:
    """Return each rater's d' or c with the influence of each item on it (see mrmc), and how many raters lack a class of items.

    The influence of an item is the deviation of its verdict (1 if rated not plausible, else 0) from the rater's rate, times
    the derivative of d' or c with respect to that rate.
    """
    rater_columns, dropped = [], 0
    signs = (1, -1) if stat == D_PRIME else (-0.5, -0.5)
    for index in np.unique(ratings.rater):
        rater_ratings = ratings.select_ratings(ratings.rater == index)
        counts = count_outcomes(rater_ratings)
        if counts.explain_undefined(ratings.reference_name):
            dropped += 1
            continue
        columns: list[Any] = []
        for reference, rate, sign in zip((0, 1), counts.rates, signs, strict=True):
            in_class = rater_ratings.reference == reference
            is_called = (rater_ratings.verdict[in_class] == 0).astype(np.float64)
            influence = sign * (is_called - is_called.mean()) / _compute_normal_density(rate)
            columns += [rater_ratings.item[in_class], influence]
        rater_columns.append(RaterColumn(ratings.raters[index], COMPUTE[stat](*counts.rates), *columns))
    return rater_columns, dropped


LOCALISATION = "localisation"


class CalledError(NamedTuple):
    """An item with an error, rated not plausible. `localised`: was its row marked; None if not asked or unknown."""

    item: str
    rater: str
    source: str
    localised: bool | None


def estimate_localisation(rows: Iterable[CalledError]) -> list[Estimate]:
    """Return the share of reported errors that were localised, over all, by source, by rater, and by both."""
    ordered = sorted(rows, key=lambda row: (row.item, natural_sort_key(row.rater)))
    sources = sorted({row.source for row in ordered})
    groups: list[dict[str, str]] = [{}, *({"source": source} for source in sources)]
    for rater in sorted({row.rater for row in ordered}, key=natural_sort_key):
        own_sources = {row.source for row in ordered if row.rater == rater}
        groups += [{"rater": rater}, *({"rater": rater, "source": name} for name in sources if name in own_sources)]
    return [
        _estimate_localised_share([row for row in ordered if row._asdict().items() >= args.items()], args)
        for args in groups
    ]


def _estimate_localised_share(rows: Sequence[CalledError], args: Mapping[str, str]) -> Estimate:
    """Return the share of localised errors, items and raters as clusters; `untold` counts `localised` None."""
    known = [row for row in rows if row.localised is not None]
    item, rater = ([row.item for row in known], [row.rater for row in known])
    k, n_untold = sum(bool(row.localised) for row in known), len(rows) - len(known)
    n = {"items": len(set(item)), "raters": len(set(rater)), "ratings": len(known), "k": k, "untold": n_untold}
    if not known:
        reason = "no called error has marks that can be compared" if rows else "no error was called implausible"
        return build_estimate(LOCALISATION, None, n, args=args, reason=reason)
    answers = np.array([float(bool(row.localised)) for row in known])
    # Clusters are identified by numbers; any numbering of the items and raters will do.
    codes = [np.unique(names, return_inverse=True)[1] for names in (item, rater)]
    interval = proportions.compute_clustered_interval(answers, codes[0], codes[1])
    constant_reason = "all are alike; the interval treats the ratings as independent" if np.isnan(interval.deff) else ""
    reason = interval.reason or constant_reason
    return build_estimate(LOCALISATION, answers.mean(), n, args, interval.interval, interval.method, reason)
