"""Estimate four different areas under ROC curves of expert ratings.

auc_confidence_correct (0.609 in the paper): the confidence of correct verdicts against that of incorrect verdicts, all
ratings together. type2_auc: the same area for one rater. auc_unsigned_truth: the confidence in ratings of unperturbed
items against that in ratings of planted items, regardless of the verdict. auc_signed: the signed rating (+confidence if
the verdict is 1, -confidence if it is 0) of unperturbed items against that of planted items; mrmc.estimate_mean_auc
returns its mean over raters. A verdict is correct if it equals the reference: an unperturbed transition counts as
plausible, although its simulator can have made a mistake.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ratings.stats import mrmc, resampling
from ratings.stats.estimates import Estimate, build_estimate, build_generator
from ratings.stats.ratings_table import Floats, Ints, Ratings, explain_missing

CONFIDENCE_CORRECT = "auc_confidence_correct"
UNSIGNED_TRUTH = "auc_unsigned_truth"
SIGNED = "auc_signed"
TYPE2 = "type2_auc"

OVER_RATERS = {"mean_over": "raters"}
POOLED = "ratings of one item and of one rater go together; the mean over raters has an interval"
ITEMS_ONLY = "fewer than three raters: only items are resampled, for these raters"
MAX_CELLS = 4_000_000  # counts in memory at once while resampling: 32 MB


def estimate_areas(table: Ratings, seed: int, resamples: int, *, show_unstable: bool = False) -> list[Estimate]:
    """Return all areas of a table in a fixed order; the list is empty if the table is not binary.

    `show_unstable` also gives the intervals of pooled areas of several raters, and of mean areas of two raters.
    """
    if not table.is_binary:
        return []
    sources = (None, *table.error_sources)
    rows = [estimate_confidence_correct(table, seed, resamples)]
    rows += [row for source in sources for row in estimate_unsigned_truth(table, source, show_unstable)]
    rows += [estimate_signed(table, source, show_unstable) for source in sources]
    return rows + estimate_type2(table, seed, resamples)


def estimate_confidence_correct(table: Ratings, seed: int, resamples: int) -> Estimate:
    """Return auc_confidence_correct with its two-way bootstrap interval; below three raters, items are resampled."""
    judged, n = _select_judged(table)
    area = mrmc.estimate_area(judged.confidence, judged.is_correct)
    if area.value is None or area.interval is None:
        return build_estimate(CONFIDENCE_CORRECT, area.value, n, reason=_explain_no_area(table, judged) or area.reason)
    return _estimate_resampled(CONFIDENCE_CORRECT, area.value, n, {}, judged, seed, resamples)


def estimate_type2(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Return type2_auc of each rater, then the mean over raters who were both right and wrong."""
    judged, n_judged = _select_judged(table)
    rows = []
    for name in [table.raters[index] for index in np.unique(table.rater)]:
        ratings = table.select_rater(name)
        own_judged, n = _select_judged(ratings)
        area = mrmc.estimate_area(own_judged.confidence, own_judged.is_correct)
        reason = _explain_no_area(ratings, own_judged) or area.reason
        rows.append(build_estimate(TYPE2, area.value, n, {"rater": name}, area.interval, area.method, reason))
    values = [row.value for row in rows if row.value is not None]
    n = {**n_judged, "raters_used": len(values), "raters_dropped": len(rows) - len(values)}
    if not values:
        reason = _explain_no_area(table, judged) or "no rater was both right and wrong"
        return [*rows, build_estimate(TYPE2, None, n, OVER_RATERS, reason=reason)]
    return [*rows, _estimate_resampled(TYPE2, float(np.mean(values)), n, OVER_RATERS, judged, seed, resamples)]


def estimate_unsigned_truth(table: Ratings, source: str | None = None, show_unstable: bool = False) -> list[Estimate]:
    """Return auc_unsigned_truth (`source` None: all errors): pooled, then the mean over raters, new and these."""
    ratings, args = table.select_comparison(source)
    pooled = _estimate_pooled(UNSIGNED_TRUTH, ratings, ratings.confidence, args, show_unstable)
    mean_args = {**args, **OVER_RATERS}
    means = mrmc.estimate_mean_area(UNSIGNED_TRUTH, ratings, ratings.confidence, mean_args, show_unstable=show_unstable)
    return [pooled, *means]


def estimate_signed(table: Ratings, source: str | None = None, show_unstable: bool = False) -> Estimate:
    """Return auc_signed, pooled over ratings; without `source` it mixes easy and difficult errors."""
    ratings, args = table.select_comparison(source)
    return _estimate_pooled(SIGNED, ratings, ratings.signed_ratings, args, show_unstable)


def _estimate_pooled(
    stat: str, ratings: Ratings, scores: Floats, args: Mapping[str, str], show_unstable: bool
) -> Estimate:
    """Return one area for all ratings together, with an interval only if all ratings are by one rater."""
    has_score = np.isfinite(scores)
    scored_ratings = ratings.select_ratings(has_score)
    area = mrmc.estimate_area(scores[has_score], scored_ratings.reference == 1)
    n = {**scored_ratings.sample_sizes, "positives": area.positives, "negatives": area.negatives}
    if area.value is None:
        return build_estimate(stat, None, n, args=args, reason=mrmc.explain_no_area(ratings, scores))
    # DeLong's interval treats ratings as independent; for several raters its coverage was 73 to 86 % (bench/results/coverage.md).
    if n["raters"] > 1:
        interval = area.interval if show_unstable else None
        row = build_estimate(stat, area.value, n, args, interval, area.method, POOLED)
        return row._replace(withheld=area.interval is not None)
    return build_estimate(stat, area.value, n, args, area.interval, area.method, area.reason)


def _select_judged(table: Ratings) -> tuple[Ratings, Mapping[str, int]]:
    """Return the ratings that have a known reference and a confidence, and their sample sizes."""
    judged = table.select_ratings((table.reference >= 0) & np.isfinite(table.confidence))
    correct = int(judged.is_correct.sum())
    return judged, {**judged.sample_sizes, "correct": correct, "incorrect": len(judged) - correct}


def _explain_no_area(table: Ratings, judged: Ratings) -> str:
    """Return why there is no area for the confidence of correct against incorrect verdicts; "" if there is one."""
    if not (table.reference >= 0).any():
        return explain_missing(table.reference_name, -1)
    if not len(judged):
        return "no rating with a known reference has a confidence"
    if judged.is_correct.all():
        return "no rating is incorrect"
    return "" if judged.is_correct.any() else "no rating is correct"


def _estimate_resampled(
    stat: str, value: float, n: Mapping[str, int], args: Mapping[str, str], judged: Ratings, seed: int, resamples: int
) -> Estimate:
    """Return the area with its percentile interval; with `args` OVER_RATERS, the mean of the raters' areas is resampled."""
    is_few_raters = n["raters"] < resampling.MIN_RATERS
    method = "item_bootstrap" if is_few_raters else "two_way_bootstrap"
    resampled = resampling.NOT_RESAMPLED
    if resamples:
        rng = build_generator(seed, stat, args)
        replicates = _resample_areas(judged, resamples, rng, mean_over_raters=bool(args))
        # The two-way bootstrap counts the residual variance three times (Owen 2007), so it is wide enough already.
        widening = resampling.compute_widening(n["items"], len(np.unique(judged.source))) if is_few_raters else 1.0
        resampled = resampling.compute_percentile_interval(replicates, widening=widening)
    interval, reason = resampled.interval, resampled.reason
    if interval and interval[0] == interval[1]:
        interval, reason = None, "all resamples are alike, so there is no interval"
    return build_estimate(stat, value, n, args, interval, method, reason or (ITEMS_ONLY if is_few_raters else ""))


def _resample_areas(
    judged: Ratings, resamples: int, rng: np.random.Generator, *, mean_over_raters: bool = False
) -> Floats:
    """Return the area in each resample of items (within sources) and raters, shape (resamples,); NaN without a class."""
    counts, strata, raters = _tabulate_ratings(judged)
    # Two raters are too few to resample: half of the resamples would contain one rater twice.
    is_few_raters = raters < resampling.MIN_RATERS
    rater = np.ones((resamples, raters), dtype=np.int64)
    if not is_few_raters:
        rater = resampling.sample_rater_weights(raters, resamples, rng)
    areas, start = np.full(resamples, np.nan), 0
    chunks = resampling.iter_weight_chunks(strata, resamples, rng)
    for weights in resampling.split_chunks(chunks, MAX_CELLS // counts.shape[1]):
        stop = start + len(weights)
        # Counts per rater and level are enough for an area, so a resample is one sparse product.
        cells = np.ascontiguousarray((counts.T @ weights.T.astype(np.float64)).T).reshape(len(weights), raters, -1, 2)
        rater_weights = rater[start:stop].astype(np.float64)
        if mean_over_raters:
            areas[start:stop] = _compute_mean_area(cells, rater_weights)
        else:
            areas[start:stop] = _compute_area_from_counts(np.einsum("brlc,br->blc", cells, rater_weights))
        start = stop
    return areas


def _tabulate_ratings(judged: Ratings) -> tuple[sparse.csr_array, Ints, int]:
    """Return a matrix (items x [rater, confidence, correctness]) with a 1 for each rating, item sources, and raters."""
    items, item = np.unique(judged.item, return_inverse=True)
    raters, rater = np.unique(judged.rater, return_inverse=True)
    levels, level = np.unique(judged.confidence, return_inverse=True)
    column = (rater * len(levels) + level) * 2 + judged.is_correct
    shape = (len(items), len(raters) * len(levels) * 2)
    ones = np.ones(len(judged), dtype=np.float64)
    return sparse.csr_array((ones, (item, column)), shape=shape), judged.item_source[items], len(raters)


def _compute_mean_area(cells: Floats, rater: Floats) -> Floats:
    areas = _compute_area_from_counts(cells)
    # A rater without both classes in a resample has no area there and is left out of the mean.
    weight = np.where(np.isfinite(areas), rater, 0.0)
    total = weight.sum(axis=1)
    weighted = np.where(weight > 0, areas, 0.0) * weight
    means = np.full(len(total), np.nan)
    np.divide(weighted.sum(axis=1), total, out=means, where=total > 0)
    return means


def _compute_area_from_counts(counts: Floats) -> Floats:
    """Return the area for counts of shape (..., levels, 2), positives last; NaN where a class is empty."""
    negative, positive = counts[..., 0], counts[..., 1]
    # A positive counts 1 against each negative of a lower level, and one half against each of the same level.
    wins = (positive * (np.cumsum(negative, axis=-1) - negative / 2)).sum(axis=-1)
    pairs = positive.sum(axis=-1) * negative.sum(axis=-1)
    areas = np.full(pairs.shape, np.nan)
    np.divide(wins, pairs, out=areas, where=pairs > 0)
    return areas


class RocPoint(NamedTuple):
    """The rates if every signed rating of at most `threshold` is called an error; None: no rating is."""

    threshold: int | None
    false_alarm_rate: float
    hit_rate: float


class RocCurve(NamedTuple):
    """The pooled ROC curve of an error source; ratings without confidence are left out. No points: see `reason`."""

    source: str
    points: tuple[RocPoint, ...]
    n_error: int
    n_genuine: int
    reason: str = ""


LEVELS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)  # from certainly not plausible to certainly plausible


def build_roc_curves(table: Ratings) -> list[RocCurve]:
    """Return one curve for each error source of a binary table."""
    return [_build_roc_curve(table, source) for source in table.error_sources] if table.is_binary else []


def _build_roc_curve(table: Ratings, source: str) -> RocCurve:
    ratings = table.select_against_unperturbed(source)
    ratings = ratings.select_ratings(np.isfinite(ratings.signed_ratings))
    error, genuine = ratings.signed_ratings[ratings.reference == 0], ratings.signed_ratings[ratings.reference == 1]
    if not len(error) or not len(genuine):
        reason = f"no rating of an item {'without' if len(error) else 'with'} an error has a confidence"
        return RocCurve(source, (), len(error), len(genuine), reason)
    points = [RocPoint(None, 0.0, 0.0)]
    points += [RocPoint(level, float(np.mean(genuine <= level)), float(np.mean(error <= level))) for level in LEVELS]
    return RocCurve(source, tuple(points), len(error), len(genuine))
